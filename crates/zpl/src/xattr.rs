//! Extended attributes, in one of two homes.
//!
//! ```text
//!  xattr=sa   system attribute DXATTR: one packed list of names and bytes, in the bonus or the
//!             spill block; what does not fit goes the other way
//!  xattr=dir  files in a hidden directory ([`crate::xattr_dir`])
//! ```
//! A name is in one home at a time. Lookups search both homes, whatever the option is now. A crash
//! while a name changes its home can leave a value in each home; then the system attribute counts.
//! POSIX ACLs are attributes with a meaning ([`crate::posix_acl`]).

use std::sync::Arc;

use env::boxed;
use journal::{Origin, Span};
use ondisk::NvList;
use ondisk::NvValue;
use ondisk::ObjectType;
use ondisk::zil::LogRecord;
use ondisk::zil::record::LrSetSaXattr;
use units::{ObjectId, Txg};

use crate::access::Want;
use crate::error::{Result, ZplError};
use crate::mode::{FileKind, MODE_PERMISSIONS, MODE_SETGID};
use crate::options::XattrPolicy;
use crate::posix_acl::{self, PosixAcl, is_acl};
use crate::sa::ZplAttr;
use crate::setattr::SetAttributes;
use crate::xattr_dir::VALUE_MAX;
use crate::zfs::Zfs;
use crate::znode::{Znode, stamp_change};

/// The longest name, in bytes.
const NAME_MAX: usize = 255;
/// The longest value that goes into a system attribute.
const SYSTEM_VALUE_MAX: usize = 32 << 10;
/// The largest packed size of all attributes of an object: the length of a system attribute is
/// stored in 16 bits.
/// (test: `a_list_of_attributes_is_as_long_as_its_length_can_say_and_no_longer`)
const PACKED_MAX: usize = u16::MAX as usize;
/// Nine permission bits: what an ACL says too.
const MODE_ACL: u32 = 0o777;

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

/// Where an attribute is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Homes {
    pub system: bool,
    pub file: bool,
}

/// Which commits include the record of a system attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommitScope {
    /// Commits of the object.
    ByOwn,
    /// All commits, together with the earlier records of the object.
    ByAny,
}

impl CommitScope {
    /// For an attribute that is not in a file. Attributes that grant rights are included as names
    /// are.
    pub(crate) fn of_system(name: &[u8]) -> Self {
        if is_acl(name) { Self::ByAny } else { Self::ByOwn }
    }
}

impl Homes {
    /// For an attribute that moves to or from a file. All commits include the records of a file's
    /// name and contents, so they must include the record of the list too. One record without the
    /// other would lose the attribute.
    /// (test: `an_attribute_that_changes_its_home_survives_a_commit_of_another_file`)
    fn taken_by(self, name: &[u8]) -> CommitScope {
        if self.file { CommitScope::ByAny } else { CommitScope::of_system(name) }
    }

    fn check(self, mode: XattrMode) -> Result<()> {
        match (mode, self.system || self.file) {
            (XattrMode::Create, true) => Err(ZplError::Exists),
            (XattrMode::Replace, false) => Err(ZplError::NoAttribute),
            _ => Ok(()),
        }
    }
}

impl Zfs {
    /// The value of an attribute.
    ///
    /// # Errors
    /// [`ZplError::NoAttribute`].
    #[boxed]
    pub async fn xattr(&self, object: ObjectId, name: &[u8]) -> Result<Vec<u8>> {
        check_name(name)?;
        let znode = self.znode(object).await?;
        let _shared = znode.lock.shared(Span::ALL).await;
        znode.check_alive()?;
        self.check_xattr(Origin::Client, &znode, name, Want::READ_XATTR).await?;
        self.xattr_of(&znode, name).await?.ok_or(ZplError::NoAttribute)
    }

    /// The value of an attribute of an object whose lock the caller holds.
    pub(crate) async fn xattr_of(&self, znode: &Znode, name: &[u8]) -> Result<Option<Vec<u8>>> {
        let list = self.xattrs(znode)?;
        if let Some(value) = std::str::from_utf8(name).ok().and_then(|key| list.get_bytes(key)) {
            return Ok(Some(value.to_vec()));
        }
        let Some(dir) = self.xattr_dir(znode).await? else { return Ok(None) };
        match self.xattr_file(&dir, name).await? {
            Some(file) => Ok(Some(self.xattr_file_value(&file).await?)),
            None => Ok(None),
        }
    }

    /// The names of all attributes.
    ///
    /// # Errors
    /// Those of reading.
    #[boxed]
    pub async fn xattr_names(&self, object: ObjectId) -> Result<Vec<Vec<u8>>> {
        let znode = self.znode(object).await?;
        let _shared = znode.lock.shared(Span::ALL).await;
        znode.check_alive()?;
        let mut names: Vec<Vec<u8>> =
            self.xattrs(&znode)?.iter().map(|(name, _)| name.as_bytes().to_vec()).collect();
        if let Some(dir) = self.xattr_dir(&znode).await? {
            for entry in dir.zap()?.all().await? {
                if !names.contains(&entry.name) {
                    names.push(entry.name);
                }
            }
        }
        names.retain(|name| self.shows_xattr(name));
        Ok(names)
    }

    /// Sets an attribute. An access ACL sets the mode too.
    ///
    /// # Errors
    /// [`ZplError::Exists`], [`ZplError::NoAttribute`] by `mode`; [`ZplError::TooBig`];
    /// [`ZplError::Unsupported`] where the dataset has none.
    #[boxed]
    pub async fn set_xattr(
        &self,
        object: ObjectId,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<()> {
        self.check_settable()?;
        if is_acl(name) {
            self.set_acl(object, name, value, MODE_PERMISSIONS).await?;
        } else {
            self.change_xattr(object, name, Some(value), mode).await?;
        }
        self.commit_if_always(object).await
    }

    /// Sets an ACL for a caller who may not keep the set-group-id bit: one who is neither in the
    /// group of the object nor privileged. An access ACL clears the bit, a default ACL does not.
    ///
    /// # Errors
    /// As [`Zfs::set_xattr`]; [`ZplError::Invalid`] for an attribute that is no ACL.
    #[boxed]
    pub async fn set_acl_without_setgid(&self, object: ObjectId, name: &[u8], value: &[u8]) -> Result<()> {
        self.check_settable()?;
        if !is_acl(name) {
            return Err(ZplError::Invalid("not the name of an ACL"));
        }
        self.set_acl(object, name, value, MODE_PERMISSIONS & !MODE_SETGID).await?;
        self.commit_if_always(object).await
    }

    fn check_settable(&self) -> Result<()> {
        self.check_writable()?;
        match self.options().xattr {
            XattrPolicy::Off => Err(ZplError::Unsupported("extended attributes (xattr=off)")),
            XattrPolicy::System | XattrPolicy::Directory => Ok(()),
        }
    }

    /// Stores an ACL, unless the mode says all of it. An access ACL clears the bits of the mode that
    /// `kept` lacks.
    async fn set_acl(&self, object: ObjectId, name: &[u8], value: &[u8], kept: u32) -> Result<()> {
        if !self.options().posix_acls {
            return Err(ZplError::Unsupported("POSIX ACLs (acltype=off)"));
        }
        let kind = self.attributes(object).await?.kind;
        let acl = PosixAcl::decode(value)?;
        match (kind, name == posix_acl::DEFAULT) {
            (FileKind::Symlink, _) => return Err(ZplError::Unsupported("ACLs of symbolic links")),
            (FileKind::Directory, true) | (_, false) => {}
            (_, true) => return Err(ZplError::AccessDenied),
        }
        let is_stored = name == posix_acl::DEFAULT || !acl.is_minimal();
        let value = is_stored.then(|| acl.encode());
        match self.change_xattr(object, name, value.as_deref(), XattrMode::Set).await {
            Err(ZplError::NoAttribute) if !is_stored => {}
            other => other?,
        }
        if name == posix_acl::DEFAULT {
            return Ok(());
        }
        let special = self.attributes(object).await?.permissions & kept & !MODE_ACL;
        let permissions = Some(special | acl.permissions());
        self.change_attributes(object, SetAttributes { permissions, ..SetAttributes::default() }).await?;
        Ok(())
    }

    /// The mode was changed: has the access ACL, if there is one, say the same.
    pub(crate) async fn follow_mode(&self, object: ObjectId, permissions: u32) -> Result<()> {
        let znode = self.znode(object).await?;
        let stored = {
            let _shared = znode.lock.shared(Span::ALL).await;
            self.xattr_of(&znode, posix_acl::ACCESS).await?
        };
        let Some(stored) = stored else { return Ok(()) };
        let acl = PosixAcl::decode(&stored)?.with_permissions(permissions).encode();
        if acl == stored {
            return Ok(());
        }
        self.change_xattr(object, posix_acl::ACCESS, Some(&acl), XattrMode::Set).await
    }

    /// The ACL that a directory hands on, if it has one.
    pub(crate) async fn default_acl(&self, dir: &Znode) -> Result<Option<PosixAcl>> {
        if !self.options().posix_acls {
            return Ok(None);
        }
        let _shared = dir.lock.shared(Span::ALL).await;
        let stored = self.xattr_of(dir, posix_acl::DEFAULT).await?;
        stored.map(|bytes| PosixAcl::decode(&bytes)).transpose()
    }

    /// Removes an attribute.
    ///
    /// # Errors
    /// [`ZplError::NoAttribute`].
    #[boxed]
    pub async fn remove_xattr(&self, object: ObjectId, name: &[u8]) -> Result<()> {
        self.check_writable()?;
        self.change_xattr(object, name, None, XattrMode::Replace).await?;
        self.commit_if_always(object).await
    }

    pub(crate) async fn change_xattr(
        &self,
        object: ObjectId,
        name: &[u8],
        value: Option<&[u8]>,
        mode: XattrMode,
    ) -> Result<()> {
        check_name(name)?;
        if value.is_some_and(|value| value.len() > VALUE_MAX) {
            return Err(ZplError::TooBig);
        }
        let znode = self.znode(object).await?;
        let _lock = znode.lock.whole().await;
        znode.check_alive()?;
        znode.check_mutable(Origin::Client)?;
        self.check_xattr(Origin::Client, &znode, name, Want::WRITE_XATTR).await?;
        let homes = self.homes(&znode, name).await?;
        homes.check(mode)?;
        znode.note_xattr(name);
        let Some(value) = value else { return self.remove_from(&znode, name, homes).await };
        if self.prefers_system(&znode, name) {
            match self.store_system(Origin::Client, &znode, name, Some(value), homes.taken_by(name)).await {
                Ok(()) if homes.file => return self.remove_xattr_file(&znode, name).await,
                Err(ZplError::TooBig) => {}
                other => return other,
            }
        }
        self.store_xattr_file(&znode, name, value).await?;
        match homes.system {
            true => self.store_system(Origin::Client, &znode, name, None, CommitScope::ByAny).await,
            false => Ok(()),
        }
    }

    /// Removes the attribute from these homes. If both have a value, the value that counts is
    /// removed last.
    pub(crate) async fn remove_from(&self, znode: &Arc<Znode>, name: &[u8], homes: Homes) -> Result<()> {
        if !homes.system && !homes.file {
            return Err(ZplError::NoAttribute);
        }
        if homes.file {
            self.remove_xattr_file(znode, name).await?;
        }
        match homes.system {
            true => self.store_system(Origin::Client, znode, name, None, homes.taken_by(name)).await,
            false => Ok(()),
        }
    }

    /// Replays a log record of a system attribute. A value in a file stays, because other records
    /// describe the file.
    /// (test: `an_attribute_that_changes_its_home_survives_a_crash_in_one_of_them`)
    ///
    /// # Errors
    /// [`ZplError::NoAttribute`] when the attribute that the record removes does not exist.
    pub(crate) async fn replay_system_xattr(
        &self,
        origin: Origin<'_>,
        object: ObjectId,
        name: &[u8],
        value: Option<&[u8]>,
    ) -> Result<()> {
        check_name(name)?;
        let znode = self.znode(object).await?;
        let _lock = znode.lock.whole().await;
        znode.check_alive()?;
        if znode.dnode.bonus_type() != ObjectType::SA {
            return Err(ZplError::Invalid("a logged system attribute of an object without any"));
        }
        let list = self.xattrs(&znode)?;
        if value.is_none() && !std::str::from_utf8(name).is_ok_and(|key| list.contains(key)) {
            return Err(ZplError::NoAttribute);
        }
        znode.note_xattr(name);
        self.store_system(origin, &znode, name, value, CommitScope::ByOwn).await
    }

    /// Where an attribute is. The caller holds a lock of the object.
    pub(crate) async fn homes(&self, znode: &Znode, name: &[u8]) -> Result<Homes> {
        let list = self.xattrs(znode)?;
        let system = std::str::from_utf8(name).is_ok_and(|key| list.contains(key));
        let file = match self.xattr_dir(znode).await? {
            Some(dir) => dir.zap()?.lookup_u64(name).await?.is_some(),
            None => false,
        };
        Ok(Homes { system, file })
    }

    /// Whether all of these can be system attributes of a new object.
    pub(crate) fn are_system(&self, xattrs: &[(&'static [u8], Vec<u8>)]) -> bool {
        let fits = |(_, value): &(&[u8], Vec<u8>)| value.len() <= SYSTEM_VALUE_MAX;
        self.sa.is_system()
            && self.options().xattr == XattrPolicy::System
            && xattrs.iter().all(fits)
            && packed_xattrs(xattrs).is_ok_and(|packed| packed.len() <= PACKED_MAX)
    }

    /// Names are text in the packed list; old znodes have no room for one.
    fn prefers_system(&self, znode: &Znode, name: &[u8]) -> bool {
        let wanted = self.options().xattr == XattrPolicy::System;
        wanted && znode.dnode.bonus_type() == ObjectType::SA && std::str::from_utf8(name).is_ok()
    }

    /// Changes the packed list. The caller holds the whole lock.
    async fn store_system(
        &self,
        origin: Origin<'_>,
        znode: &Arc<Znode>,
        name: &[u8],
        value: Option<&[u8]>,
        taken: CommitScope,
    ) -> Result<()> {
        let key = std::str::from_utf8(name).map_err(|_| ZplError::NameNotText)?;
        let mut list = (*self.xattrs(znode)?).clone();
        match value {
            Some(value) if value.len() > SYSTEM_VALUE_MAX => return Err(ZplError::TooBig),
            Some(value) => {
                list.add(key, NvValue::ByteArray(value.to_vec()));
            }
            None => {
                list.remove(key);
            }
        }
        let packed = list.encode();
        if packed.len() > PACKED_MAX && value.is_some() {
            return Err(ZplError::TooBig);
        }
        let mut attrs = self.sa.attrs_of(&znode.image())?;
        self.sa.with(|tables| attrs.set_known(tables, ZplAttr::Dxattr, &packed));
        let mut image = self.sa.build(&attrs, znode.dnode.bonus_capacity()).await?;
        let plan = self.plan().await?;
        stamp_change(&mut image, self.now());
        znode.store(&plan, image)?;
        Ok(plan.apply_with(|txg| {
            znode.cache_xattrs(Arc::new(list));
            if origin.is_replay() || znode.word(ZplAttr::Links) > 0 {
                self.journal_xattr(origin, txg, znode.object(), (name, value), taken);
            }
        })?)
    }

    pub(crate) fn journal_xattr(
        &self,
        origin: Origin<'_>,
        txg: Txg,
        object: ObjectId,
        (name, value): (&[u8], Option<&[u8]>),
        taken: CommitScope,
    ) {
        // An empty value and a removal look the same in a record. Only the latter goes to the log; the
        // former waits for its txg.
        let logged = self.is_logged() && self.options().log_xattrs && value.is_none_or(|v| !v.is_empty());
        let record = || {
            let value = value.unwrap_or_default().to_vec();
            LogRecord::SetSaXattr(LrSetSaXattr { object, name: name.to_vec(), value })
        };
        match taken {
            // Rights go with the names: nobody is to find an object without them.
            CommitScope::ByAny if is_acl(name) => self.journal.names(origin, txg, logged, record),
            CommitScope::ByAny => self.journal.names_with(origin, txg, logged, object, record),
            CommitScope::ByOwn => self.journal.object(origin, txg, logged, object, record),
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
}

/// Extended attributes as the system attribute that holds them all.
///
/// # Errors
/// [`ZplError::NameNotText`].
pub(crate) fn packed_xattrs(xattrs: &[(&'static [u8], Vec<u8>)]) -> Result<Vec<u8>> {
    let mut list = NvList::new();
    for (name, value) in xattrs {
        let key = std::str::from_utf8(name).map_err(|_| ZplError::NameNotText)?;
        list.add(key, NvValue::ByteArray(value.clone()));
    }
    Ok(list.encode())
}

fn check_name(name: &[u8]) -> Result<()> {
    match name.len() {
        0 => Err(ZplError::Invalid("an empty attribute name")),
        1..=NAME_MAX => Ok(()),
        _ => Err(ZplError::NameTooLong),
    }
}
