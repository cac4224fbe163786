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
//! labels are watched for some time. *Leave*: the daemon had the pool open when it went down, but
//! somebody else had it since, so that the daemon does not open it without being asked.
//! A pool that is opened for reading only is not changed by this host, and so it is always opened.

use std::sync::Arc;
use std::time::Duration;

use env::Env;
use ondisk::UberblockPhys;
use units::Txg;
use vdev::{Candidate, PoolState};

use crate::import::{ImportSpec, find_pools};
use crate::{Pool, PoolError, Tuning};

/// A pool that this host had open when it went down, as it was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// The host's number at that time.
    pub hostid: u64,
    /// A txg that was stable already.
    pub txg: Txg,
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
        Left { hostid: self.tuning.host.id, txg: self.gate.synced_txg() }
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
    let this = spec.left.map_or(tuning.host.id, |left| left.hostid);
    let asked = match spec.left {
        Some(left) => Asked::AtRestart { is_older: uberblock.is_none_or(|newest| newest.txg() < left.txg) },
        None if spec.force => Asked::Forced,
        None => Asked::OnCommand,
    };
    let heartbeat = uberblock.and_then(Heartbeat::of);
    let host = label_host(candidate.pool.hostid, this);
    match (decide(candidate.pool.state, host, heartbeat.is_some(), asked), heartbeat) {
        (Decision::Open, _) | (Decision::Watch, None) => Ok(()),
        (Decision::Watch, Some(heartbeat)) => watch(env, candidate, spec, heartbeat).await,
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
    /// The settings' interval.
    interval: Duration,
    /// What the owner needed in fact between two.
    delay: Duration,
    /// After so many that failed the owner stops writing; 0 when it never does.
    fail_intervals: u32,
}

/// OpenZFS's `zfs_multihost_interval` and `zfs_multihost_import_intervals`, for owners that tell neither.
const INTERVAL_DEFAULT: Duration = Duration::from_secs(1);
const INTERVALS_WATCHED: u32 = 20;
/// An owner that stops after so many intervals is watched twice as long.
const SAFETY_FACTOR: u32 = 2;
/// A label can make nobody wait longer.
const WATCH_MAX: Duration = Duration::from_secs(600);

impl Heartbeat {
    /// That of the uberblock's writer, if `multihost` was on for it.
    fn of(uberblock: &UberblockPhys) -> Option<Self> {
        let mmp = uberblock.mmp()?;
        let delay = Duration::from_nanos(uberblock.mmp_delay.get());
        let interval = mmp.interval_ms.map_or(INTERVAL_DEFAULT, |ms| Duration::from_millis(ms.into()));
        let fail_intervals = mmp.fail_intervals.unwrap_or(0).into();
        (!delay.is_zero()).then_some(Self { interval, delay, fail_intervals })
    }

    /// How long a living owner may take to show itself.
    fn patience(self) -> Duration {
        let span = match self.fail_intervals {
            0 => self
                .interval
                .max(INTERVAL_DEFAULT)
                .saturating_add(self.delay)
                .saturating_mul(INTERVALS_WATCHED),
            count => self.interval.saturating_mul(count).saturating_mul(SAFETY_FACTOR),
        };
        span.min(WATCH_MAX)
    }
}

/// Returns when the labels stayed the same for as long as a living owner may take.
async fn watch(
    env: &Arc<dyn Env>,
    candidate: &Candidate,
    spec: &ImportSpec,
    heartbeat: Heartbeat,
) -> Result<(), PoolError> {
    let before = candidate.uberblock.map(|uberblock| uberblock.rank());
    let patience = heartbeat.patience();
    tracing::info!(pool = candidate.pool.name, secs = patience.as_secs(), "watched for a living owner");
    let until = env.now().saturating_add(patience);
    while env.now() < until {
        env.sleep(heartbeat.interval.clamp(POLL_MIN, INTERVAL_DEFAULT)).await;
        let found = find_pools(env, &spec.paths).await.into_iter().find(|c| c.guid == candidate.guid);
        if found.and_then(|found| found.uberblock).map(|uberblock| uberblock.rank()) != before {
            let (hostname, hostid) = (candidate.pool.hostname.clone(), candidate.pool.hostid);
            return Err(PoolError::ActiveElsewhere { hostname, hostid });
        }
    }
    Ok(())
}

/// Labels are not read more often.
const POLL_MIN: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests;
