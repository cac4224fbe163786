//! Kstat files of the daemon's pools, renewed at an interval: why not at each read is in
//! `docs/decisions/2026-11-30-kstats.md`.
//!
//! ```text
//!  each interval:  names of pools ─► what each has counted ─► kstat::files ─► KstatTree: those that have changed
//!                                     (its process answers)
//! ```
//! The pools know nothing of it, and nobody waits for it: a pool that does not answer in time keeps the
//! files that it has.

use crate::kstat_tree::KstatTree;
use control::{DaemonStatusCall, PoolCounted, PoolCounts, RunPaths, Service};
use device::RealMachine;
use env::Machine;
use kstat::{MemorySeen, Observed, PoolSeen, files};
use rustix::time::{ClockId, clock_gettime};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::{JoinHandle, JoinSet, spawn_blocking};
use tokio::time::{MissedTickBehavior, interval, timeout};

/// Says how often they are renewed, where the daemon's command line does not.
const VARIABLE: &str = "SAWMILL_KSTATS";
/// How often otherwise.
const DEFAULT: Duration = Duration::from_secs(5);
/// So long a pool may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(3);
/// The clocks of a daemon and of the process of a pool are compared once; a larger difference is
/// another process.
const CLOCKS_APART_NANOS: u64 = 1_000_000_000;

/// How often kstat files are renewed: as the command line says (`--kstats`), or the environment, or as
/// is usual. `None` means that there are none.
///
/// # Errors
/// The word that is no number of seconds up to a day.
pub fn wanted(said: Option<&str>) -> Result<Option<Duration>, String> {
    let of_environment = || std::env::var(VARIABLE).ok().filter(|word| !word.is_empty());
    let Some(word) = said.map(str::to_owned).or_else(of_environment) else { return Ok(Some(DEFAULT)) };
    match word.parse::<u64>() {
        Ok(0) => Ok(None),
        Ok(seconds @ 1..=86_400) => Ok(Some(Duration::from_secs(seconds))),
        _ => Err(word),
    }
}

/// From now on there are none: an earlier daemon may have left some.
pub(crate) fn forget(paths: &RunPaths) {
    if !paths.run_dir().join("proc").exists() {
        return;
    }
    if let Err(error) = KstatTree::open(paths) {
        tracing::warn!(%error, "kstat files stay");
    }
}

/// The files, while they are renewed.
pub(crate) struct Kstats {
    renewing: JoinHandle<()>,
    shown: Arc<Shown>,
}

impl Kstats {
    /// Shows files, and renews them at an interval.
    pub(crate) fn show(paths: &RunPaths, every: Duration, service: &Arc<dyn Service>) -> Self {
        let shown = Arc::new(Shown { paths: paths.clone(), state: Mutex::default() });
        let (service, own) = (Arc::clone(service), Arc::clone(&shown));
        let renewing = tokio::spawn(async move {
            let mut ticks = interval(every);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                let Some(answers) = Answers::of(&service).await else { continue };
                let shown = Arc::clone(&own);
                // A mistake in there would be a panic, which ends the process.
                _ = spawn_blocking(move || shown.renew(answers)).await;
            }
        });
        Self { renewing, shown }
    }

    /// Removes them.
    pub(crate) async fn end(self) {
        self.renewing.abort();
        _ = spawn_blocking(move || self.shown.end()).await;
    }
}

/// What the pools answered.
struct Answers {
    pools: Vec<PoolCounted>,
    /// Open pools that did not answer.
    silent: BTreeSet<String>,
    absent: Vec<String>,
}

impl Answers {
    /// Asks all open pools. Returns `None` when the daemon itself does not answer.
    async fn of(service: &Arc<dyn Service>) -> Option<Self> {
        let status = service.daemon_status(DaemonStatusCall {}).await.ok()?;
        let mut asked = JoinSet::new();
        for name in status.pools {
            let service = Arc::clone(service);
            asked.spawn(async move {
                let counts = service.pool_counts(PoolCounts { pool: name.clone() });
                let counted = timeout(ANSWER_MAX, counts).await;
                counted.ok().and_then(Result::ok).ok_or(name)
            });
        }
        let mut answers =
            Self { pools: Vec::new(), silent: BTreeSet::new(), absent: names_of(status.failed) };
        while let Some(answer) = asked.join_next().await {
            match answer {
                Ok(Ok(counted)) => answers.pools.push(counted),
                Ok(Err(name)) => _ = answers.silent.insert(name),
                Err(_) => {}
            }
        }
        Some(answers)
    }
}

fn names_of(failed: Vec<(String, Vec<String>)>) -> Vec<String> {
    failed.into_iter().map(|(name, _)| name).collect()
}

/// The tree, and what has to be remembered from one renewal to the next.
struct Shown {
    paths: RunPaths,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    tree: Option<KstatTree>,
    /// For each pool, by its guid, the monotonic clock at the beginning of its own.
    clocks: BTreeMap<u64, u64>,
    /// True if the last renewal failed. The log has the failure, and does not get the same failure again.
    is_failing: bool,
    has_ended: bool,
}

impl Shown {
    fn renew(&self, answers: Answers) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.has_ended {
            return;
        }
        match state.renew(&self.paths, answers) {
            Ok(()) => state.is_failing = false,
            Err(error) => {
                // A tree that was removed is made again.
                if error.kind() == io::ErrorKind::NotFound {
                    state.tree = None;
                }
                if !std::mem::replace(&mut state.is_failing, true) {
                    tracing::warn!(%error, "kstat files are not renewed");
                }
            }
        }
    }

    fn end(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.has_ended = true;
        if let Some(Err(error)) = state.tree.as_mut().map(KstatTree::clear) {
            tracing::warn!(%error, "kstat files stay");
        }
    }
}

impl State {
    fn renew(&mut self, paths: &RunPaths, answers: Answers) -> io::Result<()> {
        let now_nanos = monotonic_nanos();
        let Answers { pools, silent, absent } = answers;
        let pools: Vec<PoolSeen> = pools.into_iter().map(|counted| self.seen(counted, now_nanos)).collect();
        self.clocks.retain(|guid, _| pools.iter().any(|pool| pool.counted.guid == *guid));
        let files = files(&Observed { memory: memory(), pools, absent });
        let tree = match &mut self.tree {
            Some(tree) => tree,
            none => none.insert(KstatTree::open(paths)?),
        };
        tree.renew(&files, &silent, now_nanos)
    }

    fn seen(&mut self, counted: PoolCounted, now_nanos: u64) -> PoolSeen {
        let start = now_nanos.saturating_sub(counted.now_nanos);
        let known = self.clocks.entry(counted.guid).or_insert(start);
        if known.abs_diff(start) > CLOCKS_APART_NANOS {
            *known = start;
        }
        PoolSeen { clock_start_nanos: *known, counted }
    }
}

fn monotonic_nanos() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

fn memory() -> Option<MemorySeen> {
    let now = RealMachine::default().memory()?;
    Some(MemorySeen {
        limit_bytes: now.limit_bytes,
        free_bytes: now.limit_bytes.saturating_sub(now.pinned_bytes),
        to_stay_free_bytes: engine::memory::to_stay_free(now.limit_bytes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_counts_and_zero_means_none() {
        assert_eq!(wanted(Some("0")), Ok(None));
        assert_eq!(wanted(Some("60")), Ok(Some(Duration::from_secs(60))));
        for word in ["often", "-1", "1.5", "86401"] {
            assert_eq!(wanted(Some(word)), Err(word.into()));
        }
    }

    #[test]
    fn a_txg_keeps_its_birth_until_the_process_of_the_pool_is_another() {
        let mut state = State::default();
        let mut at = |own, now| {
            let counted = PoolCounted { guid: 9, now_nanos: own, ..PoolCounted::default() };
            state.seen(counted, now).clock_start_nanos
        };
        let second = 1_000_000_000;
        assert_eq!(at(5, 105), 100);
        assert_eq!(at(second, second + 103), 100, "it took some time to answer");
        assert_eq!(at(7, 9 * second), 9 * second - 7, "the process is new");
    }
}
