//! Whether data vdevs are alike: a pool is as safe as its weakest top-level vdev.
//! Logs take no part: they may be of any redundancy, and of mixed sizes.

use super::Facts;
use crate::spec::{Layout, VdevSpec};
use control::{PoolInfo, VdevClass, VdevInfo, VdevKind};

/// Sizes may differ by less than this.
const SIZE_FUZZ_BYTES: u64 = 16 << 20;

/// How a top-level vdev keeps data.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Redundancy {
    Single(&'static str),
    Mirror(u64),
    Raidz(u64),
}

impl Redundancy {
    fn of_spec(spec: &VdevSpec, facts: &Facts) -> Self {
        match spec.layout {
            Layout::Single => Self::Single(leaf_word(spec.devices.first(), facts)),
            Layout::Mirror => Self::Mirror(spec.devices.len() as u64),
            Layout::Raidz { parity } | Layout::Draid { parity, .. } => Self::Raidz(u64::from(parity)),
        }
    }

    fn of_vdev(vdev: &VdevInfo) -> Option<Self> {
        Some(match vdev.kind {
            VdevKind::Mirror => Self::Mirror(vdev.children.len() as u64),
            VdevKind::Raidz { parity } | VdevKind::Draid { parity, .. } => Self::Raidz(u64::from(parity)),
            VdevKind::File => Self::Single("file"),
            VdevKind::Disk => Self::Single("disk"),
            VdevKind::Replacing | VdevKind::Spare => return vdev.children.first().and_then(Self::of_vdev),
            VdevKind::Root | VdevKind::Missing | VdevKind::Hole | VdevKind::Indirect => return None,
        })
    }

    fn word(self) -> &'static str {
        match self {
            Self::Single(word) => word,
            Self::Mirror(_) => "mirror",
            Self::Raidz(_) => "raidz",
        }
    }

    /// How many devices may fail.
    fn tolerates(self) -> u64 {
        match self {
            Self::Single(_) => 0,
            Self::Mirror(ways) => ways.saturating_sub(1),
            Self::Raidz(parity) => parity,
        }
    }

    /// Mirrors and raidz may stand side by side when they stand the same losses.
    fn matches(self, other: Self) -> bool {
        match (self, other) {
            (Self::Mirror(_), Self::Raidz(_)) | (Self::Raidz(_), Self::Mirror(_)) => {
                self.tolerates() == other.tolerates()
            }
            _ => self == other,
        }
    }
}

fn leaf_word(device: Option<&String>, facts: &Facts) -> &'static str {
    match device.and_then(|d| facts.get(d)) {
        Some(facts) if facts.is_block_device => "disk",
        _ => "file",
    }
}

/// Compares new vdevs among each other and with those of the pool.
pub(super) fn check(specs: &[VdevSpec], facts: &Facts, pool: Option<&PoolInfo>) -> Result<(), String> {
    let counts = |class| !matches!(class, VdevClass::Log | VdevClass::Cache | VdevClass::Spare);
    let mut first: Option<Redundancy> = None;
    for spec in specs.iter().filter(|s| counts(s.class)) {
        check_group(spec, facts)?;
        let new = Redundancy::of_spec(spec, facts);
        match first {
            Some(first) if !first.matches(new) => return Err(among_new(first, new)),
            _ => first = first.or(Some(new)),
        }
    }
    let old = pool.and_then(|p| p.tops(VdevClass::Normal).find_map(Redundancy::of_vdev));
    match (old, first) {
        (Some(old), Some(new)) if !old.matches(new) => Err(with_pool(old, new)),
        _ => Ok(()),
    }
}

/// Within one group: files and disks apart, sizes alike.
fn check_group(spec: &VdevSpec, facts: &Facts) -> Result<(), String> {
    let word = match spec.layout {
        Layout::Single => return Ok(()),
        Layout::Mirror => "mirror",
        Layout::Raidz { .. } => "raidz",
        Layout::Draid { .. } => "draid",
    };
    let leaves: Vec<_> = spec.devices.iter().filter_map(|d| facts.get(d)).collect();
    let blocks = leaves.iter().filter(|l| l.is_block_device).count();
    if blocks != 0 && blocks != leaves.len() {
        return Err(format!("mismatched replication level: {word} contains both files and devices"));
    }
    let least = leaves.iter().map(|l| l.size_bytes).min().unwrap_or(0);
    let most = leaves.iter().map(|l| l.size_bytes).max().unwrap_or(0);
    if most - least > SIZE_FUZZ_BYTES {
        return Err(format!("{word} contains devices of different sizes"));
    }
    Ok(())
}

fn among_new(a: Redundancy, b: Redundancy) -> String {
    let what = match (a, b) {
        (Redundancy::Mirror(x), Redundancy::Mirror(y)) => {
            format!("both {x}-way and {y}-way mirror vdevs are present")
        }
        (Redundancy::Raidz(x), Redundancy::Raidz(y)) => {
            format!("both {x} and {y} device parity raidz vdevs are present")
        }
        (Redundancy::Mirror(_), Redundancy::Raidz(_)) | (Redundancy::Raidz(_), Redundancy::Mirror(_)) => {
            let (x, y) = (a.tolerates(), b.tolerates());
            format!("{} and {} vdevs with different redundancy, {x} vs. {y} are present", a.word(), b.word())
        }
        _ => format!("both {} and {} vdevs are present", a.word(), b.word()),
    };
    format!("mismatched replication level: {what}")
}

fn with_pool(old: Redundancy, new: Redundancy) -> String {
    let what = match (old, new) {
        (Redundancy::Mirror(x), Redundancy::Mirror(y)) => {
            format!("pool uses {x}-way mirror and new vdev uses {y}-way mirror")
        }
        (Redundancy::Raidz(x), Redundancy::Raidz(y)) => {
            format!("pool uses {x} device parity and new vdev uses {y}")
        }
        _ => format!("pool uses {} and new vdev is {}", old.word(), new.word()),
    };
    format!("mismatched replication level: {what}")
}
