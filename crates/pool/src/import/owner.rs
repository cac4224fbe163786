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

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use env::{Env, OpenMode};
use ondisk::{MmpConfig, UberblockPhys};
use units::{Guid, Txg};
use vdev::{Candidate, OpenSpec, PoolState, VdevTree};

use crate::import::{ImportSpec, find_pools};
use crate::multihost::Heartbeats;
use crate::{Pool, PoolError, Tuning};

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

/// Why a pool that this host had open is not opened again.
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
            watch(env, candidate, &spec.paths, heartbeat, tuning).await?;
            claim(env, candidate).await
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
/// Two hosts that begin at the same time end at different ones: up to so many thousandths later.
const LATER_MAX: u64 = 250;
/// How often a claim is written and looked for again.
const CLAIMS: u32 = 10;
/// Each is given so long to be seen by others at most.
const CLAIM_WAIT_MAX: Duration = Duration::from_secs(60);
/// An owner that stops after so many intervals is watched twice as long.
const SAFETY_FACTOR: u32 = 2;
/// A label can make nobody wait longer.
const WATCH_MAX: Duration = Duration::from_secs(600);

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
    fn patience(self, ours: &Heartbeats) -> Duration {
        let count = ours.import_intervals.max(1);
        let span = match (self.interval, self.fail_intervals) {
            (Some(interval), stops @ 1..) => interval.saturating_mul(stops).saturating_mul(SAFETY_FACTOR),
            (theirs, _) => {
                let interval = theirs.unwrap_or(ours.interval());
                let seen = interval.saturating_add(self.delay).saturating_mul(count);
                seen.max(ours.interval().saturating_mul(count)).max(WATCH_MIN)
            }
        };
        span.min(WATCH_MAX)
    }
}

/// How long to watch for the owner that wrote this uberblock, with a random part.
pub(crate) fn patience(uberblock: &UberblockPhys, ours: &Heartbeats, env: &Arc<dyn Env>) -> Duration {
    let known = Heartbeat::of(uberblock);
    let span = known.map_or(WATCH_MIN, |heartbeat| heartbeat.patience(ours));
    later(span, env)
}

fn later(span: Duration, env: &Arc<dyn Env>) -> Duration {
    let thousandths = u32::try_from(env.random_u64() % LATER_MAX).unwrap_or(0);
    span.saturating_add(span.saturating_mul(thousandths) / 1000)
}

/// Whether somebody else has a pool open: says so after watching it for as long as a living owner may take to show itself, if
/// its uberblocks tell that it does. Changes nothing.
///
/// # Errors
/// [`PoolError::ActiveElsewhere`] if so, and [`PoolError::NoHostId`] when this host may not have such a pool.
pub async fn watch_for_owner(
    env: &Arc<dyn Env>,
    candidate: &Candidate,
    paths: &[PathBuf],
    tuning: &Tuning,
) -> Result<(), PoolError> {
    let heartbeat = candidate.uberblock.as_ref().and_then(Heartbeat::of);
    let is_ours = label_host(candidate.pool.hostid, tuning.host.id) == LabelHost::This;
    match heartbeat.filter(|_| candidate.pool.state == PoolState::Active) {
        Some(_) if tuning.host.id == 0 => Err(PoolError::NoHostId),
        Some(heartbeat) if !is_ours => watch(env, candidate, paths, heartbeat, tuning).await,
        _ => Ok(()),
    }
}

/// Returns when the labels stayed the same for as long as a living owner may take.
async fn watch(
    env: &Arc<dyn Env>,
    candidate: &Candidate,
    paths: &[PathBuf],
    heartbeat: Heartbeat,
    tuning: &Tuning,
) -> Result<(), PoolError> {
    let before = candidate.uberblock.map(|uberblock| uberblock.rank());
    let patience = later(heartbeat.patience(&tuning.heartbeats), env);
    tracing::info!(pool = candidate.pool.name, secs = patience.as_secs(), "watched for a living owner");
    let until = env.now().saturating_add(patience);
    while env.now() < until {
        env.sleep(poll(heartbeat.interval.unwrap_or(POLL_MAX))).await;
        let found = find_pools(env, paths).await.into_iter().find(|c| c.guid == candidate.guid);
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
async fn claim(env: &Arc<dyn Env>, candidate: &Candidate) -> Result<(), PoolError> {
    let Some((uberblock, mmp)) = candidate.uberblock.and_then(|newest| Some((newest, newest.mmp()?))) else {
        return Ok(());
    };
    let (Some(interval_ms), Some(_), Some(_)) = (mmp.interval_ms, mmp.sequence, mmp.fail_intervals) else {
        return Ok(());
    };
    let Candidate { vdev_tree, paths, gone, behind, .. } = candidate;
    let open = OpenSpec { vdev_tree, paths, gone, behind, mode: OpenMode::ReadWrite };
    let vdevs = VdevTree::open(Arc::clone(env), &open).await?;
    let wait = Duration::from_millis(interval_ms.into()).min(CLAIM_WAIT_MAX);
    let claimed = insist(env, candidate, &vdevs, &uberblock, mmp, wait).await;
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
    wait: Duration,
) -> Result<(), PoolError> {
    if vdevs.newest().await.map(|newest| newest.uberblock) != Some(*uberblock) {
        return Err(active(candidate));
    }
    let base = mmp.sequence.filter(|&sequence| sequence < u16::MAX).unwrap_or(0);
    for _ in 0..CLAIMS {
        let room = u64::from(u16::MAX - base);
        let drawn = u16::try_from(env.random_u64() % room).unwrap_or(0);
        let mut token = *uberblock;
        let config = MmpConfig { sequence: Some(base + 1 + drawn), ..mmp };
        token.mmp_config.set(config.to_word());
        vdevs.beat_everywhere(&token).await?;
        env.sleep(wait).await;
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
