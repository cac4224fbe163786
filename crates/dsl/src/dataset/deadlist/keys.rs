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

/// Keys of the deadlists that were looked at, as of the newest change.
#[derive(Default)]
pub(crate) struct KnownKeys(Mutex<BTreeMap<ObjectId, Keys>>);

impl KnownKeys {
    pub fn get(&self, deadlist: ObjectId) -> Option<Keys> {
        self.0.lock().get(&deadlist).cloned()
    }

    /// From now on a deadlist's keys are known.
    pub fn put(&self, deadlist: ObjectId, keys: Vec<(u64, ObjectId)>) -> Keys {
        let mut known = self.0.lock();
        if known.values().map(|keys| keys.len()).sum::<usize>() + keys.len() > KEPT_MAX {
            known.clear();
        }
        let keys = Arc::new(keys);
        known.insert(deadlist, Arc::clone(&keys));
        keys
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
        self.0.lock().remove(&deadlist);
    }

    fn change(&self, deadlist: ObjectId, edit: impl FnOnce(&mut Vec<(u64, ObjectId)>)) {
        if let Some(keys) = self.0.lock().get_mut(&deadlist) {
            edit(Arc::make_mut(keys));
        }
    }
}
