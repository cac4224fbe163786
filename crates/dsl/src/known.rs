//! Dirs and datasets in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use units::ObjectId;

use crate::dataset::Dataset;
use crate::dir::Dir;

/// The loaded dirs and datasets. Each is loaded once, so that there is one copy of its figures.
#[derive(Default)]
pub(crate) struct KnownDatasets {
    pub dirs: KnownOnes<Dir>,
    pub datasets: KnownOnes<Dataset>,
}

/// The loaded objects of one kind, by object number.
///
/// Readers load objects while a sync runs. An object that a reader has loaded is kept only if no
/// object was forgotten during the load. Otherwise an object that the sync has destroyed could
/// become known again. (test: `what_was_loaded_beside_a_destroy_is_not_kept`)
pub(crate) struct KnownOnes<T>(Mutex<(BTreeMap<ObjectId, Arc<T>>, u64)>);

impl<T> Default for KnownOnes<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> KnownOnes<T> {
    pub fn get(&self, object: ObjectId) -> Option<Arc<T>> {
        self.0.lock().0.get(&object).cloned()
    }

    /// Returns how many objects were forgotten so far.
    pub fn forgotten(&self) -> u64 {
        self.0.lock().1
    }

    /// Keeps a loaded object and returns it. If another reader has loaded the object before,
    /// returns that copy. Returns `None` if an object was forgotten since the caller read
    /// `forgotten`.
    pub fn keep(&self, object: ObjectId, loaded: T, forgotten: u64) -> Option<Arc<T>> {
        let mut known = self.0.lock();
        let is_sound = known.1 == forgotten;
        is_sound.then(|| Arc::clone(known.0.entry(object).or_insert_with(|| Arc::new(loaded))))
    }

    pub fn forget(&self, object: ObjectId) {
        let mut known = self.0.lock();
        known.0.remove(&object);
        known.1 += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_loaded_beside_a_destroy_is_not_kept() {
        let known: KnownOnes<&str> = KnownOnes::default();
        let (object, other) = (ObjectId::new(7), ObjectId::new(8));
        let before = known.forgotten();
        assert_eq!(known.keep(object, "first", before).as_deref(), Some(&"first"));
        assert_eq!(known.keep(object, "second", before).as_deref(), Some(&"first"), "there is one copy");

        let before = known.forgotten();
        known.forget(object);
        assert_eq!(known.keep(object, "destroyed", before), None);
        assert_eq!(known.keep(other, "may be as old", before), None);
        assert!(known.get(object).is_none() && known.get(other).is_none());
        assert!(known.keep(object, "new", known.forgotten()).is_some());
    }
}
