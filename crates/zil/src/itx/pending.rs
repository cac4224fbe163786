//! Records that nobody has asked for yet.
//!
//! Each txg that has not synced keeps two kinds: those of the namespace, which any commit takes,
//! and those of single objects, which only a commit of that object takes. A number drawn at
//! `assign` keeps their order: what is taken leaves in that order, whatever list it lay in, so
//! that a file's data follow its creation.
//!
//! Invariants
//! - Taken records are in the order of their assignment
//!   (test: `records_leave_in_the_order_they_came`).
//! - A commit of one object takes no other object's records
//!   (test: `a_commit_takes_the_namespace_and_its_own_object_only`), unless that was renamed since
//!   (test: `a_rename_takes_the_content_of_its_file_along`).

use std::collections::BTreeMap;

use units::{ObjectId, TXG_SLOTS, Txg};

use crate::itx::{Itx, Record, Scope};

/// A record with its place in the order of assignment.
#[derive(Debug)]
pub struct Entry {
    /// Drawn at `assign`, ascending.
    pub number: u64,
    /// The txg that will make the operation stable anyway.
    pub txg: Txg,
    /// Whose commit takes it.
    pub scope: Scope,
    /// What to write.
    pub record: Record,
}

#[derive(Debug, Default)]
struct Slot {
    txg: Txg,
    namespace: Vec<Entry>,
    objects: BTreeMap<ObjectId, Vec<Entry>>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Pending {
    slots: [Slot; TXG_SLOTS],
    next_number: u64,
}

impl Pending {
    /// Keeps `itx` until it is taken or `txg` has synced.
    ///
    /// # Panics
    /// When the slot of `txg` belongs to a younger txg: the caller did not hold `txg` open.
    pub fn assign(&mut self, txg: Txg, itx: Itx) {
        if let Scope::NamespaceWith(object) = itx.scope {
            self.bind_to_namespace(object);
        }
        let slot = &mut self.slots[txg.slot()];
        if slot.txg != txg {
            assert!(slot.txg < txg, "a record of txg {txg}, but txg {} has come", slot.txg);
            // A txg that long ago has synced, whether `clean` has come by or not.
            *slot = Slot { txg, ..Slot::default() };
        }
        let entry = Entry { number: self.next_number, txg, scope: itx.scope, record: itx.record };
        self.next_number += 1;
        match itx.scope {
            Scope::Namespace | Scope::NamespaceWith(_) => slot.namespace.push(entry),
            Scope::Object(object) => slot.objects.entry(object).or_default().push(entry),
        }
    }

    /// From now on any commit takes what `object` has to log so far.
    fn bind_to_namespace(&mut self, object: ObjectId) {
        for slot in &mut self.slots {
            if let Some(mut own) = slot.objects.remove(&object) {
                slot.namespace.append(&mut own);
            }
        }
    }

    /// Takes the namespace's records and those of `object`, or of all objects when `None`.
    pub fn take(&mut self, object: Option<ObjectId>) -> Vec<Entry> {
        let mut taken = Vec::new();
        for slot in &mut self.slots {
            taken.append(&mut slot.namespace);
            match object {
                Some(object) => {
                    if let Some(mut own) = slot.objects.remove(&object) {
                        taken.append(&mut own);
                    }
                }
                None => taken.extend(std::mem::take(&mut slot.objects).into_values().flatten()),
            }
        }
        if !taken.is_sorted_by_key(|entry| entry.number) {
            taken.sort_unstable_by_key(|entry| entry.number);
        }
        taken
    }

    /// Forgets what only commits of `object` would take: it has been removed for good.
    pub fn forget(&mut self, object: ObjectId) {
        for slot in &mut self.slots {
            slot.objects.remove(&object);
        }
    }

    /// Gives up everything of txgs up to `synced`; the caller drops it, best without a lock.
    #[must_use]
    pub fn clean(&mut self, synced: Txg) -> impl Sized + use<> {
        let old = self.slots.each_mut().map(|slot| {
            let is_stable = slot.txg <= synced;
            is_stable.then(|| std::mem::replace(slot, Slot { txg: slot.txg, ..Slot::default() }))
        });
        old.into_iter().flatten().collect::<Vec<_>>()
    }

    /// Gives back the memory of what is empty.
    pub fn let_go_of_room(&mut self) {
        for slot in &mut self.slots {
            slot.namespace.shrink_to_fit();
            if slot.objects.is_empty() {
                slot.objects = BTreeMap::new();
            }
        }
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.slots.iter().all(|slot| slot.namespace.is_empty() && slot.objects.is_empty())
    }
}

#[cfg(test)]
mod tests;
