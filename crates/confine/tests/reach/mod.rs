//! Probes of what a confined process must not reach, and of what it reaches nevertheless.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::Path;
use std::process::Command;

use io_uring::opcode;
use nix::sched::{CloneFlags, unshare};
use nix::sys::socket::{SockaddrIn, SockaddrLike, UnixAddr};
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, PidfdFlags, Uid, getppid, pidfd_open, test_kill_process};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities, set_thread_res_uid};

use crate::process::{Place, Probe};
use crate::ring::{HERE, fd, operation};
use crate::world::abstract_name;

/// Each succeeds for root, in this order, and is refused to a confined process.
pub const PROBES: &[Probe] = &[
    ("read what everybody may read", |_| File::open("/etc/passwd").map(drop)),
    ("read a file of root", |at| File::open(at.dir.join("roots")).map(drop)),
    ("read everybody's file", |at| File::open(at.dir.join("everybodys")).map(drop)),
    ("write everybody's file", |at| {
        OpenOptions::new().append(true).open(at.dir.join("everybodys")).map(drop)
    }),
    ("truncate everybody's file", |at| File::create(at.dir.join("everybodys")).map(drop)),
    ("list a directory", |at| fs::read_dir(&at.dir).map(drop)),
    ("make a file", |at| File::create_new(at.dir.join(own("file"))).map(drop)),
    ("make a directory", |at| fs::create_dir(at.dir.join(own("directory")))),
    ("make a link", |at| fs::hard_link(at.dir.join("everybodys"), at.dir.join(own("link")))),
    ("make a symbolic link", |at| symlink("x", at.dir.join(own("symlink")))),
    ("change a mode", |at| fs::set_permissions(at.dir.join("everybodys"), Permissions::from_mode(0o666))),
    ("rename a file", |at| fs::rename(at.dir.join("everybodys"), at.dir.join("renamed"))),
    ("remove a file", |at| fs::remove_file(at.dir.join("renamed"))),
    ("write below /proc", |_| OpenOptions::new().write(true).open("/proc/self/comm").map(drop)),
    ("make a device node", |at| {
        let (name, mode) = (at.dir.join(own("node")), Mode::from_raw_mode(0o666));
        Ok(mknodat(CWD, name, FileType::CharacterDevice, mode, makedev(1, 3))?)
    }),
    ("open a descriptor anew", |at| {
        let link = format!("/proc/self/fd/{}", at.file.as_raw_fd());
        OpenOptions::new().read(true).write(true).open(link).map(drop)
    }),
    ("open a block device", |at| File::open(at.dir.join("disk")).map(drop)),
    ("execute a program", |_| Command::new("/bin/true").status().map(drop)),
    ("signal the first process", |_| Ok(test_kill_process(Pid::INIT)?)),
    ("signal the parent", |_| Ok(test_kill_process(parent())?)),
    ("hold the parent", |_| Ok(pidfd_open(parent(), PidfdFlags::empty()).map(drop)?)),
    ("read the parent's memory", |_| File::open(of_parent("mem")).map(drop)),
    ("read the parent's variables", |_| File::open(of_parent("environ")).map(drop)),
    ("list the parent's descriptors", |_| fs::read_dir(of_parent("fd")).map(drop)),
    ("signal a process of an ordinary user", |at| Ok(test_kill_process(kin(at))?)),
    ("read the memory of that process", |at| File::open(format!("/proc/{}/mem", kin(at))).map(drop)),
    ("read the variables of that process", |at| File::open(format!("/proc/{}/environ", kin(at))).map(drop)),
    ("connect by TCP", |at| TcpStream::connect(("127.0.0.1", at.port)).map(drop)),
    ("connect to an abstract socket", |at| {
        let name = SocketAddr::from_abstract_name(abstract_name(&at.dir))?;
        UnixStream::connect_addr(&name).map(drop)
    }),
    ("connect to a socket with a path", |at| UnixStream::connect(at.dir.join("socket")).map(drop)),
    ("make a socket that may send to any path", |_| {
        let kind = (AddressFamily::UNIX, SocketType::DGRAM);
        Ok(socketpair(kind.0, kind.1, SocketFlags::empty(), None).map(drop)?)
    }),
    ("make an ioctl that is not in the list", |at| Ok(rustix::fs::ioctl_getflags(&at.file).map(drop)?)),
    ("ring: open what everybody may read", |_| ring_open(Path::new("/etc/passwd"), libc::O_RDONLY)),
    ("ring: write everybody's file", |at| ring_open(&at.dir.join("another-victim"), libc::O_RDWR)),
    ("ring: make a file", |at| ring_open(&at.dir.join(own("ring")), libc::O_CREAT | libc::O_RDWR)),
    ("ring: make a directory", |at| {
        let path = c_path(&at.dir.join(own("ring-directory")));
        operation(&opcode::MkDirAt::new(HERE, path.as_ptr()).mode(0o777).build()).map(drop)
    }),
    ("ring: rename a file", |at| {
        let [old, new] = ["victim", "new-name"].map(|name| c_path(&at.dir.join(name)));
        operation(&opcode::RenameAt::new(HERE, old.as_ptr(), HERE, new.as_ptr()).build()).map(drop)
    }),
    ("ring: remove a file", |at| {
        let path = c_path(&at.dir.join("another-victim"));
        operation(&opcode::UnlinkAt::new(HERE, path.as_ptr()).build()).map(drop)
    }),
    ("ring: connect by TCP", |at| {
        let [a, b, c, d] = [127, 0, 0, 1];
        ring_connect(libc::AF_INET, &SockaddrIn::new(a, b, c, d, at.port))
    }),
    ("ring: connect to an abstract socket", |at| {
        ring_connect(libc::AF_UNIX, &UnixAddr::new_abstract(&abstract_name(&at.dir))?)
    }),
    ("take a capability", |_| {
        let mut own = capabilities(None)?;
        own.permitted |= CapabilitySet::CHOWN;
        own.effective |= CapabilitySet::CHOWN;
        Ok(set_capabilities(None, own)?)
    }),
    ("become root", |_| Ok(set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT)?)),
    // These change the process. A mount of the free process ends with it.
    ("leave a mount namespace", |_| Ok(unshare(CloneFlags::CLONE_NEWNS)?)),
    ("change a mount", |_| {
        Ok(mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?)
    }),
    ("mount", |at| Ok(mount("none", at.dir.join("mount"), "tmpfs", MountFlags::empty(), None)?)),
    ("leave a root directory", |at| Ok(rustix::process::chroot(&at.dir)?)),
];

/// The same in a process that has had no ring: the workers of a ring are threads, and a process
/// with threads may make no user namespace.
pub const PROBES_OF_ONE_THREAD: &[Probe] =
    &[("become root of a user namespace", |_| Ok(unshare(CloneFlags::CLONE_NEWUSER)?))];

/// What a confined process reaches, as the documentation of the crate says.
pub const OPEN: &[Probe] = &[
    ("ring: connect to a socket with a path", |at| {
        ring_connect(libc::AF_UNIX, &UnixAddr::new(&at.dir.join("socket"))?)
    }),
    ("metadata of a file", |_| fs::metadata("/etc/passwd").map(drop)),
    ("target of a link", |_| fs::read_link("/proc/self/exe").map(drop)),
    ("arguments of the parent", |_| fs::read(of_parent("cmdline")).map(drop)),
    ("names of block devices", |_| fs::read_dir("/sys/class/block").map(drop)),
];

fn kin(at: &Place) -> Pid {
    Pid::from_child(&at.kin)
}

fn parent() -> Pid {
    getppid().expect("a parent in this namespace")
}

fn of_parent(file: &str) -> String {
    format!("/proc/{}/{file}", parent())
}

/// A name that no other run of the probes has made.
fn own(name: &str) -> String {
    format!("{name}-{}", std::process::id())
}

fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_encoded_bytes()).expect("no zero in it")
}

fn ring_open(path: &Path, flags: i32) -> io::Result<()> {
    let path = c_path(path);
    let opened = operation(&opcode::OpenAt::new(HERE, path.as_ptr()).flags(flags).mode(0o666).build());
    opened.map(drop)
}

fn ring_connect(family: i32, address: &impl SockaddrLike) -> io::Result<()> {
    let socket = operation(&opcode::Socket::new(family, libc::SOCK_STREAM, 0).build())?;
    let connect = opcode::Connect::new(fd(socket), address.as_ptr(), address.len());
    operation(&connect.build()).map(drop)
}
