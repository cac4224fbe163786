//! Finding things: names, attributes, link texts, directory contents.

use std::sync::Arc;

use dmu::zap::{Cursor, ZapEntry};
use env::boxed;
use journal::{Origin, Span};
use units::ObjectId;

use crate::access::Want;
use crate::dirent::{Dirent, LONG_NAME_MAX, NAME_MAX};
use crate::error::{Result, ZplError};
use crate::mode::FileKind;
use crate::sa::ZplAttr;
use crate::zfs::Zfs;
use crate::znode::{Attributes, Znode};

/// Cookie of `.`, where listing begins.
const COOKIE_SELF: u64 = 0;
/// Cookie of `..`.
const COOKIE_PARENT: u64 = 1;
/// Up to here a cookie means the first stored entry, as OpenZFS has it (2 is `.zfs`). Stored
/// entries' own cookies are far above: they hold a differentiator of at least 1 in their
/// upper half.
const COOKIE_ENTRIES_LAST: u64 = 3;

/// One line of a directory listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListEntry {
    /// The name.
    pub name: Vec<u8>,
    /// What it refers to.
    pub object: ObjectId,
    /// Its type; `None` where the directory does not say.
    pub kind: Option<FileKind>,
    /// Where the listing goes on after this entry. Stays good while entries come and go.
    pub next: u64,
}

impl Zfs {
    /// What `name` in `dir` refers to; `.` and `..` too.
    ///
    /// # Errors
    /// [`ZplError::NotFound`], [`ZplError::NotDirectory`]; [`ZplError::AccessDenied`].
    #[boxed]
    pub async fn lookup(&self, dir: ObjectId, name: &[u8]) -> Result<Attributes> {
        let parent = self.directory(dir).await?;
        let _shared = parent.lock.shared(Span::ALL).await;
        self.check(Origin::Client, &parent, Want::EXECUTE).await?;
        match name {
            b"." => return Ok(parent.attributes()),
            b".." => return self.attributes(parent.attributes().parent).await,
            _ => {}
        }
        parent.check_linked()?;
        let (_, child) = self.existing(&parent, name).await?;
        Ok(child.attributes())
    }

    /// The object of this number, for a caller who has a handle instead of a name and compares the generation.
    ///
    /// # Errors
    /// [`ZplError::Stale`] for what is no file, has no name, or holds extended attributes.
    #[boxed]
    pub async fn of_number(&self, object: ObjectId) -> Result<Attributes> {
        let znode = self.znode(object).await?;
        znode.check_linked()?;
        if znode.is_hidden() {
            return Err(ZplError::Stale { object });
        }
        Ok(znode.attributes())
    }

    /// The directory above the object of this number.
    ///
    /// # Errors
    /// As [`Self::of_number`].
    #[boxed]
    pub async fn parent_of_number(&self, object: ObjectId) -> Result<Attributes> {
        let parent = self.of_number(object).await?.parent;
        self.of_number(parent).await
    }

    /// The entry `name` and its object. The caller holds the directory's lock, so the entry
    /// keeps its object alive.
    pub(crate) async fn entry_of(&self, dir: &Znode, name: &[u8]) -> Result<Option<(Dirent, Arc<Znode>)>> {
        let Some(word) = dir.zap()?.lookup_u64(name).await? else { return Ok(None) };
        let entry = Dirent::decode(word);
        let znode = self.znode(entry.object).await.map_err(|error| match error {
            ZplError::Stale { object } => ZplError::Damaged {
                objset: self.os.id(),
                object: dir.object(),
                what: format!("an entry names object {object}, which is not there"),
            },
            other => other,
        })?;
        Ok(Some((entry, znode)))
    }

    /// The entry `name`, however long its name is: names longer than new ones may be can only come
    /// from other systems. The caller holds the directory's lock.
    ///
    /// # Errors
    /// [`ZplError::NotFound`]; [`ZplError::NameTooLong`] for what could not be made either.
    pub(crate) async fn existing(&self, dir: &Znode, name: &[u8]) -> Result<(Dirent, Arc<Znode>)> {
        let is_long = name.len() > NAME_MAX;
        let found = if name.len() > LONG_NAME_MAX { None } else { self.entry_of(dir, name).await? };
        found.ok_or(if is_long { ZplError::NameTooLong } else { ZplError::NotFound })
    }

    /// What `stat` tells.
    ///
    /// # Errors
    /// [`ZplError::Stale`].
    #[boxed]
    pub async fn attributes(&self, object: ObjectId) -> Result<Attributes> {
        let znode = self.znode(object).await?;
        znode.check_alive()?;
        Ok(znode.attributes())
    }

    /// The text of a symbolic link.
    ///
    /// # Errors
    /// [`ZplError::Invalid`] for anything else.
    #[boxed]
    pub async fn readlink(&self, object: ObjectId) -> Result<Vec<u8>> {
        let target = self.readlink_locked(object).await;
        self.make_room(object).await;
        target
    }

    async fn readlink_locked(&self, object: ObjectId) -> Result<Vec<u8>> {
        let znode = self.znode(object).await?;
        if znode.kind() != FileKind::Symlink {
            return Err(ZplError::Invalid("not a symbolic link"));
        }
        let _shared = znode.lock.shared(Span::ALL).await;
        znode.check_alive()?;
        self.note_access(&znode);
        if let Some(target) = znode.bytes(ZplAttr::Symlink) {
            return Ok(target);
        }
        // An old znode keeps the text after its attributes, or in its data.
        let size = usize::try_from(znode.size().min(u64::from(u16::MAX))).expect("16 bits");
        if let Some(text) = znode.dnode.bonus().get(OLD_ZNODE_BYTES..OLD_ZNODE_BYTES + size) {
            return Ok(text.to_vec());
        }
        let mut target = vec![0; size];
        znode.dnode.read(0, &mut target).await?;
        Ok(target)
    }

    /// Up to `limit` entries of a directory from `cookie` on (0: the beginning), `.` and `..`
    /// first. None: the end.
    ///
    /// # Errors
    /// [`ZplError::NotDirectory`], and those of reading.
    #[boxed]
    pub async fn list(&self, dir: ObjectId, cookie: u64, limit: usize) -> Result<Vec<ListEntry>> {
        let list = self.list_locked(dir, cookie, limit).await;
        self.make_room(dir).await;
        list
    }

    async fn list_locked(&self, dir: ObjectId, cookie: u64, limit: usize) -> Result<Vec<ListEntry>> {
        let znode = self.directory(dir).await?;
        let _shared = znode.lock.shared(Span::ALL).await;
        self.check(Origin::Client, &znode, Want::READ).await?;
        if znode.check_linked().is_err() {
            return Ok(Vec::new());
        }
        self.note_access(&znode);
        let mut list = Vec::new();
        let dots: [(u64, &[u8], ObjectId); 2] =
            [(COOKIE_SELF, b".", dir), (COOKIE_PARENT, b"..", znode.attributes().parent)];
        for (place, name, object) in dots {
            if cookie <= place && list.len() < limit {
                let kind = Some(FileKind::Directory);
                list.push(ListEntry { name: name.to_vec(), object, kind, next: place + 1 });
            }
        }
        let from = if cookie <= COOKIE_ENTRIES_LAST { Cursor::START } else { Cursor::from_raw(cookie) };
        let wanted = limit - list.len();
        if wanted > 0 {
            let entries = znode.zap()?.entries(from, wanted).await?;
            list.extend(entries.into_iter().filter_map(list_entry));
        }
        Ok(list)
    }
}

/// Bytes of an old znode's attributes in its bonus.
const OLD_ZNODE_BYTES: usize = 264;

fn list_entry(entry: ZapEntry) -> Option<ListEntry> {
    let dmu::zap::ZapValue::U64(words) = &entry.value else { return None };
    let Dirent { object, kind } = Dirent::decode(*words.first()?);
    Some(ListEntry { object, kind, next: entry.next.raw(), name: entry.name })
}
