//! Every structure that touches a disk, its decoder and its encoder; no I/O.
//!
//! Two kinds of types live here. Structures of fixed size are their bytes: `#[repr(C)]` over
//! little-endian words, with size and offsets asserted at compile time, read and written without
//! conversion (`Blkptr`, `DnodePhys`, `UberblockPhys`, ...). Everything of variable size (nvlists,
//! log records, ZAP leaves, space-map entries) has an owned form with `decode` and `encode`.
//!
//! Invariants
//! - No bytes make a decoder panic: lengths, counts and nesting are bounded before use. The lints
//!   below hold it at compile time, the property tests of each module at run time.
//! - Encoders assert what they are given, for that we computed ourselves.
//! - All words are little-endian in memory and on the disks we write. XDR nvlists (big-endian by
//!   definition) are the exception.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::indexing_slicing, clippy::arithmetic_side_effects))]

pub mod acl;
pub mod bits;
pub mod blkptr;
pub mod bpobj;
pub mod bptree;
pub mod brt;
mod checksum_kind;
mod compression;
mod compression_kind;
pub mod config;
pub mod ddt;
pub mod describe;
pub mod dirent;
pub mod dnode;
pub mod dsl;
mod error;
pub mod feature;
pub mod gang;
pub mod history;
pub mod indirect;
pub mod l2arc;
pub mod label;
pub mod mos;
pub mod nvlist;
mod object_type;
pub mod objset;
mod owner;
pub mod props;
mod reader;
pub mod sa;
pub mod send;
pub mod space_map;
pub mod swap;
#[cfg(test)]
mod tests;
mod uberblock;
pub mod zap;
pub mod zil;
pub mod znode;

pub use blkptr::{BLKPTR_BYTES, BLKPTR_SHIFT, Blkptr, BlkptrParts, ByteOrder, Dva, DvaPhys};
pub use bpobj::BpobjPhys;
pub use checksum_kind::ChecksumKind;
pub use compression::{Compression, ZstdLevel};
pub use compression_kind::CompressionKind;
pub use dirent::Dirent;
pub use dnode::{DNODE_SLOT_BYTES, DnodeImage, DnodePhys};
pub use dsl::{DslDatasetPhys, DslDeadlistPhys, DslDirPhys};
pub use error::OndiskError;
pub use feature::{Feature, FeatureInfo};
pub use gang::GangHeaderPhys;
pub use history::HistoryPhys;
pub use label::{ECK_BYTES, ECK_MAGIC, VdevPhys, ZioEck};
pub use nvlist::{NvList, NvValue};
pub use object_type::{ByteSwap, ObjectType, ObjectTypeProps};
pub use objset::{ObjsetPhys, ObjsetType};
pub use owner::{Owner, generation_of_bonus};
pub use sa::SaHeader;
pub use space_map::SpaceMapPhys;
pub use uberblock::{
    MMP_MAGIC, MmpConfig, SPA_VERSION_FEATURES, SPA_VERSION_LAST_NUMBERED, UBERBLOCK_MAGIC, UberblockPhys,
};
pub use zil::{ChainForm, ChainSeed, LogRecord, LrCommon, RecordHead, TxType, ZilChain, ZilHeader};
pub use znode::ZnodePhys;
