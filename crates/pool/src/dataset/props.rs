//! What a dataset's properties come to.

use dmu::{BlockClass, ObjsetProps, Redundancy};
use dsl::{PropValue, Property};
use journal::{LogBias, SyncPolicy};
use ondisk::{ChecksumKind, Compression, CompressionKind};
use zio::Keep;
use zpl::{AtimePolicy, XattrPolicy};

/// The largest block of the format.
pub(crate) const RECORD_MAX_BYTES: u32 = 16 << 20;
/// Larger blocks need the feature `large_blocks`.
pub(crate) const OLD_RECORD_MAX_BYTES: u32 = 128 << 10;
/// `dnodesize=auto`, as it is stored.
const DNODE_AUTO: u64 = 1;
/// `acltype=posix`, as it is stored.
const ACLTYPE_POSIX: u64 = 1;
/// `acltype=nfsv4`, as it is stored.
const ACLTYPE_NFS4: u64 = 2;
/// Slots of a dnode by `dnodesize=auto`.
const DNODE_AUTO_SLOTS: u8 = 2;

/// What of the format files of a pool may use: features that are enabled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// Extended attributes in the log.
    pub log_xattrs: bool,
    /// Blocks that files share.
    pub clone_blocks: bool,
    /// Blocks above 128 KiB.
    pub large_blocks: bool,
    /// Dnodes above 512 bytes.
    pub large_dnodes: bool,
}

/// Which of a dataset's blocks stay in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CacheUse {
    /// Indirect blocks only.
    None,
    /// All but file data.
    Metadata,
    /// All.
    All,
}

/// A file system's properties, as the engine needs them. A stored value that makes no sense
/// counts as the default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatasetProps {
    /// Largest block of a file.
    pub record_bytes: u32,
    /// Slots of a new dnode.
    pub dnode_slots: u8,
    /// Compression of file data, with its level.
    pub compression: Compression,
    /// Checksum of file data.
    pub checksum: ChecksumKind,
    /// Copies of file data.
    pub copies: u8,
    /// Which metadata has a copy more.
    pub redundancy: Redundancy,
    /// Which blocks stay in the cache.
    pub cache: CacheUse,
    /// Which of those may go to cache devices.
    pub second_cache: CacheUse,
    /// Whether file data is read ahead.
    pub prefetch: bool,
    /// File data that takes up to so many bytes goes to special vdevs; 0 for none.
    pub special_small_bytes: u64,
    /// When changes become stable.
    pub sync: SyncPolicy,
    /// What synchronous writes are to spare.
    pub log_bias: LogBias,
    /// Access times.
    pub atime: AtimePolicy,
    /// No changes.
    pub read_only: bool,
    /// Where it is mounted, if it was said: a path, `legacy` or `none`. Inherited paths have the
    /// rest of the name appended.
    pub mountpoint: Option<String>,
    /// Where new extended attributes go.
    pub xattr: XattrPolicy,
    /// Files have POSIX ACLs.
    pub posix_acls: bool,
    /// NFSv4 ACLs count.
    pub nfs4_acls: bool,
    /// Whether it may be mounted: 0 off, 1 on, 2 not by itself.
    pub canmount: u64,
}

impl DatasetProps {
    /// From what is in force for the dataset called `name` ([`dsl::Dsl::props`]).
    #[must_use]
    pub fn of(name: &str, props: &[Property]) -> Self {
        let value = |of: &str| props.iter().find(|prop| prop.name == of);
        let number = |of| value(of).and_then(|prop| prop.value.number());
        let switch = |of, default| number(of).map_or(default, |n| n != 0);
        Self {
            record_bytes: number("recordsize").and_then(record_bytes).unwrap_or(128 << 10),
            dnode_slots: number("dnodesize").map_or(1, dnode_slots),
            compression: number("compression").and_then(compression).unwrap_or(Compression::ON),
            checksum: number("checksum").and_then(checksum).unwrap_or(ChecksumKind::Fletcher4),
            copies: number("copies").filter(|n| (1..=3).contains(n)).unwrap_or(1) as u8,
            redundancy: match number("redundant_metadata") {
                Some(1) => Redundancy::Most,
                Some(2) => Redundancy::Some,
                Some(3) => Redundancy::None,
                _ => Redundancy::All,
            },
            cache: cache_use(number("primarycache")),
            second_cache: cache_use(number("secondarycache")),
            prefetch: number("prefetch").is_none_or(|n| n == 2),
            special_small_bytes: number("special_small_blocks").unwrap_or(0),
            sync: match number("sync") {
                Some(1) => SyncPolicy::Always,
                Some(2) => SyncPolicy::Disabled,
                _ => SyncPolicy::Standard,
            },
            log_bias: match number("logbias") {
                Some(1) => LogBias::Throughput,
                _ => LogBias::Latency,
            },
            atime: match (switch("atime", true), switch("relatime", true)) {
                (false, _) => AtimePolicy::Off,
                (true, true) => AtimePolicy::Relative,
                (true, false) => AtimePolicy::Always,
            },
            read_only: switch("readonly", false),
            mountpoint: value("mountpoint").and_then(|prop| mountpoint(name, prop)),
            xattr: match number("xattr") {
                Some(0) => XattrPolicy::Off,
                Some(1) => XattrPolicy::Directory,
                _ => XattrPolicy::System,
            },
            posix_acls: number("acltype") == Some(ACLTYPE_POSIX),
            nfs4_acls: number("acltype") == Some(ACLTYPE_NFS4),
            canmount: number("canmount").unwrap_or(1),
        }
    }

    /// How the dataset stores blocks: metadata has a copy more than data, and the same checksum
    /// unless that is too weak.
    #[must_use]
    pub fn objset(&self) -> ObjsetProps {
        let mut metadata = ObjsetProps::dataset_default().metadata;
        if self.checksum.is_metadata_grade() {
            metadata.checksum = self.checksum;
        }
        ObjsetProps {
            data: BlockClass {
                checksum: self.checksum,
                compression: self.compression,
                copies: self.copies,
                special_small_bytes: self.special_small_bytes,
                keep: self.keep(CacheUse::All),
            },
            metadata: BlockClass {
                copies: (self.copies + 1).min(3),
                keep: self.keep(CacheUse::Metadata),
                ..metadata
            },
            redundancy: self.redundancy,
            prefetch: self.prefetch,
        }
    }

    /// Where blocks stay that are kept when at least so much is.
    fn keep(&self, least: CacheUse) -> Keep {
        match (self.cache >= least, self.second_cache >= least) {
            (false, _) => Keep::No,
            (true, false) => Keep::InMemory,
            (true, true) => Keep::Yes,
        }
    }
}

fn cache_use(n: Option<u64>) -> CacheUse {
    match n {
        Some(0) => CacheUse::None,
        Some(1) => CacheUse::Metadata,
        _ => CacheUse::All,
    }
}

fn record_bytes(n: u64) -> Option<u32> {
    u32::try_from(n.min(RECORD_MAX_BYTES.into())).ok().filter(|n| n.is_power_of_two() && *n >= 512)
}

/// What does not divide a block of dnodes counts as the smallest.
fn dnode_slots(n: u64) -> u8 {
    match n {
        DNODE_AUTO => DNODE_AUTO_SLOTS,
        1024 | 2048 | 4096 | 8192 | 16384 => (n / 512) as u8,
        _ => 1,
    }
}

/// `on` stays: what it means depends on the pool.
fn compression(n: u64) -> Option<Compression> {
    let how = Compression::from_word(n).ok()?;
    match how.kind {
        CompressionKind::On | CompressionKind::Inherit | CompressionKind::Empty => Some(Compression::ON),
        _ => Some(how),
    }
}

fn checksum(n: u64) -> Option<ChecksumKind> {
    match ChecksumKind::from_raw(u8::try_from(n).ok()?).ok()? {
        ChecksumKind::On | ChecksumKind::Inherit => Some(ChecksumKind::Fletcher4),
        kind => Some(kind),
    }
}

fn mountpoint(name: &str, prop: &Property) -> Option<String> {
    let PropValue::Text(path) = &prop.value else { return None };
    let rest = name.strip_prefix(&prop.set_on)?;
    if path.starts_with('/') {
        Some(format!("{}{rest}", path.trim_end_matches('/')))
    } else {
        Some(path.clone())
    }
}
