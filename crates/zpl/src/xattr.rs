//! Extended attributes.
//!
//! All that we write are system attributes (`xattr=sa`): one packed list of names and bytes
//! in `DXATTR`, in the bonus or the spill block. Those that OpenZFS keeps as files in a
//! hidden directory (`xattr=dir`) are read, and removed with their object.

use std::sync::Arc;

use dmu::zap::Zap;
use ondisk::NvList;
use ondisk::NvValue;
use ondisk::zil::LogRecord;
use ondisk::zil::record::LrSetSaXattr;
use units::ObjectId;

use crate::create::{Birth, NewNode};
use crate::dirent::Dirent;
use crate::error::{Result, ZplError};
use crate::flags;
use crate::journal::Origin;
use crate::range_lock::Span;
use crate::sa::ZplAttr;
use crate::zfs::Zfs;
use crate::znode::{Znode, stamp_change};

/// The longest name, in bytes.
const NAME_MAX: usize = 255;
/// The longest value that goes into a system attribute.
const VALUE_MAX: usize = 32 << 10;
/// All attributes of an object together, packed: half a spill block.
const PACKED_MAX: usize = 64 << 10;

/// Whether an attribute must be new or old.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XattrMode {
    /// Either.
    Set,
    /// It must not be there (`XATTR_CREATE`).
    Create,
    /// It must be there (`XATTR_REPLACE`).
    Replace,
}

impl Zfs {
    /// The value of an attribute.
    ///
    /// # Errors
    /// [`ZplError::NoAttribute`].
    pub async fn xattr(&self, object: ObjectId, name: &[u8]) -> Result<Vec<u8>> {
        let znode = self.znode(object).await?;
        let _shared = znode.lock.shared(Span::ALL).await;
        znode.check_alive()?;
        if let Some(value) = self.xattrs(&znode)?.get_bytes(text(name)?) {
            return Ok(value.to_vec());
        }
        match self.xattr_dir(&znode).await? {
            Some(dir) => self.xattr_file(&dir, name).await,
            None => Err(ZplError::NoAttribute),
        }
    }

    /// The names of all attributes.
    ///
    /// # Errors
    /// Those of reading.
    pub async fn xattr_names(&self, object: ObjectId) -> Result<Vec<Vec<u8>>> {
        let znode = self.znode(object).await?;
        let _shared = znode.lock.shared(Span::ALL).await;
        znode.check_alive()?;
        let mut names: Vec<Vec<u8>> =
            self.xattrs(&znode)?.iter().map(|(name, _)| name.as_bytes().to_vec()).collect();
        if let Some(dir) = self.xattr_dir(&znode).await? {
            for entry in dir.all().await? {
                if !names.contains(&entry.name) {
                    names.push(entry.name);
                }
            }
        }
        Ok(names)
    }

    /// Sets an attribute.
    ///
    /// # Errors
    /// [`ZplError::Exists`], [`ZplError::NoAttribute`] by `mode`; [`ZplError::TooBig`].
    pub async fn set_xattr(
        &self,
        object: ObjectId,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<()> {
        self.check_writable()?;
        self.change_xattr(Origin::Client, object, name, Some(value), mode).await?;
        self.settle(object).await
    }

    /// Removes an attribute.
    ///
    /// # Errors
    /// [`ZplError::NoAttribute`]; [`ZplError::Unsupported`] for one that is a file.
    pub async fn remove_xattr(&self, object: ObjectId, name: &[u8]) -> Result<()> {
        self.check_writable()?;
        self.change_xattr(Origin::Client, object, name, None, XattrMode::Replace).await?;
        self.settle(object).await
    }

    pub(crate) async fn change_xattr(
        &self,
        origin: Origin<'_>,
        object: ObjectId,
        name: &[u8],
        value: Option<&[u8]>,
        mode: XattrMode,
    ) -> Result<()> {
        let key = text(name)?;
        if value.is_some_and(|value| value.len() > VALUE_MAX) {
            return Err(ZplError::TooBig);
        }
        let znode = self.znode(object).await?;
        let _lock = znode.lock.whole().await;
        znode.check_alive()?;
        znode.check_mutable()?;
        let old = self.xattrs(&znode)?;
        self.check_mode(&znode, &old, name, mode).await?;
        let mut list = (*old).clone();
        match value {
            Some(value) => {
                list.add(key, NvValue::ByteArray(value.to_vec()));
            }
            None => {
                list.remove(key);
            }
        }
        let packed = list.encode();
        if packed.len() > PACKED_MAX {
            return Err(ZplError::TooBig);
        }
        let mut attrs = znode.image().to_attrs();
        self.sa.with(|tables| attrs.set_known(tables, ZplAttr::Dxattr, &packed));
        let mut image = self.sa.build(&attrs, znode.dnode.bonus_capacity()).await?;
        let tx = self.begin().await?;
        stamp_change(&mut image, self.now());
        znode.store(&tx, image)?;
        znode.cache_xattrs(Arc::new(list));
        if origin.is_replay() || znode.word(ZplAttr::Links) > 0 {
            // An empty value and a removal look the same in a record. Only the latter goes
            // to the log; the former waits for its group.
            let logged = self.is_logged() && self.options().log_xattrs && value.is_none_or(|v| !v.is_empty());
            self.journal.object(origin, &tx, logged, object, || {
                let value = value.unwrap_or_default().to_vec();
                LogRecord::SetSaXattr(LrSetSaXattr { object, name: name.to_vec(), value })
            });
        }
        Ok(())
    }

    /// Gives an object the directory of extended attributes that a record tells of. Files in
    /// it are then made as anywhere.
    pub(crate) async fn make_xattr_dir(
        &self,
        origin: Origin<'_>,
        owner: ObjectId,
        birth: Birth,
    ) -> Result<()> {
        let (dir, _) =
            birth.identity.ok_or(ZplError::Unsupported("making a directory of extended attributes"))?;
        let znode = self.znode(owner).await?;
        let _lock = znode.lock.whole().await;
        znode.check_alive()?;
        let mut attrs = znode.image().to_attrs();
        self.sa.with(|tables| attrs.set_word(tables, ZplAttr::Xattr, dir.get()));
        let owner_image = self.sa.build(&attrs, znode.dnode.bonus_capacity()).await?;
        let mut image = self.newborn(&znode, NewNode::Directory, &birth).await?;
        image.set_word(ZplAttr::Flags, image.word(ZplAttr::Flags) | flags::XATTR);
        let tx = self.begin().await?;
        self.cache.insert(self.bring_up(&tx, NewNode::Directory, &birth, image).await?);
        znode.store(&tx, owner_image)?;
        self.journal.names(origin, &tx, false, || unreachable!("only replay makes them"));
        Ok(())
    }

    async fn check_mode(&self, znode: &Znode, list: &NvList, name: &[u8], mode: XattrMode) -> Result<()> {
        let is_file = match self.xattr_dir(znode).await? {
            Some(dir) => dir.lookup_u64(name).await?.is_some(),
            None => false,
        };
        match (mode, list.contains(text(name)?), is_file) {
            (_, false, true) => Err(ZplError::Unsupported("changing an extended attribute that is a file")),
            (XattrMode::Create, true, _) => Err(ZplError::Exists),
            (XattrMode::Replace, false, false) => Err(ZplError::NoAttribute),
            _ => Ok(()),
        }
    }

    /// The attributes in `DXATTR`. The caller holds a lock of the object.
    fn xattrs(&self, znode: &Znode) -> Result<Arc<NvList>> {
        if let Some(list) = znode.cached_xattrs() {
            return Ok(list);
        }
        let list = match znode.bytes(ZplAttr::Dxattr) {
            Some(packed) if !packed.is_empty() => NvList::decode(&packed)?,
            _ => NvList::new(),
        };
        let list = Arc::new(list);
        znode.cache_xattrs(Arc::clone(&list));
        Ok(list)
    }

    async fn xattr_dir(&self, znode: &Znode) -> Result<Option<Zap>> {
        match znode.word(ZplAttr::Xattr) {
            0 => Ok(None),
            object => Ok(Some(self.znode(ObjectId::new(object)).await?.zap()?.clone())),
        }
    }

    async fn xattr_file(&self, dir: &Zap, name: &[u8]) -> Result<Vec<u8>> {
        let word = dir.lookup_u64(name).await?.ok_or(ZplError::NoAttribute)?;
        let file = self.znode(Dirent::decode(word).object).await?;
        let mut value = vec![0; usize::try_from(file.size().min(64 << 10)).expect("64 KiB")];
        file.dnode.read(0, &mut value).await?;
        Ok(value)
    }
}

/// Names are text in the packed list.
fn text(name: &[u8]) -> Result<&str> {
    match name.len() {
        0 => Err(ZplError::Invalid("an empty attribute name")),
        1..=NAME_MAX => std::str::from_utf8(name).map_err(|_| ZplError::NameNotText),
        _ => Err(ZplError::NameTooLong),
    }
}
