//! Listing directories, with attributes (READDIRPLUS) or without.

use rustix::io::Errno;
use zpl::{FileKind, ListEntry};

use crate::abi::{Dirent, EntryOut, ReadIn};
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

impl Files {
    pub fn readdir(&self, request: &mut Request<'_>, reply: &mut Reply) -> Result<(), Errno> {
        self.list(request, reply, LIST_ENTRIES, |entry, reply| self.put_dirent(entry, reply))
    }

    pub fn readdirplus(&self, request: &mut Request<'_>, reply: &mut Reply) -> Result<(), Errno> {
        let dir = request.object();
        self.list(request, reply, LIST_PLUS_ENTRIES, |entry, reply| {
            let is_dot = matches!(entry.name.as_slice(), b"." | b"..");
            // One that has gone meanwhile, or cannot be read, is listed by its name alone.
            let found = if is_dot { Err(Errno::NOENT) } else { self.run(self.zfs.lookup(dir, &entry.name)) };
            reply.put(&found.map_or_else(|_| EntryOut::default(), |found| self.inodes.entry_out(&found)));
            self.put_dirent(entry, reply);
        })
    }

    /// Puts entries from the asked place on until the answer is full or the directory ends.
    fn list(
        &self,
        request: &mut Request<'_>,
        reply: &mut Reply,
        at_once: usize,
        put: impl Fn(&ListEntry, &mut Reply),
    ) -> Result<(), Errno> {
        let args: ReadIn = request.take()?;
        let mut cookie = args.offset;
        loop {
            let entries = self.run(self.zfs.list(request.object(), cookie, at_once))?;
            if entries.is_empty() {
                return Ok(());
            }
            for entry in entries {
                let before = reply.len();
                put(&entry, reply);
                if reply.len() > args.size as usize {
                    reply.cut(before);
                    return Ok(());
                }
                cookie = entry.next;
            }
        }
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
