//! `zpool wait`, and how the other commands wait.

use super::pools::{all, find};
use super::sweep;
use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, Stop, usage};
use control::{ErrorScrubInfo, PoolInfo, ScanFunction, ScanState, VdevInfo, VdevKind};
use engine::props::{Prop, Value};
use std::time::Duration;

/// So often the daemon is asked.
const LOOK_EVERY: Duration = Duration::from_millis(200);

pub const COMMAND: Command = Command::new(
    Spec {
        name: "wait",
        alias: None,
        about: "waits until work in the background of a pool has ended",
        flags: &[Flag::value('t', "activity[,activity]...", "this work only; all kinds otherwise")],
        operands: "<pool>",
    },
    run,
);

/// Work in the background of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// What was kept for a checkpoint is freed.
    Discard,
    /// Blocks of what was destroyed are freed.
    Free,
    /// Devices are written a pattern where they have nothing.
    Initialize,
    /// What is on a vdev is copied to others.
    Remove,
    /// A device takes the place of another.
    Replace,
    /// A device is brought up to date.
    Resilver,
    /// Everything is read.
    Scrub,
    /// Devices forget what they have free.
    Trim,
    /// What OpenZFS does besides, and is never under way here.
    Absent,
}

impl Activity {
    /// Every name that OpenZFS has.
    const NAMES: [(&str, Self); 10] = [
        ("discard", Self::Discard),
        ("free", Self::Free),
        ("initialize", Self::Initialize),
        ("replace", Self::Replace),
        ("remove", Self::Remove),
        ("resilver", Self::Resilver),
        ("scrub", Self::Scrub),
        ("trim", Self::Trim),
        ("raidz_expand", Self::Absent),
        ("condense", Self::Absent),
    ];

    fn parse(word: &str) -> Result<Self, Stop> {
        match Self::NAMES.iter().find(|(name, _)| *name == word) {
            Some((_, activity)) => Ok(*activity),
            None => usage(format!("invalid activity '{word}'")),
        }
    }

    /// Under way; a paused scrub is not.
    fn is_under_way(self, pool: &PoolInfo) -> bool {
        let scans = |function| {
            let scan = pool.scan.filter(|scan| scan.function == function && scan.paused_secs.is_none());
            scan.is_some_and(|scan| scan.is_under_way())
        };
        match self {
            Self::Discard => pool.checkpoint.is_some_and(|checkpoint| checkpoint.is_discarding),
            // Where it is not known, waiting would have no end.
            Self::Free => matches!(pool.props.get("freeing"), Some(Prop { value: Value::Number(1..), .. })),
            Self::Initialize => sweep::is_initializing(pool),
            Self::Remove => {
                pool.is_releasing || pool.removal.is_some_and(|removal| removal.state == ScanState::Scanning)
            }
            // Whoever waited may want to use the old device for something else at once.
            Self::Replace => pool.is_releasing || pool.root.walk().any(is_being_replaced),
            Self::Resilver => scans(ScanFunction::Resilver),
            Self::Scrub => {
                let is_running = |scrub: ErrorScrubInfo| scrub.is_under_way() && scrub.paused_secs.is_none();
                scans(ScanFunction::Scrub) || pool.error_scrub.is_some_and(is_running)
            }
            Self::Trim => sweep::is_trimming(pool),
            Self::Absent => false,
        }
    }
}

/// A spare that stands in for a device, and has all that the device had, is at its goal.
fn is_being_replaced(vdev: &VdevInfo) -> bool {
    vdev.kind == VdevKind::Replacing
}

fn run(session: &mut Session, args: &Args) -> Outcome {
    let activities = match args.value('t') {
        Some(words) => words.split(',').map(Activity::parse).collect::<Result<Vec<_>, _>>()?,
        None => Activity::NAMES.map(|(_, activity)| activity).to_vec(),
    };
    let name = match args.operands.as_slice() {
        [] => return usage("missing 'pool' argument"),
        [name] => name,
        _ => return usage("too many arguments"),
    };
    let pool = find(session, name)?;
    wait(session, &[pool], &activities)?;
    Ok(0)
}

/// Until nothing of this is under way in these pools; one that is gone does not count.
pub fn wait(session: &Session, pools: &[PoolInfo], activities: &[Activity]) -> Result<(), Stop> {
    let is_busy = |pool: &PoolInfo| {
        pools.iter().any(|waited| waited.guid == pool.guid)
            && activities.iter().any(|activity| activity.is_under_way(pool))
    };
    wait_while(session, &is_busy)
}

/// Until this is so of no pool.
pub fn wait_while(session: &Session, is_busy: &dyn Fn(&PoolInfo) -> bool) -> Result<(), Stop> {
    while all(session)?.iter().any(is_busy) {
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::testing::p1;
    use engine::props::Source;

    #[test]
    fn freeing_is_waited_for_while_something_is_left_that_is_known() {
        let under_way = |value| {
            let mut pool = p1();
            pool.props.insert("freeing".to_owned(), Prop { value, source: Source::None });
            Activity::Free.is_under_way(&pool)
        };
        assert!(under_way(Value::Number(1)));
        assert!(!under_way(Value::Number(0)) && !under_way(Value::Absent));
    }
}
