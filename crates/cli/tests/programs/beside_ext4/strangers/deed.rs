//! What actors do to each other's files. The seed of a run and the number of a deed draw the deed.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use fastrand::Rng;
use rustix::fs::{
    Access, AtFlags, CWD, FallocateFlags, FileType, Gid, Mode, OFlags, RenameFlags, Stat, Timespec,
    Timestamps, Uid, XattrFlags,
};
use rustix::io::Errno;

use super::actor::Who;
use super::{GUEST, MEMBER_GROUP};
use crate::beside_ext4::probes::{GROUP, OTHER, OWNER};

const NAMES: [&str; 3] = ["a", "b", "c"];
const IDS: [u32; 7] = [0, OWNER, OTHER, GUEST, GROUP, MEMBER_GROUP, 65_534];
const ATTRIBUTES: [&str; 7] = [
    "user.x",
    "trusted.x",
    "security.x",
    "security.capability",
    "system.posix_acl_access",
    "system.posix_acl_default",
    "system.x",
];
/// Descriptors that an actor keeps in each scene.
const SLOTS: usize = 3;
const LEN_MAX: u64 = 20_000;
/// Set-group-id.
const SET_GID: u32 = 0o2000;
const GROUP_EXECUTES: u32 = 0o10;

/// Descriptors that an actor keeps from earlier deeds.
#[derive(Default)]
pub struct HeldDescriptors([Option<OwnedFd>; SLOTS]);

/// One deed. Paths are relative to the directory of the scene.
#[derive(Debug)]
pub enum StrangerDeed {
    Open {
        slot: usize,
        path: String,
        flags: OFlags,
        mode: u32,
    },
    /// A file without a name, which gets the name.
    Unnamed {
        path: String,
        mode: u32,
    },
    Mkdir {
        path: String,
        mode: u32,
    },
    Symlink {
        target: String,
        path: String,
    },
    Node {
        path: String,
        kind: FileType,
        mode: u32,
    },
    Link {
        from: String,
        to: String,
        flags: AtFlags,
    },
    Unlink {
        path: String,
    },
    Rmdir {
        path: String,
    },
    Rename {
        from: String,
        to: String,
        flags: RenameFlags,
    },
    Chmod {
        path: String,
        mode: u32,
    },
    Chown {
        path: String,
        uid: Option<u32>,
        gid: Option<u32>,
        flags: AtFlags,
    },
    Truncate {
        path: String,
        len: u64,
    },
    Times {
        path: String,
        secs: i64,
    },
    Access {
        path: String,
        access: Access,
    },
    Stat {
        path: String,
    },
    List {
        path: String,
    },
    ReadLink {
        path: String,
    },
    SetAttribute {
        path: String,
        name: &'static str,
        value: Vec<u8>,
        flags: XattrFlags,
    },
    GetAttribute {
        path: String,
        name: &'static str,
    },
    ListAttributes {
        path: String,
    },
    RemoveAttribute {
        path: String,
        name: &'static str,
    },
    Write {
        slot: usize,
        offset: u64,
        len: u64,
    },
    Read {
        slot: usize,
    },
    Resize {
        slot: usize,
        len: u64,
    },
    Reserve {
        slot: usize,
        len: u64,
    },
    ChmodHeld {
        slot: usize,
        mode: u32,
    },
    ChownHeld {
        slot: usize,
        uid: u32,
    },
    StatHeld {
        slot: usize,
    },
    /// Creates a file in a directory that is held.
    CreateIn {
        slot: usize,
        name: &'static str,
        mode: u32,
    },
    /// Gives the held file a name.
    LinkHeld {
        slot: usize,
        to: String,
    },
    Close {
        slot: usize,
    },
}

impl StrangerDeed {
    /// Draws who does the deed of this number, and the deed.
    pub fn drawn(seed: u64, number: u64) -> (Who, Self) {
        let mut rng = Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number);
        // Root of the host gives files away now and then.
        let who = match rng.usize(..11) {
            10 => Who::Root,
            n => Who::STRANGERS[n % Who::STRANGERS.len()],
        };
        (who, Self::draw(&mut rng, who))
    }

    /// The deed of this number.
    pub fn of(seed: u64, number: u64) -> Self {
        Self::drawn(seed, number).1
    }

    /// True if the deed changes a file or a directory whenever it succeeds.
    pub fn is_change(&self) -> bool {
        // Only directories have default ACLs. For other files, the kernel answers the call without asking the file system.
        const NO_REQUEST: &str = "system.posix_acl_default";
        matches!(
            self,
            Self::Unnamed { .. }
                | Self::Mkdir { .. }
                | Self::Symlink { .. }
                | Self::Node { .. }
                | Self::Link { .. }
                | Self::Unlink { .. }
                | Self::Rmdir { .. }
                | Self::Chmod { .. }
                | Self::Chown { .. }
                | Self::Truncate { .. }
                | Self::Times { .. }
                | Self::SetAttribute { .. }
                | Self::Resize { .. }
                | Self::Reserve { .. }
                | Self::ChmodHeld { .. }
                | Self::ChownHeld { .. }
                | Self::CreateIn { .. }
                | Self::LinkHeld { .. }
        ) || matches!(self, Self::RemoveAttribute { name, .. } if *name != NO_REQUEST)
    }

    fn draw(rng: &mut Rng, who: Who) -> Self {
        match rng.u8(..100) {
            0..=17 => Self::open(rng),
            18..=19 => Self::Unnamed { path: path(rng), mode: mode(rng) },
            20..=26 => Self::Mkdir { path: path(rng), mode: mode(rng) | 0o100 },
            27..=29 => Self::Symlink { target: target(rng), path: path(rng) },
            30..=31 => {
                let kind = choose(rng, &[FileType::Fifo, FileType::RegularFile, FileType::Socket]);
                Self::Node { path: path(rng), kind, mode: mode(rng) }
            }
            32..=35 => {
                let flags = choose(rng, &[AtFlags::empty(), AtFlags::SYMLINK_FOLLOW]);
                Self::Link { from: path(rng), to: path(rng), flags }
            }
            36..=39 => Self::Unlink { path: path(rng) },
            40..=41 => Self::Rmdir { path: path(rng) },
            42..=47 => {
                let flags = [
                    RenameFlags::empty(),
                    RenameFlags::empty(),
                    RenameFlags::NOREPLACE,
                    RenameFlags::EXCHANGE,
                ];
                Self::Rename { from: path(rng), to: path(rng), flags: choose(rng, &flags) }
            }
            48..=53 => Self::Chmod { path: path(rng), mode: mode(rng) },
            54..=59 => Self::chown(rng),
            60..=61 => Self::Truncate { path: path(rng), len: rng.u64(..LEN_MAX) },
            62 => Self::Times { path: path(rng), secs: rng.i64(1..2_000_000_000) },
            63 => Self::Access {
                path: path(rng),
                access: choose(rng, &[Access::READ_OK, Access::WRITE_OK, Access::EXEC_OK]),
            },
            64..=65 => Self::Stat { path: path(rng) },
            66..=67 => Self::List { path: path(rng) },
            68 => Self::ReadLink { path: path(rng) },
            69..=75 => Self::set_attribute(rng),
            76..=77 => Self::GetAttribute { path: path(rng), name: choose(rng, &ATTRIBUTES) },
            78 => Self::ListAttributes { path: path(rng) },
            79..=80 => Self::RemoveAttribute { path: path(rng), name: choose(rng, &ATTRIBUTES) },
            _ => Self::with_held(rng, who),
        }
    }

    fn open(rng: &mut Rng) -> Self {
        let access = choose(rng, &[OFlags::RDONLY, OFlags::WRONLY, OFlags::RDWR, OFlags::PATH]);
        // No open waits for the other end of a pipe.
        let mut flags = access | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let more = [
            (2, OFlags::CREATE),
            (4, OFlags::EXCL | OFlags::CREATE),
            (4, OFlags::TRUNC),
            (4, OFlags::APPEND),
            (6, OFlags::DIRECTORY),
            (6, OFlags::NOFOLLOW),
        ];
        for (one_in, flag) in more {
            if rng.u8(..one_in) == 0 {
                flags |= flag;
            }
        }
        // The kernel takes these together in some versions only (open(2)).
        if flags.contains(OFlags::CREATE) {
            flags -= OFlags::DIRECTORY;
        }
        Self::Open { slot: rng.usize(..SLOTS), path: path(rng), flags, mode: mode(rng) }
    }

    fn chown(rng: &mut Rng) -> Self {
        let (uid, gid) = (choose(rng, &IDS), choose(rng, &IDS));
        let (uid, gid) = choose(rng, &[(Some(uid), None), (None, Some(gid)), (Some(uid), Some(gid))]);
        let flags = choose(rng, &[AtFlags::empty(), AtFlags::SYMLINK_NOFOLLOW]);
        Self::Chown { path: path(rng), uid, gid, flags }
    }

    fn set_attribute(rng: &mut Rng) -> Self {
        let name = choose(rng, &ATTRIBUTES);
        let value = match name {
            "security.capability" => vec![1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            "system.posix_acl_access" | "system.posix_acl_default" => acl(rng),
            _ => vec![b'v'; rng.usize(..40)],
        };
        let flags =
            choose(rng, &[XattrFlags::empty(), XattrFlags::empty(), XattrFlags::CREATE, XattrFlags::REPLACE]);
        Self::SetAttribute { path: path(rng), name, value, flags }
    }

    fn with_held(rng: &mut Rng, who: Who) -> Self {
        let slot = rng.usize(..SLOTS);
        match rng.u8(..16) {
            0..=4 => Self::Write { slot, offset: rng.u64(..LEN_MAX), len: rng.u64(..5000) },
            5..=6 => Self::Read { slot },
            7 => Self::Resize { slot, len: rng.u64(..LEN_MAX) },
            // The request of the kernel does not say that set-id bits may stay (docs/mounting.md).
            8 if !who.keeps_set_id() => Self::Reserve { slot, len: rng.u64(1..LEN_MAX) },
            8..=9 => Self::ChmodHeld { slot, mode: mode(rng) },
            10 => Self::ChownHeld { slot, uid: choose(rng, &IDS) },
            11..=12 => Self::StatHeld { slot },
            13 => Self::CreateIn { slot, name: choose(rng, &NAMES), mode: mode(rng) },
            14 => Self::LinkHeld { slot, to: path(rng) },
            _ => Self::Close { slot },
        }
    }

    /// Does the deed in the directory `root`. Returns what the deed shows beside what it changes.
    pub fn perform(self, root: &Path, held: &mut HeldDescriptors) -> Result<String, Errno> {
        let at = |path: &str| root.join(path);
        let none = |()| String::new();
        match self {
            Self::Open { slot, path, flags, mode } => {
                held.0[slot] = Some(rustix::fs::open(at(&path), flags, Mode::from_raw_mode(mode))?);
                Ok(String::new())
            }
            Self::Unnamed { path, mode } => {
                let path = at(&path);
                let dir = path.parent().ok_or(Errno::INVAL)?;
                let file = rustix::fs::open(dir, OFlags::TMPFILE | OFlags::RDWR, Mode::from_raw_mode(mode))?;
                rustix::fs::linkat(CWD, opened(&file), CWD, path, AtFlags::SYMLINK_FOLLOW).map(none)
            }
            Self::Mkdir { path, mode } => rustix::fs::mkdir(at(&path), Mode::from_raw_mode(mode)).map(none),
            Self::Symlink { target, path } => rustix::fs::symlink(target, at(&path)).map(none),
            Self::Node { path, kind, mode } => {
                rustix::fs::mknodat(CWD, at(&path), kind, Mode::from_raw_mode(mode), 0).map(none)
            }
            Self::Link { from, to, flags } => {
                rustix::fs::linkat(CWD, at(&from), CWD, at(&to), flags).map(none)
            }
            Self::Unlink { path } => rustix::fs::unlink(at(&path)).map(none),
            Self::Rmdir { path } => rustix::fs::rmdir(at(&path)).map(none),
            Self::Rename { from, to, flags } => {
                rustix::fs::renameat_with(CWD, at(&from), CWD, at(&to), flags).map(none)
            }
            Self::Chmod { path, mode } => rustix::fs::chmod(at(&path), Mode::from_raw_mode(mode)).map(none),
            Self::Chown { path, uid, gid, flags } => {
                let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
                rustix::fs::chownat(CWD, at(&path), uid, gid, flags).map(none)
            }
            Self::Truncate { path, len } => {
                nix::unistd::truncate(&at(&path), len as i64).map(none).map_err(of_nix)
            }
            Self::Times { path, secs } => {
                let time = Timespec { tv_sec: secs, tv_nsec: 0 };
                let times = Timestamps { last_access: time, last_modification: time };
                rustix::fs::utimensat(CWD, at(&path), &times, AtFlags::empty()).map(none)
            }
            Self::Access { path, access } => rustix::fs::access(at(&path), access).map(none),
            Self::Stat { path } => rustix::fs::lstat(at(&path)).map(|stat| shown(&stat)),
            Self::List { path } => list(&at(&path)),
            Self::ReadLink { path } => {
                rustix::fs::readlink(at(&path), Vec::new()).map(|target| format!("{target:?}"))
            }
            attribute @ (Self::SetAttribute { .. }
            | Self::GetAttribute { .. }
            | Self::ListAttributes { .. }
            | Self::RemoveAttribute { .. }) => attribute.perform_attribute(root),
            with_held => with_held.perform_held(root, held),
        }
    }

    fn perform_attribute(self, root: &Path) -> Result<String, Errno> {
        let mut room = [0_u8; 4096];
        match self {
            Self::SetAttribute { path, name, value, flags } => {
                rustix::fs::setxattr(root.join(path), name, &value, flags).map(|()| String::new())
            }
            Self::GetAttribute { path, name } => {
                let len = rustix::fs::getxattr(root.join(path), name, &mut room)?;
                Ok(room[..len].escape_ascii().to_string())
            }
            Self::ListAttributes { path } => {
                let len = rustix::fs::listxattr(root.join(path), &mut room)?;
                let mut names: Vec<_> = room[..len].split(|byte| *byte == 0).collect();
                names.sort_unstable();
                Ok(names.concat().escape_ascii().to_string())
            }
            Self::RemoveAttribute { path, name } => {
                rustix::fs::removexattr(root.join(path), name).map(|()| String::new())
            }
            other => unreachable!("{other:?} is about no attribute"),
        }
    }

    fn perform_held(self, root: &Path, held: &mut HeldDescriptors) -> Result<String, Errno> {
        let none = |()| String::new();
        let file = |slot: usize| held.0[slot].as_ref().ok_or(Errno::BADF);
        match self {
            Self::Write { slot, offset, len } => {
                let bytes = vec![b'w'; len as usize];
                rustix::io::pwrite(file(slot)?, &bytes, offset).map(|len| len.to_string())
            }
            Self::Read { slot } => read(file(slot)?),
            Self::Resize { slot, len } => rustix::fs::ftruncate(file(slot)?, len).map(none),
            Self::Reserve { slot, len } => {
                rustix::fs::fallocate(file(slot)?, FallocateFlags::empty(), 0, len).map(none)
            }
            Self::ChmodHeld { slot, mode } => {
                rustix::fs::fchmod(file(slot)?, Mode::from_raw_mode(mode)).map(none)
            }
            Self::ChownHeld { slot, uid } => {
                rustix::fs::fchown(file(slot)?, Some(Uid::from_raw(uid)), None).map(none)
            }
            Self::StatHeld { slot } => rustix::fs::fstat(file(slot)?).map(|stat| shown(&stat)),
            Self::CreateIn { slot, name, mode } => {
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY;
                rustix::fs::openat(file(slot)?, name, flags, Mode::from_raw_mode(mode)).map(|_| String::new())
            }
            Self::LinkHeld { slot, to } => {
                let from = opened(file(slot)?);
                rustix::fs::linkat(CWD, from, CWD, root.join(to), AtFlags::SYMLINK_FOLLOW).map(none)
            }
            Self::Close { slot } => {
                held.0[slot] = None;
                Ok(String::new())
            }
            other => unreachable!("{other:?} is about no descriptor"),
        }
    }
}

fn choose<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.usize(..of.len())]
}

/// Draws a path of one to three names. One path in thirteen ends with `/`, `/.` or `/..`.
fn path(rng: &mut Rng) -> String {
    let depth = choose(rng, &[1, 1, 2, 2, 2, 3]);
    let mut path = (0..depth).map(|_| choose(rng, &NAMES)).collect::<Vec<_>>().join("/");
    path += match rng.u8(..40) {
        0 => "/",
        1 => "/.",
        2 => "/..",
        _ => "",
    };
    path
}

fn target(rng: &mut Rng) -> String {
    match rng.u8(..4) {
        0 => format!("../{}", choose(rng, &NAMES)),
        _ => path(rng),
    }
}

/// Permissions. A set-group-id bit without execution by the group means something else (docs/mounting.md).
fn mode(rng: &mut Rng) -> u32 {
    let special = if rng.u8(..3) == 0 { rng.u32(..8) << 9 } else { 0 };
    let mode = special
        | choose(rng, &[0o777, 0o755, 0o700, 0o666, 0o644, 0o770, 0o711]) & !(rng.u32(..8) * rng.u32(..2));
    if mode & GROUP_EXECUTES == 0 { mode & !SET_GID } else { mode }
}

/// An ACL of version 2 (`linux/posix_acl_xattr.h`). The group executes, see [`mode`].
fn acl(rng: &mut Rng) -> Vec<u8> {
    let group = choose(rng, &[1_u16, 5, 7]);
    let entries = [
        (1_u16, rng.u16(..8), !0),
        (2, rng.u16(..8), choose(rng, &IDS)),
        (4, group, !0),
        (16, choose(rng, &[1, 5, 7]), !0),
        (32, rng.u16(..8), !0_u32),
    ];
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, id) in entries {
        bytes.extend_from_slice(&tag.to_le_bytes());
        bytes.extend_from_slice(&rights.to_le_bytes());
        bytes.extend_from_slice(&id.to_le_bytes());
    }
    bytes
}

fn opened(file: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

fn of_nix(errno: nix::errno::Errno) -> Errno {
    Errno::from_raw_os_error(errno as i32)
}

/// What `stat` shows of a file. Directories have sizes of their own on each file system.
fn shown(stat: &Stat) -> String {
    let size = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => 0,
        _ => stat.st_size,
    };
    format!("{:o} {}:{} {} {size}", stat.st_mode, stat.st_uid, stat.st_gid, stat.st_nlink)
}

fn list(path: &Path) -> Result<String, Errno> {
    let of_io = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
    let entries: Result<Vec<_>, _> = std::fs::read_dir(path).map_err(of_io)?.collect();
    let mut names: Vec<_> = entries.map_err(of_io)?.iter().map(std::fs::DirEntry::file_name).collect();
    names.sort();
    Ok(format!("{names:?}"))
}

/// Reads from the position of a file to its end. Returns the number of bytes and their sum.
fn read(file: &OwnedFd) -> Result<String, Errno> {
    let of_io = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
    let mut bytes = Vec::new();
    let file = File::from(rustix::io::dup(file)?);
    file.take(4 * LEN_MAX).read_to_end(&mut bytes).map_err(of_io)?;
    Ok(format!("{} {}", bytes.len(), bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>()))
}
