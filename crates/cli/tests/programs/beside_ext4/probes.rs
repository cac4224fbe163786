//! The table of probes: who does what to what. Each probe has a directory of its own.
//!
//! ```text
//!  N/ (mode 0777, of root) ─┬─ f        the file that operations on files are about
//!                           ├─ source   what is copied into it
//!                           └─ d/       the directory that operations on directories are about
//!                               ├─ v, o  files of the owner and of the other user
//!                               └─ s/    a directory of the owner
//! ```

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FileType, Gid, Mode, OFlags, RenameFlags, Timespec, Timestamps, Uid,
    XattrFlags,
};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};

/// The owner of files, in a group of the same number.
pub const OWNER: u32 = 12_002;
/// Another user.
pub const OTHER: u32 = 12_003;
/// The group of files. Neither user has it as the first group.
pub const GROUP: u32 = 12_010;
/// A user and a group that nobody is or is in.
const STRANGER: u32 = 12_011;
/// Times of files before a probe, and those that a probe sets.
pub const OLD_SECS: i64 = 1_000_000_000;
pub const SET_SECS: i64 = 2_000_000_000;
/// What a file holds at first: two pages.
const FILE_BYTES: usize = 8192;

const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";
const CAPABILITY: &str = "security.capability";
/// The file capability `net_bind_service`, of version 2.
const CAPABILITY_VALUE: &[u8] = &[1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// Who does it.
pub struct Identity {
    pub name: &'static str,
    pub uid: u32,
    /// In the group of the file.
    pub in_group: bool,
    /// The only capability, in the words of setpriv(1). Root has all.
    pub capability: Option<&'static str>,
}

const fn identity(
    name: &'static str,
    uid: u32,
    in_group: bool,
    capability: Option<&'static str>,
) -> Identity {
    Identity { name, uid, in_group, capability }
}

pub const IDENTITIES: &[Identity] = &[
    identity("owner", OWNER, true, None),
    identity("owner outside", OWNER, false, None),
    identity("member", OTHER, true, None),
    identity("other", OTHER, false, None),
    identity("other+fowner", OTHER, false, Some("fowner")),
    identity("other+fsetid", OTHER, false, Some("fsetid")),
    identity("other+chown", OTHER, false, Some("chown")),
    identity("root", 0, false, None),
];

/// What it is done to.
pub struct ProbedFile {
    pub name: &'static str,
    mode: u32,
    is_directory: bool,
    /// With file capabilities.
    is_capable: bool,
    /// With an access ACL that lets the other user read and write; of a directory a default ACL too.
    has_acl: bool,
}

const fn file(name: &'static str, mode: u32, is_capable: bool, has_acl: bool) -> ProbedFile {
    ProbedFile { name, mode, is_directory: false, is_capable, has_acl }
}

const fn directory(name: &'static str, mode: u32, has_acl: bool) -> ProbedFile {
    ProbedFile { name, mode, is_directory: true, is_capable: false, has_acl }
}

const PROBED_FILES: &[ProbedFile] = &[
    file("04755", 0o4755, false, false),
    file("02755", 0o2755, false, false),
    file("02767", 0o2767, false, false),
    file("04666", 0o4666, false, false),
    file("06777", 0o6777, false, false),
    file("02775 with an ACL", 0o2775, false, true),
    file("0644 with capabilities", 0o644, true, false),
    file("0777 with capabilities", 0o777, true, false),
    file("06777 with capabilities", 0o6777, true, false),
    directory("directory 0777", 0o777, false),
    directory("directory 01777", 0o1777, false),
    directory("directory 02775", 0o2775, false),
    directory("directory 02777", 0o2777, false),
    directory("directory 03777", 0o3777, false),
    directory("directory 02777 with ACLs", 0o2777, true),
];

/// What an operation tells beside what it has changed.
pub type Done = io::Result<String>;

/// What is done, in the directory of a probe.
pub struct Operation {
    pub name: &'static str,
    /// `None`: a program that may map files does it.
    run: Option<fn(&Path) -> Done>,
}

const fn operation(name: &'static str, run: fn(&Path) -> Done) -> Operation {
    Operation { name, run: Some(run) }
}

/// One probe.
pub struct Probe {
    pub number: usize,
    pub identity: &'static Identity,
    pub subject: &'static ProbedFile,
    pub operation: &'static Operation,
}

impl Probe {
    /// All of them.
    pub fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for identity in IDENTITIES {
            for subject in PROBED_FILES {
                for operation in if subject.is_directory { ON_DIRECTORIES } else { ON_FILES } {
                    let is_mapping_user = identity.capability.is_none();
                    if operation.run.is_some() || is_mapping_user {
                        all.push(Self { number: all.len(), identity, subject, operation });
                    }
                }
            }
        }
        all
    }

    /// Its directory below that of a file system.
    pub fn place(&self, root: &Path) -> PathBuf {
        root.join(self.number.to_string())
    }

    /// Whether the program that maps files does it.
    pub fn is_mapping(&self) -> bool {
        self.operation.run.is_none()
    }

    /// Does it, as whoever this process is.
    pub fn perform(&self, root: &Path) -> Done {
        self.operation.run.map_or(Ok(String::new()), |run| run(&self.place(root)))
    }

    /// Makes its directory, as root.
    pub fn prepare(&self, root: &Path) {
        let place = self.place(root);
        fs::create_dir(&place).expect("a directory");
        give(&place, 0, 0, 0o777);
        if self.subject.is_directory {
            self.prepare_directory(&place.join("d"));
        } else {
            fs::write(place.join("source"), [b's'; 4096]).expect("written");
            fs::write(place.join("f"), [b'f'; FILE_BYTES]).expect("written");
            self.prepare_subject(&place.join("f"));
        }
        age(&place);
    }

    fn prepare_directory(&self, dir: &Path) {
        fs::create_dir(dir).expect("a directory");
        for (name, uid) in [("v", OWNER), ("o", OTHER)] {
            fs::write(dir.join(name), name).expect("written");
            give(&dir.join(name), uid, GROUP, 0o644);
            age(&dir.join(name));
        }
        fs::create_dir(dir.join("s")).expect("a directory");
        give(&dir.join("s"), OWNER, GROUP, 0o755);
        age(&dir.join("s"));
        self.prepare_subject(dir);
        if self.subject.has_acl {
            set(dir, DEFAULT, &acl(7, 6)).expect("an ACL");
            age(dir);
        }
    }

    fn prepare_subject(&self, at: &Path) {
        set(at, "user.x", b"1").expect("an attribute");
        set(at, "trusted.x", b"1").expect("an attribute");
        give(at, OWNER, GROUP, self.subject.mode);
        if self.subject.has_acl {
            set(at, ACCESS, &acl(7, 7)).expect("an ACL");
        }
        if self.subject.is_capable {
            set(at, CAPABILITY, CAPABILITY_VALUE).expect("capabilities");
        }
        age(at);
    }
}

fn give(path: &Path, uid: u32, gid: u32, mode: u32) {
    chown(path, Some(uid), Some(gid)).expect("given");
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("a mode");
}

fn age(path: &Path) {
    set_times(path, OLD_SECS).expect("times");
}

fn set_times(path: &Path, secs: i64) -> Result<(), Errno> {
    let time = Timespec { tv_sec: secs, tv_nsec: 0 };
    times(path, Timestamps { last_access: time, last_modification: time })
}

fn times(path: &Path, times: Timestamps) -> Result<(), Errno> {
    rustix::fs::utimensat(CWD, path, &times, AtFlags::empty())
}

fn set(path: &Path, name: &str, value: &[u8]) -> Result<(), Errno> {
    rustix::fs::setxattr(path, name, value, XattrFlags::empty())
}

/// Owner 7, the other user, owning group 7, the mask, others 5.
fn acl(user: u16, mask: u16) -> Vec<u8> {
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, id) in [(1, 7, !0), (2, user, OTHER), (4, 7, !0), (16, mask, !0), (32, 5_u16, !0_u32)] {
        bytes.extend_from_slice(&u16::to_le_bytes(tag));
        bytes.extend_from_slice(&rights.to_le_bytes());
        bytes.extend_from_slice(&id.to_le_bytes());
    }
    bytes
}

/// What the mode 0755 says.
fn minimal_acl() -> Vec<u8> {
    let whole = acl(7, 7);
    let mut bytes = [&whole[..12], &whole[20..28], &whole[36..]].concat();
    bytes[14] = 5;
    bytes
}

fn done(result: Result<(), Errno>) -> Done {
    Ok(result.map(|()| String::new())?)
}

fn on_file(place: &Path, flags: OFlags, change: impl FnOnce(&File) -> Result<(), Errno>) -> Done {
    let file = rustix::fs::open(place.join("f"), flags | OFlags::CLOEXEC, Mode::empty())?;
    done(change(&File::from(file)))
}

fn write(place: &Path, flags: OFlags) -> Done {
    let room = [b'w'; 8192];
    // O_DIRECT needs memory at the boundary of a page.
    let page = &room[room.as_ptr().align_offset(4096)..][..4096];
    on_file(place, OFlags::WRONLY | flags, |file| rustix::io::pwrite(file, page, 0).map(drop))
}

fn allocate(place: &Path, flags: FallocateFlags, len: u64) -> Done {
    on_file(place, OFlags::WRONLY, |file| rustix::fs::fallocate(file, flags, 0, len))
}

fn own(path: &Path, uid: Option<u32>, gid: Option<u32>) -> Done {
    done(rustix::fs::chown(path, uid.map(Uid::from_raw), gid.map(Gid::from_raw)))
}

fn mode(path: &Path, mode: u32) -> Done {
    done(rustix::fs::chmod(path, Mode::from_raw_mode(mode)))
}

fn get(path: &Path, name: &str) -> Done {
    let mut value = [0_u8; 256];
    let len = rustix::fs::getxattr(path, name, &mut value)?;
    Ok(value[..len].escape_ascii().to_string())
}

fn list(path: &Path) -> Done {
    let mut names = [0_u8; 4096];
    let len = rustix::fs::listxattr(path, &mut names)?;
    let mut names: Vec<String> =
        names[..len].split(|byte| *byte == 0).map(|name| name.escape_ascii().to_string()).collect();
    names.sort();
    Ok(names.join(" "))
}

fn remove(path: &Path, name: &str) -> Done {
    done(rustix::fs::removexattr(path, name))
}

fn make(path: &Path, permissions: u32) -> Done {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY;
    Ok(rustix::fs::open(path, flags, Mode::from_raw_mode(permissions)).map(|_| String::new())?)
}

fn make_node(path: &Path, kind: FileType, device: u64) -> Done {
    done(rustix::fs::mknodat(CWD, path, kind, Mode::from_raw_mode(0o666), device))
}

fn rename(from: &Path, to: &Path) -> Done {
    done(rustix::fs::renameat(CWD, from, CWD, to))
}

const ON_FILES: &[Operation] = &[
    operation("read", |at| on_file(at, OFlags::RDONLY, |_| Ok(()))),
    operation("write", |at| write(at, OFlags::empty())),
    operation("write of nothing", |at| {
        on_file(at, OFlags::WRONLY, |f| rustix::io::pwrite(f, b"", 0).map(drop))
    }),
    operation("append", |at| {
        on_file(at, OFlags::WRONLY | OFlags::APPEND, |f| rustix::io::write(f, b"x").map(drop))
    }),
    operation("write, O_SYNC", |at| write(at, OFlags::SYNC)),
    operation("write, O_DSYNC", |at| write(at, OFlags::DSYNC)),
    operation("write, O_DIRECT", |at| write(at, OFlags::DIRECT)),
    Operation { name: "mmap", run: None },
    operation("truncate", |at| Ok(nix::unistd::truncate(&at.join("f"), 100).map(|()| String::new())?)),
    operation("ftruncate, shorter", |at| on_file(at, OFlags::WRONLY, |f| rustix::fs::ftruncate(f, 100))),
    operation("ftruncate, longer", |at| on_file(at, OFlags::WRONLY, |f| rustix::fs::ftruncate(f, 9000))),
    operation("open, O_TRUNC", |at| on_file(at, OFlags::WRONLY | OFlags::TRUNC, |_| Ok(()))),
    operation("open, O_RDONLY|O_TRUNC", |at| on_file(at, OFlags::RDONLY | OFlags::TRUNC, |_| Ok(()))),
    operation("fallocate", |at| allocate(at, FallocateFlags::empty(), 9000)),
    operation("fallocate, KEEP_SIZE", |at| allocate(at, FallocateFlags::KEEP_SIZE, 9000)),
    operation("fallocate, PUNCH_HOLE", |at| {
        allocate(at, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 4096)
    }),
    operation("fallocate, ZERO_RANGE", |at| allocate(at, FallocateFlags::ZERO_RANGE, 4096)),
    operation("copy_file_range", |at| {
        let source = File::open(at.join("source"))?;
        on_file(at, OFlags::WRONLY, |f| rustix::fs::copy_file_range(source, None, f, None, 4096).map(drop))
    }),
    operation("chown, nothing", |at| own(&at.join("f"), None, None)),
    operation("chown, to oneself", |at| own(&at.join("f"), Some(geteuid().as_raw()), None)),
    operation("chown, to a stranger", |at| own(&at.join("f"), Some(STRANGER), None)),
    operation("chgrp, to one's own", |at| own(&at.join("f"), None, Some(getegid().as_raw()))),
    operation("chgrp, as it is", |at| own(&at.join("f"), None, Some(GROUP))),
    operation("chgrp, to a stranger's", |at| own(&at.join("f"), None, Some(STRANGER))),
    operation("chmod 0700", |at| mode(&at.join("f"), 0o700)),
    operation("chmod 02755", |at| mode(&at.join("f"), 0o2755)),
    operation("chmod 06711", |at| mode(&at.join("f"), 0o6711)),
    operation("set an ACL", |at| done(set(&at.join("f"), ACCESS, &acl(5, 5)))),
    operation("set an ACL that a mode says", |at| done(set(&at.join("f"), ACCESS, &minimal_acl()))),
    operation("set what is no ACL", |at| done(set(&at.join("f"), ACCESS, b"nonsense"))),
    operation("set a default ACL", |at| done(set(&at.join("f"), DEFAULT, &acl(7, 7)))),
    operation("remove the ACL", |at| remove(&at.join("f"), ACCESS)),
    operation("set user.a", |at| done(set(&at.join("f"), "user.a", b"v"))),
    operation("set trusted.a", |at| done(set(&at.join("f"), "trusted.a", b"v"))),
    operation("set security.a", |at| done(set(&at.join("f"), "security.a", b"v"))),
    operation("set capabilities", |at| done(set(&at.join("f"), CAPABILITY, CAPABILITY_VALUE))),
    operation("set system.a", |at| done(set(&at.join("f"), "system.a", b"v"))),
    operation("set an attribute without a namespace", |at| done(set(&at.join("f"), "a", b"v"))),
    operation("set a namespace without a name", |at| done(set(&at.join("f"), "user.", b"v"))),
    operation("get user.x", |at| get(&at.join("f"), "user.x")),
    operation("get user.missing", |at| get(&at.join("f"), "user.missing")),
    operation("get trusted.x", |at| get(&at.join("f"), "trusted.x")),
    operation("get capabilities", |at| get(&at.join("f"), CAPABILITY)),
    operation("get the ACL", |at| get(&at.join("f"), ACCESS)),
    operation("list attributes", |at| list(&at.join("f"))),
    operation("remove user.x", |at| remove(&at.join("f"), "user.x")),
    operation("remove user.missing", |at| remove(&at.join("f"), "user.missing")),
    operation("remove trusted.x", |at| remove(&at.join("f"), "trusted.x")),
    operation("remove capabilities", |at| remove(&at.join("f"), CAPABILITY)),
    operation("set times", |at| done(set_times(&at.join("f"), SET_SECS))),
    operation("set times to now", |at| {
        let now = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
        done(times(&at.join("f"), Timestamps { last_access: now, last_modification: now }))
    }),
    operation("link", |at| done(rustix::fs::linkat(CWD, at.join("f"), CWD, at.join("l"), AtFlags::empty()))),
    operation("rename", |at| rename(&at.join("f"), &at.join("g"))),
    operation("rename over it", |at| rename(&at.join("source"), &at.join("f"))),
    operation("unlink", |at| done(rustix::fs::unlink(at.join("f")))),
];

const ON_DIRECTORIES: &[Operation] = &[
    operation("create 0666", |at| make(&at.join("d/n"), 0o666)),
    operation("create 02777", |at| make(&at.join("d/n"), 0o2777)),
    operation("create 06755", |at| make(&at.join("d/n"), 0o6755)),
    operation("create without a name", |at| {
        let flags = OFlags::TMPFILE | OFlags::RDWR;
        let file = rustix::fs::open(at.join("d"), flags, Mode::from_raw_mode(0o2777))?;
        let opened = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
        done(rustix::fs::linkat(CWD, opened, CWD, at.join("d/n"), AtFlags::SYMLINK_FOLLOW))
    }),
    operation("mkdir 0777", |at| done(rustix::fs::mkdir(at.join("d/n"), Mode::from_raw_mode(0o777)))),
    operation("mkdir 02777", |at| done(rustix::fs::mkdir(at.join("d/n"), Mode::from_raw_mode(0o2777)))),
    operation("symlink", |at| done(rustix::fs::symlink("target", at.join("d/n")))),
    operation("mkfifo", |at| make_node(&at.join("d/n"), FileType::Fifo, 0)),
    operation("mknod, a whiteout", |at| make_node(&at.join("d/n"), FileType::CharacterDevice, 0)),
    operation("mknod, a device", |at| {
        make_node(&at.join("d/n"), FileType::CharacterDevice, rustix::fs::makedev(1, 3))
    }),
    operation("link of the owner's", |at| {
        done(rustix::fs::linkat(CWD, at.join("d/v"), CWD, at.join("d/n"), AtFlags::empty()))
    }),
    operation("unlink of the owner's", |at| done(rustix::fs::unlink(at.join("d/v")))),
    operation("unlink of the other's", |at| done(rustix::fs::unlink(at.join("d/o")))),
    operation("rmdir of the owner's", |at| done(rustix::fs::rmdir(at.join("d/s")))),
    operation("rmdir of what is not empty", |at| done(rustix::fs::rmdir(at.join("d")))),
    operation("rename of the owner's", |at| rename(&at.join("d/v"), &at.join("d/n"))),
    operation("rename of the other's", |at| rename(&at.join("d/o"), &at.join("d/n"))),
    operation("rename over the owner's", |at| rename(&at.join("d/o"), &at.join("d/v"))),
    operation("rename over the other's", |at| rename(&at.join("d/v"), &at.join("d/o"))),
    operation("rename out of it", |at| rename(&at.join("d/v"), &at.join("n"))),
    operation("rename of its directory", |at| rename(&at.join("d/s"), &at.join("s"))),
    operation("exchange", |at| {
        let (from, to) = (at.join("d/v"), at.join("d/o"));
        done(rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::EXCHANGE))
    }),
    operation("chmod 0755", |at| mode(&at.join("d"), 0o755)),
    operation("chmod 03777", |at| mode(&at.join("d"), 0o3777)),
    operation("chown, to oneself", |at| own(&at.join("d"), Some(geteuid().as_raw()), None)),
    operation("chgrp, to one's own", |at| own(&at.join("d"), None, Some(getegid().as_raw()))),
    operation("chgrp, as it is", |at| own(&at.join("d"), None, Some(GROUP))),
    operation("set an ACL", |at| done(set(&at.join("d"), ACCESS, &acl(7, 7)))),
    operation("set a default ACL", |at| done(set(&at.join("d"), DEFAULT, &acl(5, 5)))),
    operation("remove the default ACL", |at| remove(&at.join("d"), DEFAULT)),
    operation("set user.a", |at| done(set(&at.join("d"), "user.a", b"v"))),
    operation("remove user.x", |at| remove(&at.join("d"), "user.x")),
    operation("list attributes", |at| list(&at.join("d"))),
    operation("set times", |at| done(set_times(&at.join("d"), SET_SECS))),
];
