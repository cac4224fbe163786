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

use dmu::Plan;
use journal::{Origin, RangeGuard};
use ondisk::zil::LogRecord;
use ondisk::zil::record::LrTruncate;
use units::{ObjectId, Txg};
use zil::{LoggedWrite, WriteData};

use crate::create::{Birth, NewNode, create_body, entry_added};
use crate::dirent::Dirent;
use crate::error::{Result, ZplError};
use crate::flags;
use crate::mode::FileKind;
use crate::sa::{SaImage, ZplAttr};
use crate::setattr::Decided;
use crate::time::Timestamp;
use crate::unlink::Victim;
use crate::zfs::Zfs;
use crate::znode::{Znode, stamp_change, stamp_content};

/// The longest value: what Linux lets through.
pub(crate) const VALUE_MAX: usize = 64 << 10;
/// Permissions of the hidden directory.
const DIRECTORY_PERMISSIONS: u32 = 0o1777;
/// Permissions of a file in it.
const FILE_PERMISSIONS: u32 = 0o644;

/// The largest number of objects that change their owner in one transaction.
const HANDED_OVER_AT_ONCE: usize = 256;

/// An object with a new owner that is not stored yet.
pub(crate) struct HandedOver {
    znode: Arc<Znode>,
    image: SaImage,
    _lock: RangeGuard,
}

impl HandedOver {
    /// Adds the writing of its attributes to the plan.
    pub fn store(&self, plan: &Plan) -> Result<()> {
        self.znode.store(plan, self.image.clone())
    }
}

/// An attribute that gets a file.
#[derive(Clone, Copy)]
struct NewXattr<'a> {
    name: &'a [u8],
    value: &'a [u8],
    birth: &'a Birth,
}

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
        let image = self.hidden_image(owner, NewNode::Directory, &birth).await?;
        let mut owner_image = self.image_with_xattr(owner).await?;
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

    /// The attributes of a new hidden object.
    async fn hidden_image(&self, parent: &Znode, node: NewNode<'_>, birth: &Birth) -> Result<SaImage> {
        let mut image = self.newborn(parent, node, birth).await?;
        image.set_word(ZplAttr::Flags, image.word(ZplAttr::Flags) | flags::XATTR);
        Ok(image)
    }

    /// The attributes of an object with a place for the number of its hidden directory.
    async fn image_with_xattr(&self, owner: &Znode) -> Result<SaImage> {
        let mut image = owner.image();
        if !image.patch(ZplAttr::Xattr, &0_u64.to_le_bytes()) {
            let mut attrs = self.sa.attrs_of(&image)?;
            self.sa.with(|tables| attrs.set_word(tables, ZplAttr::Xattr, 0));
            image = self.sa.build(&attrs, owner.dnode.bonus_capacity()).await?;
        }
        Ok(image)
    }

    fn xattr_birth(&self, owner: &Znode, permissions: u32) -> Birth {
        Birth {
            uid: owner.word(ZplAttr::Uid) as u32,
            gid: owner.word(ZplAttr::Gid) as u32,
            permissions,
            born: self.now(),
            slots: self.dnode_slots(),
            ..Birth::default()
        }
    }

    /// Stores a value in a file. The caller holds the owner's whole lock.
    pub(crate) async fn store_xattr_file(&self, owner: &Arc<Znode>, name: &[u8], value: &[u8]) -> Result<()> {
        let Some(dir) = self.xattr_dir(owner).await? else {
            return self.make_first_xattr_file(owner, name, value).await;
        };
        match self.xattr_file(&dir, name).await? {
            Some(file) => self.replace_contents(owner, &file, value).await,
            None => self.make_xattr_file(owner, &dir, name, value).await,
        }
    }

    /// Makes the hidden directory, and a value's file in it, in one change.
    async fn make_first_xattr_file(&self, owner: &Arc<Znode>, name: &[u8], value: &[u8]) -> Result<()> {
        self.check_entry_name(owner, name)?;
        let birth = self.xattr_birth(owner, DIRECTORY_PERMISSIONS);
        let mut dir_image = self.hidden_image(owner, NewNode::Directory, &birth).await?;
        entry_added(&mut dir_image, FileKind::File);
        let file_birth = self.xattr_birth(owner, FILE_PERMISSIONS);
        let image = self.hidden_image(owner, NewNode::File, &file_birth).await?;
        let mut owner_image = self.image_with_xattr(owner).await?;
        stamp_change(&mut owner_image, birth.born);
        let plan = self.plan_writing(value.len() as u64).await?;
        let dir = self.bring_up(&plan, NewNode::Directory, &birth, dir_image).await?;
        owner_image.set_word(ZplAttr::Xattr, dir.object().get());
        owner.store(&plan, owner_image)?;
        let new = NewXattr { name, value, birth: &file_birth };
        let file = self.bring_up_xattr_file(&plan, &dir, new, image).await?;
        let logged = self.is_logged() && owner.word(ZplAttr::Links) > 0;
        Ok(plan.apply_with(|txg| {
            self.cache.insert(Arc::clone(&dir));
            self.journal.names(Origin::Client, txg, logged, || {
                LogRecord::Mkxattr(create_body(owner.object(), b"", NewNode::Directory, &dir, &birth))
            });
            self.journal_xattr_file(txg, logged, &dir, &file, new);
        })?)
    }

    /// Makes a value's file in the hidden directory, in one change.
    async fn make_xattr_file(
        &self,
        owner: &Arc<Znode>,
        dir: &Arc<Znode>,
        name: &[u8],
        value: &[u8],
    ) -> Result<()> {
        self.check_entry_name(dir, name)?;
        let _lock = dir.lock.whole().await;
        dir.check_linked()?;
        let birth = self.xattr_birth(owner, FILE_PERMISSIONS);
        let image = self.hidden_image(dir, NewNode::File, &birth).await?;
        let (mut dir_image, mut owner_image) = (dir.image(), owner.image());
        entry_added(&mut dir_image, FileKind::File);
        stamp_content(&mut dir_image, birth.born);
        stamp_change(&mut owner_image, birth.born);
        let plan = self.plan_writing(value.len() as u64).await?;
        let new = NewXattr { name, value, birth: &birth };
        let file = self.bring_up_xattr_file(&plan, dir, new, image).await?;
        dir.store(&plan, dir_image)?;
        owner.store(&plan, owner_image)?;
        let logged = self.is_logged() && owner.word(ZplAttr::Links) > 0;
        Ok(plan.apply_with(|txg| self.journal_xattr_file(txg, logged, dir, &file, new))?)
    }

    /// Plans a value's file with the value in it, and its name in the hidden directory.
    async fn bring_up_xattr_file(
        &self,
        plan: &Plan,
        dir: &Znode,
        new: NewXattr<'_>,
        mut image: SaImage,
    ) -> Result<Arc<Znode>> {
        let NewXattr { name, value, birth } = new;
        image.set_word(ZplAttr::Parent, dir.object().get());
        image.set_word(ZplAttr::Size, value.len() as u64);
        let file = self.bring_up(plan, NewNode::File, birth, image).await?;
        self.fit_block(plan, &file.dnode, value.len() as u64).await?;
        file.dnode.write(plan, 0, value).await?;
        let entry = self.entry_for(&file);
        dir.zap()?.add_u64(plan, name, entry).await?;
        Ok(file)
    }

    fn journal_xattr_file(&self, txg: Txg, logged: bool, dir: &Znode, file: &Arc<Znode>, new: NewXattr<'_>) {
        self.cache.insert(Arc::clone(file));
        self.journal.names(Origin::Client, txg, logged, || {
            LogRecord::Create(create_body(dir.object(), new.name, NewNode::File, file, new.birth))
        });
        self.journal_value(txg, logged, file.object(), new.value);
    }

    fn journal_value(&self, txg: Txg, logged: bool, object: ObjectId, value: &[u8]) {
        if !value.is_empty() {
            let (data, length) = (WriteData::Bytes(Arc::from(value)), value.len() as u64);
            self.journal.write_as_name(txg, logged, || LoggedWrite { object, offset: 0, length, data });
        }
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
            self.journal_value(txg, logged, object, value);
        })?)
    }

    /// Gives the hidden directory and its files to the user, group and project that `change` sets
    /// on `owner`. The caller holds the exclusive lock of `owner` and stores the returned objects
    /// in its own transaction. Up to [`HANDED_OVER_AT_ONCE`] files change in that one transaction.
    /// With more files, a crash can leave some files with the new owner and the object with the old
    /// owner.
    pub(crate) async fn hand_over_xattrs(&self, owner: &Znode, change: &Decided) -> Result<Vec<HandedOver>> {
        let (Some(dir), Some(change)) = (self.xattr_dir(owner).await?, change.of_owners()) else {
            return Ok(Vec::new());
        };
        let mut handed = Vec::new();
        for entry in dir.zap()?.all().await? {
            let Some(word) = entry.value.as_u64() else { continue };
            if handed.len() == HANDED_OVER_AT_ONCE {
                let plan = self.plan().await?;
                handed.iter().try_for_each(|file: &HandedOver| file.store(&plan))?;
                plan.apply()?;
                handed.clear();
            }
            match self.znode(Dirent::decode(word).object).await {
                Ok(file) => handed.push(self.hand_over(file, &change).await?),
                Err(ZplError::Stale { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        handed.push(self.hand_over(dir, &change).await?);
        Ok(handed)
    }

    async fn hand_over(&self, znode: Arc<Znode>, change: &Decided) -> Result<HandedOver> {
        let lock = znode.lock.whole().await;
        let mut image = self.with_room(&znode, change).await?;
        change.give(&mut image);
        Ok(HandedOver { znode, image, _lock: lock })
    }

    /// Removes a value's file. The caller holds the owner's whole lock.
    pub(crate) async fn remove_xattr_file(&self, owner: &Arc<Znode>, name: &[u8]) -> Result<()> {
        let Some(dir) = self.xattr_dir(owner).await? else { return Err(ZplError::NoAttribute) };
        let stamped = |plan: &Plan, now: Timestamp| {
            let mut image = owner.image();
            stamp_change(&mut image, now);
            owner.store(plan, image)
        };
        match self.remove_with(Origin::Client, dir.object(), name, Victim::File, stamped).await {
            Err(ZplError::NotFound) => Err(ZplError::NoAttribute),
            other => other,
        }
    }
}
