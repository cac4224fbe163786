//! Checksums, compression, parity: pure functions over bytes.
//!
//! What a block looks like on disk is decided here, byte by byte, and nowhere else: `zio` says
//! which function and how much room, and stores what it gets. Block pointers hold the checksum of
//! what is stored (compressed), so a reader verifies first and decompresses then; even so every
//! decompressor treats its input as hostile: checksums are no signature.
//!
//! Invariants
//! - No input makes a decompressor panic, loop or write past the block's logical size.
//!   (test: `no_bytes_panic_a_decompressor`)
//! - What was compressed decompresses to the same bytes, with or without the zeros that pad it to
//!   whole sectors. (test: `compressed_blocks_come_back_padded_or_not`)
//! - A fast kernel equals its plain twin. (tests: `fletcher4_kernels_agree_with_the_plain_sum`,
//!   `fletcher4_in_pieces_equals_fletcher4_at_once`)
#![deny(unsafe_code)] // allowed where SIMD needs it: checksum/fletcher4.rs, parity/kernel.rs

mod checksum;
mod compress;
mod error;
pub mod parity;
mod zero;

pub use checksum::{Fletcher4, Salt, checksum, checksum_of};
pub use compress::{compress, compress_into, decompress, decompress_into, worthwhile_limit, zstd_level};
pub use error::CodecError;
pub use zero::is_all_zero;

#[cfg(test)]
mod tests;
