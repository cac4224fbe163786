//! Bookmarks: where a snapshot was in time, kept when the snapshot is gone, so that what came later can still be told.
//!
//! ```text
//!  dataset object (a ZAP) ─ "com.delphix:bookmarks" ─► ZAP: name ─► BookmarkPhys
//! ```
//! With the feature `bookmark_written` they also know what their snapshot referred to, and count what was freed of
//! that until the next snapshot came: see `freed`.

mod freed;

use dmu::Tx;
use dmu::zap::{NORM_TOUPPER, Zap, ZapSpec, ZapValue};
use env::boxed;
use ondisk::ObjectType;
use ondisk::dsl::{BOOKMARK_WORDS, BOOKMARK_WORDS_V1, BookmarkPhys, dataset_names};
use units::ObjectId;
use zerocopy::little_endian::U64;

use crate::dataset::Dataset;
use crate::features::{BOOKMARK_V2, BOOKMARK_WRITTEN, BOOKMARKS, REDACTION_BOOKMARKS, REDACTION_LIST_SPILL};
use crate::names::NAME_BYTES_MAX;
use crate::{DatasetName, Dsl, DslError, RedactionList, check_snapshot_name};

/// A bookmark that counts what was freed since its snapshot ([`BookmarkPhys::flags`]).
const HAS_FREED: u64 = 1;
/// A bookmark whose snapshot is still there.
const SNAPSHOT_EXISTS: u64 = 2;

/// A bookmark of a head, as it lies in the head's ZAP.
#[derive(Clone, Debug)]
pub(crate) struct Bookmark {
    name: String,
    phys: BookmarkPhys,
    /// How many words it has there: older ones have fewer.
    words: usize,
}

impl Bookmark {
    /// What follows the `#` in its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// What it says was freed of its snapshot's blocks before the next one came, in bytes.
    pub(crate) fn freed_bytes(&self) -> u64 {
        self.phys.freed_before_next[0].get()
    }

    /// Its list of blocks that are left out of a redacted send, if it has one.
    pub(crate) fn redaction_object(&self) -> Option<ObjectId> {
        match self.phys.redaction_object.get() {
            0 => None,
            object => Some(ObjectId::new(object)),
        }
    }

    /// What its snapshot referred to, in bytes.
    pub(crate) fn referenced_bytes(&self) -> u64 {
        self.phys.referenced[0].get()
    }

    /// The txg of its snapshot.
    pub(crate) fn made(&self) -> u64 {
        self.phys.creation_txg.get()
    }

    /// Whether it counts what is freed.
    pub(crate) fn counts(&self) -> bool {
        self.words >= BOOKMARK_WORDS - 1 && self.phys.flags.get() & HAS_FREED != 0
    }
}

/// What a bookmark says of its snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BookmarkInfo {
    /// Full name, `pool/fs#mark`.
    pub name: String,
    /// The snapshot's guid.
    pub guid: u64,
    /// Its txg.
    pub creation_txg: u64,
    /// When it was made, in seconds since 1970.
    pub creation_secs: u64,
    /// What the snapshot referred to, where that was noted: bytes on disk, compressed, before compression.
    pub referenced: Option<[u64; 3]>,
    /// Guids of snapshots by which blocks are left out of a redacted send: it has a list of them.
    pub redact_snaps: Option<Vec<u64>>,
}

impl Dsl {
    /// Bookmarks of a head, by name.
    ///
    /// # Errors
    /// Damage, and those of reading the MOS.
    #[boxed]
    pub async fn bookmarks(&self, of: &DatasetName) -> Result<Vec<BookmarkInfo>, DslError> {
        let head = self.loaded_dataset(of.dataset).await?;
        let marks = self.bookmark_list(&head).await?;
        let mut infos = Vec::with_capacity(marks.len());
        for mark in marks {
            let redact_snaps = match mark.redaction_object() {
                Some(object) => Some(self.redaction_snaps(object).await?.0),
                None => None,
            };
            infos.push(BookmarkInfo {
                name: format!("{}#{}", of.name, mark.name),
                guid: mark.phys.guid.get(),
                creation_txg: mark.made(),
                creation_secs: mark.phys.creation_time.get(),
                referenced: mark.counts().then(|| mark.phys.referenced.map(U64::get)),
                redact_snaps,
            });
        }
        Ok(infos)
    }

    /// Whether a bookmark of this name, `pool/fs#mark`, can be made from a snapshot of the same dataset or another
    /// bookmark.
    ///
    /// # Errors
    /// [`DslError::BadName`], [`DslError::Exists`], [`DslError::NoSuchDataset`],
    /// [`DslError::BookmarksDisabled`], and those of reading the MOS.
    #[boxed]
    pub async fn check_bookmark(&self, source: &str, name: &str) -> Result<(), DslError> {
        if self.feature_count(&BOOKMARKS).await?.is_none() {
            return Err(DslError::BookmarksDisabled);
        }
        let (of, mark) = split_bookmark(name)?;
        check_snapshot_name(mark)?;
        if name.len() > NAME_BYTES_MAX {
            return Err(DslError::BadName { name: name.to_owned(), why: "too long" });
        }
        let head = self.loaded_dataset(self.resolve(of).await?.dataset).await?;
        if self.bookmark_list(&head).await?.iter().any(|other| other.name == mark) {
            return Err(DslError::Exists { name: name.to_owned() });
        }
        let made = self.new_bookmark(source).await?;
        match self.is_before(&head, &made).await? {
            true => Ok(()),
            false => Err(DslError::NotOfDataset { name: source.to_owned() }),
        }
    }

    /// Makes a bookmark, as [`Dsl::check_bookmark`] approves of.
    ///
    /// # Errors
    /// Those of changing the MOS.
    #[boxed]
    pub async fn create_bookmark(&self, tx: &Tx, source: &str, name: &str) -> Result<(), DslError> {
        let redacted_by = match source.contains('@') {
            true => self.redact_snaps(&self.resolve(source).await?).await?,
            false => None,
        };
        // What was left out of a redacted snapshot is not known: the list says only by what.
        let list = match redacted_by {
            Some(snaps) if self.feature_count(&REDACTION_BOOKMARKS).await?.is_some() => {
                Some(self.create_redaction_list(tx, &snaps, &[]).await?)
            }
            _ => None,
        };
        self.put_bookmark(tx, source, name, list).await
    }

    /// Makes a bookmark with a list of blocks that a redacted send leaves out, as [`Dsl::check_bookmark`] approves of.
    ///
    /// # Errors
    /// Those of changing the MOS.
    #[boxed]
    pub async fn create_redaction_bookmark(
        &self,
        tx: &Tx,
        snapshot: &str,
        name: &str,
        list: &RedactionList,
    ) -> Result<(), DslError> {
        let object = self.create_redaction_list(tx, &list.snaps, &list.blocks).await?;
        self.put_bookmark(tx, snapshot, name, Some(object)).await
    }

    async fn put_bookmark(
        &self,
        tx: &Tx,
        source: &str,
        name: &str,
        list: Option<ObjectId>,
    ) -> Result<(), DslError> {
        let (of, mark) = split_bookmark(name)?;
        let head = self.loaded_dataset(self.resolve(of).await?.dataset).await?;
        let redaction_object = U64::new(list.map_or(0, ObjectId::get));
        let phys = BookmarkPhys { redaction_object, ..self.new_bookmark(source).await? };
        let counts = phys.flags.get() & HAS_FREED != 0;
        let is_long = (counts || list.is_some() || phys.ivset_guid.get() != 0)
            && self.feature_count(&BOOKMARK_V2).await?.is_some();
        let words = if is_long { BOOKMARK_WORDS } else { BOOKMARK_WORDS_V1 };
        if is_long {
            self.count_feature(tx, &BOOKMARK_V2, 1).await?;
        }
        if counts {
            self.count_feature(tx, &BOOKMARK_WRITTEN, 1).await?;
        }
        let marks = self.bookmark_zap_for(tx, &head).await?;
        store(tx, &marks, &Bookmark { name: mark.to_owned(), phys, words }).await
    }

    /// Destroys a bookmark.
    ///
    /// # Errors
    /// [`DslError::NoSuchDataset`], and those of changing the MOS.
    #[boxed]
    pub async fn destroy_bookmark(&self, tx: &Tx, name: &str) -> Result<(), DslError> {
        let (of, mark) = split_bookmark(name)?;
        let head = self.loaded_dataset(self.resolve(of).await?.dataset).await?;
        let mut others = self.bookmark_list(&head).await?;
        let at = others.iter().position(|other| other.name == mark);
        let gone = others.swap_remove(at.ok_or_else(|| DslError::no_such(name))?);
        let marks = self.bookmark_zap(&head).await?.ok_or_else(|| DslError::no_such(name))?;
        marks.remove(tx, mark.as_bytes()).await?;
        self.uncount_bookmark(tx, &gone).await?;
        self.give_up_key_of(tx, &head, &gone, &others).await?;
        if others.is_empty() {
            self.fields_of(tx, head.dnode()).await?.remove(tx, dataset_names::BOOKMARKS.as_bytes()).await?;
            self.free_bookmark_zap(tx, &marks).await?;
        }
        Ok(())
    }

    /// Destroys all bookmarks of a head that goes.
    pub(crate) async fn destroy_all_bookmarks(&self, tx: &Tx, head: &Dataset) -> Result<(), DslError> {
        let Some(marks) = self.bookmark_zap(head).await? else { return Ok(()) };
        for mark in self.bookmark_list(head).await? {
            self.uncount_bookmark(tx, &mark).await?;
        }
        self.free_bookmark_zap(tx, &marks).await
    }

    async fn free_bookmark_zap(&self, tx: &Tx, marks: &Zap) -> Result<(), DslError> {
        self.mos.free_object(tx, marks.object()).await?;
        self.count_feature(tx, &BOOKMARKS, -1).await
    }

    /// Features that a bookmark used are used less, and its list of redacted blocks goes.
    async fn uncount_bookmark(&self, tx: &Tx, mark: &Bookmark) -> Result<(), DslError> {
        if mark.words > BOOKMARK_WORDS_V1 {
            self.count_feature(tx, &BOOKMARK_V2, -1).await?;
        }
        if mark.counts() {
            self.count_feature(tx, &BOOKMARK_WRITTEN, -1).await?;
        }
        let redaction = ObjectId::new(mark.phys.redaction_object.get());
        if redaction.get() != 0 {
            if self.mos.hold(redaction).await?.bonus().is_empty() {
                self.count_feature(tx, &REDACTION_LIST_SPILL, -1).await?;
            }
            self.mos.free_object(tx, redaction).await?;
            self.count_feature(tx, &REDACTION_BOOKMARKS, -1).await?;
        }
        Ok(())
    }

    /// Bookmarks of a head, as they lie there, by name.
    pub(crate) async fn bookmark_list(&self, head: &Dataset) -> Result<Vec<Bookmark>, DslError> {
        let Some(zap) = self.bookmark_zap(head).await? else { return Ok(Vec::new()) };
        let damaged = || DslError::damaged(zap.object(), "bookmark");
        let mut marks = Vec::new();
        for entry in zap.all().await? {
            let ZapValue::U64(words) = &entry.value else { return Err(damaged()) };
            let phys = BookmarkPhys::from_words(words).map_err(|_| damaged())?;
            let name = String::from_utf8(entry.name).map_err(|_| damaged())?;
            marks.push(Bookmark { name, phys, words: words.len() });
        }
        marks.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(marks)
    }

    /// A bookmark, and the dir whose head has it.
    pub(crate) async fn find_bookmark(&self, name: &str) -> Result<(ObjectId, Bookmark), DslError> {
        let (of, mark) = split_bookmark(name)?;
        let of = self.resolve(of).await?;
        let head = self.loaded_dataset(of.dataset).await?;
        let found = self.bookmark_list(&head).await?.into_iter().find(|other| other.name == mark);
        Ok((of.dir, found.ok_or_else(|| DslError::no_such(name))?))
    }

    async fn bookmark_zap(&self, head: &Dataset) -> Result<Option<Zap>, DslError> {
        if head.dnode().object_type() != ObjectType::OTN_ZAP_METADATA {
            return Ok(None);
        }
        let fields = self.zap(head.object().get()).await?;
        match fields.lookup_u64(dataset_names::BOOKMARKS.as_bytes()).await? {
            Some(marks) => Ok(Some(self.zap(marks).await?)),
            None => Ok(None),
        }
    }

    /// A head's ZAP of bookmarks, made if there was none.
    async fn bookmark_zap_for(&self, tx: &Tx, head: &Dataset) -> Result<Zap, DslError> {
        if let Some(marks) = self.bookmark_zap(head).await? {
            return Ok(marks);
        }
        let spec = ZapSpec { normflags: NORM_TOUPPER, ..ZapSpec::new(ObjectType::OTN_ZAP_METADATA) };
        let marks = Zap::create(&self.mos, tx, &spec).await?;
        self.count_feature(tx, &BOOKMARKS, 1).await?;
        let fields = self.fields_of(tx, head.dnode()).await?;
        fields.add_u64(tx, dataset_names::BOOKMARKS.as_bytes(), marks.object().get()).await?;
        Ok(marks)
    }

    /// What a bookmark made from this snapshot, or copied from this bookmark, is to say.
    async fn new_bookmark(&self, source: &str) -> Result<BookmarkPhys, DslError> {
        if source.contains('#') {
            let (_, found) = self.find_bookmark(source).await?;
            return Ok(BookmarkPhys { redaction_object: U64::ZERO, ..found.phys });
        }
        let snapshot = self.resolve(source).await?;
        if !snapshot.is_snapshot() {
            return Err(DslError::BadName { name: source.to_owned(), why: "it is no snapshot" });
        }
        let phys = self.dataset(snapshot.dataset).await?;
        let plain = BookmarkPhys {
            guid: phys.guid,
            creation_txg: phys.creation_txg,
            creation_time: phys.creation_time,
            ..BookmarkPhys::default()
        };
        if self.feature_count(&BOOKMARK_WRITTEN).await?.is_none() {
            return Ok(plain);
        }
        let next = self.dataset(ObjectId::new(phys.next_snapshot.get())).await?;
        Ok(BookmarkPhys {
            flags: U64::new(HAS_FREED | SNAPSHOT_EXISTS),
            referenced: [phys.referenced_bytes, phys.compressed_bytes, phys.uncompressed_bytes],
            freed_before_next: freed::figures(self.deadlist_total(ObjectId::new(next.deadlist.get())).await?),
            ..plain
        })
    }

    /// Whether a bookmark's snapshot is or was one of those before a head, in its dir or in those it began from.
    async fn is_before(&self, head: &Dataset, mark: &BookmarkPhys) -> Result<bool, DslError> {
        let guid = mark.guid.get();
        let mut before = self.before(head).await?;
        while let Some(snapshot) = before {
            if snapshot.phys().guid.get() == guid {
                return Ok(true);
            }
            before = self.before(&snapshot).await?;
        }
        // Its snapshot is gone: a bookmark of the head itself is before it for all that.
        Ok(self.bookmark_list(head).await?.iter().any(|other| other.phys.guid.get() == guid))
    }
}

/// Stores a bookmark under its name, as long as it was.
async fn store(tx: &Tx, marks: &Zap, mark: &Bookmark) -> Result<(), DslError> {
    let mut words = mark.phys.to_words();
    words.truncate(mark.words);
    Ok(marks.update(tx, mark.name.as_bytes(), &ZapValue::U64(words)).await?)
}

/// A bookmark's name as its dataset's and what follows the `#`.
fn split_bookmark(name: &str) -> Result<(&str, &str), DslError> {
    name.split_once('#').ok_or_else(|| DslError::BadName { name: name.to_owned(), why: "it is no bookmark" })
}
