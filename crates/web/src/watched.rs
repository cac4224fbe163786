//! What is known of all pools: what is, and what was lately. It is made of looks, one a second while the page is shown, however
//! many look at the page.

use crate::compare::Comparison;
use crate::history::{History, Mark, Users};
use crate::tick::Tick;
use crate::tree::Tree;
use advise::{Advice, Measured, Rating};
use control::DaemonStatus;
use live::Look;
use metrics::{Looked, PoolLook};
use serde::Serialize;
use std::collections::BTreeMap;

/// What is known of the daemon and its pools.
#[derive(Debug, Default)]
pub struct Watched {
    daemon: DaemonStatus,
    at_millis: u64,
    /// By guid: a name may be another pool's tomorrow.
    pools: BTreeMap<u64, History>,
    last: Vec<PoolLook>,
}

/// What is.
#[derive(Debug, Serialize)]
pub(crate) struct Now {
    /// The daemon's process: in another one, ticks count from the beginning.
    run: u32,
    at_millis: u64,
    version: String,
    uptime_seconds: u64,
    /// Pools that could not be opened again, and why.
    missing: Vec<(String, Vec<String>)>,
    pools: Vec<Tree>,
}

/// What was lately.
#[derive(Debug, Serialize)]
pub(crate) struct Lately<'a> {
    run: u32,
    /// The number of the next tick: lower than one that was told of once the pool was closed and opened.
    next: u64,
    ticks: Vec<&'a Tick>,
    marks: Vec<&'a Mark>,
    comparison: Option<Comparison>,
    users: &'a Users,
}

impl Watched {
    /// Another look, at a moment in milliseconds since 1970. Pools that are gone are forgotten.
    pub fn look(&mut self, looked: Looked, at_millis: u64) {
        let Looked { daemon, pools, .. } = looked;
        let is_open = |guid: &u64| pools.iter().any(|look| look.pool.guid == *guid);
        self.pools.retain(|guid, _| is_open(guid));
        for PoolLook { pool, logs, users } in &pools {
            let Some(facts) = logs.clone() else { continue };
            let look = Look { pool: pool.clone(), facts, users: users.clone() };
            self.pools.entry(pool.guid).or_default().look(look, at_millis);
        }
        (self.daemon, self.at_millis, self.last) = (daemon, at_millis, pools);
    }

    pub(crate) fn now(&self) -> Now {
        Now {
            run: self.daemon.pid,
            at_millis: self.at_millis,
            version: self.daemon.version.clone(),
            uptime_seconds: self.daemon.uptime_secs,
            missing: self.daemon.failed.clone(),
            pools: self.last.iter().map(|look| Tree::of(&look.pool)).collect(),
        }
    }

    /// The ticks of a pool from a number on.
    pub(crate) fn lately(&self, pool: &str, from: u64) -> Option<Lately<'_>> {
        let history = self.history(pool)?;
        Some(Lately {
            run: self.daemon.pid,
            next: history.next(),
            ticks: history.ticks_from(from).collect(),
            marks: history.marks().collect(),
            comparison: Comparison::of(history),
            users: history.users(),
        })
    }

    /// What follows from all that a pool's logs did since it was opened, for devices that are rated so.
    pub(crate) fn advice(&self, pool: &str, rating: Option<Rating>) -> Option<Advice> {
        let look = self.history(pool)?.last()?;
        Some(Advice::of(&Measured::since_import(look.facts.clone()), rating))
    }

    fn history(&self, pool: &str) -> Option<&History> {
        let found = self.last.iter().find(|look| look.pool.name == pool)?;
        self.pools.get(&found.pool.guid)
    }
}

#[cfg(test)]
mod tests;
