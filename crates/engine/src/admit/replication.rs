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
    Draid(u64),
}

impl Redundancy {
    fn of_spec(spec: &VdevSpec, facts: &Facts) -> Self {
        match spec.layout {
            Layout::Single => Self::Single(leaf_word(spec.devices.first(), facts)),
            Layout::Mirror => Self::Mirror(spec.devices.len() as u64),
            Layout::Raidz { parity } => Self::Raidz(u64::from(parity)),
            Layout::Draid { parity, .. } => Self::Draid(u64::from(parity)),
        }
    }

    fn of_vdev(vdev: &VdevInfo) -> Option<Self> {
        Some(match vdev.kind {
            VdevKind::Mirror => Self::Mirror(vdev.children.len() as u64),
            VdevKind::Raidz { parity } => Self::Raidz(u64::from(parity)),
            VdevKind::Draid { parity, .. } => Self::Draid(u64::from(parity)),
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
            Self::Draid(_) => "draid",
        }
    }

    /// How many devices may fail.
    fn tolerates(self) -> u64 {
        match self {
            Self::Single(_) => 0,
            Self::Mirror(ways) => ways.saturating_sub(1),
            Self::Raidz(parity) | Self::Draid(parity) => parity,
        }
    }

    const fn has_parity(self) -> bool {
        matches!(self, Self::Raidz(_) | Self::Draid(_))
    }

    /// Whether one has parity, and the other is a mirror.
    const fn is_mixed_with(self, other: Self) -> bool {
        matches!(self, Self::Mirror(_)) && other.has_parity()
            || self.has_parity() && matches!(other, Self::Mirror(_))
    }

    /// Whether both may be made at once: mirrors, raidz and draids side by side when they stand the same losses.
    fn matches(self, other: Self) -> bool {
        match self.is_mixed_with(other) || self.has_parity() && other.has_parity() {
            true => self.tolerates() == other.tolerates(),
            false => self == other,
        }
    }

    /// Whether it may be added to a pool that has the other: there a raidz does not go with a draid.
    fn matches_pool(self, pool: Self) -> bool {
        self.matches(pool) && (self.is_mixed_with(pool) || self.word() == pool.word())
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
        (Some(old), Some(new)) if !new.matches_pool(old) => Err(with_pool(old, new)),
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
        _ if a.is_mixed_with(b) => {
            let (kinds, losses) = mixed(a, b);
            format!("{kinds} with different redundancy, {losses} are present")
        }
        _ if a.has_parity() && b.has_parity() => {
            let (x, y, word, other) = (a.tolerates(), b.tolerates(), a.word(), b.word());
            match word == other {
                true => format!("both {x} and {y} device parity {word} vdevs are present"),
                false => {
                    format!("{word} and {other} vdevs with different redundancy, {x} vs. {y} are present")
                }
            }
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
        _ if old.is_mixed_with(new) => {
            let (kinds, losses) = mixed(old, new);
            format!("pool and new vdev with different redundancy, {kinds}, {losses}")
        }
        _ if old.has_parity() && old.word() == new.word() => {
            format!("pool uses {} device parity and new vdev uses {}", old.tolerates(), new.tolerates())
        }
        _ => format!("pool uses {} and new vdev is {}", old.word(), new.word()),
    };
    format!("mismatched replication level: {what}")
}

/// What has parity and what is a mirror, and how many devices of each may fail.
fn mixed(a: Redundancy, b: Redundancy) -> (String, String) {
    let (parity, mirror) = if a.has_parity() { (a, b) } else { (b, a) };
    let (x, y) = (parity.tolerates(), mirror.tolerates());
    (format!("{} and mirror vdevs", parity.word()), format!("{x} vs. {y} ({}-way)", y + 1))
}

#[cfg(test)]
mod tests {
    use super::Redundancy::{Draid, Mirror, Raidz, Single};
    use super::*;

    #[test]
    fn what_differs_is_told_as_openzfs_tells_it() {
        for (a, b, among, beside) in [
            (Mirror(2), Raidz(1), "", ""),
            (Draid(2), Mirror(3), "", ""),
            (Raidz(1), Draid(1), "", "pool uses raidz and new vdev is draid"),
            (
                Raidz(2),
                Draid(1),
                "raidz and draid vdevs with different redundancy, 2 vs. 1 are present",
                "pool uses raidz and new vdev is draid",
            ),
            (
                Draid(1),
                Draid(2),
                "both 1 and 2 device parity draid vdevs are present",
                "pool uses 1 device parity and new vdev uses 2",
            ),
            (
                Mirror(2),
                Raidz(2),
                "raidz and mirror vdevs with different redundancy, 2 vs. 1 (2-way) are present",
                "pool and new vdev with different redundancy, raidz and mirror vdevs, 2 vs. 1 (2-way)",
            ),
            (
                Draid(1),
                Single("file"),
                "both draid and file vdevs are present",
                "pool uses draid and new vdev is file",
            ),
        ] {
            let line = |what: &str| format!("mismatched replication level: {what}");
            assert_eq!(a.matches(b), among.is_empty(), "{among}");
            assert_eq!(b.matches_pool(a), beside.is_empty(), "{beside}");
            assert!(a.matches(b) || among_new(a, b) == line(among), "{}", among_new(a, b));
            assert!(b.matches_pool(a) || with_pool(a, b) == line(beside), "{}", with_pool(a, b));
        }
    }
}
