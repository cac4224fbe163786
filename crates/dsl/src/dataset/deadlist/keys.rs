//! Keys of deadlists in memory: a head with ten thousand snapshots has as many, and each change of one of them would read
//! them all.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use units::ObjectId;

/// Keys kept for all deadlists together; beyond that all are forgotten.
const KEPT_MAX: usize = 1 << 20;

/// Keys of a deadlist and their lists, by key.
pub(crate) type Keys = Arc<Vec<(u64, ObjectId)>>;

/// The keys of the deadlists that were read, up to date with the newest change.
///
/// A sync changes the keys of a list first on disk and then here. Concurrent readers read the keys
/// of an unknown list from disk. Such keys are kept only if no keys were changed here during the
/// read ([`Self::put_read`]). (test: `keys_that_were_read_beside_a_change_are_not_kept`)
#[derive(Default)]
pub(crate) struct KnownKeys(Mutex<KnownState>);

#[derive(Default)]
struct KnownState {
    of: BTreeMap<ObjectId, Keys>,
    /// The number of changes so far.
    changes: u64,
}

impl KnownState {
    fn insert(&mut self, deadlist: ObjectId, keys: Vec<(u64, ObjectId)>) -> Keys {
        if self.of.values().map(|keys| keys.len()).sum::<usize>() + keys.len() > KEPT_MAX {
            self.of.clear();
        }
        let keys = Arc::new(keys);
        self.of.insert(deadlist, Arc::clone(&keys));
        keys
    }
}

/// The number of changes before the keys of a deadlist are read from disk.
#[derive(Clone, Copy)]
pub(crate) struct BeforeRead(u64);

impl KnownKeys {
    pub fn get(&self, deadlist: ObjectId) -> Result<Keys, BeforeRead> {
        let known = self.0.lock();
        known.of.get(&deadlist).cloned().ok_or(BeforeRead(known.changes))
    }

    /// Keeps the keys of a deadlist that were read from disk, unless something was changed since
    /// `before`.
    pub fn put_read(&self, before: BeforeRead, deadlist: ObjectId, keys: Vec<(u64, ObjectId)>) -> Keys {
        let mut known = self.0.lock();
        if known.changes == before.0 { known.insert(deadlist, keys) } else { Arc::new(keys) }
    }

    /// Sets the keys of a new deadlist.
    pub fn put(&self, deadlist: ObjectId, keys: Vec<(u64, ObjectId)>) {
        let mut known = self.0.lock();
        known.changes += 1;
        known.insert(deadlist, keys);
    }

    /// A key has this list.
    pub fn set(&self, deadlist: ObjectId, key: u64, list: ObjectId) {
        self.change(deadlist, |keys| match keys.binary_search_by_key(&key, |(key, _)| *key) {
            Ok(at) => keys[at].1 = list,
            Err(at) => keys.insert(at, (key, list)),
        });
    }

    /// A key is gone.
    pub fn remove(&self, deadlist: ObjectId, key: u64) {
        self.change(deadlist, |keys| {
            if let Ok(at) = keys.binary_search_by_key(&key, |(key, _)| *key) {
                keys.remove(at);
            }
        });
    }

    /// A deadlist is gone: its number may be another object's.
    pub fn forget(&self, deadlist: ObjectId) {
        let mut known = self.0.lock();
        known.changes += 1;
        known.of.remove(&deadlist);
    }

    fn change(&self, deadlist: ObjectId, edit: impl FnOnce(&mut Vec<(u64, ObjectId)>)) {
        let mut known = self.0.lock();
        known.changes += 1;
        if let Some(keys) = known.of.get_mut(&deadlist) {
            edit(Arc::make_mut(keys));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_were_read_beside_a_change_are_not_kept() {
        let known = KnownKeys::default();
        let (list, key) = (ObjectId::new(7), |object| vec![(0_u64, ObjectId::new(object))]);
        let before = known.get(list).map(drop).expect_err("nothing is known yet");
        known.set(list, 0, ObjectId::new(2));
        assert_eq!(*known.put_read(before, list, key(1)), key(1), "the reader has what was read");
        let before = known.get(list).map(drop).expect_err("what may be old is not kept");
        known.put_read(before, list, key(2));
        assert_eq!(known.get(list).map(|keys| keys.to_vec()).ok(), Some(key(2)));

        known.forget(list);
        let before = known.get(list).map(drop).expect_err("it is forgotten");
        known.forget(list);
        known.put_read(before, list, key(2));
        assert!(known.get(list).is_err(), "what was dropped is not put back");
    }
}
