//! The control directory `.zfs` in the root of a mount, and in it `snapshot`, which has the snapshots.
//!
//! ```text
//!  .zfs ─► snapshot ─► NAME ─► files of the snapshot, by its own `Files` (`views`)
//!                        ▲
//!                 mkdir, rmdir, mv: the engine makes, destroys, renames
//! ```
//! Neither is stored. The kernel asks for their names each time that a path leads through them: what the engine does
//! with snapshots, whoever asked it to, is seen at once. When snapshots come, go or get other names, the time of
//! `snapshot` changes, and with that the kernel gives up what it has kept of its list.
//!
//! Both belong to root. Everybody may write to `snapshot`, and the engine decides: a process needs CAP_SYS_ADMIN
//! ([`crate::mount::Mounter::may_administer`]), because root of a container must not destroy snapshots, or its user needs the
//! permission that the command needs (`zfs allow`).

use std::sync::Arc;
use std::time::Duration;

use engine::{ListedSnapshot, Peer, Snapdir, SnapshotError, UserIds};
use parking_lot::Mutex;
use rustix::fs::RenameFlags;
use rustix::io::Errno;

use crate::abi::{
    Attr, AttrOut, Dirent, EntryOut, GetxattrIn, MkdirIn, OpenOut, ROOT_ID, Rename2In, RenameIn, opcode,
};
use crate::attr::statx_out;
use crate::attributes::put_sized;
use crate::files::Files;
use crate::listing::{Form, put_dirent};
use crate::notifier::Notifier;
use crate::reply::Reply;
use crate::request::Request;
use crate::views::Views;

/// The control directory's name in the root.
pub(crate) const CTLDIR: &[u8] = b".zfs";
const SNAPDIR: &[u8] = b"snapshot";
/// OpenZFS's numbers: below them are those of snapshots in the list of `snapshot`.
const CTLDIR_INODE: u64 = 0xffff_ffff_ffff;
const SHARES_INODE: u64 = 0xffff_ffff_fffe;
const SNAPDIR_INODE: u64 = 0xffff_ffff_fffd;
const MODE: u32 = libc::S_IFDIR | 0o555;
/// Of the directory of snapshots: the engine decides who may change them, and not the kernel (as OpenZFS has it).
const SNAPSHOTS_MODE: u32 = libc::S_IFDIR | 0o777;
const BLOCK_BYTES: u32 = 512;
/// Places in lists: `.`, `..`, and then what there is.
const COOKIE_PARENT: u64 = 1;
const COOKIE_ENTRIES: u64 = 2;

/// What is in the control directory and not a snapshot's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ctlnode {
    /// `.zfs`.
    Root,
    /// `.zfs/snapshot`.
    Snapshots,
}

impl Ctlnode {
    /// No inode of a file that is not a snapshot's is this or more.
    pub const FIRST: u64 = SNAPDIR_INODE;

    /// The one that has this inode.
    pub const fn of(inode: u64) -> Option<Self> {
        match inode {
            CTLDIR_INODE => Some(Self::Root),
            SNAPDIR_INODE => Some(Self::Snapshots),
            _ => None,
        }
    }

    pub const fn inode(self) -> u64 {
        match self {
            Self::Root => CTLDIR_INODE,
            Self::Snapshots => SNAPDIR_INODE,
        }
    }
}

/// How the control directory is shown, which may change.
#[derive(Default)]
pub(crate) struct Setting(Mutex<Snapdir>);

impl Setting {
    pub fn new(snapdir: Snapdir) -> Self {
        Self(Mutex::new(snapdir))
    }

    pub fn get(&self) -> Snapdir {
        *self.0.lock()
    }
}

/// The control directory of one mount.
pub(crate) struct Ctldir {
    pub views: Arc<Views>,
    setting: Arc<Setting>,
    notifier: Notifier,
    /// When it was mounted, since 1970.
    mounted: Duration,
}

impl Ctldir {
    pub fn new(views: Arc<Views>, setting: Arc<Setting>, notifier: Notifier, mounted: Duration) -> Self {
        Self { views, setting, notifier, mounted }
    }

    /// Shows it otherwise from now on.
    pub fn show(&self, snapdir: Snapdir) {
        if std::mem::replace(&mut *self.setting.0.lock(), snapdir) != snapdir {
            self.notifier.forget_pages(ROOT_ID);
        }
    }

    /// Finds `.zfs` in the root.
    pub async fn lookup(&self, reply: &mut Reply) -> Result<(), Errno> {
        if self.setting.get() == Snapdir::Disabled {
            return Err(Errno::NOENT);
        }
        self.reply_entry(Ctlnode::Root, reply).await
    }

    /// Does what is asked of `.zfs` or `snapshot`; `live` is what is mounted.
    pub async fn serve(
        &self,
        node: Ctlnode,
        live: &Files,
        request: &mut Request<'_>,
        reply: &mut Reply,
    ) -> Result<(), Errno> {
        match request.header.opcode {
            opcode::LOOKUP => self.lookup_in(node, request, reply).await,
            opcode::GETATTR => {
                reply.put(&AttrOut { attr: self.attr(node).await?, ..AttrOut::default() });
                Ok(())
            }
            opcode::STATX => {
                let attr = AttrOut { attr: self.attr(node).await?, ..AttrOut::default() };
                reply.put(&statx_out(&attr, None));
                Ok(())
            }
            opcode::READDIR => self.list(node, request, reply, Form::Name).await,
            opcode::READDIRPLUS => self.list(node, request, reply, Form::NameAndAttributes).await,
            opcode::MKDIR if node == Ctlnode::Snapshots => self.mkdir(live, request, reply).await,
            opcode::RMDIR if node == Ctlnode::Snapshots => self.rmdir(live, request).await,
            opcode::RENAME if node == Ctlnode::Snapshots => {
                let RenameIn { newdir } = request.take()?;
                self.rename(live, request, newdir, RenameFlags::empty()).await
            }
            opcode::RENAME2 if node == Ctlnode::Snapshots => {
                let Rename2In { newdir, flags, .. } = request.take()?;
                self.rename(live, request, newdir, RenameFlags::from_bits_retain(flags)).await
            }
            opcode::STATFS => live.statfs(live.zfs.root(), reply).await,
            opcode::OPENDIR if !live.agreed.directories_unopened => {
                reply.put(&OpenOut::default());
                Ok(())
            }
            opcode::RELEASEDIR | opcode::FSYNCDIR => Ok(()),
            opcode::LISTXATTR => {
                let GetxattrIn { size, .. } = request.take()?;
                put_sized(&[], size, reply)
            }
            // Another error than this would let the kernel refuse those whose rights the group's bits decide.
            opcode::GETXATTR => Err(Errno::NODATA),
            opcode => Err(refusal(opcode)),
        }
    }

    async fn lookup_in(
        &self,
        node: Ctlnode,
        request: &mut Request<'_>,
        reply: &mut Reply,
    ) -> Result<(), Errno> {
        let name = request.name()?;
        match node {
            Ctlnode::Root if name == SNAPDIR => self.reply_entry(Ctlnode::Snapshots, reply).await,
            Ctlnode::Root => Err(Errno::NOENT),
            Ctlnode::Snapshots => self.reply_snapshot(text(name).ok_or(Errno::NOENT)?, reply).await,
        }
    }

    async fn reply_entry(&self, node: Ctlnode, reply: &mut Reply) -> Result<(), Errno> {
        reply.put(&EntryOut { nodeid: node.inode(), attr: self.attr(node).await?, ..EntryOut::default() });
        Ok(())
    }

    /// The root directory of a snapshot.
    async fn reply_snapshot(&self, name: &str, reply: &mut Reply) -> Result<(), Errno> {
        let files = self.views.find(name).await?;
        let root = files.run(files.zfs.attributes(files.inodes.root)).await?;
        // The name may be another's by the next time.
        let entry = EntryOut { entry_valid: 0, ..files.inodes.entry_out(&root) };
        files.note_entry(&root);
        reply.put(&entry);
        Ok(())
    }

    /// What the kernel is to believe for no time at all.
    async fn attr(&self, node: Ctlnode) -> Result<Attr, Errno> {
        let (changed, links, size) = match node {
            Ctlnode::Root => (self.mounted, 3, 0),
            Ctlnode::Snapshots => {
                let summary = told(self.views.snapshots().summary().await)?;
                let links = u32::try_from(summary.count.saturating_add(2)).unwrap_or(u32::MAX);
                (summary.changed.unwrap_or(self.mounted), links, 2)
            }
        };
        let (secs, nanos) = (changed.as_secs(), changed.subsec_nanos());
        Ok(Attr {
            ino: node.inode(),
            size,
            atime: secs,
            mtime: secs,
            ctime: secs,
            atimensec: nanos,
            mtimensec: nanos,
            ctimensec: nanos,
            mode: if node == Ctlnode::Snapshots { SNAPSHOTS_MODE } else { MODE },
            nlink: links,
            blksize: BLOCK_BYTES,
            ..Attr::default()
        })
    }

    async fn list(
        &self,
        node: Ctlnode,
        request: &mut Request<'_>,
        reply: &mut Reply,
        form: Form,
    ) -> Result<(), Errno> {
        let args = request.take_read()?;
        for entry in self.entries(node).await?.into_iter().filter(|entry| entry.cookie >= args.offset) {
            let before = reply.len();
            if form == Form::NameAndAttributes {
                // The kernel looks up what it wants to know more of.
                reply.put(&EntryOut::default());
            }
            let (off, namelen) = (entry.cookie + 1, entry.name.len() as u32);
            put_dirent(
                &Dirent { ino: entry.inode, off, namelen, kind: libc::S_IFDIR >> 12 },
                &entry.name,
                reply,
            );
            if reply.len() > args.size as usize {
                reply.cut(before);
                break;
            }
        }
        Ok(())
    }

    async fn entries(&self, node: Ctlnode) -> Result<Vec<Entry>, Errno> {
        let parent = if node == Ctlnode::Root { ROOT_ID } else { CTLDIR_INODE };
        let mut entries = vec![Entry::new(0, node.inode(), b"."), Entry::new(COOKIE_PARENT, parent, b"..")];
        match node {
            Ctlnode::Root => entries.push(Entry::new(COOKIE_ENTRIES, SNAPDIR_INODE, SNAPDIR)),
            Ctlnode::Snapshots => {
                let mut all = told(self.views.snapshots().list().await)?;
                // By their numbers: what comes and goes while somebody reads on moves no other.
                all.sort_by_key(|one| one.objset);
                entries.extend(all.iter().map(Entry::of));
            }
        }
        Ok(entries)
    }

    async fn mkdir(&self, live: &Files, request: &mut Request<'_>, reply: &mut Reply) -> Result<(), Errno> {
        let _mode: MkdirIn = request.take()?;
        let name = text(request.name()?).ok_or(Errno::ILSEQ)?;
        told(self.views.snapshots().create(name, user_of(live, request)?).await)?;
        self.reply_snapshot(name, reply).await
    }

    async fn rmdir(&self, live: &Files, request: &mut Request<'_>) -> Result<(), Errno> {
        let name = text(request.name()?).ok_or(Errno::NOENT)?;
        told(self.views.snapshots().destroy(name, user_of(live, request)?).await)
    }

    async fn rename(
        &self,
        live: &Files,
        request: &mut Request<'_>,
        newdir: u64,
        flags: RenameFlags,
    ) -> Result<(), Errno> {
        // No snapshot takes the place of another, so that nothing is replaced either way.
        if newdir != SNAPDIR_INODE || !(flags.is_empty() || flags == RenameFlags::NOREPLACE) {
            return Err(Errno::INVAL);
        }
        let name = text(request.name()?).ok_or(Errno::NOENT)?;
        let new = text(request.name()?).ok_or(Errno::ILSEQ)?;
        told(self.views.snapshots().rename(name, new, user_of(live, request)?).await)
    }
}

/// The user whose permissions a change of snapshots needs; `None` for an administrator.
fn user_of(live: &Files, request: &Request<'_>) -> Result<Option<Peer>, Errno> {
    let thread = request.header.pid;
    if live.mounter.may_administer(thread) {
        return Ok(None);
    }
    let UserIds { uid, gids } = live.mounter.user(thread).ok_or(Errno::PERM)?;
    Ok(Some(Peer { uid, gids }))
}

/// A line of a list.
struct Entry {
    /// Where it stands; what follows stands behind it.
    cookie: u64,
    inode: u64,
    name: Vec<u8>,
}

impl Entry {
    fn new(cookie: u64, inode: u64, name: &[u8]) -> Self {
        Self { cookie, inode, name: name.to_vec() }
    }

    fn of(listed: &ListedSnapshot) -> Self {
        let number = listed.objset.get();
        Self::new(COOKIE_ENTRIES + number, SHARES_INODE - number, listed.name.as_bytes())
    }
}

/// Snapshots have no other names.
fn text(name: &[u8]) -> Option<&str> {
    std::str::from_utf8(name).ok()
}

/// What Linux says of directories in which a thing cannot be done at all, as those of OpenZFS are.
fn refusal(opcode: u32) -> Errno {
    match opcode {
        opcode::CREATE => Errno::ACCESS,
        opcode::TMPFILE | opcode::SETXATTR | opcode::REMOVEXATTR => Errno::OPNOTSUPP,
        opcode::IOCTL => Errno::NOTTY,
        opcode::OPEN | opcode::READ | opcode::WRITE | opcode::FALLOCATE | opcode::COPY_FILE_RANGE => {
            Errno::ISDIR
        }
        opcode::READLINK | opcode::LSEEK => Errno::INVAL,
        opcode::SETATTR
        | opcode::SYMLINK
        | opcode::MKNOD
        | opcode::MKDIR
        | opcode::UNLINK
        | opcode::RMDIR
        | opcode::RENAME
        | opcode::RENAME2
        | opcode::LINK => Errno::PERM,
        // The kernel asks for these nowhere in the mount any more.
        _ => Errno::NOSYS,
    }
}

/// The answer of the engine, with the error that a program is to see.
pub(crate) fn told<T>(answer: Result<T, SnapshotError>) -> Result<T, Errno> {
    answer.map_err(|error| match error {
        SnapshotError::NotFound => Errno::NOENT,
        SnapshotError::Exists => Errno::EXIST,
        SnapshotError::BadName => Errno::ILSEQ,
        SnapshotError::NameTooLong => Errno::NAMETOOLONG,
        SnapshotError::Busy => Errno::BUSY,
        SnapshotError::Denied => Errno::PERM,
        SnapshotError::NoSpace => Errno::NOSPC,
        SnapshotError::ReadOnly => Errno::ROFS,
        SnapshotError::Failed(why) => {
            tracing::error!(why, "a request about snapshots failed");
            Errno::IO
        }
    })
}
