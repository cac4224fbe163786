//! Names that come and go: link, unlink, rmdir, and the end of an object.
//!
//! ```text
//!  last name gone ─┬─ not open, small ──► freed in the same txg
//!                  └─ open, or big ─────► delete queue ── last close ──► freed piece by piece
//! ```
//! Invariants
//! - After a crash anywhere, an object without a name is in the delete queue or gone.
//!   (test: `unlinked_open_files_are_freed_at_the_next_mount`)

use std::sync::Arc;

use dmu::Plan;
use env::boxed;
use journal::Origin;
use ondisk::zil::LogRecord;
use ondisk::zil::record::{LrLink, LrRemove};
use units::ObjectId;

use crate::access::Want;
use crate::create::{entry_added, entry_removed};
use crate::delete_queue::QueueTurn;
use crate::dirent::Dirent;
use crate::error::{Result, ZplError};
use crate::flags;
use crate::mode::FileKind;
use crate::quota::check_project;
use crate::sa::ZplAttr;
use crate::time::Timestamp;
use crate::zfs::Zfs;
use crate::znode::{Attributes, Life, Znode, stamp_change, stamp_content};

/// Objects of more blocks are freed after their last name has gone, piece by piece.
const FREE_AT_ONCE_BLOCKS: u64 = 2048;
/// The most names that an object may have.
const LINKS_MAX: u64 = u32::MAX as u64;

/// What a removal is to remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Victim {
    File,
    Directory,
}

/// How an object loses a name. Dropped before that, it changes nothing.
pub(crate) struct Loss<'a> {
    znode: Arc<Znode>,
    end: End<'a>,
}

enum End<'a> {
    /// Other names stay.
    LivesOn,
    /// It waits in the queue.
    Queued(QueueTurn<'a>),
    /// It goes with the name: nobody can open it any more.
    Doomed,
    /// The name is gone.
    Done,
}

impl Drop for Loss<'_> {
    fn drop(&mut self) {
        if matches!(self.end, End::Doomed) {
            self.znode.set_life(Life::Linked);
        }
    }
}

impl Loss<'_> {
    /// Whether somebody has to see to its end afterwards.
    pub fn is_queued(&self) -> bool {
        matches!(self.end, End::Queued(_))
    }

    /// Kind of what loses the name.
    pub fn kind(&self) -> FileKind {
        self.znode.kind()
    }

    /// Blocks that go with the name.
    fn freed_blocks(&self) -> u64 {
        if matches!(self.end, End::Doomed) { self.znode.dnode.blocks_to_free() } else { 0 }
    }
}

impl Zfs {
    /// Gives `object` the further name `name` in `dir`.
    ///
    /// # Errors
    /// [`ZplError::Exists`]; [`ZplError::NotPermitted`] for a directory.
    #[boxed]
    pub async fn link(&self, object: ObjectId, dir: ObjectId, name: &[u8]) -> Result<Attributes> {
        self.check_writable()?;
        let attributes = self.link_by(Origin::Client, object, dir, name).await?;
        self.commit_if_always(object).await?;
        Ok(attributes)
    }

    pub(crate) async fn link_by(
        &self,
        origin: Origin<'_>,
        object: ObjectId,
        dir: ObjectId,
        name: &[u8],
    ) -> Result<Attributes> {
        self.check_name(name)?;
        let parent = self.directory(dir).await?;
        let znode = self.znode(object).await?;
        if znode.kind() == FileKind::Directory {
            return Err(ZplError::NotPermitted("a second name for a directory"));
        }
        let _parent_lock = parent.lock.whole().await;
        let _lock = znode.lock.whole().await;
        parent.check_linked()?;
        znode.check_linkable()?;
        parent.check_mutable(origin)?;
        znode.check_linking(origin)?;
        self.check(origin, &parent, Want::ADD_FILE).await?;
        if !origin.is_replay() {
            check_project(&parent, &znode)?;
        }
        let is_first = znode.life() == Life::Unlinked;
        let turn = if is_first { Some(self.queue.turn().await) } else { None };
        let mut image = znode.image();
        let links = image.word(ZplAttr::Links) + 1;
        if links > LINKS_MAX {
            return Err(ZplError::TooManyLinks);
        }
        let plan = self.plan().await?;
        let entry = self.entry_for(&znode);
        parent.zap()?.add_u64(&plan, name, entry).await?;
        if let Some(turn) = &turn {
            turn.remove(&plan, object).await?;
        }
        let now = self.now();
        image.set_word(ZplAttr::Links, links);
        image.set_word(ZplAttr::Parent, dir.get());
        stamp_change(&mut image, now);
        znode.store(&plan, image)?;
        let mut parent_image = parent.image();
        entry_added(&mut parent_image, znode.kind());
        stamp_content(&mut parent_image, now);
        parent.store(&plan, parent_image)?;
        plan.apply_with(|txg| {
            if is_first {
                znode.set_life(Life::Linked);
            }
            // No record tells of what had no name: this one waits for its txg.
            self.journal.names(origin, txg, self.is_logged() && !is_first, || {
                LogRecord::Link(LrLink { dir, object, name: name.to_vec() })
            });
        })?;
        Ok(znode.attributes())
    }

    /// Removes the name of something that is not a directory.
    ///
    /// # Errors
    /// [`ZplError::NotFound`], [`ZplError::IsDirectory`].
    #[boxed]
    pub async fn unlink(&self, dir: ObjectId, name: &[u8]) -> Result<()> {
        self.check_writable()?;
        self.remove_by(Origin::Client, dir, name, Victim::File).await?;
        self.commit_if_always(dir).await
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// [`ZplError::NotFound`], [`ZplError::NotDirectory`], [`ZplError::NotEmpty`].
    #[boxed]
    pub async fn rmdir(&self, dir: ObjectId, name: &[u8]) -> Result<()> {
        self.check_writable()?;
        self.remove_by(Origin::Client, dir, name, Victim::Directory).await?;
        self.commit_if_always(dir).await
    }

    pub(crate) async fn remove_by(
        &self,
        origin: Origin<'_>,
        dir: ObjectId,
        name: &[u8],
        victim: Victim,
    ) -> Result<()> {
        self.remove_with(origin, dir, name, victim, |_, _| Ok(())).await
    }

    /// Removes the name as [`Self::remove_by`] does, with `also` in the same change and at its
    /// time.
    pub(crate) async fn remove_with(
        &self,
        origin: Origin<'_>,
        dir: ObjectId,
        name: &[u8],
        victim: Victim,
        also: impl FnOnce(&Plan, Timestamp) -> Result<()>,
    ) -> Result<()> {
        match (victim, name) {
            (_, b"." | b"..") if victim == Victim::Directory => {
                return Err(if name == b"." {
                    ZplError::Invalid("removing `.`")
                } else {
                    ZplError::NotEmpty
                });
            }
            _ => {}
        }
        let parent = self.znode(dir).await?;
        if !parent.is_hidden() {
            self.check_old_name(name)?;
        }
        let orphan = {
            let _parent_lock = parent.lock.whole().await;
            parent.check_linked()?;
            parent.check_mutable(origin)?;
            let (_, znode) = self.existing(&parent, name).await?;
            match (victim, znode.kind()) {
                (Victim::File, FileKind::Directory) => return Err(ZplError::IsDirectory),
                (Victim::Directory, kind) if kind != FileKind::Directory => {
                    return Err(ZplError::NotDirectory);
                }
                _ => {}
            }
            let _lock = znode.lock.whole().await;
            parent.check_gives_up_names(origin)?;
            znode.check_loses_name(origin)?;
            self.check_removal(origin, &parent, &znode).await?;
            let loss = self.plan_loss(&znode).await?;
            let plan = self.plan_freeing(loss.freed_blocks()).await?;
            let now = self.now();
            parent.zap()?.remove(&plan, name).await?;
            let mut parent_image = parent.image();
            entry_removed(&mut parent_image, znode.kind());
            stamp_content(&mut parent_image, now);
            parent.store(&plan, parent_image)?;
            let is_queued = loss.is_queued();
            self.lose_name(&plan, &loss, now).await?;
            also(&plan, now)?;
            plan.apply_with(|txg| {
                self.name_lost(loss);
                self.journal.names(origin, txg, self.is_logged(), || {
                    let body = LrRemove { dir, name: name.to_vec() };
                    match victim {
                        Victim::File => LogRecord::Remove(body),
                        Victim::Directory => LogRecord::Rmdir(body),
                    }
                });
            })?;
            is_queued.then_some(znode)
        };
        if let Some(znode) = orphan {
            self.reap_or_leave(&znode).await;
        }
        Ok(())
    }

    /// Frees what has lost its last name. The name is gone, whatever comes of this: what cannot be freed now
    /// stays in the delete queue until the next mount.
    pub(crate) async fn reap_or_leave(&self, znode: &Arc<Znode>) {
        if let Err(error) = self.reap(znode).await {
            let object = znode.object().get();
            tracing::warn!(object, %error, "an object without a name is freed at the next mount");
        }
    }

    /// Decides what becomes of an object that loses a name. The caller holds its lock.
    ///
    /// # Errors
    /// [`ZplError::NotEmpty`] for a directory with entries.
    pub(crate) async fn plan_loss(&self, znode: &Arc<Znode>) -> Result<Loss<'_>> {
        let is_directory = znode.kind() == FileKind::Directory;
        if is_directory && znode.zap()?.count().await? > 0 {
            return Err(ZplError::NotEmpty);
        }
        let waits = znode.dnode.blocks_to_free() > FREE_AT_ONCE_BLOCKS || znode.word(ZplAttr::Xattr) != 0;
        let end = if !is_directory && znode.word(ZplAttr::Links) > 1 {
            End::LivesOn
        } else if !waits && znode.doom(Life::Linked) {
            self.report_freed(znode);
            End::Doomed
        } else {
            End::Queued(self.queue.turn().await)
        };
        Ok(Loss { znode: Arc::clone(znode), end })
    }

    /// Plans to take a name off the object's count, and what follows from it.
    pub(crate) async fn lose_name(&self, plan: &Plan, loss: &Loss<'_>, now: Timestamp) -> Result<()> {
        let znode = &loss.znode;
        match &loss.end {
            End::LivesOn => {
                let mut image = znode.image();
                image.set_word(ZplAttr::Links, image.word(ZplAttr::Links).saturating_sub(1));
                stamp_change(&mut image, now);
                znode.store(plan, image)
            }
            End::Doomed => Ok(self.os.free_object(plan, znode.object()).await?),
            End::Queued(turn) => {
                let mut image = znode.image();
                image.set_word(ZplAttr::Links, 0);
                turn.add(plan, znode.object()).await?;
                znode.store(plan, image)
            }
            End::Done => unreachable!("a name is lost once"),
        }
    }

    /// What [`Self::lose_name`] planned is done.
    pub(crate) fn name_lost(&self, mut loss: Loss<'_>) {
        match &loss.end {
            End::LivesOn | End::Done => {}
            End::Doomed => self.forget(&loss.znode),
            End::Queued(_) => loss.znode.set_life(Life::Unlinked),
        }
        loss.end = End::Done;
    }

    fn forget(&self, znode: &Znode) {
        self.journal.forget(znode.object());
        self.cache.remove(znode.object());
    }

    /// Frees an object of the delete queue, unless somebody has it open.
    pub(crate) async fn reap(&self, znode: &Arc<Znode>) -> Result<()> {
        let _lock = znode.lock.whole().await;
        if !znode.doom(Life::Unlinked) {
            return Ok(());
        }
        self.report_freed(znode);
        // Gone for everybody else; a failure from here on leaves it to the next mount.
        if is_xattr_dir(znode) {
            self.empty_xattr_dir(znode).await?;
        }
        let freed = self.free_to_first(znode, 0..u64::MAX, |_, _| Ok(())).await;
        let rest_blocks = match freed {
            Ok(rest) => rest.blocks,
            // The remaining blocks cannot be counted one by one, so the object is freed in one
            // step, except the blocks below the damage.
            Err(error) if error.is_loss() => znode.dnode.blocks_to_free(),
            Err(error) => return Err(error),
        };
        let xattr_dir = znode.word(ZplAttr::Xattr);
        if xattr_dir != 0 {
            self.free_xattr_dir(ObjectId::new(xattr_dir)).await?;
        }
        let turn = self.queue.turn().await;
        let plan = self.plan_freeing(rest_blocks).await?;
        turn.remove(&plan, znode.object()).await?;
        self.os.free_object(&plan, znode.object()).await?;
        Ok(plan.apply_with(|_| self.forget(znode))?)
    }

    /// Frees the files in a directory of extended attributes, which have no other names.
    async fn empty_xattr_dir(&self, dir: &Arc<Znode>) -> Result<()> {
        for entry in dir.zap()?.all().await? {
            let Some(word) = entry.value.as_u64() else { continue };
            let plan = self.plan_freeing(0).await?;
            dir.zap()?.remove(&plan, &entry.name).await?;
            let object = Dirent::decode(word).object;
            match self.os.free_object(&plan, object).await.map_err(ZplError::from) {
                Ok(()) | Err(ZplError::Stale { .. }) => {}
                Err(error) => return Err(error),
            }
            let mut image = dir.image();
            entry_removed(&mut image, FileKind::File);
            dir.store(&plan, image)?;
            plan.apply_with(|_| self.cache.remove(object))?;
        }
        Ok(())
    }

    async fn free_xattr_dir(&self, dir: ObjectId) -> Result<()> {
        let znode = match self.znode(dir).await {
            Err(ZplError::Stale { .. }) => return Ok(()),
            other => other?,
        };
        self.empty_xattr_dir(&znode).await?;
        let plan = self.plan_freeing(0).await?;
        self.os.free_object(&plan, dir).await?;
        Ok(plan.apply_with(|_| self.forget(&znode))?)
    }

    /// Records the objects that lost their last name before a crash. Called after the log is
    /// replayed and before the file system is used. Objects that are about to be opened are left
    /// out, because their last close frees them. A queue that cannot be read is left as it is,
    /// because a mount does not depend on it.
    #[boxed]
    pub async fn find_leftovers(&self, open: &[ObjectId]) {
        if self.check_writable().is_err() {
            return;
        }
        if let Err(error) = self.queue.find_leftovers(open).await {
            tracing::error!(%error, "the queue of objects without a name cannot be read: the objects stay in it");
        }
    }

    /// Frees the objects that [`Self::find_leftovers`] found, until the file system is closed. A
    /// damaged object stays in the queue.
    ///
    /// # Errors
    /// When a read or write fails, except because of damage. The objects that are not freed stay in
    /// the queue.
    #[boxed]
    pub async fn purge(&self) -> Result<()> {
        while let Some((object, _right)) = self.queue.next_leftover().await {
            if self.check_writable().is_err() {
                return Ok(());
            }
            match self.purge_one(object).await {
                Err(error) if error.is_loss() => {
                    let object = object.get();
                    tracing::error!(object, %error, "an object without a name is damaged and stays in its queue");
                }
                purged => purged?,
            }
        }
        Ok(())
    }

    /// Stops [`Self::purge`]. Returns when it has stopped.
    #[boxed]
    pub async fn stop_purge(&self) {
        self.queue.close().await;
    }

    async fn purge_one(&self, object: ObjectId) -> Result<()> {
        match self.znode(object).await {
            Ok(znode) if znode.life() == Life::Unlinked || is_xattr_dir(&znode) => {
                znode.set_life(Life::Unlinked);
                self.reap(&znode).await
            }
            // The object has a name again or does not exist. Only the entry in the queue is wrong.
            Ok(_) | Err(ZplError::Stale { .. }) => {
                let turn = self.queue.turn().await;
                let plan = self.plan_freeing(0).await?;
                turn.remove(&plan, object).await?;
                plan.apply()?;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

fn is_xattr_dir(znode: &Znode) -> bool {
    znode.kind() == FileKind::Directory && znode.word(ZplAttr::Flags) & flags::XATTR != 0
}
