//! Commands of other users that the history of a pool may be told of: each once, after what it does was done. Otherwise
//! anybody could write into it what he likes. (test: `what_was_delegated_is_done_for_a_user_and_nothing_else`)

use parking_lot::Mutex;
use std::collections::BTreeSet;

/// Who has changed which pool, and was not heard of it yet.
#[derive(Default)]
pub struct Notable(Mutex<BTreeSet<(u32, String)>>);

impl Notable {
    /// A user has changed a pool.
    pub fn add(&self, uid: u32, pool: &str) {
        self.0.lock().insert((uid, pool.to_owned()));
    }

    /// Whether he has, since he was last heard of it.
    pub fn take(&self, uid: u32, pool: &str) -> bool {
        self.0.lock().remove(&(uid, pool.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_changed_a_pool_is_heard_of_it_once() {
        let notable = Notable::default();
        assert!(!notable.take(1, "tank"), "he has changed nothing");
        notable.add(1, "tank");
        assert!(!notable.take(2, "tank") && !notable.take(1, "other"));
        assert!(notable.take(1, "tank"));
        assert!(!notable.take(1, "tank"));
    }
}
