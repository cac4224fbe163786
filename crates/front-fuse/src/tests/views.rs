//! Snapshots in the control directory, looked into without a kernel that remembers anything.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use rustix::io::Errno;
use units::ObjsetId;
use zerocopy::{FromBytes, IntoBytes};

use super::kernel::Kernel;
use crate::abi::{
    AttrOut, BatchForgetIn, CreateIn, EntryOut, ForgetIn, ForgetOne, MkdirIn, OpenIn, ReadIn, WriteIn, opcode,
};
use crate::attr::Fsid;
use crate::ctldir::Ctlnode;

const LONG: Duration = Duration::from_secs(24 * 60 * 60);

fn look_up(kernel: &mut Kernel, dir: u64, name: &str) -> Result<EntryOut, i32> {
    kernel.ask(opcode::LOOKUP, dir, &[name.as_bytes(), b"\0"].concat());
    let answer = kernel.answer();
    let entry = || EntryOut::read_from_prefix(&answer.body).expect("an entry").0;
    if answer.errno == 0 { Ok(entry()) } else { Err(answer.errno) }
}

/// Makes a snapshot by its directory; the inode of that.
fn snapshot(kernel: &mut Kernel, name: &str) -> u64 {
    let body = [MkdirIn { mode: 0o755, umask: 0 }.as_bytes(), name.as_bytes(), b"\0"].concat();
    kernel.ask(opcode::MKDIR, Ctlnode::Snapshots.inode(), &body);
    let answer = kernel.answer();
    assert_eq!(answer.errno, 0, "{name}");
    EntryOut::read_from_prefix(&answer.body).expect("an entry").0.nodeid
}

fn remove(kernel: &mut Kernel, name: &str) -> i32 {
    kernel.ask(opcode::RMDIR, Ctlnode::Snapshots.inode(), &[name.as_bytes(), b"\0"].concat());
    kernel.answer().errno
}

/// A file in the root that has this in it.
fn write(kernel: &mut Kernel, text: &[u8]) {
    let create = CreateIn { mode: 0o644, ..CreateIn::default() };
    kernel.ask(opcode::CREATE, 1, &[create.as_bytes(), b"f\0"].concat());
    let made = kernel.answer();
    let inode = match made.errno {
        0 => EntryOut::read_from_prefix(&made.body).expect("an entry").0.nodeid,
        _ => look_up(kernel, 1, "f").expect("it is there").nodeid,
    };
    let args = WriteIn { size: text.len() as u32, ..WriteIn::default() };
    kernel.ask(opcode::WRITE, inode, &[args.as_bytes(), text].concat());
    assert_eq!(kernel.answer().errno, 0);
}

fn read(kernel: &mut Kernel, inode: u64) -> Result<Vec<u8>, i32> {
    kernel.ask(opcode::READ, inode, ReadIn { size: 100, ..ReadIn::default() }.as_bytes());
    let answer = kernel.answer();
    if answer.errno == 0 { Ok(answer.body) } else { Err(answer.errno) }
}

fn open(kernel: &mut Kernel, inode: u64, flags: i32) -> i32 {
    kernel.ask(opcode::OPEN, inode, OpenIn { flags: flags as u32, open_flags: 0 }.as_bytes());
    kernel.answer().errno
}

fn objset(kernel: &Kernel, name: &str) -> ObjsetId {
    let found = kernel.block_on(kernel.pool().dsl().resolve(&format!("tank@{name}")));
    found.expect("it is there").objset()
}

/// Has snapshots let go of as before they are destroyed; they may be opened again at once.
fn let_go(kernel: &Kernel, name: &str) {
    let (views, objset) = (kernel.views(), objset(kernel, name));
    drop(kernel.block_on(views.let_go_of(&[objset])));
}

#[test]
fn a_snapshot_is_found_by_name_and_opened_again_by_inode() {
    let mut kernel = Kernel::new();
    write(&mut kernel, b"one");
    let root = snapshot(&mut kernel, "a");
    write(&mut kernel, b"two");
    let ctldir = look_up(&mut kernel, 1, ".zfs").expect("it is there");
    assert_eq!((ctldir.nodeid, ctldir.entry_valid, ctldir.attr.mode), (0xffff_ffff_ffff, 0, 0o40555));
    let snapdir = look_up(&mut kernel, ctldir.nodeid, "snapshot").expect("it is there");
    assert_eq!((snapdir.nodeid, snapdir.attr.nlink), (0xffff_ffff_fffd, 3));
    let found = look_up(&mut kernel, snapdir.nodeid, "a").expect("it is there");
    assert_eq!((found.nodeid, found.entry_valid), (root, 0));
    assert_ne!(Fsid::of(root), Fsid::LIVE);
    let file = look_up(&mut kernel, root, "f").expect("it is there");
    assert_eq!((file.attr.ino, file.attr.size, Fsid::of(file.nodeid)), (file.nodeid, 3, Fsid::of(root)));
    assert_eq!(read(&mut kernel, file.nodeid), Ok(b"one".to_vec()));
    // Nobody uses it for long.
    assert!(kernel.views().let_idle_go(Duration::ZERO), "it was used just now");
    let now = Duration::from_nanos(u64::MAX) - LONG;
    assert!(!kernel.views().let_idle_go(now), "nothing is open");
    assert_eq!(read(&mut kernel, file.nodeid), Ok(b"one".to_vec()));
    for (dir, name) in
        [(1, "x"), (ctldir.nodeid, "shares"), (snapdir.nodeid, "b"), (snapdir.nodeid, "a@b"), (root, "x")]
    {
        let found = look_up(&mut kernel, dir, name).map(|entry| entry.nodeid);
        assert!(matches!(found, Ok(0)) || found == Err(libc::ENOENT), "{name}: {found:?}");
    }
    assert_eq!(read(&mut kernel, 7 << 48 | 34), Err(libc::ESTALE), "no snapshot has that");
    kernel.hang_up();
}

#[test]
fn a_snapshot_with_an_open_file_is_kept() {
    let mut kernel = Kernel::new();
    write(&mut kernel, b"one");
    let root = snapshot(&mut kernel, "a");
    let file = look_up(&mut kernel, root, "f").expect("it is there").nodeid;
    assert_eq!(open(&mut kernel, file, libc::O_RDWR), libc::EROFS);
    assert_eq!(open(&mut kernel, file, libc::O_RDONLY), 0);
    assert_eq!(open(&mut kernel, file, libc::O_RDONLY), 0);
    for _ in 0..2 {
        let_go(&kernel, "a");
        assert_eq!(remove(&mut kernel, "a"), libc::EBUSY);
        assert_eq!(read(&mut kernel, file), Ok(b"one".to_vec()));
        kernel.ask(opcode::RELEASE, file, &[0; 24]);
        assert_eq!(kernel.answer().errno, 0);
    }
    let_go(&kernel, "a");
    assert_eq!(remove(&mut kernel, "a"), 0);
    assert_eq!(read(&mut kernel, file), Err(libc::ESTALE));
    assert_eq!(look_up(&mut kernel, Ctlnode::Snapshots.inode(), "a").map(|_| ()), Err(libc::ENOENT));
    kernel.hang_up();
}

#[test]
fn who_looks_at_what_is_about_to_go_waits() {
    let mut kernel = Kernel::new();
    let root = snapshot(&mut kernel, "a");
    let other = snapshot(&mut kernel, "b");
    let (views, objset) = (kernel.views(), objset(&kernel, "a"));
    let kept_out = kernel.block_on(views.let_go_of(&[objset]));
    let waits = kernel.ask(opcode::GETATTR, root, &[]);
    // Another is not held up.
    kernel.ask(opcode::GETATTR, other, &[]);
    let first = kernel.answer();
    assert_eq!((first.errno, first.unique), (0, waits + 1));
    drop(kept_out);
    let then = kernel.answer();
    assert_eq!((then.errno, then.unique), (0, waits));
    assert_eq!(AttrOut::read_from_prefix(&then.body).expect("attributes").0.attr.ino, root);
    // The second time it goes.
    let kept_out = kernel.block_on(views.let_go_of(&[objset]));
    let waits = kernel.ask(opcode::GETATTR, root, &[]);
    kernel.block_on(kernel.pool().destroy_snapshots(vec!["tank@a".into()], false)).expect("nobody reads it");
    drop(kept_out);
    let then = kernel.answer();
    assert_eq!((then.errno, then.unique), (libc::ESTALE, waits));
    drop(views);
    kernel.hang_up();
}

#[test]
fn an_fsid_is_another_snapshots_only_when_nothing_remembers_it() {
    let mut kernel = Kernel::new();
    write(&mut kernel, b"one");
    let root = snapshot(&mut kernel, "a");
    let file = look_up(&mut kernel, root, "f").expect("it is there").nodeid;
    let views = kernel.views();
    assert!(!views.is_forgotten(Fsid::of(root)), "it is open");
    let_go(&kernel, "a");
    assert!(!views.is_forgotten(Fsid::of(root)), "the kernel knows two inodes");
    let forgets = BatchForgetIn { count: 2, dummy: 0 };
    let live = ForgetOne { nodeid: 2, nlookup: 1 };
    let one = ForgetOne { nodeid: root, nlookup: 1 };
    kernel.ask(opcode::BATCH_FORGET, 0, &[forgets.as_bytes(), live.as_bytes(), one.as_bytes()].concat());
    // What is asked next is answered when that is done.
    kernel.ask(opcode::GETATTR, 1, &[0; 16]);
    assert_eq!(kernel.answer().errno, 0);
    assert!(!views.is_forgotten(Fsid::of(root)), "it knows one");
    kernel.ask(opcode::FORGET, file, ForgetIn { nlookup: 1 }.as_bytes());
    while !views.is_forgotten(Fsid::of(root)) {
        std::thread::yield_now();
    }
    // Until another needs it, it is its own.
    assert_eq!(look_up(&mut kernel, Ctlnode::Snapshots.inode(), "a").map(|entry| entry.nodeid), Ok(root));
    drop(views);
    kernel.hang_up();
}

#[test]
fn names_that_are_given_up_or_taken_are_refused() {
    let mut kernel = Kernel::new();
    snapshot(&mut kernel, "a");
    let views = kernel.views();
    assert_eq!(views.find("b").now_or_never().map(|found| found.err()), Some(Some(Errno::NOENT)));
    let body = [MkdirIn::default().as_bytes(), b"a\0"].concat();
    kernel.ask(opcode::MKDIR, Ctlnode::Snapshots.inode(), &body);
    assert_eq!(kernel.answer().errno, libc::EEXIST);
    kernel.ask(
        opcode::MKDIR,
        Ctlnode::Snapshots.inode(),
        &[MkdirIn::default().as_bytes(), b"\xff\0"].concat(),
    );
    assert_eq!(kernel.answer().errno, libc::EILSEQ);
    for (inode, opcode, errno) in [
        (Ctlnode::Root.inode(), opcode::MKDIR, libc::EPERM),
        (Ctlnode::Root.inode(), opcode::CREATE, libc::EACCES),
        (Ctlnode::Snapshots.inode(), opcode::UNLINK, libc::EPERM),
        (Ctlnode::Snapshots.inode(), opcode::SETATTR, libc::EPERM),
        (Ctlnode::Snapshots.inode(), opcode::GETXATTR, libc::ENODATA),
        (Ctlnode::Snapshots.inode(), opcode::OPEN, libc::EISDIR),
    ] {
        kernel.ask(opcode, inode, b"");
        assert_eq!(kernel.answer().errno, errno, "{opcode} of {inode:x}");
    }
    assert_eq!(Arc::strong_count(&views), 2, "the mount's and this");
    drop(views);
    kernel.hang_up();
}
