//! The inodes of a mount that the kernel remembers, with the generation that the kernel knows of
//! each. After an exchange of the file system, an inode is stale if its object is gone or has
//! another generation.
//!
//! ```text
//!           replied               exchanged             requested, same generation
//!  (unknown) ────► known, checked ────────► not checked ───────────────► known, checked ◄─┐
//!      ▲                │                        │ another generation, or none            │ replied
//!      └── forgotten ───┘                        └──────────────────────► stale ──────────┘
//! ```
//! Requests name an inode only by its number. The kernel distinguishes files with the same number
//! by their generations. When a reply has another generation, the kernel gives up its old inode,
//! and the handles on that inode return EIO. A handle that is older than the exchange in which its
//! inode became stale is recognised by the epoch in its number.
//!
//! The kernel can ask for the attributes of an inode whose object was freed, because descriptors of
//! `O_PATH` and working directories do not keep an object open. So the last attributes of an object are kept
//! until the kernel forgets its inode.
//!
//! Invariants
//! - No request reaches an object that has the same number as the intended object but is another
//!   object.
//!   (test: `an_inode_of_an_object_that_went_is_stale`)

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use zpl::{Attributes, FileKind};

const SHARDS: usize = 32;

/// See the module.
#[derive(Default)]
pub(crate) struct KnownInodes {
    /// The number of exchanges so far.
    epoch: AtomicU32,
    shards: [Mutex<Shard>; SHARDS],
}

#[derive(Default)]
struct Shard {
    known: HashMap<u64, KnownInode>,
    /// The last attributes of objects that were freed and whose inodes the kernel remembers.
    freed: HashMap<u64, Attributes>,
}

/// An inode that the kernel remembers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownInode {
    /// The generation that the kernel knows.
    pub generation: u64,
    pub is_directory: bool,
    /// The number of handles on the present object.
    pub handles: u64,
    /// The number of replies with this inode that the kernel has not forgotten.
    lookups: u64,
    /// The epoch in which the object last had the known generation.
    checked: u32,
    is_stale: bool,
    /// Handles of earlier epochs are stale.
    lost_before: u32,
}

impl KnownInode {
    /// True if a handle of that epoch is stale. Handles of directories have no epochs.
    fn is_lost(&self, handle: Option<u32>) -> bool {
        !self.is_directory && handle.is_some_and(|epoch| epoch < self.lost_before)
    }
}

/// The state of the inode of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InodeCheck {
    /// The object is the one that the kernel knows.
    Same,
    /// The object is the one that the kernel knows if it has this generation.
    Unchecked(u64),
    /// The object is gone.
    Stale,
}

impl KnownInodes {
    fn shard(&self, inode: u64) -> &Mutex<Shard> {
        &self.shards[inode as usize % SHARDS]
    }

    /// Returns the number of exchanges so far.
    pub fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Begins a new epoch after an exchange.
    pub fn begin_epoch(&self) -> u32 {
        self.epoch.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Records that a reply names an inode.
    pub fn told(&self, inode: u64, of: &Attributes) {
        let epoch = self.epoch();
        let new = KnownInode {
            generation: of.generation,
            is_directory: of.kind == FileKind::Directory,
            handles: 0,
            lookups: 0,
            checked: epoch,
            is_stale: false,
            lost_before: 0,
        };
        let mut shard = self.shard(inode).lock();
        let Shard { known, freed } = &mut *shard;
        let known = known.entry(inode).or_insert(new);
        freed.remove(&inode);
        if known.generation != of.generation {
            // The kernel gives up its old inode.
            *known = KnownInode { lookups: known.lookups, lost_before: epoch, ..new };
        }
        (known.is_stale, known.checked) = (false, epoch);
        known.lookups += 1;
    }

    /// Records that the kernel has forgotten `times` replies with an inode.
    pub fn forget(&self, inode: u64, times: u64) {
        let mut shard = self.shard(inode).lock();
        if let Some(known) = shard.known.get_mut(&inode) {
            known.lookups = known.lookups.saturating_sub(times);
            if known.lookups == 0 {
                shard.known.remove(&inode);
                shard.freed.remove(&inode);
            }
        }
    }

    /// Keeps the last attributes of an object that is being freed, if the kernel remembers its inode.
    pub fn freed(&self, inode: u64, last: &Attributes) {
        let mut shard = self.shard(inode).lock();
        if shard.known.get(&inode).is_some_and(|known| known.generation == last.generation) {
            shard.freed.insert(inode, last.clone());
        }
    }

    /// Returns the last attributes of an object that was freed and whose inode the kernel remembers.
    pub fn last_of(&self, inode: u64) -> Option<Attributes> {
        self.shard(inode).lock().freed.get(&inode).cloned()
    }

    /// Records that a handle was opened.
    pub fn opened(&self, inode: u64) {
        if let Some(known) = self.shard(inode).lock().known.get_mut(&inode) {
            known.handles += 1;
        }
    }

    /// Records that a handle of this epoch was closed. Returns true if the handle was on the
    /// present object.
    pub fn closed(&self, inode: u64, epoch: u32) -> bool {
        match self.shard(inode).lock().known.get_mut(&inode) {
            Some(known) if known.is_stale || epoch < known.lost_before => false,
            Some(known) => {
                known.handles = known.handles.saturating_sub(1);
                true
            }
            None => true,
        }
    }

    /// Returns the state of an inode for a request with a handle of some epoch, or without a
    /// handle.
    pub fn verdict(&self, inode: u64, handle: Option<u32>) -> InodeCheck {
        let epoch = self.epoch();
        match self.shard(inode).lock().known.get(&inode) {
            Some(known) if known.is_stale => InodeCheck::Stale,
            Some(known) if known.is_lost(handle) => InodeCheck::Stale,
            Some(known) if known.checked < epoch => InodeCheck::Unchecked(known.generation),
            _ => InodeCheck::Same,
        }
    }

    /// Records the result of the check of an inode with this generation.
    pub fn settle(&self, inode: u64, generation: u64, is_stale: bool) {
        let epoch = self.epoch();
        let mut shard = self.shard(inode).lock();
        let Some(known) = shard.known.get_mut(&inode).filter(|known| known.generation == generation) else {
            return;
        };
        (known.checked, known.is_stale) = (epoch, is_stale);
        if is_stale {
            (known.lost_before, known.handles) = (epoch, 0);
        }
    }

    /// True if the inode is a directory that the kernel remembers.
    pub fn is_directory(&self, inode: u64) -> bool {
        self.shard(inode).lock().known.get(&inode).is_some_and(|known| known.is_directory)
    }

    /// Returns all inodes that the kernel remembers.
    pub fn all(&self) -> Vec<(u64, KnownInode)> {
        let of = |shard: &Mutex<Shard>| -> Vec<_> {
            shard.lock().known.iter().map(|(inode, known)| (*inode, *known)).collect()
        };
        self.shards.iter().flat_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::ObjectId;
    use zpl::{DeviceNumber, Timestamp};

    fn file(generation: u64) -> Attributes {
        let time = Timestamp { secs: 0, nanos: 0 };
        Attributes {
            object: ObjectId::new(7),
            generation,
            kind: FileKind::File,
            permissions: 0,
            uid: 0,
            gid: 0,
            size: 0,
            links: 1,
            sectors: 0,
            is_settled: true,
            block_bytes: 512,
            device: DeviceNumber { major: 0, minor: 0 },
            atime: time,
            mtime: time,
            ctime: time,
            crtime: time,
            parent: ObjectId::new(34),
            flags: 0,
            project: 0,
        }
    }

    #[test]
    fn an_inode_of_an_object_that_went_is_stale() {
        let known = KnownInodes::default();
        known.told(7, &file(5));
        known.opened(7);
        assert_eq!(known.verdict(7, Some(0)), InodeCheck::Same);
        assert_eq!(known.begin_epoch(), 1);
        assert_eq!(known.verdict(7, None), InodeCheck::Unchecked(5));
        known.settle(7, 4, true);
        assert_eq!(known.verdict(7, None), InodeCheck::Unchecked(5), "what was looked at was another");
        known.settle(7, 5, true);
        assert_eq!(
            (known.verdict(7, None), known.verdict(7, Some(0))),
            (InodeCheck::Stale, InodeCheck::Stale)
        );
        // Another object gets the number and is opened. The first handle stays stale.
        known.told(7, &file(9));
        known.opened(7);
        assert_eq!(
            (known.verdict(7, Some(1)), known.verdict(7, Some(0))),
            (InodeCheck::Same, InodeCheck::Stale)
        );
        assert!(!known.closed(7, 0), "it is on what is gone");
        assert!(known.closed(7, 1));
        known.forget(7, 1);
        assert_eq!(known.all().len(), 1, "the kernel remembers it once more");
        known.forget(7, 1);
        assert_eq!(known.all().len(), 0);
    }

    #[test]
    fn last_attributes_are_kept_until_the_kernel_forgets() {
        let known = KnownInodes::default();
        known.freed(7, &file(5));
        assert!(known.last_of(7).is_none(), "the kernel does not know the inode");
        known.told(7, &file(5));
        known.freed(7, &file(4));
        assert!(known.last_of(7).is_none(), "an earlier object had the number");
        known.freed(7, &file(5));
        assert_eq!(known.last_of(7).map(|last| last.generation), Some(5));
        known.told(7, &file(6));
        assert!(known.last_of(7).is_none(), "another object has the number");
        known.freed(7, &file(6));
        known.forget(7, 2);
        assert!(known.last_of(7).is_none() && known.all().is_empty());
    }

    #[test]
    fn what_is_the_same_after_an_exchange_is_asked_for_once() {
        let known = KnownInodes::default();
        known.told(7, &file(5));
        known.opened(7);
        known.begin_epoch();
        known.settle(7, 5, false);
        assert_eq!((known.verdict(7, None), known.verdict(7, Some(0))), (InodeCheck::Same, InodeCheck::Same));
        assert!(known.closed(7, 0));
        known.begin_epoch();
        assert_eq!(known.verdict(7, None), InodeCheck::Unchecked(5));
        known.told(7, &file(5));
        assert_eq!(known.verdict(7, None), InodeCheck::Same);
    }
}
