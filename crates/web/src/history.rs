//! What a pool did lately.

use crate::tick::Tick;
use control::{NameStyle, PoolInfo, VdevClass, VdevInfo, vdev_name};
use live::{DatasetUse, Interval, Look, ProcessUse};
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};

/// Ticks that are kept: a quarter of an hour.
pub const TICKS: usize = 900;
/// Marks that are kept.
const MARKS: usize = 32;
/// Datasets that are told of, and programs.
const USERS_MAX: usize = 8;

/// Something happened to the logs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Mark {
    /// The first tick after it.
    pub(crate) number: u64,
    /// When it was seen, in milliseconds since 1970.
    pub(crate) at_millis: u64,
    pub(crate) what: Happened,
    /// Which log vdev.
    pub(crate) name: String,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Happened {
    /// A log was added.
    Added,
    /// A log was removed.
    Removed,
    /// A log stopped working.
    Failed,
    /// It works again.
    Recovered,
}

/// Who used the logs between the last two looks, those who did so most first.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Users {
    datasets: Vec<DatasetUse>,
    processes: Vec<ProcessUse>,
}

impl Users {
    fn of(interval: Interval) -> Self {
        let Interval { mut datasets, mut processes, .. } = interval;
        datasets.truncate(USERS_MAX);
        processes.truncate(USERS_MAX);
        Self { datasets, processes }
    }
}

/// A log vdev: what it is called, and whether it works.
type Logs = BTreeMap<u64, (String, bool)>;

/// The last ticks of a pool, and what happened to its logs.
#[derive(Debug, Default)]
pub(crate) struct History {
    ticks: VecDeque<Tick>,
    marks: VecDeque<Mark>,
    last: Option<Look>,
    logs: Logs,
    users: Users,
    next: u64,
}

impl History {
    /// Another look. A pool that was opened anew goes on after a gap.
    pub(crate) fn look(&mut self, look: Look, at_millis: u64) {
        let between = |last: &Look| {
            let interval = Interval::between(last, &look, None)?;
            Some((Tick::of(&interval, last, &look, self.next, at_millis)?, Users::of(interval)))
        };
        let now = self.last.as_ref().and_then(between);
        let logs = logs(&look.pool);
        if self.last.is_some() {
            self.mark(&logs, at_millis);
        }
        if let Some((tick, users)) = now {
            self.users = users;
            self.next += 1;
            self.ticks.push_back(tick);
            self.ticks.drain(..self.ticks.len().saturating_sub(TICKS));
        }
        self.logs = logs;
        self.last = Some(look);
    }

    fn mark(&mut self, now: &Logs, at_millis: u64) {
        let came = now.iter().filter_map(|(guid, (name, works))| match self.logs.get(guid) {
            None => Some((Happened::Added, name)),
            Some((_, true)) if !works => Some((Happened::Failed, name)),
            Some((_, false)) if *works => Some((Happened::Recovered, name)),
            Some(_) => None,
        });
        let went = self.logs.iter().filter(|(guid, _)| !now.contains_key(guid));
        let all = came.chain(went.map(|(_, (name, _))| (Happened::Removed, name)));
        let number = self.next;
        let news: Vec<Mark> =
            all.map(|(what, name)| Mark { number, at_millis, what, name: name.clone() }).collect();
        self.marks.extend(news);
        self.marks.drain(..self.marks.len().saturating_sub(MARKS));
    }

    /// The last look.
    pub(crate) fn last(&self) -> Option<&Look> {
        self.last.as_ref()
    }

    /// Who used the logs between the last two looks.
    pub(crate) fn users(&self) -> &Users {
        &self.users
    }

    /// The number of the next tick.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Those that are kept from a number on, oldest first.
    pub(crate) fn ticks_from(&self, number: u64) -> impl Iterator<Item = &Tick> {
        self.ticks.iter().filter(move |tick| tick.number >= number)
    }

    /// What happened since the oldest tick that is kept.
    pub(crate) fn marks(&self) -> impl DoubleEndedIterator<Item = &Mark> {
        let first = self.ticks.front().map_or(0, |tick| tick.number);
        self.marks.iter().filter(move |mark| mark.number >= first)
    }
}

/// The log vdevs of a pool, by guid.
fn logs(pool: &PoolInfo) -> Logs {
    let works = |vdev: &VdevInfo| vdev.state.is_readable();
    let each = pool.tops(VdevClass::Log);
    each.map(|vdev| (vdev.guid, (vdev_name(vdev, NameStyle::default()), works(vdev)))).collect()
}
