//! What a dataset's properties come to.
//!
//! The meta-objset stores a property as a number or text under its name. Most are passed down
//! to the datasets below; the few that are not ([`LOCAL`]) count only where they were set.

use dmu::{BlockClass, ObjsetProps};
use dsl::{PropValue, Property};
use ondisk::{ChecksumKind, CompressionKind};
use zpl::{AtimePolicy, SyncPolicy, ZfsOptions};

use crate::PoolError;

/// Properties that are not passed down.
pub const LOCAL: &[&str] =
    &["quota", "refquota", "reservation", "refreservation", "canmount", "version", "utf8only", "casesensitivity", "normalization", "volsize"];

/// A file system's properties, as the engine needs them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatasetProps {
    /// Largest block of a file.
    pub record_bytes: u32,
    /// Compression of file data.
    pub compression: CompressionKind,
    /// Checksum of file data.
    pub checksum: ChecksumKind,
    /// Copies of file data.
    pub copies: u8,
    /// When changes become stable.
    pub sync: SyncPolicy,
    /// Large synchronous writes go to their place rather than to the log (`logbias=throughput`).
    pub throughput: bool,
    /// Access times.
    pub atime: AtimePolicy,
    /// No changes.
    pub read_only: bool,
    /// The most its own data may use; 0 for no limit.
    pub refquota: u64,
    /// Where it is mounted, if it was said: a path, `legacy` or `none`. Inherited paths have the
    /// rest of the name appended.
    pub mountpoint: Option<String>,
    /// Whether it may be mounted: 0 off, 1 on, 2 not by itself.
    pub canmount: u64,
}

impl Default for DatasetProps {
    fn default() -> Self {
        Self {
            record_bytes: 128 << 10,
            compression: CompressionKind::Lz4,
            checksum: ChecksumKind::Fletcher4,
            copies: 1,
            sync: SyncPolicy::Standard,
            throughput: false,
            atime: AtimePolicy::Relative,
            read_only: false,
            refquota: 0,
            mountpoint: None,
            canmount: 1,
        }
    }
}

impl DatasetProps {
    /// From what is set on the dataset called `name` and on those above it, nearest first.
    ///
    /// # Errors
    /// [`PoolError::BadProperty`] for a stored value out of range.
    pub fn of(name: &str, props: &[Property]) -> Result<Self, PoolError> {
        let mut out = Self::default();
        let (mut atime, mut relatime) = (true, true);
        for prop in props {
            if LOCAL.contains(&prop.name.as_str()) && prop.set_on != name {
                continue;
            }
            let bad = || PoolError::BadProperty { name: prop.name.clone() };
            let number = || prop.value.number().ok_or_else(bad);
            match prop.name.as_str() {
                "recordsize" => out.record_bytes = record_bytes(number()?).ok_or_else(bad)?,
                "compression" => out.compression = compression(number()?).ok_or_else(bad)?,
                "checksum" => out.checksum = checksum(number()?).ok_or_else(bad)?,
                "copies" => out.copies = u8::try_from(number()?).ok().filter(|n| (1..=3).contains(n)).ok_or_else(bad)?,
                "sync" => out.sync = sync(number()?).ok_or_else(bad)?,
                "logbias" => out.throughput = number()? == 1,
                "atime" => atime = number()? != 0,
                "relatime" => relatime = number()? != 0,
                "readonly" => out.read_only = number()? != 0,
                "refquota" => out.refquota = number()?,
                "canmount" => out.canmount = number()?,
                "mountpoint" => out.mountpoint = mountpoint(name, prop),
                _ => {}
            }
        }
        out.atime = match (atime, relatime) {
            (false, _) => AtimePolicy::Off,
            (true, true) => AtimePolicy::Relative,
            (true, false) => AtimePolicy::Always,
        };
        Ok(out)
    }

    /// How the dataset stores blocks.
    #[must_use]
    pub fn objset(&self) -> ObjsetProps {
        let metadata = ObjsetProps::dataset_default().metadata;
        ObjsetProps {
            data: BlockClass { checksum: self.checksum, compression: self.compression, copies: self.copies },
            metadata: BlockClass { copies: (self.copies + 1).min(3), ..metadata },
        }
    }

    /// How its file system behaves.
    #[must_use]
    pub fn options(&self, pool_read_only: bool, log_xattrs: bool) -> ZfsOptions {
        ZfsOptions {
            record_bytes: self.record_bytes,
            atime: self.atime,
            sync: self.sync,
            read_only: self.read_only || pool_read_only,
            log_xattrs,
            ..ZfsOptions::default()
        }
    }
}

fn record_bytes(n: u64) -> Option<u32> {
    u32::try_from(n).ok().filter(|n| n.is_power_of_two() && (512..=128 << 10).contains(n))
}

/// `on` is whatever is best by default: lz4.
fn compression(n: u64) -> Option<CompressionKind> {
    match CompressionKind::from_raw(u8::try_from(n).ok()?).ok()? {
        CompressionKind::On | CompressionKind::Inherit => Some(CompressionKind::Lz4),
        kind => Some(kind),
    }
}

fn checksum(n: u64) -> Option<ChecksumKind> {
    match ChecksumKind::from_raw(u8::try_from(n).ok()?).ok()? {
        ChecksumKind::On | ChecksumKind::Inherit => Some(ChecksumKind::Fletcher4),
        kind => Some(kind),
    }
}

fn sync(n: u64) -> Option<SyncPolicy> {
    [SyncPolicy::Standard, SyncPolicy::Always, SyncPolicy::Disabled].get(usize::try_from(n).ok()?).copied()
}

fn mountpoint(name: &str, prop: &Property) -> Option<String> {
    let PropValue::Text(path) = &prop.value else { return None };
    let rest = name.strip_prefix(&prop.set_on)?;
    if path.starts_with('/') { Some(format!("{}{rest}", path.trim_end_matches('/'))) } else { Some(path.clone()) }
}
