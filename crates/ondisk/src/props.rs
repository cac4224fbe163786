//! Properties as numbers: what the words of indexed properties are on disk.
//!
//! Properties of datasets lie in the `props` ZAP of their directory, those of snapshots in one of
//! the snapshot's own, those of the pool in `pool_props`. Numbers and indexed properties are words,
//! texts are bytes with a NUL. A name may have a suffix: `$recvd` for a value that came in a
//! receive, `$inherit` (value empty) when such a value is overridden by inheritance.

#[cfg(test)]
mod tests;

use crate::checksum_kind::ChecksumKind;
use crate::compression::{Compression, ZstdLevel};
use crate::compression_kind::CompressionKind;

/// Suffix of a received value's name.
pub const RECEIVED_SUFFIX: &str = "$recvd";
/// Suffix of the name that says a received value is overridden by inheritance.
pub const INHERIT_SUFFIX: &str = "$inherit";

/// Bit of the `dedup` property: compare blocks before calling them equal.
pub const DEDUP_VERIFY: u64 = 1 << 8;

/// The values that an indexed property can have.
#[derive(Clone, Copy, Debug)]
pub struct IndexProp {
    /// The property's name.
    pub name: &'static str,
    /// The value when nobody set it.
    pub default: u64,
    /// Names of values; of several names for a value the first is shown.
    pub values: &'static [(&'static str, u64)],
}

impl IndexProp {
    /// The word for the value called `text`.
    #[must_use]
    pub fn parse(&self, text: &str) -> Option<u64> {
        self.values.iter().find(|(name, _)| *name == text).map(|(_, word)| *word)
    }

    /// What the value is called.
    #[must_use]
    pub fn display(&self, word: u64) -> Option<&'static str> {
        self.values.iter().find(|(_, value)| *value == word).map(|(name, _)| *name)
    }
}

/// The indexed property of datasets called `name`; `compression` is among them.
#[must_use]
pub fn dataset_index(name: &str) -> Option<&'static IndexProp> {
    DATASET_INDEX.iter().find(|prop| prop.name == name)
}

/// The values of the indexed property of datasets called `name`: for tables made at compile time.
///
/// # Panics
/// When there is no such property; so a table that names one does not compile.
#[must_use]
pub const fn dataset_values(name: &str) -> &'static [(&'static str, u64)] {
    values_in(DATASET_INDEX, name)
}

const fn values_in(props: &'static [IndexProp], name: &str) -> &'static [(&'static str, u64)] {
    match props {
        [prop, ..] if same(prop.name.as_bytes(), name.as_bytes()) => prop.values,
        [_, others @ ..] => values_in(others, name),
        [] => panic!("there is no such indexed property"),
    }
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    match (a, b) {
        ([x, a @ ..], [y, b @ ..]) => *x == *y && same(a, b),
        _ => a.is_empty() && b.is_empty(),
    }
}

/// The indexed property of pools called `name`.
#[must_use]
pub fn pool_index(name: &str) -> Option<&'static IndexProp> {
    POOL_INDEX.iter().find(|prop| prop.name == name)
}

const fn prop(name: &'static str, default: u64, values: &'static [(&'static str, u64)]) -> IndexProp {
    IndexProp { name, default, values }
}

/// Values of a switch.
pub const BOOLEAN: &[(&str, u64)] = &[("off", 0), ("on", 1)];
/// Values of the pool property `failmode`.
pub const FAILMODE: &[(&str, u64)] = &[("wait", 0), ("continue", 1), ("panic", 2)];
const CACHE: &[(&str, u64)] = &[("none", 0), ("metadata", 1), ("all", 2)];

/// All indexed properties of datasets.
pub const DATASET_INDEX: &[IndexProp] = &[
    prop("redundant_metadata", 0, &[("all", 0), ("most", 1), ("some", 2), ("none", 3)]),
    prop("sync", 0, &[("standard", 0), ("always", 1), ("disabled", 2)]),
    prop("checksum", ChecksumKind::On as u64, CHECKSUM),
    prop("dedup", ChecksumKind::Off as u64, DEDUP),
    prop("compression", CompressionKind::On as u64, COMPRESSION),
    prop("snapdir", 0, &[("hidden", 0), ("visible", 1), ("disabled", 2)]),
    prop("snapdev", 0, &[("hidden", 0), ("visible", 1)]),
    prop("aclmode", 0, &[("discard", 0), ("groupmask", 2), ("passthrough", 3), ("restricted", 4)]),
    prop("acltype", 0, ACLTYPE),
    prop("aclinherit", 4, ACLINHERIT),
    prop("copies", 1, &[("1", 1), ("2", 2), ("3", 3)]),
    prop("primarycache", 2, CACHE),
    prop("secondarycache", 2, CACHE),
    prop("prefetch", 2, CACHE),
    prop("logbias", 0, &[("latency", 0), ("throughput", 1)]),
    prop("xattr", 2, &[("off", 0), ("on", 2), ("sa", 2), ("dir", 1)]),
    prop("dnodesize", 0, DNODESIZE),
    prop("volmode", 0, &[("default", 0), ("full", 1), ("geom", 1), ("dev", 2), ("none", 3)]),
    prop("direct", 1, &[("disabled", 0), ("standard", 1), ("always", 2)]),
    prop("atime", 1, BOOLEAN),
    prop("relatime", 1, BOOLEAN),
    prop("devices", 1, BOOLEAN),
    prop("exec", 1, BOOLEAN),
    prop("setuid", 1, BOOLEAN),
    prop("readonly", 0, BOOLEAN),
    prop("zoned", 0, BOOLEAN),
    prop("vscan", 0, BOOLEAN),
    prop("nbmand", 0, BOOLEAN),
    prop("overlay", 1, BOOLEAN),
    prop("canmount", 1, &[("off", 0), ("on", 1), ("noauto", 2)]),
    prop("normalization", 0, NORMALIZATION),
    prop("casesensitivity", 0, &[("sensitive", 0), ("insensitive", 1), ("mixed", 2)]),
    prop("utf8only", 0, BOOLEAN),
    prop("keyformat", 0, &[("none", 0), ("raw", 1), ("hex", 2), ("passphrase", 3)]),
    prop("encryption", 2, ENCRYPTION),
    prop("volthreading", 1, BOOLEAN),
];

/// All indexed properties of pools.
pub const POOL_INDEX: &[IndexProp] = &[
    prop("delegation", 1, BOOLEAN),
    prop("autoreplace", 0, BOOLEAN),
    prop("listsnapshots", 0, BOOLEAN),
    prop("autoexpand", 0, BOOLEAN),
    prop("readonly", 0, BOOLEAN),
    prop("multihost", 0, BOOLEAN),
    prop("failmode", 0, FAILMODE),
    prop("autotrim", 0, BOOLEAN),
];

const CHECKSUM: &[(&str, u64)] = &[
    ("on", ChecksumKind::On as u64),
    ("off", ChecksumKind::Off as u64),
    ("fletcher2", ChecksumKind::Fletcher2 as u64),
    ("fletcher4", ChecksumKind::Fletcher4 as u64),
    ("sha256", ChecksumKind::Sha256 as u64),
    ("noparity", ChecksumKind::Noparity as u64),
    ("sha512", ChecksumKind::Sha512 as u64),
    ("skein", ChecksumKind::Skein as u64),
    ("edonr", ChecksumKind::Edonr as u64),
    ("blake3", ChecksumKind::Blake3 as u64),
];

const DEDUP: &[(&str, u64)] = &[
    ("on", ChecksumKind::On as u64),
    ("off", ChecksumKind::Off as u64),
    ("verify", ChecksumKind::On as u64 | DEDUP_VERIFY),
    ("sha256", ChecksumKind::Sha256 as u64),
    ("sha256,verify", ChecksumKind::Sha256 as u64 | DEDUP_VERIFY),
    ("sha512", ChecksumKind::Sha512 as u64),
    ("sha512,verify", ChecksumKind::Sha512 as u64 | DEDUP_VERIFY),
    ("skein", ChecksumKind::Skein as u64),
    ("skein,verify", ChecksumKind::Skein as u64 | DEDUP_VERIFY),
    ("edonr,verify", ChecksumKind::Edonr as u64 | DEDUP_VERIFY),
    ("blake3", ChecksumKind::Blake3 as u64),
    ("blake3,verify", ChecksumKind::Blake3 as u64 | DEDUP_VERIFY),
];

const fn zstd(level: u8) -> u64 {
    Compression { kind: CompressionKind::Zstd, level: ZstdLevel::new(level) }.to_word()
}

const COMPRESSION: &[(&str, u64)] = &[
    ("on", CompressionKind::On as u64),
    ("off", CompressionKind::Off as u64),
    ("lzjb", CompressionKind::Lzjb as u64),
    ("gzip", CompressionKind::Gzip6 as u64),
    ("gzip-1", CompressionKind::Gzip1 as u64),
    ("gzip-2", CompressionKind::Gzip2 as u64),
    ("gzip-3", CompressionKind::Gzip3 as u64),
    ("gzip-4", CompressionKind::Gzip4 as u64),
    ("gzip-5", CompressionKind::Gzip5 as u64),
    ("gzip-6", CompressionKind::Gzip6 as u64),
    ("gzip-7", CompressionKind::Gzip7 as u64),
    ("gzip-8", CompressionKind::Gzip8 as u64),
    ("gzip-9", CompressionKind::Gzip9 as u64),
    ("zle", CompressionKind::Zle as u64),
    ("lz4", CompressionKind::Lz4 as u64),
    ("zstd", zstd(0)),
    ("zstd-fast", zstd(103)),
    ("zstd-1", zstd(1)),
    ("zstd-2", zstd(2)),
    ("zstd-3", zstd(3)),
    ("zstd-4", zstd(4)),
    ("zstd-5", zstd(5)),
    ("zstd-6", zstd(6)),
    ("zstd-7", zstd(7)),
    ("zstd-8", zstd(8)),
    ("zstd-9", zstd(9)),
    ("zstd-10", zstd(10)),
    ("zstd-11", zstd(11)),
    ("zstd-12", zstd(12)),
    ("zstd-13", zstd(13)),
    ("zstd-14", zstd(14)),
    ("zstd-15", zstd(15)),
    ("zstd-16", zstd(16)),
    ("zstd-17", zstd(17)),
    ("zstd-18", zstd(18)),
    ("zstd-19", zstd(19)),
    ("zstd-fast-1", zstd(103)),
    ("zstd-fast-2", zstd(104)),
    ("zstd-fast-3", zstd(105)),
    ("zstd-fast-4", zstd(106)),
    ("zstd-fast-5", zstd(107)),
    ("zstd-fast-6", zstd(108)),
    ("zstd-fast-7", zstd(109)),
    ("zstd-fast-8", zstd(110)),
    ("zstd-fast-9", zstd(111)),
    ("zstd-fast-10", zstd(112)),
    ("zstd-fast-20", zstd(113)),
    ("zstd-fast-30", zstd(114)),
    ("zstd-fast-40", zstd(115)),
    ("zstd-fast-50", zstd(116)),
    ("zstd-fast-60", zstd(117)),
    ("zstd-fast-70", zstd(118)),
    ("zstd-fast-80", zstd(119)),
    ("zstd-fast-90", zstd(120)),
    ("zstd-fast-100", zstd(121)),
    ("zstd-fast-500", zstd(122)),
    ("zstd-fast-1000", zstd(123)),
];

const ACLTYPE: &[(&str, u64)] =
    &[("off", 0), ("posix", 1), ("nfsv4", 2), ("disabled", 0), ("noacl", 0), ("posixacl", 1)];

const ACLINHERIT: &[(&str, u64)] = &[
    ("discard", 0),
    ("noallow", 1),
    ("restricted", 4),
    ("passthrough", 3),
    ("secure", 4),
    ("passthrough-x", 5),
];

const DNODESIZE: &[(&str, u64)] =
    &[("legacy", 0), ("auto", 1), ("1k", 1024), ("2k", 2048), ("4k", 4096), ("8k", 8192), ("16k", 16384)];

const NORMALIZATION: &[(&str, u64)] =
    &[("none", 0), ("formD", 0x10), ("formKC", 0x60), ("formC", 0x50), ("formKD", 0x20)];

const ENCRYPTION: &[(&str, u64)] = &[
    ("on", 1),
    ("off", 2),
    ("aes-128-ccm", 3),
    ("aes-192-ccm", 4),
    ("aes-256-ccm", 5),
    ("aes-128-gcm", 6),
    ("aes-192-gcm", 7),
    ("aes-256-gcm", 8),
];
