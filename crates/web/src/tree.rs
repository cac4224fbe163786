//! A pool as the page draws it: what `zpool status` says, as a tree of words and figures.

use control::{
    NameStyle, PoolInfo, ScanFunction, ScanInfo, ScanState, VdevAux, VdevClass, VdevInfo, VdevState,
    vdev_name,
};
use serde::Serialize;

/// A pool. Sizes are in bytes, times in seconds.
#[derive(Debug, Serialize)]
pub(crate) struct Tree {
    name: String,
    /// As text: a number of 64 bits is too long for a page's scripts.
    guid: String,
    health: &'static str,
    /// It has stopped for good.
    stopped: bool,
    open_seconds: f64,
    size_bytes: u64,
    allocated_bytes: u64,
    checkpoint_bytes: u64,
    fragmentation_percent: Option<u64>,
    data_errors: u64,
    scan: Option<Scan>,
    replays: usize,
    sections: Vec<Section>,
}

/// Vdevs of one kind of use.
#[derive(Debug, Serialize)]
struct Section {
    title: &'static str,
    vdevs: Vec<Node>,
}

/// A vdev and what is below it.
#[derive(Debug, Serialize)]
struct Node {
    /// Its place among its parent's children.
    id: u64,
    guid: String,
    name: String,
    /// How well it is: `good`, `warn`, `bad` or `off`.
    level: &'static str,
    state: &'static str,
    /// Why, and what is being done with it.
    notes: Vec<&'static str>,
    /// Reads, writes and checksums that failed.
    errors: [u64; 3],
    slow: u64,
    size_bytes: u64,
    allocated_bytes: Option<u64>,
    children: Vec<Node>,
}

/// The last scrub or resilver.
#[derive(Debug, Serialize)]
struct Scan {
    what: &'static str,
    state: &'static str,
    issued_bytes: u64,
    total_bytes: u64,
    repaired_bytes: u64,
    errors: u64,
    start_seconds: u64,
    end_seconds: u64,
}

impl Tree {
    pub(crate) fn of(pool: &PoolInfo) -> Self {
        Self {
            name: pool.name.clone(),
            guid: pool.guid.to_string(),
            health: pool.health.word(),
            stopped: pool.stopped,
            open_seconds: pool.open_nanos as f64 / 1e9,
            size_bytes: pool.root.stats.space_bytes,
            allocated_bytes: pool.root.stats.allocated_bytes,
            checkpoint_bytes: pool.checkpoint.map_or(0, |kept| kept.kept_bytes),
            fragmentation_percent: pool.root.stats.fragmentation,
            data_errors: pool.error_count,
            scan: pool.scan.as_ref().map(Scan::of),
            replays: pool.replays.len(),
            sections: sections(pool),
        }
    }
}

/// The sections of `zpool status`, those that have something.
fn sections(pool: &PoolInfo) -> Vec<Section> {
    let of = |class| pool.tops(class).map(Node::of).collect();
    let beside = |vdevs: &[VdevInfo]| vdevs.iter().map(Node::of).collect();
    let all = [
        ("data", of(VdevClass::Normal)),
        ("dedup", of(VdevClass::Dedup)),
        ("special", of(VdevClass::Special)),
        ("logs", of(VdevClass::Log)),
        ("cache", beside(&pool.caches)),
        ("spares", beside(&pool.spares)),
    ];
    let full = all.into_iter().filter(|(_, vdevs): &(_, Vec<Node>)| !vdevs.is_empty());
    full.map(|(title, vdevs)| Section { title, vdevs }).collect()
}

impl Node {
    fn of(vdev: &VdevInfo) -> Self {
        let stats = &vdev.stats;
        let sizes = [stats.space_bytes, stats.physical_bytes];
        Self {
            id: vdev.id,
            guid: vdev.guid.to_string(),
            name: vdev_name(vdev, NameStyle::default()),
            level: level(vdev),
            state: state(vdev),
            notes: notes(vdev),
            errors: [stats.read_errors, stats.write_errors, stats.checksum_errors],
            slow: stats.slow_ios,
            size_bytes: sizes.into_iter().find(|bytes| *bytes > 0).unwrap_or(0),
            allocated_bytes: (stats.space_bytes > 0).then_some(stats.allocated_bytes),
            children: vdev.shown_children().map(Self::of).collect(),
        }
    }
}

fn state(vdev: &VdevInfo) -> &'static str {
    match (vdev.class, vdev.state, vdev.aux) {
        (VdevClass::Spare, _, VdevAux::Spared) => "INUSE",
        (VdevClass::Spare, VdevState::Online, _) => "AVAIL",
        (_, state, aux) => state.word(aux),
    }
}

fn level(vdev: &VdevInfo) -> &'static str {
    let stats = &vdev.stats;
    let has_errors = stats.read_errors + stats.write_errors + stats.checksum_errors > 0;
    match vdev.state {
        VdevState::Online if has_errors => "warn",
        VdevState::Online => "good",
        VdevState::Degraded => "warn",
        VdevState::Offline | VdevState::Closed => "off",
        VdevState::Removed | VdevState::CantOpen | VdevState::Faulted => "bad",
    }
}

fn notes(vdev: &VdevInfo) -> Vec<&'static str> {
    let doing = [
        (vdev.removing, "removing"),
        (vdev.non_allocating && !vdev.removing, "non-allocating"),
        (vdev.resilvering, "resilvering"),
        (vdev.not_present, "not present at import"),
    ];
    let doing = doing.into_iter().filter(|(is, _)| *is).map(|(_, word)| word);
    vdev.aux.reason().into_iter().chain(doing).collect()
}

impl Scan {
    fn of(scan: &ScanInfo) -> Self {
        Self {
            what: match scan.function {
                ScanFunction::Scrub => "scrub",
                ScanFunction::Resilver => "resilver",
            },
            state: match scan.state {
                ScanState::Scanning if scan.paused_secs.is_some() => "paused",
                ScanState::Scanning => "running",
                ScanState::Finished => "finished",
                ScanState::Canceled => "canceled",
            },
            issued_bytes: scan.issued_bytes,
            total_bytes: scan.total_bytes,
            repaired_bytes: scan.repaired_bytes,
            errors: scan.errors,
            start_seconds: scan.start_secs,
            end_seconds: scan.end_secs,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::VdevKind;

    #[test]
    fn a_faulted_log_says_so_in_words_and_a_level() {
        let mut log = VdevInfo::new(VdevKind::File, 1, 20, VdevClass::Log);
        log.path = Some("/l1".into());
        (log.state, log.aux) = (VdevState::Faulted, VdevAux::ErrExceeded);
        log.resilvering = true;
        let node = Node::of(&log);
        assert_eq!((node.name.as_str(), node.state, node.level), ("/l1", "FAULTED", "bad"));
        assert_eq!(node.notes, ["too many errors", "resilvering"]);
    }

    #[test]
    fn errors_are_a_warning_and_spares_are_available() {
        let mut disk = VdevInfo::new(VdevKind::Disk, 0, 1, VdevClass::Normal);
        assert_eq!(level(&disk), "good");
        disk.stats.checksum_errors = 1;
        assert_eq!(level(&disk), "warn");
        let mut spare = VdevInfo::new(VdevKind::Disk, 0, 1, VdevClass::Spare);
        assert_eq!(state(&spare), "AVAIL");
        spare.aux = VdevAux::Spared;
        assert_eq!(state(&spare), "INUSE");
    }
}
