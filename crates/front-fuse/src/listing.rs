//! Listing directories, with attributes (READDIRPLUS) or without.

use rustix::io::Errno;
use units::ObjectId;
use zpl::{FileKind, ListEntry};

use crate::abi::{Dirent, EntryOut};
use crate::attr::file_type;
use crate::files::Files;
use crate::reply::Reply;
use crate::request::Request;

/// Directory entries fetched at a time.
const LIST_ENTRIES: usize = 256;
/// Entries with attributes fetched at a time: about as many as fit into an answer of 4 KiB.
const LIST_PLUS_ENTRIES: usize = 24;
/// Records begin at multiples of this.
const ALIGN: usize = 8;

/// What is listed of each entry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
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
            let entries = self.run(self.zfs.list(dir, cookie, form.at_once())).await?;
            if entries.is_empty() {
                return Ok(());
            }
            for entry in entries {
                let before = reply.len();
                if form == Form::NameAndAttributes {
                    self.put_attributes(dir, &entry, reply).await;
                }
                self.put_dirent(&entry, reply);
                if reply.len() > args.size as usize {
                    reply.cut(before);
                    return Ok(());
                }
                cookie = entry.next;
            }
        }
    }

    async fn put_attributes(&self, dir: ObjectId, entry: &ListEntry, reply: &mut Reply) {
        let is_dot = matches!(entry.name.as_slice(), b"." | b"..");
        // One that has gone meanwhile, or cannot be read, is listed by its name alone.
        let found = if is_dot { None } else { self.run(self.zfs.lookup(dir, &entry.name)).await.ok() };
        reply.put(&found.map_or_else(EntryOut::default, |found| self.inodes.entry_out(&found)));
    }

    fn put_dirent(&self, entry: &ListEntry, reply: &mut Reply) {
        reply.put(&Dirent {
            ino: self.inodes.inode(entry.object),
            off: entry.next,
            namelen: entry.name.len() as u32,
            kind: file_type(entry.kind.unwrap_or(FileKind::File)) >> 12,
        });
        reply.put_bytes(&entry.name);
        reply.room(entry.name.len().next_multiple_of(ALIGN) - entry.name.len()).fill(0);
    }
}
