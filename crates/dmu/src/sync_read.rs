//! What a txg's sync reads, and what becomes of the txg when that is lost.
//!
//! ```text
//!   a read fails ─┬─ its device is not there ──────────────► the txg waits: the device may come back
//!                 └─ a bad place, or a wrong checksum ─┬─ SyncRead says Stop ─► a bad place waits (the pool is
//!                                                      │                        suspended), damage stops the pool
//!                                                      └─ else ─► the damage costs what lies below it, and is reported
//! ```
//! A txg cannot be taken back once it has begun, and everybody waits for it. So a lost block may keep it from its end only
//! where going on would lose what is not damaged: where the pool cannot write.
//!
//! (test: `each_read_of_a_sync_has_an_answer_and_only_the_pool_s_own_tree_stops_it`)

use crate::DmuError;

/// A read that a txg's sync, a free or a destroy makes, by what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncRead {
    /// An indirect block, or a block of dnodes, all below which is freed.
    Freed,
    /// The root of an objset that is freed.
    FreedRoot,
    /// A block that a change goes through: indirect, or of dnodes.
    Changed,
    /// The table of space by owner.
    Account,
    /// A deadlist, or one of its lists, to which a block is added.
    DeadlistAdd,
    /// A list of blocks that are to be freed: of a deadlist whose snapshot goes, of the pool, of a deleted clone.
    FreeList,
    /// The entry of a block that files may share, when a reference to it goes.
    SharedDrop,
    /// The same, when there is one more.
    SharedAdd,
    /// The livelist of a clone.
    Livelist,
    /// The bookmarks that count what a head lets go.
    Bookmarks,
    /// The last block of a metaslab's space map, to which something is added.
    SpaceMap,
    /// The last block of a log of space maps.
    SpaceMapLog,
    /// The pool's history, and its lists of errors.
    Record,
}

/// What becomes of the txg.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WithoutRead {
    /// It goes on; blocks that cannot be found stay allocated, and nobody's. [`zio::Leak`] has them counted.
    Leak,
    /// It goes on without this part of its work.
    LeaveOut,
    /// The object is written anew from memory, or replaced by an empty one.
    WriteAnew,
    /// It cannot go on.
    Stop,
}

impl SyncRead {
    /// All of them.
    pub const ALL: [Self; 13] = [
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
        Self::SpaceMap,
        Self::SpaceMapLog,
        Self::Record,
    ];

    /// What becomes of the txg that cannot have it.
    #[must_use]
    pub const fn without(self) -> WithoutRead {
        match self {
            // Nobody can name the blocks below any more, and nobody can read them either.
            Self::Freed | Self::FreedRoot => WithoutRead::Leak,
            // Who planned the change has read the block: it has gone bad since. Its other parts are not to be lost with
            // it, and a change that was promised is not to be dropped.
            Self::Changed => WithoutRead::Stop,
            // Figures for administrators: a file system that is written to counts for more.
            Self::Account => WithoutRead::LeaveOut,
            // The block stays the snapshot's, which reads it still; only its end will not be noticed.
            Self::DeadlistAdd => WithoutRead::Leak,
            Self::FreeList => WithoutRead::Leak,
            // Somebody else may have the block: to free it could free theirs.
            Self::SharedDrop => WithoutRead::Leak,
            // Not counted, the block would be freed under one of its files.
            Self::SharedAdd => WithoutRead::Stop,
            // A clone that is destroyed is then taken apart by its tree, which needs no list.
            Self::Livelist => WithoutRead::LeaveOut,
            // What was written since a bookmark is an estimate then.
            Self::Bookmarks => WithoutRead::LeaveOut,
            // The allocator has all that the map says.
            Self::SpaceMap => WithoutRead::WriteAnew,
            // What a log says would be lost to the next import, which would give out space that is in use.
            Self::SpaceMapLog => WithoutRead::Stop,
            // A record of what happened is not worth what happens.
            Self::Record => WithoutRead::LeaveOut,
        }
    }

    /// Whether a txg that finds this lost goes on.
    #[must_use]
    pub fn goes_on(self) -> bool {
        self.without() != WithoutRead::Stop
    }

    /// Whether the txg goes on without what could not be read with this error.
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
