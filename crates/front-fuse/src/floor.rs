//! A server that does nothing: what a mount costs before there is a file system behind it.
//!
//! It knows names and sizes, for the kernel asks for them, and forgets what is written. What a program pays here it
//! pays to the kernel and to this crate, whatever file system it uses.

use std::collections::HashMap;

use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};
use units::ObjectId;

use crate::abi::{
    Attr, AttrOut, CreateIn, EntryOut, MkdirIn, OpenIn, OpenOut, ROOT_ID, SetattrIn, WriteIn, WriteOut,
    fattr, opcode,
};
use crate::attr::{Fsid, Inodes, LASTING, statx_out};
use crate::data::open_out;
use crate::reply::Reply;
use crate::request::Request;
use crate::server::{Answer, Server};

/// See the module.
pub(crate) struct Floor(Mutex<Tree>);

struct Tree {
    /// Whose everything is: who measures.
    owner: (u32, u32),
    names: HashMap<(u64, Vec<u8>), u64>,
    nodes: HashMap<u64, Node>,
    last: u64,
}

#[derive(Clone, Copy)]
struct Node {
    mode: u32,
    size: u64,
}

const ROOT: Node = Node { mode: libc::S_IFDIR | 0o755, size: 0 };

impl Tree {
    fn make(&mut self, parent: u64, name: &[u8], mode: u32) -> u64 {
        self.last += 1;
        let inode = ROOT_ID + self.last;
        self.names.insert((parent, name.to_vec()), inode);
        self.nodes.insert(inode, Node { mode, size: 0 });
        inode
    }

    fn remove(&mut self, parent: u64, name: &[u8]) -> Result<(), Errno> {
        let inode = self.names.remove(&(parent, name.to_vec())).ok_or(Errno::NOENT)?;
        self.nodes.remove(&inode);
        Ok(())
    }

    fn attr(&self, inode: u64) -> Attr {
        let node = self.nodes.get(&inode).copied().unwrap_or(ROOT);
        let (uid, gid) = self.owner;
        let Node { mode, size } = node;
        Attr { ino: inode, mode, size, uid, gid, nlink: 1, blksize: 4096, ..Attr::default() }
    }

    fn entry(&self, inode: u64) -> EntryOut {
        let lasting = LASTING.as_secs();
        let attr = self.attr(inode);
        EntryOut { nodeid: inode, entry_valid: lasting, attr_valid: lasting, attr, ..EntryOut::default() }
    }

    fn attributes(&self, inode: u64) -> AttrOut {
        AttrOut { attr_valid: LASTING.as_secs(), attr: self.attr(inode), ..AttrOut::default() }
    }
}

impl Floor {
    /// One with nothing in it, the caller's own.
    pub fn new() -> Self {
        let owner = (geteuid().as_raw(), getegid().as_raw());
        Self(Mutex::new(Tree { owner, names: HashMap::new(), nodes: HashMap::new(), last: 0 }))
    }

    fn answer(&self, request: &mut Request<'_>, reply: &mut Reply) -> Result<Answer, Errno> {
        let mut tree = self.0.lock();
        let inode = request.header.nodeid;
        match request.header.opcode {
            opcode::LOOKUP => match tree.names.get(&(inode, request.name()?.to_vec())) {
                Some(&found) => reply.put(&tree.entry(found)),
                None => reply.put(&Inodes::no_entry()),
            },
            opcode::FORGET | opcode::BATCH_FORGET => return Ok(Answer::None),
            opcode::GETATTR => reply.put(&tree.attributes(inode)),
            opcode::STATX => reply.put(&statx_out(&tree.attributes(inode), None)),
            opcode::SETATTR => {
                let args: SetattrIn = request.take()?;
                if let Some(node) = tree.nodes.get_mut(&inode).filter(|_| args.valid & fattr::SIZE != 0) {
                    node.size = args.size;
                }
                reply.put(&tree.attributes(inode));
            }
            opcode::MKDIR => {
                let args: MkdirIn = request.take()?;
                let made = tree.make(inode, request.name()?, libc::S_IFDIR | args.mode);
                reply.put(&tree.entry(made));
            }
            opcode::CREATE => {
                let args: CreateIn = request.take()?;
                let made = tree.make(inode, request.name()?, libc::S_IFREG | args.mode);
                reply.put(&tree.entry(made));
                reply.put(&open_out(args.flags, false, 0));
            }
            opcode::UNLINK | opcode::RMDIR => tree.remove(inode, request.name()?)?,
            opcode::OPEN => reply.put(&open_out(request.take::<OpenIn>()?.flags, false, 0)),
            opcode::OPENDIR => reply.put(&OpenOut::default()),
            opcode::WRITE => {
                let args: WriteIn = request.take()?;
                reply.put(&WriteOut { size: args.size, padding: 0 });
            }
            // Directories look empty.
            opcode::READDIR | opcode::READDIRPLUS => {}
            opcode::FLUSH | opcode::RELEASE | opcode::RELEASEDIR | opcode::FSYNC => {}
            _ => return Err(Errno::NOSYS),
        }
        Ok(Answer::Due)
    }
}

impl Server for Floor {
    fn inodes(&self) -> Inodes {
        Inodes { root: ObjectId::new(ROOT_ID), fsid: Fsid::LIVE }
    }

    type Permit<'a> = ();

    async fn admit(&self, _: &Request<'_>) {}

    async fn serve(&self, request: &mut Request<'_>, reply: &mut Reply) -> Result<Answer, Errno> {
        self.answer(request, reply)
    }

    async fn finish(&self) {}
}
