//! Whose a pool is: the decision of every import whether this host may open it.
//!
//! A pool that was not exported may be open on the host that its labels name. Two hosts that write
//! to one pool destroy it, and locks on devices do not reach from host to host.
//!
//! | state | label's host | heartbeats | on command | with `-f` | at a restart |
//! |---|---|---|---|---|---|
//! | active | this | any | open | open | open, unless it is older than it was left |
//! | active | none | no | open | open | refuse |
//! | active | none | yes | watch | watch | refuse |
//! | active | another | no | refuse | open | refuse |
//! | active | another | yes | refuse | watch | refuse |
//! | exported, destroyed | any | any | open | open | leave |
//!
//! *Watch*: the owner writes heartbeats (`multihost=on`), so that a living one shows itself if the
//! labels are watched for some time, and the pool is then claimed ([`claim`]): somebody else may have watched at the same
//! time. A host without a number of its own may not have such a pool at all. *Leave*: the daemon had the pool open when it went down, but
//! somebody else had it since, so that the daemon does not open it without being asked.
//! A pool that is opened for reading only is not changed by this host, and so it is always opened.
//!
//! **How long.** The uberblock states how long its writer may be silent. Whoever makes a device can
//! state any time, up to centuries. A watch shorter than that could open a pool that is in use. So
//! an import watches for the whole time, or refuses at once if the time is longer than
//! [`WATCH_MAX`] and than the settings of this host ask for. A list of pools opens nothing for
//! writing, so it ends its watch after [`LISTED_WITHIN`] and reports what it has seen until then;
//! the import decides. The watch reads only the devices of its pool, so that many pools in one
//! directory do not slow each other down. [`Ending::begin`](crate::Ending::begin) ends every watch.
//!
//! Invariants
//! - An import watches for as long as the owner may be silent, or refuses.
//!   (test: `no_watch_is_shorter_than_an_owner_may_be_silent`)
//! - No label makes an import watch for more than [`WATCH_MAX`] and a quarter, or claim the pool for
//!   more than [`CLAIMS`] times [`CLAIM_WAIT_MAX`]. No label makes a list wait for more than
//!   [`LISTED_WITHIN`].
//!   (tests: `an_owner_that_may_be_silent_for_years_is_refused_at_once`,
//!   `a_label_delays_a_list_of_pools_by_half_a_minute_at_most`)
//! - A program that ends waits neither for a watch nor for its claim, and takes the claim back.
//!   (tests: `a_program_that_ends_waits_for_no_owner`, `a_claim_that_is_interrupted_is_taken_back`)

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use env::{Env, OpenMode, boxed};
use ondisk::{MmpConfig, UberblockPhys};
use units::{Guid, Txg};
use vdev::{Candidate, OpenSpec, PoolState, VdevTree};

use crate::import::{ImportSpec, find_pools};
use crate::multihost::Heartbeats;
use crate::{Ending, Pool, PoolError, Tuning};

/// A pool that this host had open when it went down, as it was left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// The host's number at that time.
    pub hostid: u64,
    /// A txg that was stable already.
    pub txg: Txg,
    /// Leaves that lacked data which their siblings had, or were about to lack data.
    pub behind: BTreeSet<Guid>,
}

/// Why a pool is left as it is, although it could be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeftAlone {
    /// It was exported since.
    #[error("pool was exported by another system")]
    Exported,
    /// It was destroyed since.
    #[error("pool was destroyed by another system")]
    Destroyed,
    /// What the devices hold is older than what this host left on them.
    #[error("its devices hold an older state than this system left")]
    Older,
    /// Another host may have it open without a sign of that for longer than this host waits.
    #[error(
        "another system may have it open, and may not show that for {} ({} is the longest wait)\nEither a label is \
         damaged, or the multihost intervals of that system are very long.\nThe pool can be imported with '-o readonly=on'.",
        spoken(*.silent_secs),
        spoken(*.most_secs)
    )]
    SilentTooLong {
        /// How long a living owner may be silent.
        silent_secs: u64,
        /// The longest watch of this host.
        most_secs: u64,
    },
    /// The program ends, and so it no longer waits for a sign of another host.
    #[error("interrupted, because the daemon stops")]
    Ending,
}

/// A time in the largest unit of which there are two.
fn spoken(secs: u64) -> String {
    let units = [("days", 24 * 3600), ("hours", 3600), ("minutes", 60), ("seconds", 1)];
    let (name, unit) = units.into_iter().find(|(_, unit)| secs / unit >= 2).unwrap_or(("seconds", 1));
    format!("{} {name}", secs / unit)
}

impl Pool {
    /// How a crash now, or later, leaves the pool: what [`ImportSpec::left`] is to have.
    #[must_use]
    pub fn left(&self) -> Left {
        Left { hostid: self.tuning.host.id, txg: self.gate.synced_txg(), behind: self.vdevs.lacking() }
    }
}

/// The host that labels name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LabelHost {
    This,
    None,
    Another,
}

/// Why the pool is to be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    OnCommand,
    Forced,
    AtRestart { is_older: bool },
}

/// What comes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    Open,
    Watch,
    Refuse,
    Leave(LeftAlone),
}

/// The table.
fn decide(state: PoolState, host: LabelHost, has_heartbeats: bool, asked: Asked) -> Decision {
    use {Asked as A, Decision as D, LabelHost as H, PoolState as S};
    match (state, host, has_heartbeats, asked) {
        (S::Active, H::This, _, A::AtRestart { is_older: true }) => D::Leave(LeftAlone::Older),
        (S::Active, H::This, _, _) => D::Open,
        (S::Active, H::None | H::Another, _, A::AtRestart { .. }) => D::Refuse,
        (S::Destroyed, _, _, A::AtRestart { .. }) => D::Leave(LeftAlone::Destroyed),
        (_, _, _, A::AtRestart { .. }) => D::Leave(LeftAlone::Exported),
        (S::Active, H::None, true, _) | (S::Active, H::Another, true, A::Forced) => D::Watch,
        (S::Active, H::Another, _, A::OnCommand) => D::Refuse,
        (S::Active, H::None | H::Another, false, _) => D::Open,
        _ => D::Open,
    }
}

/// Makes sure that this host may open the pool; watches its labels for a living owner if need be.
pub(crate) async fn check(
    env: &Arc<dyn Env>,
    candidate: &Candidate,
    spec: &ImportSpec,
    tuning: &Tuning,
) -> Result<(), PoolError> {
    if spec.read_only {
        return Ok(());
    }
    let uberblock = candidate.uberblock.as_ref();
    let this = spec.left.as_ref().map_or(tuning.host.id, |left| left.hostid);
    let asked = match &spec.left {
        Some(left) => Asked::AtRestart { is_older: uberblock.is_none_or(|newest| newest.txg() < left.txg) },
        None if spec.force => Asked::Forced,
        None => Asked::OnCommand,
    };
    let heartbeat = uberblock.and_then(Heartbeat::of);
    let host = label_host(candidate.pool.hostid, this);
    match (decide(candidate.pool.state, host, heartbeat.is_some(), asked), heartbeat) {
        (Decision::Open, _) | (Decision::Watch, None) => Ok(()),
        (Decision::Watch, Some(_)) if this == 0 => Err(PoolError::NoHostId),
        (Decision::Watch, Some(heartbeat)) => {
            let patience = later(heartbeat.patience(&tuning.heartbeats)?, env);
            watch(env, candidate, heartbeat, patience, &tuning.ending).await?;
            claim(env, candidate, &tuning.ending).await
        }
        (Decision::Refuse, _) => Err(foreign(candidate)),
        (Decision::Leave(why), _) => Err(PoolError::LeftAlone(why)),
    }
}

/// A host without a number of its own is not told from another without one.
fn label_host(label: u64, this: u64) -> LabelHost {
    match label {
        _ if label == this => LabelHost::This,
        0 => LabelHost::None,
        _ => LabelHost::Another,
    }
}

fn foreign(candidate: &Candidate) -> PoolError {
    let last_secs = candidate.uberblock.map_or(0, |uberblock| uberblock.timestamp.get());
    let (hostname, hostid) = (candidate.pool.hostname.clone(), candidate.pool.hostid);
    PoolError::ForeignHost { hostname, hostid, last_secs }
}

/// How often a living owner writes an uberblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Heartbeat {
    /// The settings' interval, where it is told.
    interval: Option<Duration>,
    /// What the owner needed in fact between two.
    delay: Duration,
    /// After so many that failed the owner stops writing; 0 when it never does, or does not tell.
    fail_intervals: u32,
}

/// No pool is watched for a shorter time.
const WATCH_MIN: Duration = Duration::from_secs(1);
/// Nor more seldom looked at than so often.
const POLL_MAX: Duration = Duration::from_secs(1);
/// A long watch reads the labels no more often than this, because it has time to notice a change.
const LOOKS_MAX: u32 = 600;
/// Two hosts that begin at the same time end at different ones: up to so many thousandths later.
const LATER_MAX: u64 = 250;
/// How often a claim is written and looked for again.
const CLAIMS: u32 = 10;
/// Each is given so long to be seen by others at most.
const CLAIM_WAIT_MAX: Duration = Duration::from_secs(60);
/// An owner that stops after so many intervals is watched twice as long.
const SAFETY_FACTOR: u32 = 2;
/// An import watches no longer than this, unless the settings of this host ask for more. The
/// defaults of OpenZFS make 20 seconds; there are pools with some minutes.
const WATCH_MAX: Duration = Duration::from_secs(3600);
/// A list of pools takes no longer than this for the watch: enough for the defaults.
const LISTED_WITHIN: Duration = Duration::from_secs(30);

impl Heartbeat {
    /// That of the uberblock's writer, if `multihost` was on for it.
    fn of(uberblock: &UberblockPhys) -> Option<Self> {
        let mmp = uberblock.mmp()?;
        let delay = Duration::from_nanos(uberblock.mmp_delay.get());
        let interval = mmp.interval_ms.map(|ms| Duration::from_millis(ms.into()));
        let fail_intervals = mmp.fail_intervals.unwrap_or(0).into();
        (!delay.is_zero()).then_some(Self { interval, delay, fail_intervals })
    }

    /// How long a living owner may take to show itself, by its settings, and by `ours` where it does not tell them.
    fn silence(self, ours: &Heartbeats) -> Duration {
        let count = ours.import_intervals.max(1);
        let span = match (self.interval, self.fail_intervals) {
            (Some(interval), stops @ 1..) => interval.saturating_mul(stops).saturating_mul(SAFETY_FACTOR),
            (theirs, _) => {
                let interval = theirs.unwrap_or(ours.interval());
                let seen = interval.saturating_add(self.delay).saturating_mul(count);
                seen.max(ours.interval().saturating_mul(count))
            }
        };
        span.max(WATCH_MIN)
    }

    /// How long the pool has to be watched.
    ///
    /// # Errors
    /// [`LeftAlone::SilentTooLong`] when nobody waits for that long.
    fn patience(self, ours: &Heartbeats) -> Result<Duration, LeftAlone> {
        let (silent, most) = (self.silence(ours), watch_max(ours));
        let too_long = LeftAlone::SilentTooLong { silent_secs: silent.as_secs(), most_secs: most.as_secs() };
        if silent <= most { Ok(silent) } else { Err(too_long) }
    }
}

/// The longest watch of a host with these settings. Hosts that share a pool have the same settings,
/// so a host does not call the time damaged that it would state itself.
fn watch_max(ours: &Heartbeats) -> Duration {
    let stops = ours.limit().unwrap_or_default().saturating_mul(SAFETY_FACTOR);
    let asked = ours.interval().saturating_mul(ours.import_intervals);
    WATCH_MAX.max(stops).max(asked)
}

/// How long to watch for the owner that wrote this uberblock, with a random part.
///
/// # Errors
/// [`LeftAlone::SilentTooLong`] when nobody waits for that long.
pub(crate) fn patience(
    uberblock: &UberblockPhys,
    ours: &Heartbeats,
    env: &Arc<dyn Env>,
) -> Result<Duration, LeftAlone> {
    let known = Heartbeat::of(uberblock);
    let span = known.map_or(Ok(WATCH_MIN), |heartbeat| heartbeat.patience(ours))?;
    Ok(later(span, env))
}

fn later(span: Duration, env: &Arc<dyn Env>) -> Duration {
    let thousandths = u32::try_from(env.random_u64() % LATER_MAX).unwrap_or(0);
    span.saturating_add(span.saturating_mul(thousandths) / 1000)
}

/// Watches a pool for a list of pools, if its uberblocks state that its owner writes heartbeats. The
/// watch ends early after [`LISTED_WITHIN`], however long the owner may be silent. Changes nothing.
/// It reads the devices of the candidate, and not all the paths that were searched.
///
/// # Errors
/// [`PoolError::ActiveElsewhere`] if another host has the pool open, and [`PoolError::NoHostId`] when this host may not have
/// such a pool.
#[boxed]
pub async fn watch_for_owner(
    env: &Arc<dyn Env>,
    candidate: &Candidate,
    tuning: &Tuning,
) -> Result<(), PoolError> {
    let heartbeat = candidate.uberblock.as_ref().and_then(Heartbeat::of);
    let is_ours = label_host(candidate.pool.hostid, tuning.host.id) == LabelHost::This;
    match heartbeat.filter(|_| candidate.pool.state == PoolState::Active) {
        Some(_) if tuning.host.id == 0 => Err(PoolError::NoHostId),
        Some(heartbeat) if !is_ours => {
            let silent = later(heartbeat.silence(&tuning.heartbeats), env);
            watch(env, candidate, heartbeat, silent.min(LISTED_WITHIN), &tuning.ending).await
        }
        _ => Ok(()),
    }
}

/// Returns when the labels stayed the same for `span`.
async fn watch(
    env: &Arc<dyn Env>,
    candidate: &Candidate,
    heartbeat: Heartbeat,
    span: Duration,
    ending: &Ending,
) -> Result<(), PoolError> {
    let others = candidate.others.iter().map(|other| &other.path);
    let paths: Vec<PathBuf> = candidate.paths.values().chain(others).cloned().collect();
    let before = candidate.uberblock.map(|uberblock| uberblock.rank());
    tracing::info!(pool = candidate.pool.name, secs = span.as_secs(), "watched for a living owner");
    let pause = poll(heartbeat.interval.unwrap_or(POLL_MAX)).max(span / LOOKS_MAX);
    let until = env.now().saturating_add(span);
    while env.now() < until {
        ending.sleep(env, pause).await?;
        let found = find_pools(env, &paths).await.into_iter().find(|c| c.guid == candidate.guid);
        if found.and_then(|found| found.uberblock).map(|uberblock| uberblock.rank()) != before {
            return Err(active(candidate));
        }
    }
    Ok(())
}

/// How often labels are read of a pool whose owner writes so often.
pub(crate) fn poll(interval: Duration) -> Duration {
    interval.clamp(POLL_MIN, POLL_MAX)
}

fn active(candidate: &Candidate) -> PoolError {
    let (hostname, hostid) = (candidate.pool.hostname.clone(), candidate.pool.hostid);
    PoolError::ActiveElsewhere { hostname, hostid }
}

/// Makes sure that of several hosts which found the pool to be nobody's only one opens it: the uberblock is written where
/// heartbeats are, with a random sequence, and has to be what counts an interval later, ten times. What was there is put back,
/// so that the import may fail for another reason and be tried again.
async fn claim(env: &Arc<dyn Env>, candidate: &Candidate, ending: &Ending) -> Result<(), PoolError> {
    let Some((uberblock, mmp)) = candidate.uberblock.and_then(|newest| Some((newest, newest.mmp()?))) else {
        return Ok(());
    };
    if mmp.interval_ms.is_none() || mmp.sequence.is_none() || mmp.fail_intervals.is_none() {
        return Ok(());
    }
    let Candidate { vdev_tree, paths, gone, behind, .. } = candidate;
    let open = OpenSpec { vdev_tree, paths, gone, behind, mode: OpenMode::ReadWrite };
    let vdevs = VdevTree::open(Arc::clone(env), &open).await?;
    let claimed = insist(env, candidate, &vdevs, &uberblock, mmp, ending).await;
    if let Err(error) = vdevs.beat_everywhere(&uberblock).await {
        tracing::warn!(%error, "the claim of a pool is not taken back");
    }
    vdevs.close();
    claimed
}

async fn insist(
    env: &Arc<dyn Env>,
    candidate: &Candidate,
    vdevs: &VdevTree,
    uberblock: &UberblockPhys,
    mmp: MmpConfig,
    ending: &Ending,
) -> Result<(), PoolError> {
    if vdevs.newest().await.map(|newest| newest.uberblock) != Some(*uberblock) {
        return Err(active(candidate));
    }
    let interval = Duration::from_millis(mmp.interval_ms.unwrap_or_default().into());
    let base = mmp.sequence.filter(|&sequence| sequence < u16::MAX).unwrap_or(0);
    for _ in 0..CLAIMS {
        let room = u64::from(u16::MAX - base);
        let drawn = u16::try_from(env.random_u64() % room).unwrap_or(0);
        let mut token = *uberblock;
        let config = MmpConfig { sequence: Some(base + 1 + drawn), ..mmp };
        token.mmp_config.set(config.to_word());
        vdevs.beat_everywhere(&token).await?;
        ending.sleep(env, interval.min(CLAIM_WAIT_MAX)).await?;
        if vdevs.newest().await.map(|newest| newest.uberblock.rank()) != Some(token.rank()) {
            return Err(active(candidate));
        }
    }
    Ok(())
}

/// Labels are not read more often.
const POLL_MIN: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests;
