//! The intent log on disk: a header in the objset, a chain of blocks, records in the blocks.
//!
//! ```text
//!  ObjsetPhys ── ZilHeader ── log ──► block seq 1 ── next ──► block seq 2 ── next ──► (not written)
//!                                     | chain | record | record | zeroes |
//! ```
//! A block's place is chosen before the block before it is written: each names the next. The
//! chain ends where the next block does not verify, so nothing marks the end. What ties a block to
//! its chain is the seed in the checksum words of the blkptr that names it: two random words, the
//! objset, and a sequence number that grows by one per block.
//!
//! Invariants
//! - A record's length is a multiple of 8, covers the record, and ends within the block
//!   (test: `hostile_records_are_errors`).
//! - Every record type encodes to what it was decoded from (test: `every_record_type_survives`).

mod chain;
mod describe;
mod header;
pub mod record;
#[cfg(test)]
mod tests;

pub use chain::{ChainForm, ChainSeed, ZIL_CHAIN_BYTES, ZIL_MIN_BLOCK_BYTES, ZilChain};
pub use header::{ZIL_HEADER_BYTES, ZilHeader, flags};
pub use record::{LogRecord, LrCommon, RecordHead, TxType};
