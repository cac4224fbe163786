//! Listing directories, with attributes (READDIRPLUS) or without.

use std::sync::Arc;

use engine::Snapdir;
use rustix::io::Errno;
use units::ObjectId;
use zpl::{Attributes, FileKind, ListEntry};

use crate::abi::{Dirent, EntryOut};
use crate::attr::file_type;
use crate::ctldir::{CTLDIR, Ctlnode, Setting};
use crate::files::Files;
use crate::reply::Reply;
use crate::request::Request;

/// Directory entries fetched at a time.
const LIST_ENTRIES: usize = 256;
/// Entries with attributes fetched at a time: about as many as fit into an answer of 4 KiB.
const LIST_PLUS_ENTRIES: usize = 24;
/// Records begin at multiples of this.
const ALIGN: usize = 8;
/// Where the control directory stands in the list of the root, behind `.` and `..`, and where what is stored begins.
const COOKIE_CTLDIR: u64 = 2;
const COOKIE_ENTRIES: u64 = 3;

/// What is listed of each entry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Name,
    NameAndAttributes,
}

impl Form {
    /// Entries fetched at a time.
    const fn at_once(self) -> usize {
        match self {
            Self::Name => LIST_ENTRIES,
            Self::NameAndAttributes => LIST_PLUS_ENTRIES,
        }
    }
}

impl Files {
    pub async fn readdir(&self, request: &mut Request<'_>, reply: &mut Reply) -> Result<(), Errno> {
        self.list(request, reply, Form::Name).await
    }

    pub async fn readdirplus(&self, request: &mut Request<'_>, reply: &mut Reply) -> Result<(), Errno> {
        self.list(request, reply, Form::NameAndAttributes).await
    }

    /// Puts entries from the asked place on until the answer is full or the directory ends.
    async fn list(&self, request: &mut Request<'_>, reply: &mut Reply, form: Form) -> Result<(), Errno> {
        let args = request.take_read()?;
        let (dir, mut cookie) = (request.object(), args.offset);
        loop {
            let entries = if self.lists_ctldir(dir, cookie) {
                vec![ctldir_entry()]
            } else {
                self.run(self.zfs.list(dir, cookie, form.at_once())).await?
            };
            if entries.is_empty() {
                return Ok(());
            }
            for entry in entries {
                let before = reply.len();
                let told = match form {
                    Form::NameAndAttributes => self.put_attributes(dir, &entry, reply).await,
                    Form::Name => None,
                };
                let kind = told.as_ref().map(|found| found.kind).or(entry.kind);
                let (ino, kind) =
                    (self.inodes.number(entry.object), kind.map_or(DT_UNKNOWN, |kind| file_type(kind) >> 12));
                let (off, namelen) = (entry.next, entry.name.len() as u32);
                put_dirent(&Dirent { ino, off, namelen, kind }, &entry.name, reply);
                if reply.len() > args.size as usize {
                    reply.cut(before);
                    return Ok(());
                }
                if let Some(found) = told {
                    self.note_entry(&found);
                }
                cookie = entry.next;
                if self.lists_ctldir(dir, cookie) {
                    break;
                }
            }
        }
    }

    /// Whether the control directory stands at that place.
    fn lists_ctldir(&self, dir: ObjectId, cookie: u64) -> bool {
        let shows = |setting: &Arc<Setting>| setting.get() == Snapdir::Visible;
        cookie == COOKIE_CTLDIR && dir == self.inodes.root && self.setting.as_ref().is_some_and(shows)
    }

    /// Adds the attributes of an entry. Returns its inode if the reply has attributes.
    async fn put_attributes(
        &self,
        dir: ObjectId,
        entry: &ListEntry,
        reply: &mut Reply,
    ) -> Option<Attributes> {
        let is_dot = matches!(entry.name.as_slice(), b"." | b".." | CTLDIR);
        // One that has gone meanwhile, or cannot be read, is listed by its name alone.
        let found = if is_dot { None } else { self.run(self.zfs.lookup(dir, &entry.name)).await.ok() };
        reply.put(&found.as_ref().map_or_else(EntryOut::default, |found| self.inodes.entry_out(found)));
        found
    }
}

/// The type of an entry that has none, as the names of file systems of version 1: programs ask for the attributes then
/// (readdir(3)).
const DT_UNKNOWN: u32 = 0;

fn ctldir_entry() -> ListEntry {
    ListEntry {
        name: CTLDIR.to_vec(),
        object: ObjectId::new(Ctlnode::Root.inode()),
        kind: Some(FileKind::Directory),
        next: COOKIE_ENTRIES,
    }
}

/// A line of a list, with the name that it tells the length of.
pub(crate) fn put_dirent(line: &Dirent, name: &[u8], reply: &mut Reply) {
    reply.put(line);
    reply.put_bytes(name);
    reply.room(name.len().next_multiple_of(ALIGN) - name.len()).fill(0);
}
