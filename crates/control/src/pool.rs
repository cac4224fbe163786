//! A pool as commands see it.

use crate::{PoolHealth, Props, VdevAux, VdevClass, VdevInfo};
use serde::{Deserialize, Serialize};

/// An open pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolInfo {
    /// Its name.
    pub name: String,
    /// Its lasting name.
    pub guid: u64,
    /// Health of the whole.
    pub health: PoolHealth,
    /// Transaction group of the configuration.
    pub txg: u64,
    /// On-disk version: 5000 with feature flags.
    pub version: u64,
    /// How long it has been open, in nanoseconds: what averages of `zpool iostat` divide by.
    pub open_nanos: u64,
    /// Properties, with where each value comes from.
    pub props: Props,
    /// Root, with the data and log vdevs below it in order of their ids.
    pub root: VdevInfo,
    /// Second-level caches.
    #[serde(default)]
    pub caches: Vec<VdevInfo>,
    /// Hot spares.
    #[serde(default)]
    pub spares: Vec<VdevInfo>,
    /// The last or running scrub or resilver.
    #[serde(default)]
    pub scan: Option<ScanInfo>,
    /// The last or running error scrub.
    #[serde(default)]
    pub error_scrub: Option<ErrorScrubInfo>,
    /// The last or running removal of a data vdev.
    #[serde(default)]
    pub removal: Option<RemovalInfo>,
    /// Devices have left it that are not free for others yet: their labels go once that is stable.
    #[serde(default)]
    pub is_releasing: bool,
    /// The checkpoint, or what is left of one that was given up.
    #[serde(default)]
    pub checkpoint: Option<CheckpointInfo>,
    /// Replays of intent logs that are under way.
    #[serde(default)]
    pub replays: Vec<ReplayInfo>,
    /// Data errors known.
    #[serde(default)]
    pub error_count: u64,
    /// Files they are in, as `zpool status -v` shows them.
    #[serde(default)]
    pub error_files: Vec<String>,
    /// Features that new pools have, and that its `compatibility` allows, are not enabled.
    #[serde(default)]
    pub lacks_features: bool,
    /// An import dropped or could not read an intent log.
    #[serde(default)]
    pub bad_log: bool,
    /// It has stopped for good, for a reason that is no device's: only another import brings it back.
    #[serde(default)]
    pub stopped: bool,
    /// It is suspended because multihost writes failed or were late.
    #[serde(default)]
    pub heartbeats_failed: bool,
    /// The pool was open when the last daemon ended, and this daemon could not open the pool again. The figures of such a
    /// pool are not known.
    #[serde(default)]
    pub is_absent: bool,
    /// The reason why an absent pool could not be opened, in lines.
    #[serde(default)]
    pub absent_because: Vec<String>,
    /// The number of metaslabs that are out of use because their space maps are damaged.
    #[serde(default)]
    pub lost_metaslabs: u64,
    /// The tables of deduplicated blocks; none where they are not known.
    #[serde(default)]
    pub dedup: Option<DedupInfo>,
}

impl PoolInfo {
    /// A healthy pool of these vdevs with nothing under way, which has the guid of `root`.
    #[must_use]
    pub fn new(name: impl Into<String>, root: VdevInfo) -> Self {
        Self {
            name: name.into(),
            guid: root.guid,
            health: PoolHealth::Online,
            txg: 0,
            version: 5000,
            open_nanos: 0,
            props: Props::new(),
            root,
            caches: Vec::new(),
            spares: Vec::new(),
            scan: None,
            error_scrub: None,
            removal: None,
            is_releasing: false,
            checkpoint: None,
            replays: Vec::new(),
            error_count: 0,
            error_files: Vec::new(),
            lacks_features: false,
            bad_log: false,
            stopped: false,
            heartbeats_failed: false,
            is_absent: false,
            absent_because: Vec::new(),
            lost_metaslabs: 0,
            dedup: None,
        }
    }

    /// Top-level vdevs of a class, in order of their ids, holes left out.
    pub fn tops(&self, class: VdevClass) -> impl Iterator<Item = &VdevInfo> + Clone + '_ {
        self.root.children.iter().filter(move |v| v.class == class && v.is_shown())
    }
}

/// The tables of deduplicated blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DedupInfo {
    /// Entries of all tables.
    pub entries: u64,
    /// Bytes that the tables have on disk.
    pub disk_bytes: u64,
    /// Bytes that the tables would have in memory.
    pub core_bytes: u64,
    /// Blocks with 2^n to 2^(n+1)-1 references are in row n: number, bytes of data, bytes as they are stored, bytes that they
    /// are charged, and the same four figures with each block counted once for each reference. Rows behind the last block
    /// are left out.
    pub rows: Vec<[u64; 8]>,
}

/// Scrub or resilver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScanFunction {
    /// Every block was read.
    Scrub,
    /// Devices were brought up to date.
    Resilver,
}

/// How far a scan is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScanState {
    /// Running.
    Scanning,
    /// Ran to its end.
    Finished,
    /// Stopped by the administrator.
    Canceled,
}

/// The last or running scan of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanInfo {
    /// What it does.
    pub function: ScanFunction,
    /// How far it is.
    pub state: ScanState,
    /// Seconds since 1970.
    pub start_secs: u64,
    /// Seconds since 1970; 0 while it runs.
    pub end_secs: u64,
    /// Bytes repaired or rebuilt.
    pub repaired_bytes: u64,
    /// Errors it could not repair.
    pub errors: u64,
    /// Bytes it has issued reads for.
    pub issued_bytes: u64,
    /// Bytes it will have to.
    pub total_bytes: u64,
    /// Since when it is paused, in seconds since 1970.
    #[serde(default)]
    pub paused_secs: Option<u64>,
    /// Bytes that this stretch of work went through: what its speed is counted from.
    #[serde(default)]
    pub pass_bytes: u64,
    /// When it began, in seconds since 1970.
    #[serde(default)]
    pub pass_start_secs: u64,
    /// How long it takes so far, in seconds.
    #[serde(default)]
    pub pass_secs: u64,
}

impl ScanInfo {
    /// It runs, or is paused.
    pub fn is_under_way(&self) -> bool {
        self.state == ScanState::Scanning
    }
}

/// The last or running error scrub of a pool. An error scrub reads only blocks that could not be
/// read before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorScrubInfo {
    /// How far it is.
    pub state: ScanState,
    /// Seconds since 1970.
    pub start_secs: u64,
    /// Seconds since 1970; 0 while it runs.
    pub end_secs: u64,
    /// Since when it is paused, in seconds since 1970.
    pub paused_secs: Option<u64>,
    /// Blocks that were read.
    pub examined_blocks: u64,
    /// Blocks that are still to be read.
    pub left_blocks: u64,
}

impl ErrorScrubInfo {
    /// It runs, or is paused.
    pub fn is_under_way(&self) -> bool {
        self.state == ScanState::Scanning
    }
}

/// The last or running removal of a data vdev.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemovalInfo {
    /// The vdev's number.
    pub vdev: u64,
    /// How far it is.
    pub state: ScanState,
    /// Seconds since 1970.
    pub start_secs: u64,
    /// Seconds since 1970; 0 while it runs.
    pub end_secs: u64,
    /// How long it takes so far, in seconds.
    pub elapsed_secs: u64,
    /// Bytes to be copied.
    pub to_copy_bytes: u64,
    /// Bytes copied, or freed before they were.
    pub copied_bytes: u64,
    /// What the mappings of all vdevs that were ever removed take in memory.
    pub mapping_bytes: u64,
}

/// Marks the hot spares that several pools share and that are at work for one of them.
pub fn mark_shared_spares(pools: &mut [PoolInfo]) {
    let at_work = |pool: &PoolInfo| {
        let spares = pool.spares.iter().filter(|spare| spare.aux == VdevAux::Spared);
        spares.map(|spare| (spare.path.clone(), pool.name.clone())).collect::<Vec<_>>()
    };
    let at_work: Vec<(Option<String>, String)> = pools.iter().flat_map(at_work).collect();
    for pool in pools {
        for spare in pool.spares.iter_mut().filter(|spare| spare.aux != VdevAux::Spared) {
            let user = at_work.iter().find(|(path, user)| *path == spare.path && *user != pool.name);
            if let Some((_, user)) = user {
                (spare.aux, spare.works_for) = (VdevAux::Spared, Some(user.clone()));
            }
        }
    }
}

/// The checkpoint of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointInfo {
    /// When the state was made that is kept, in seconds since 1970; 0 once it was given up.
    pub created_secs: u64,
    /// Bytes that are kept for it.
    pub kept_bytes: u64,
    /// It was given up, and what was kept for it is being freed.
    pub is_discarding: bool,
}

/// How far the replay of a dataset's intent log is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayInfo {
    /// The dataset.
    pub dataset: String,
    /// Records that are done.
    pub records: u64,
    /// All records of the log.
    pub total_records: u64,
    /// How long it will go on if records take as long as they did, in seconds; unknown before the first.
    pub left_secs: Option<u64>,
}

/// Why a pool with `multihost=on` cannot be imported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum InUse {
    /// It is open on a system of this name and number.
    On {
        /// Its name.
        hostname: String,
        /// Its number.
        hostid: u64,
    },
    /// This system has no number by which others could tell it.
    NoHostId,
    /// Other programs of this system have its devices open: a line for each device.
    Held(Vec<String>),
}

/// A pool that a search of devices found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportCandidate {
    /// The pool as its labels tell it; sizes and counters are 0.
    pub pool: PoolInfo,
    /// It was destroyed.
    pub destroyed: bool,
    /// Its labels say that it is in use, and not by this system.
    pub foreign: bool,
    /// Another system writes to it, or this one may not have it: with `multihost=on` a pool that is not exported is watched.
    #[serde(default)]
    pub in_use: Option<InUse>,
    /// Features it needs that this version lacks, with what they are for.
    #[serde(default)]
    pub unsupported_features: Vec<String>,
    /// They are needed for changing the pool only.
    #[serde(default)]
    pub readable: bool,
}
