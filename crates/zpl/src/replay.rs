//! Doing again what the log says: the log's records, turned into operations.
//!
//! Objects get the numbers, generations and birth times of the record; content gets the time
//! of the replay, as OpenZFS has it, unless the record carries one. Records of single objects
//! are logged when somebody asks for that object, so theirs may be gone by now: nothing to do.
//! A record of names finds everything as it was, for those are logged in order; where it does
//! not, replay stops rather than guess.
//! (test: `what_was_committed_survives_crashes_in_random_histories`)

use std::sync::Arc;

use env::BoxFuture;
use journal::{Origin, cloned_blocks, logged_bytes};
use ondisk::LogRecord;
use ondisk::zil::record::body::attr_mask;
use ondisk::zil::record::{
    LrCloneRange, LrCreate, LrCreateAcl, LrRename, LrRenameWhiteout, LrSetSaXattr, LrSetattr, LrWrite,
};
use units::{ObjectId, Txg};
use zil::{Applied, Replay, ReplayBlock, ReplayCtx, ReplayRecord};

use crate::acl::Acl;
use crate::allocation::SpaceChange;
use crate::create::{Birth, NewNode};
use crate::dirent::Dirent;
use crate::error::{Result, ZplError};
use crate::mode::{DeviceNumber, FileKind, MODE_PERMISSIONS};
use crate::rename::{Place, RenameMode};
use crate::setattr::{Change, Decided};
use crate::unlink::Victim;
use crate::xvattr::Extra;
use crate::zfs::Zfs;

impl Replay for Zfs {
    fn apply<'a>(
        &'a self,
        record: &'a ReplayRecord,
        ctx: ReplayCtx<'a>,
    ) -> BoxFuture<'a, Result<Applied, Arc<dyn std::error::Error + Send + Sync>>> {
        Box::pin(async move {
            let note = move |txg: Txg| ctx.note(txg);
            let result = self.replay_record(Origin::Replay(&note), record).await;
            match result {
                Ok(applied) => Ok(applied),
                // Logged out of order: its object was removed later, and that was logged first.
                Err(ZplError::Stale { object }) if record.record.object() == Some(object) => {
                    Ok(Applied::Nothing)
                }
                Err(error) => Err(Arc::new(error) as Arc<dyn std::error::Error + Send + Sync>),
            }
        })
    }
}

impl Zfs {
    async fn replay_record(&self, origin: Origin<'_>, record: &ReplayRecord) -> Result<Applied> {
        if record.head.case_insensitive {
            return Err(ZplError::Unsupported("case-insensitive names in the log"));
        }
        match &record.record {
            LogRecord::Create(lr) | LogRecord::CreateAttr(lr) => {
                return self.replay_create(origin, lr, file_node(lr)?, birth_of(lr)).await;
            }
            LogRecord::Mkdir(lr) | LogRecord::MkdirAttr(lr) => {
                return self.replay_create(origin, lr, NewNode::Directory, birth_of(lr)).await;
            }
            LogRecord::CreateAcl(lr) | LogRecord::CreateAclAttr(lr) => {
                let node = file_node(&lr.create)?;
                return self.replay_create(origin, &lr.create, node, birth_with_acl(lr)?).await;
            }
            LogRecord::MkdirAcl(lr) | LogRecord::MkdirAclAttr(lr) => {
                let birth = birth_with_acl(lr)?;
                return self.replay_create(origin, &lr.create, NewNode::Directory, birth).await;
            }
            LogRecord::Symlink(lr) => {
                let target = lr.target.as_deref().unwrap_or_default();
                return self.replay_create(origin, lr, NewNode::Symlink(target), birth_of(lr)).await;
            }
            LogRecord::Mkxattr(lr) => {
                let owner = self.znode(lr.dir).await?;
                let _lock = owner.lock.whole().await;
                owner.check_alive()?;
                self.make_xattr_dir(origin, &owner, birth_of(lr)).await?;
            }
            LogRecord::Remove(lr) => {
                return tolerate_gone(self.remove_by(origin, lr.dir, &lr.name, Victim::File).await);
            }
            LogRecord::Rmdir(lr) => {
                return tolerate_gone(self.remove_by(origin, lr.dir, &lr.name, Victim::Directory).await);
            }
            LogRecord::Link(lr) => {
                self.link_by(origin, lr.object, lr.dir, &lr.name).await?;
            }
            LogRecord::Rename(lr) => self.replay_rename(origin, lr, RenameMode::Replace).await?,
            LogRecord::RenameExchange(lr) => self.replay_rename(origin, lr, RenameMode::Exchange).await?,
            LogRecord::RenameWhiteout(lr) => self.replay_whiteout(origin, lr).await?,
            LogRecord::Write(lr) => self.replay_logged_write(origin, lr, record.block.as_ref()).await?,
            LogRecord::Write2(lr) => {
                let end = lr.offset.saturating_add(lr.length);
                self.replay_write(origin, lr.object, lr.offset, &[], end).await?;
            }
            LogRecord::Truncate(lr) => {
                let change = SpaceChange { offset: lr.offset, length: lr.length };
                self.change_space_by(origin, lr.object, |_| Some(change)).await?;
            }
            LogRecord::Setattr(lr) => self.replay_setattr(origin, lr).await?,
            LogRecord::SetSaXattr(lr) => return self.replay_xattr(origin, lr).await,
            LogRecord::CloneRange(lr) => self.replay_clone(origin, lr).await?,
            LogRecord::AclV0(lr) => {
                self.set_acl_by(origin, lr.object, &Acl::of_old_log(&lr.aces)?).await?;
            }
            LogRecord::Acl(lr) => self.set_acl_by(origin, lr.object, &Acl::of_log(&lr.acl)?).await?,
        }
        Ok(Applied::Done)
    }

    async fn replay_create(
        &self,
        origin: Origin<'_>,
        lr: &LrCreate,
        node: NewNode<'_>,
        birth: Birth,
    ) -> Result<Applied> {
        let parent = self.znode(lr.dir).await?;
        if let Some(word) = parent.zap()?.lookup_u64(&lr.name).await? {
            let same = Dirent::decode(word).object == lr.object;
            let is_it = same && self.attributes(lr.object).await?.generation == lr.generation;
            return if is_it { Ok(Applied::Nothing) } else { Err(ZplError::Exists) };
        }
        self.create_by(origin, &parent, &lr.name, node, birth).await?;
        Ok(Applied::Done)
    }

    async fn replay_rename(&self, origin: Origin<'_>, lr: &LrRename, mode: RenameMode) -> Result<()> {
        let (from, to) = places(lr);
        self.rename_by(origin, from, to, mode, None).await
    }

    async fn replay_whiteout(&self, origin: Origin<'_>, lr: &LrRenameWhiteout) -> Result<()> {
        let (from, to) = places(&lr.rename);
        let whiteout = Birth {
            uid: plain_id(lr.uid),
            gid: plain_id(lr.gid),
            permissions: lr.mode as u32 & MODE_PERMISSIONS,
            born: lr.crtime.into(),
            slots: lr.slots.max(1),
            identity: Some((lr.object, lr.generation)),
            ..Birth::default()
        };
        self.rename_by(origin, from, to, RenameMode::Replace, Some(whiteout)).await
    }

    async fn replay_logged_write(
        &self,
        origin: Origin<'_>,
        lr: &LrWrite,
        block: Option<&ReplayBlock>,
    ) -> Result<()> {
        let end = lr.offset.saturating_add(lr.length);
        let (offset, data) =
            logged_bytes(lr, block).ok_or(ZplError::Invalid("a logged write without data"))?;
        self.replay_write(origin, lr.object, offset, data, end).await
    }

    async fn replay_setattr(&self, origin: Origin<'_>, lr: &LrSetattr) -> Result<()> {
        let has = |bit: u64| lr.mask & bit != 0;
        let change = Decided {
            permissions: has(attr_mask::MODE).then_some(lr.mode as u32 & MODE_PERMISSIONS),
            uid: has(attr_mask::UID).then(|| plain_id(lr.uid)),
            gid: has(attr_mask::GID).then(|| plain_id(lr.gid)),
            size: has(attr_mask::SIZE).then_some(lr.size),
            atime: has(attr_mask::ATIME).then(|| lr.atime.into()),
            // A change of size carries the time of the change, asked for or not.
            mtime: has(attr_mask::MTIME | attr_mask::SIZE).then(|| lr.mtime.into()),
            ctime: None,
            extra: lr.attr.as_ref().map(Extra::of_log),
        };
        self.set_attributes_by(origin, lr.object, Change::Decided(change)).await?;
        Ok(())
    }

    async fn replay_xattr(&self, origin: Origin<'_>, lr: &LrSetSaXattr) -> Result<Applied> {
        // A record that removes the attribute has no value.
        let value = (!lr.value.is_empty()).then_some(lr.value.as_slice());
        match self.replay_system_xattr(origin, lr.object, &lr.name, value).await {
            Err(ZplError::NoAttribute) => Ok(Applied::Nothing),
            other => other.map(|()| Applied::Done),
        }
    }

    /// Shares what the record names; where that cannot be, the blocks are read and written again.
    async fn replay_clone(&self, origin: Origin<'_>, lr: &LrCloneRange) -> Result<()> {
        if self.replay_sharing(origin, lr).await? {
            return Ok(());
        }
        let blocks = cloned_blocks(lr, self.os.id());
        for block in blocks.ok_or(ZplError::Invalid("the block size of a logged clone"))? {
            let data = block.read(self.os.zio()).await.map_err(|e| self.unreadable(lr.object, &e))?;
            let end = block.offset.saturating_add(data.len() as u64);
            self.replay_write(origin, lr.object, block.offset, &data, end).await?;
        }
        Ok(())
    }

    fn unreadable(&self, object: ObjectId, error: &zio::ZioError) -> ZplError {
        ZplError::Damaged { objset: self.os.id(), object, what: format!("a cloned block: {error}") }
    }
}

/// What was removed may have been removed before.
fn tolerate_gone(result: Result<()>) -> Result<Applied> {
    match result {
        Err(ZplError::NotFound) => Ok(Applied::Nothing),
        other => other.map(|()| Applied::Done),
    }
}

fn places(lr: &LrRename) -> (Place<'_>, Place<'_>) {
    (Place { dir: lr.source_dir, name: &lr.source }, Place { dir: lr.target_dir, name: &lr.target })
}

fn file_node(lr: &LrCreate) -> Result<NewNode<'static>> {
    let device = DeviceNumber::decode(lr.rdev);
    match FileKind::of_mode(lr.mode as u32) {
        Some(FileKind::File) => Ok(NewNode::File),
        Some(FileKind::Fifo) => Ok(NewNode::Fifo),
        Some(FileKind::Socket) => Ok(NewNode::Socket),
        Some(FileKind::CharDevice) => Ok(NewNode::CharDevice(device)),
        Some(FileKind::BlockDevice) => Ok(NewNode::BlockDevice(device)),
        Some(FileKind::Directory | FileKind::Symlink) | None => {
            Err(ZplError::Invalid("the mode of a logged create"))
        }
    }
}

fn birth_of(lr: &LrCreate) -> Birth {
    Birth {
        uid: plain_id(lr.uid),
        gid: plain_id(lr.gid),
        permissions: lr.mode as u32 & MODE_PERMISSIONS,
        born: lr.crtime.into(),
        slots: lr.slots.max(1),
        identity: Some((lr.object, lr.generation)),
        acl: None,
        extra: lr.attr.as_ref().map(Extra::of_log).unwrap_or_default(),
        xattrs: Vec::new(),
    }
}

fn birth_with_acl(lr: &LrCreateAcl) -> Result<Birth> {
    Ok(Birth { acl: Some(Acl::of_log(&lr.acl)?), ..birth_of(&lr.create) })
}

/// What an id of a foreign domain becomes: nobody can map it here, and Linux stores all ones.
fn plain_id(id: u64) -> u32 {
    u32::try_from(id).unwrap_or(u32::MAX)
}
