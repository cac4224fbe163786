//! Extended attributes as files (`xattr=dir`, and what is too large for a system attribute).
//!
//! ```text
//!  object ─ XATTR ─► hidden directory (mode 1777, owned as the object, parent: the object)
//!                       └─ name ─► file, mode 0644, with the value
//! ```
//! Both carry the flag that says that they are no tree's. Nobody comes to them but through their
//! object, whose whole lock is held; they are freed with it ([`Zfs::reap`]).
//!
//! All of it goes to the log as changes of names, values too, so that the next fsync of anything
//! takes it along: a value must not be behind the name of its file.

use std::sync::Arc;

use journal::Origin;
use ondisk::zil::LogRecord;
use ondisk::zil::record::LrTruncate;
use units::ObjectId;
use zil::{LoggedWrite, WriteData};

use crate::create::{Birth, NewNode, create_body};
use crate::dirent::Dirent;
use crate::error::{Result, ZplError};
use crate::flags;
use crate::sa::ZplAttr;
use crate::unlink::Victim;
use crate::zfs::Zfs;
use crate::znode::{Znode, stamp_change, stamp_content};

/// The longest value: what Linux lets through.
pub(crate) const VALUE_MAX: usize = 64 << 10;
/// Permissions of the hidden directory.
const DIRECTORY_PERMISSIONS: u32 = 0o1777;
/// Permissions of a file in it.
const FILE_PERMISSIONS: u32 = 0o644;

impl Zfs {
    /// The hidden directory, if there is one.
    pub(crate) async fn xattr_dir(&self, owner: &Znode) -> Result<Option<Arc<Znode>>> {
        match owner.word(ZplAttr::Xattr) {
            0 => Ok(None),
            object => Ok(Some(self.znode(ObjectId::new(object)).await?)),
        }
    }

    /// The file of this name in a hidden directory.
    pub(crate) async fn xattr_file(&self, dir: &Znode, name: &[u8]) -> Result<Option<Arc<Znode>>> {
        match dir.zap()?.lookup_u64(name).await? {
            None => Ok(None),
            Some(word) => Ok(Some(self.znode(Dirent::decode(word).object).await?)),
        }
    }

    /// The value in a file.
    pub(crate) async fn xattr_file_value(&self, file: &Znode) -> Result<Vec<u8>> {
        let bytes = usize::try_from(file.size()).ok().filter(|&bytes| bytes <= VALUE_MAX);
        let mut value = vec![0; bytes.ok_or(ZplError::TooBig)?];
        file.dnode.read(0, &mut value).await?;
        Ok(value)
    }

    /// Makes the hidden directory of `owner`, whose whole lock is held.
    pub(crate) async fn make_xattr_dir(
        &self,
        origin: Origin<'_>,
        owner: &Arc<Znode>,
        birth: Birth,
    ) -> Result<Arc<Znode>> {
        let mut image = self.newborn(owner, NewNode::Directory, &birth).await?;
        image.set_word(ZplAttr::Flags, image.word(ZplAttr::Flags) | flags::XATTR);
        let mut owner_image = owner.image();
        if !owner_image.patch(ZplAttr::Xattr, &0_u64.to_le_bytes()) {
            let mut attrs = owner_image.to_attrs();
            self.sa.with(|tables| attrs.set_word(tables, ZplAttr::Xattr, 0));
            owner_image = self.sa.build(&attrs, owner.dnode.bonus_capacity()).await?;
        }
        let plan = self.plan().await?;
        let dir = self.bring_up(&plan, NewNode::Directory, &birth, image).await?;
        owner_image.set_word(ZplAttr::Xattr, dir.object().get());
        owner.store(&plan, owner_image)?;
        let logged = self.is_logged() && owner.word(ZplAttr::Links) > 0;
        plan.apply_with(|txg| {
            self.cache.insert(Arc::clone(&dir));
            self.journal.names(origin, txg, logged, || {
                LogRecord::Mkxattr(create_body(owner.object(), b"", NewNode::Directory, &dir, &birth))
            });
        })?;
        Ok(dir)
    }

    fn xattr_birth(&self, owner: &Znode, permissions: u32) -> Birth {
        Birth {
            uid: owner.word(ZplAttr::Uid) as u32,
            gid: owner.word(ZplAttr::Gid) as u32,
            permissions,
            born: self.now(),
            slots: self.options().dnode_slots,
            ..Birth::default()
        }
    }

    /// Stores a value in a file. The caller holds the owner's whole lock.
    pub(crate) async fn store_xattr_file(&self, owner: &Arc<Znode>, name: &[u8], value: &[u8]) -> Result<()> {
        let dir = match self.xattr_dir(owner).await? {
            Some(dir) => dir,
            None => {
                let birth = self.xattr_birth(owner, DIRECTORY_PERMISSIONS);
                self.make_xattr_dir(Origin::Client, owner, birth).await?
            }
        };
        let file = match self.xattr_file(&dir, name).await? {
            Some(file) => file,
            None => {
                let birth = self.xattr_birth(owner, FILE_PERMISSIONS);
                let made = self.create_by(Origin::Client, &dir, name, NewNode::File, birth).await?;
                self.znode(made.object).await?
            }
        };
        self.replace_contents(owner, &file, value).await
    }

    async fn replace_contents(&self, owner: &Arc<Znode>, file: &Arc<Znode>, value: &[u8]) -> Result<()> {
        let _lock = file.lock.whole().await;
        let plan = self.plan_writing(value.len() as u64).await?;
        let (object, length) = (file.object(), value.len() as u64);
        file.dnode.free_range(&plan, 0, u64::MAX).await?;
        self.grow_block(&plan, file, length).await?;
        file.dnode.write(&plan, 0, value).await?;
        let now = self.now();
        let mut image = file.image();
        image.set_word(ZplAttr::Size, length);
        stamp_content(&mut image, now);
        file.store(&plan, image)?;
        let mut owner_image = owner.image();
        stamp_change(&mut owner_image, now);
        owner.store(&plan, owner_image)?;
        let logged = self.is_logged() && owner.word(ZplAttr::Links) > 0;
        Ok(plan.apply_with(|txg| {
            self.journal.names(Origin::Client, txg, logged, || {
                LogRecord::Truncate(LrTruncate { object, offset: 0, length: 0 })
            });
            if !value.is_empty() {
                let data = WriteData::Bytes(Arc::from(value));
                let write = || LoggedWrite { object, offset: 0, length, data };
                self.journal.write_as_name(txg, logged, write);
            }
        })?)
    }

    /// Removes a value's file. The caller holds the owner's whole lock.
    pub(crate) async fn remove_xattr_file(&self, owner: &Znode, name: &[u8]) -> Result<()> {
        let Some(dir) = self.xattr_dir(owner).await? else { return Err(ZplError::NoAttribute) };
        match self.remove_by(Origin::Client, dir.object(), name, Victim::File).await {
            Err(ZplError::NotFound) => Err(ZplError::NoAttribute),
            other => other,
        }
    }
}
