//! The reads of a txg's sync, and how the txg continues when the block is lost.
//!
//! ```text
//!   a read fails ─┬─ its device is missing ──► the txg waits: the device may come back
//!                 └─ bad sectors, or a wrong checksum
//!                      ├─ WithoutRead::Stop ──► bad sectors suspend the pool, damage stops it
//!                      └─ else ───────────────► the blocks below are lost and reported
//! ```
//! A txg cannot be undone once its sync has begun, and all writers wait for it. So a lost block may
//! stop the txg only where continuing would destroy undamaged data. In that case the pool stops
//! writing.
//!
//! (test: `each_read_of_a_sync_has_an_answer_and_only_the_pool_s_own_tree_stops_it`)

use crate::DmuError;

/// The reads of a sync, a free or a destroy, by their purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncRead {
    /// An indirect block or a block of dnodes whose whole subtree is freed.
    Freed,
    /// The root of an objset that is freed.
    FreedRoot,
    /// An indirect block or a block of dnodes on the path of a change.
    Changed,
    /// The table of space by owner.
    Account,
    /// A deadlist, or one of its lists, to which a block is added.
    DeadlistAdd,
    /// A list of blocks that are to be freed: of a deadlist whose snapshot is destroyed, of the
    /// pool, or of a deleted clone.
    FreeList,
    /// The entry of a block that files may share, when a reference is removed.
    SharedDrop,
    /// The entry of a block that files may share, when a reference is added.
    SharedAdd,
    /// The livelist of a clone.
    Livelist,
    /// The bookmarks that count what a head frees.
    Bookmarks,
    /// The features that a destroyed dataset uses.
    Features,
    /// The list of blocks that have moved from removed vdevs.
    Remapped,
    /// The last block of a metaslab's space map, to which entries are added.
    SpaceMap,
    /// The last block of a log of space maps.
    SpaceMapLog,
    /// The pool's history, and its lists of errors.
    Record,
}

/// How a txg continues when a block is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WithoutRead {
    /// The txg continues. Blocks that cannot be found stay allocated without an owner, and are
    /// counted by [`zio::Leak`].
    Leak,
    /// The txg continues without this part of its work.
    LeaveOut,
    /// The object is written again from memory, or replaced by an empty one.
    WriteAnew,
    /// The txg cannot continue.
    Stop,
}

impl SyncRead {
    /// All variants.
    pub const ALL: [Self; 15] = [
        Self::Freed,
        Self::FreedRoot,
        Self::Changed,
        Self::Account,
        Self::DeadlistAdd,
        Self::FreeList,
        Self::SharedDrop,
        Self::SharedAdd,
        Self::Livelist,
        Self::Bookmarks,
        Self::Features,
        Self::Remapped,
        Self::SpaceMap,
        Self::SpaceMapLog,
        Self::Record,
    ];

    /// Returns how a txg continues without this read.
    #[must_use]
    pub const fn without(self) -> WithoutRead {
        match self {
            // The blocks below can neither be named nor read any more.
            Self::Freed | Self::FreedRoot => WithoutRead::Leak,
            // The block was readable when the change was planned. Its other entries must not be
            // lost, and an acknowledged change must not be dropped.
            Self::Changed => WithoutRead::Stop,
            // These figures are for administrators. Writing to the file system is more important.
            Self::Account => WithoutRead::LeaveOut,
            // The block remains charged to the snapshot, which still reads it. Only its later free
            // is lost.
            Self::DeadlistAdd => WithoutRead::Leak,
            Self::FreeList => WithoutRead::Leak,
            // Other files may refer to the block, so freeing it could destroy their data.
            Self::SharedDrop => WithoutRead::Leak,
            // Without the new reference, the block would be freed while a file refers to it.
            Self::SharedAdd => WithoutRead::Stop,
            // A destroyed clone is then freed by walking its tree, which needs no list.
            Self::Livelist => WithoutRead::LeaveOut,
            // The space written since a bookmark is then an estimate.
            Self::Bookmarks => WithoutRead::LeaveOut,
            // The features count as active for ever.
            Self::Features => WithoutRead::LeaveOut,
            // The mapping of a removed vdev is kept for longer than necessary.
            Self::Remapped => WithoutRead::LeaveOut,
            // The allocator has the contents of the map in memory.
            Self::SpaceMap => WithoutRead::WriteAnew,
            // The next import would miss the entries of the log, and would allocate space that is
            // in use.
            Self::SpaceMapLog => WithoutRead::Stop,
            // A record of an operation is less important than the operation.
            Self::Record => WithoutRead::LeaveOut,
        }
    }

    /// True if a txg continues without this read.
    #[must_use]
    pub fn goes_on(self) -> bool {
        self.without() != WithoutRead::Stop
    }

    /// True if the txg continues without a read that failed with this error.
    #[must_use]
    pub fn can_lose(self, error: &DmuError) -> bool {
        error.is_loss() && self.goes_on()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_read_of_a_sync_has_an_answer_and_only_the_pool_s_own_tree_stops_it() {
        let stops = |read: &&SyncRead| read.without() == WithoutRead::Stop;
        let stopping: Vec<&SyncRead> = SyncRead::ALL.iter().filter(stops).collect();
        assert_eq!(stopping, [&SyncRead::Changed, &SyncRead::SharedAdd, &SyncRead::SpaceMapLog]);
    }
}
