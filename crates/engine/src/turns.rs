//! Who may change what, when: changes of one pool are done one after another, in the order in which they
//! were asked for; those of different pools side by side.
//!
//! ```text
//!  request ─► waits for its pool's turn ─► is done, however long that takes ─► next one
//!               │ nobody waits for it any more: never done       │
//!               ▼                                                ▼
//!             (dropped)                              under_way(): for those who wait
//! ```
//! Invariants
//! - A turn is taken before anything of the request is done, and ends after all of it.
//!   (test: `a_slow_change_of_one_pool_stops_no_other`)
//! - Whoever has all turns knows that no change is under way, and none will be before he ends.

use async_lock::{Mutex as AsyncMutex, MutexGuardArc, RwLock, RwLockReadGuardArc, RwLockWriteGuardArc};
use control::UnderWay;
use env::{Env, boxed};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The turns of all pools.
pub struct Turns {
    env: Arc<dyn Env>,
    everybody: Arc<RwLock<()>>,
    lines: Mutex<BTreeMap<String, Arc<Line>>>,
}

/// Those who want to change one pool.
struct Line {
    turn: Arc<AsyncMutex<()>>,
    /// What is being done now, and since when.
    doing: Mutex<Option<(&'static str, Duration)>>,
}

/// Nobody else changes the pool while this is held.
pub struct Turn {
    line: Arc<Line>,
    _own: MutexGuardArc<()>,
    _everybody: RwLockReadGuardArc<()>,
}

impl Turns {
    /// Nobody's yet.
    pub fn new(env: Arc<dyn Env>) -> Self {
        Self { env, everybody: Arc::default(), lines: Mutex::default() }
    }

    /// Waits for a pool's turn, to do `what`. There need not be such a pool yet.
    #[boxed]
    pub async fn of(&self, pool: &str, what: &'static str) -> Turn {
        let line = self.line(pool);
        let own = line.turn.lock_arc().await;
        let everybody = self.everybody.read_arc().await;
        *line.doing.lock() = Some((what, self.env.now()));
        Turn { line, _own: own, _everybody: everybody }
    }

    /// Takes the turn of a pool to do `what`, if the turn is free.
    pub fn try_of(&self, pool: &str, what: &'static str) -> Option<Turn> {
        let line = self.line(pool);
        let own = line.turn.try_lock_arc()?;
        let everybody = self.everybody.try_read_arc()?;
        *line.doing.lock() = Some((what, self.env.now()));
        Some(Turn { line, _own: own, _everybody: everybody })
    }

    /// Waits until nothing is changed any more; nothing will be while this is held.
    #[boxed]
    pub async fn all(&self) -> RwLockWriteGuardArc<()> {
        self.everybody.write_arc().await
    }

    /// What is being done, by pool.
    pub fn under_way(&self) -> Vec<UnderWay> {
        let lines = self.lines.lock();
        let one = |(pool, line): (&String, &Arc<Line>)| {
            let (what, since) = (*line.doing.lock())?;
            let millis = u64::try_from(self.env.now().saturating_sub(since).as_millis()).unwrap_or(u64::MAX);
            Some(UnderWay { pool: pool.clone(), what: what.to_owned(), millis })
        };
        lines.iter().filter_map(one).collect()
    }

    fn line(&self, pool: &str) -> Arc<Line> {
        let mut lines = self.lines.lock();
        // Lines in which nobody stands are forgotten.
        lines.retain(|_, line| Arc::strong_count(line) > 1);
        let new = || Arc::new(Line { turn: Arc::default(), doing: Mutex::default() });
        Arc::clone(lines.entry(pool.to_owned()).or_insert_with(new))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *self.line.doing.lock() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use sim::Sim;

    #[test]
    fn changes_of_one_pool_take_turns_and_those_of_others_do_not_wait() {
        let turns = Turns::new(Sim::seed(1).env());
        let first = turns.of("a", "import").now_or_never().expect("nobody else is there");
        assert!(turns.of("a", "destroy").now_or_never().is_none());
        assert!(turns.try_of("a", "mount").is_none());
        let other = turns.of("b", "create").now_or_never().expect("another pool's turn");
        let told = turns.under_way();
        let told: Vec<_> = told.iter().map(|one| (one.pool.as_str(), one.what.as_str())).collect();
        assert_eq!(told, [("a", "import"), ("b", "create")]);
        drop(first);
        assert!(turns.try_of("a", "mount").is_some());
        assert!(turns.of("a", "destroy").now_or_never().is_some());
        drop(other);
        assert_eq!(turns.under_way(), []);
    }

    #[test]
    fn who_gives_up_waiting_leaves_the_line() {
        let turns = Turns::new(Sim::seed(1).env());
        let first = turns.of("a", "import").now_or_never().expect("nobody else is there");
        let mut second = Box::pin(turns.of("a", "set"));
        assert!((&mut second).now_or_never().is_none());
        let mut third = Box::pin(turns.of("a", "destroy"));
        assert!((&mut third).now_or_never().is_none());
        drop(second);
        drop(first);
        assert!(third.now_or_never().is_some());
    }

    #[test]
    fn all_turns_are_had_when_the_last_change_has_ended() {
        let turns = Turns::new(Sim::seed(1).env());
        let first = turns.of("a", "import").now_or_never().expect("nobody else is there");
        let mut all = Box::pin(turns.all());
        assert!((&mut all).now_or_never().is_none());
        drop(first);
        let all = all.now_or_never().expect("nothing is under way");
        assert!(turns.of("b", "create").now_or_never().is_none());
        drop(all);
        assert!(turns.of("b", "create").now_or_never().is_some());
    }
}
