//! Pools that are made up: counters that grow as those of a real pool do.

use control::*;
use metrics::{Looked, PoolLook};

/// A quarter of an hour, and the look before it.
const SECONDS: u64 = 901;
/// When the log of most scenes was added.
const LOG_AT: u64 = 430;
/// The last look is at this moment, in seconds since 1970.
const END_SECS: u64 = 1_795_000_000;
const GIB: u64 = 1 << 30;
const BUCKETS: usize = 39;

/// What is shown.
#[derive(Clone, Copy)]
pub struct Scene {
    /// Its name.
    pub name: &'static str,
    pools: &'static [&'static str],
    mirrors: u64,
    log: Option<VdevState>,
}

impl Scene {
    pub fn all() -> [Self; 4] {
        let one = Self { name: "calm", pools: &["tank"], mirrors: 2, log: Some(VdevState::Online) };
        [
            one,
            Self { name: "none", pools: &[], ..one },
            Self { name: "faulted", log: Some(VdevState::Faulted), ..one },
            Self { name: "many", pools: &["archive", "databases", "tank"], mirrors: 100, ..one },
        ]
    }

    /// All looks, a second apart, with their moments.
    pub fn looks(&self) -> impl Iterator<Item = (Looked, u64)> {
        (0..SECONDS).map(|second| (self.look(second), (END_SECS - SECONDS + 1 + second) * 1000))
    }

    pub fn last(&self) -> Last {
        Last(self.look(SECONDS - 1))
    }

    fn look(&self, second: u64) -> Looked {
        let daemon = DaemonStatus {
            pid: 4711,
            version: env!("CARGO_PKG_VERSION").into(),
            uptime_secs: 86_400 + second,
            pools: self.pools.iter().map(|name| (*name).to_owned()).collect(),
            failed: match self.pools {
                [] => vec![("tank".into(), vec!["cannot open 'tank': no such device or address".into()])],
                _ => Vec::new(),
            },
            under_way: Vec::new(),
            processes: Vec::new(),
        };
        let each = (1..).zip(self.pools);
        let pools = each.map(|(guid, name)| self.pool(name, guid, second)).collect();
        Looked { daemon, pools, datasets: Vec::new() }
    }

    fn pool(&self, name: &str, guid: u64, second: u64) -> PoolLook {
        let sums = Sums::up_to(second, self.has_log_at(LOG_AT));
        let log = self.log.filter(|_| second >= LOG_AT);
        let state = log.map(|state| if second < 700 { VdevState::Online } else { state });
        let mut root = VdevInfo::new(VdevKind::Root, 0, guid, VdevClass::Normal);
        root.children = (0..self.mirrors).map(|id| mirror(id, self.mirrors)).collect();
        root.children.extend(state.map(|state| log_vdev(self.mirrors, state)));
        root.stats.space_bytes = self.mirrors * 930 * GIB;
        root.stats.allocated_bytes = self.mirrors * 412 * GIB;
        root.stats.fragmentation = Some(11);
        root.stats.io = sums.io();
        let is_well = state.is_none_or(|state| state == VdevState::Online) && self.mirrors < 100;
        let facts = sums.facts(second, state.map(|state| (self.mirrors, state)), self.mirrors);
        let pool = PoolInfo {
            health: if is_well { PoolHealth::Online } else { PoolHealth::Degraded },
            txg: 100 + second / 5,
            open_nanos: facts.open_nanos,
            caches: vec![leaf("nvme2n1", 900, VdevClass::Cache, 64 * GIB)],
            spares: vec![leaf("sdz", 901, VdevClass::Spare, 930 * GIB)],
            scan: Some(scrub()),
            ..PoolInfo::new(name, root)
        };
        PoolLook { pool, logs: Some(facts), users: sums.users() }
    }

    fn has_log_at(&self, second: u64) -> impl Fn(u64) -> bool {
        let state = self.log;
        move |now| match state {
            Some(VdevState::Online) => now >= second,
            Some(_) => now >= second && now < 700,
            None => false,
        }
    }
}

fn scrub() -> ScanInfo {
    ScanInfo {
        function: ScanFunction::Scrub,
        state: ScanState::Finished,
        start_secs: END_SECS - 90_000,
        end_secs: END_SECS - 80_000,
        repaired_bytes: 0,
        errors: 0,
        issued_bytes: 824 * GIB,
        total_bytes: 824 * GIB,
        paused_secs: None,
        pass_bytes: 0,
        pass_start_secs: 0,
        pass_secs: 0,
    }
}

fn leaf(name: &str, guid: u64, class: VdevClass, bytes: u64) -> VdevInfo {
    let mut leaf = VdevInfo::new(VdevKind::Disk, 0, guid, class);
    leaf.path = Some(format!("/dev/{name}"));
    leaf.stats.physical_bytes = bytes;
    leaf
}

/// Number 3 of many mirrors has lost a disk, and number 7 has one that makes errors.
fn mirror(id: u64, of: u64) -> VdevInfo {
    let mut mirror = VdevInfo::new(VdevKind::Mirror, id, 10 + id, VdevClass::Normal);
    let disk = |place: u64| {
        leaf(&format!("disk/by-id/wwn-{id:03}{place}"), 1000 + 2 * id + place, VdevClass::Normal, 930 * GIB)
    };
    mirror.children = vec![disk(0), disk(1)];
    mirror.stats.space_bytes = 930 * GIB;
    mirror.stats.allocated_bytes = 412 * GIB;
    if of >= 100 && id == 3 {
        mirror.state = VdevState::Degraded;
        (mirror.children[1].state, mirror.children[1].aux) = (VdevState::CantOpen, VdevAux::OpenFailed);
    }
    if of >= 100 && id == 7 {
        mirror.children[0].stats.checksum_errors = 3;
    }
    mirror
}

fn log_vdev(id: u64, state: VdevState) -> VdevInfo {
    let mut log = leaf("nvme0n1", 20_000, VdevClass::Log, 16 * GIB);
    (log.id, log.state) = (id, state);
    log.stats.space_bytes = 15 * GIB;
    log.stats.allocated_bytes = 3 * GIB / 2;
    if state == VdevState::Faulted {
        log.aux = VdevAux::ErrExceeded;
        log.stats.write_errors = 7;
    }
    log
}

/// Counters, added up from the first second on.
#[derive(Default)]
struct Sums {
    commits: u64,
    batches: u64,
    bytes: u64,
    latency: Vec<u64>,
    queue: Vec<u64>,
    assemble: Vec<u64>,
    write: Vec<u64>,
    flush: Vec<u64>,
    wake: Vec<u64>,
    blocks: Vec<u64>,
    log_writes: Vec<u64>,
    log_flushes: Vec<u64>,
    log_bytes: u64,
    log_nanos: u64,
    data_nanos: u64,
}

impl Sums {
    fn up_to(second: u64, has_log: impl Fn(u64) -> bool) -> Self {
        let empty = || vec![0; BUCKETS];
        let mut sums = Self {
            latency: empty(),
            queue: empty(),
            assemble: empty(),
            write: empty(),
            flush: empty(),
            wake: empty(),
            log_writes: empty(),
            log_flushes: empty(),
            blocks: vec![0; 32],
            ..Self::default()
        };
        (0..=second).for_each(|now| sums.add(now, has_log(now)));
        sums
    }

    /// A second. The load swells and ebbs, and a commit without a log takes a hundred times as long.
    fn add(&mut self, second: u64, has_log: bool) {
        let swell = 1.0 + 0.35 * (second as f64 / 47.0).sin() + 0.2 * (second as f64 / 5.3).sin();
        let commits = (swell * if has_log { 5_400.0 } else { 310.0 }) as u64;
        let middle = if has_log { 18 } else { 25 };
        self.commits += commits;
        self.batches += commits / if has_log { 3 } else { 2 };
        self.bytes += commits * 9_000;
        spread(&mut self.latency, middle, commits);
        // A commit in ten thousand or so meets a device that is busy with something else.
        self.latency[middle + 4 + (second % 3) as usize] += u64::from(second.is_multiple_of(7));
        spread(&mut self.queue, middle - 3, commits);
        spread(&mut self.assemble, 13, commits);
        spread(&mut self.write, middle - 1, commits);
        spread(&mut self.flush, middle - 2, commits);
        spread(&mut self.wake, 14, commits);
        for (place, share) in [(0, 8), (1, 3), (2, 5), (3, 2), (7, 1), (15, 1), (31, 2)] {
            self.blocks[place] += commits * share / 40;
        }
        match has_log {
            true => {
                spread(&mut self.log_writes, 16, commits / 3);
                spread(&mut self.log_flushes, 17, commits / 3);
                self.log_bytes += commits * 9_500;
                self.log_nanos += commits * 60_000;
                self.data_nanos += 90_000_000;
            }
            false => self.data_nanos += commits * 5_500_000,
        }
    }

    /// Two datasets, and a program for each.
    fn users(&self) -> LogUsers {
        let dataset = |(name, objset, share): (&str, u64, u64)| LogDatasetInfo {
            name: name.into(),
            objset,
            commits: self.commits * share / 10,
            data_bytes: self.bytes * share / 10,
            latency: self.latency.iter().map(|count| count * share / 10).collect(),
            ..LogDatasetInfo::default()
        };
        let thread = |(command, thread, dataset, share): (&str, u64, &str, u64)| LogThreadInfo {
            dataset: dataset.into(),
            thread,
            process: thread,
            command: Some(command.into()),
            syncs: self.commits * share / 10,
            nanos: self.commits * share * 24_000,
        };
        LogUsers {
            datasets: [("tank/postgres", 54, 8), ("tank/mail", 61, 2)].map(dataset).into(),
            datasets_left_out: 0,
            threads: [("postgres", 2210, "tank/postgres", 8), ("lmtp", 3177, "tank/mail", 2)]
                .map(thread)
                .into(),
        }
    }

    fn io(&self) -> IoCounters {
        IoCounters {
            reads: self.commits / 9,
            writes: self.batches,
            read_bytes: self.commits * 700,
            written_bytes: self.bytes * 2,
        }
    }

    /// What commits waited for: their mean is that of the stages.
    fn parts_nanos(&self) -> Vec<u64> {
        let total =
            |counts: &[u64]| counts.iter().enumerate().map(|(bucket, count)| (count << bucket) * 3 / 4).sum();
        let [queue, assemble, write, flush, wake] =
            [&self.queue, &self.assemble, &self.write, &self.flush, &self.wake].map(|counts| total(counts));
        vec![queue, assemble, write, flush, wake, 0]
    }

    fn facts(&self, second: u64, log: Option<(u64, VdevState)>, mirrors: u64) -> LogFacts {
        let mut vdevs = vec![self.vdev(
            0,
            VdevClass::Normal,
            930 * GIB,
            VdevState::Online,
            &[("/dev/disk/by-id/wwn-0000", 1000)],
            self.data_nanos,
            0,
        )];
        vdevs.extend(log.map(|(id, state)| {
            let held = (self.log_bytes / 3) % (GIB / 2) + GIB;
            let held = if state == VdevState::Online { held } else { 0 };
            self.vdev(
                id.max(mirrors),
                VdevClass::Log,
                15 * GIB,
                state,
                &[("/dev/nvme0n1", 20_000)],
                self.log_nanos,
                held,
            )
        }));
        LogFacts {
            open_nanos: (3_600 + second) * 1_000_000_000,
            commits: self.commits,
            batches: self.batches,
            data_bytes: self.bytes,
            record_bytes: self.bytes + self.commits * 192,
            written_bytes: self.bytes + self.commits * 500,
            latency: self.latency.clone(),
            queue: self.queue.clone(),
            assemble: self.assemble.clone(),
            write: self.write.clone(),
            flush: self.flush.clone(),
            wake: self.wake.clone(),
            parts_nanos: self.parts_nanos(),
            block_sizes: self.blocks.clone(),
            live_txgs: 4,
            share_percent: 25,
            vdevs,
            ..LogFacts::default()
        }
    }

    #[expect(clippy::too_many_arguments, reason = "what differs between a data and a log vdev")]
    fn vdev(
        &self,
        id: u64,
        class: VdevClass,
        space_bytes: u64,
        state: VdevState,
        leaves: &[(&str, u64)],
        nanos: u64,
        held_bytes: u64,
    ) -> LogVdevInfo {
        let is_log = class == VdevClass::Log;
        let bytes = if is_log { self.log_bytes } else { self.bytes };
        let leaf = |&(path, guid): &(&str, u64)| LogLeafInfo {
            guid,
            path: path.into(),
            kind: VdevKind::Disk,
            state,
            size_bytes: space_bytes,
            reads: LeafOps::default(),
            writes: LeafOps { ops: self.batches, bytes, nanos },
            flushes: LeafOps::default(),
            flush_times: Vec::new(),
            storage: StorageInfo::default(),
        };
        let none = vec![0; BUCKETS];
        LogVdevInfo {
            id,
            class,
            kind: VdevKind::Disk,
            state,
            space_bytes,
            held_bytes,
            blocks: if is_log { self.batches } else { 0 },
            block_bytes: if is_log { bytes } else { 0 },
            writes: if is_log { self.log_writes.clone() } else { none.clone() },
            flushes: if is_log { self.log_flushes.clone() } else { none },
            leaves: leaves.iter().map(leaf).collect(),
        }
    }
}

/// Most in the middle, fewer beside it.
fn spread(counts: &mut [u64], middle: usize, all: u64) {
    for (away, share) in [(-2_isize, 4), (-1, 20), (0, 46), (1, 24), (2, 5), (3, 1)] {
        counts[middle.saturating_add_signed(away)] += all * share / 100;
    }
}

/// What a scene ends with: for `/metrics`.
pub struct Last(Looked);

impl web::Source for Last {
    async fn daemon(&self) -> Result<DaemonStatus, Failure> {
        Ok(self.0.daemon.clone())
    }

    async fn pools(&self) -> Result<Vec<PoolInfo>, Failure> {
        Ok(self.0.pools.iter().map(|look| look.pool.clone()).collect())
    }

    async fn logs(&self, pool: &str) -> Result<LogFacts, Failure> {
        let found = self.0.pools.iter().find(|look| look.pool.name == pool);
        found.and_then(|look| look.logs.clone()).ok_or_else(|| Failure::no_such_pool(pool))
    }

    async fn users(&self, _: &str) -> Result<LogUsers, Failure> {
        Ok(LogUsers::default())
    }

    async fn datasets(&self) -> Result<Vec<DatasetInfo>, Failure> {
        Ok(Vec::new())
    }
}
