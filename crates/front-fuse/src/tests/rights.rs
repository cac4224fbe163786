//! Rights that the kernel leaves to the file system.

use rustix::io::Errno;
use zerocopy::{FromBytes, IntoBytes};

use super::kernel::Kernel;
use crate::abi::{
    AttrOut, CopyFileRangeIn, CreateIn, EntryOut, FallocateIn, GetxattrIn, SETXATTR_ACL_KILL_SGID, SetattrIn,
    SetxattrExt, SetxattrIn, WRITE_CACHE, WRITE_KILL_SUIDGID, WRITE_LOCKOWNER, WriteIn, fattr, opcode,
};
use crate::handshake::Agreed;

const LEN: u32 = 4096;

/// Creates a file with contents. Returns its inode.
fn make(kernel: &mut Kernel, name: &[u8], mode: u32) -> u64 {
    let create = CreateIn { mode, flags: libc::O_RDWR as u32, ..CreateIn::default() };
    kernel.ask(opcode::CREATE, 1, &[create.as_bytes(), name].concat());
    let inode = EntryOut::read_from_prefix(&kernel.answer().body).expect("an entry").0.nodeid;
    let write = WriteIn { size: LEN, ..WriteIn::default() };
    kernel.ask(opcode::WRITE, inode, &[write.as_bytes(), &[7; LEN as usize]].concat());
    assert_eq!(kernel.answer().errno, 0);
    inode
}

fn mode(kernel: &mut Kernel, inode: u64) -> u32 {
    kernel.ask(opcode::GETATTR, inode, &[0; 16]);
    AttrOut::read_from_prefix(&kernel.answer().body).expect("attributes").0.attr.mode & 0o7777
}

#[test]
fn whoever_changes_a_file_without_writing_takes_its_set_id_bits() {
    let mut kernel = Kernel::new();
    let source = make(&mut kernel, b"source\0", 0o644);
    for (name, reserves) in [(b"copied\0".as_slice(), false), (b"reserved\0", true)] {
        let target = make(&mut kernel, name, 0o6755);
        assert_eq!(mode(&mut kernel, target), 0o6755);
        if reserves {
            let fallocate = FallocateIn { length: u64::from(LEN), ..FallocateIn::default() };
            kernel.ask(opcode::FALLOCATE, target, fallocate.as_bytes());
        } else {
            let len = u64::from(LEN);
            let copy = CopyFileRangeIn { nodeid_out: target, len, ..CopyFileRangeIn::default() };
            kernel.ask(opcode::COPY_FILE_RANGE, source, copy.as_bytes());
        }
        let (answer, told) = kernel.answer_after();
        assert_eq!(answer.errno, 0);
        assert!(told.iter().any(|told| told.ino == target), "the kernel is to ask for the mode again");
        assert_eq!(mode(&mut kernel, target), 0o755);
    }
    kernel.hang_up();
}

/// Asks, and expects success.
fn ask(kernel: &mut Kernel, opcode: u32, inode: u64, parts: &[&[u8]]) {
    kernel.ask(opcode, inode, &parts.concat());
    assert_eq!(kernel.answer().errno, 0, "opcode {opcode}");
}

/// Whether a file has file capabilities.
fn is_capable(kernel: &mut Kernel, inode: u64) -> bool {
    let get = GetxattrIn { size: 100, padding: 0 };
    kernel.ask(opcode::GETXATTR, inode, &[get.as_bytes(), b"security.capability\0"].concat());
    let answer = kernel.answer();
    assert!(answer.errno == 0 || answer.errno == Errno::NODATA.raw_os_error());
    answer.errno == 0
}

#[test]
fn file_capabilities_go_when_contents_or_owners_change() {
    let mut kernel = Kernel::new();
    let source = make(&mut kernel, b"source\0", 0o644);
    let target = make(&mut kernel, b"target\0", 0o755);
    let write = |write_flags| WriteIn { size: 1, write_flags, ..WriteIn::default() }.as_bytes().to_vec();
    let set =
        |valid| SetattrIn { valid, size: 1, uid: 7, gid: 7, ..SetattrIn::default() }.as_bytes().to_vec();
    let copy = CopyFileRangeIn { nodeid_out: target, len: 1, ..CopyFileRangeIn::default() };
    let fallocate = FallocateIn { length: 1, ..FallocateIn::default() };
    for (what, opcode, inode, body, stays) in [
        ("a direct write", opcode::WRITE, target, [&write(WRITE_LOCKOWNER), &b"x"[..]].concat(), false),
        (
            "a direct write by somebody else",
            opcode::WRITE,
            target,
            [&write(WRITE_LOCKOWNER | WRITE_KILL_SUIDGID), &b"x"[..]].concat(),
            false,
        ),
        ("a copy", opcode::COPY_FILE_RANGE, source, copy.as_bytes().to_vec(), false),
        ("a reservation", opcode::FALLOCATE, target, fallocate.as_bytes().to_vec(), false),
        ("a size", opcode::SETATTR, target, set(fattr::SIZE), false),
        ("an owner", opcode::SETATTR, target, set(fattr::UID), false),
        ("a group", opcode::SETATTR, target, set(fattr::GID), false),
        // The page may have been changed before the capabilities were set.
        ("a page of the cache", opcode::WRITE, target, [&write(WRITE_CACHE), &b"x"[..]].concat(), true),
        ("a time", opcode::SETATTR, target, set(fattr::MTIME_NOW | fattr::MTIME), true),
        ("a mode", opcode::SETATTR, target, set(fattr::MODE), true),
    ] {
        let capability = SetxattrIn { size: 1, flags: 0 };
        ask(&mut kernel, opcode::SETXATTR, target, &[capability.as_bytes(), b"security.capability\0", b"v"]);
        assert!(is_capable(&mut kernel, target), "before {what}");
        ask(&mut kernel, opcode, inode, &[&body]);
        assert_eq!(is_capable(&mut kernel, target), stays, "after {what}");
    }
    kernel.hang_up();
}

/// An access ACL that says what the mode 0755 says, and a user more.
const ACL: [u8; 44] = {
    let entries: [[u8; 8]; 5] = [
        [1, 0, 7, 0, 255, 255, 255, 255],
        [2, 0, 5, 0, 9, 0, 0, 0],
        [4, 0, 5, 0, 255, 255, 255, 255],
        [16, 0, 5, 0, 255, 255, 255, 255],
        [32, 0, 5, 0, 255, 255, 255, 255],
    ];
    let (mut acl, mut at) = ([0; 44], 0);
    acl[0] = 2;
    while at < 40 {
        acl[4 + at] = entries[at / 8][at % 8];
        at += 1;
    }
    acl
};

#[test]
fn an_acl_by_an_owner_outside_the_group_takes_set_group_id() {
    let mut kernel = Kernel::agreeing(Agreed { xattr_flags: true, ..Agreed::default() });
    let pool = std::sync::Arc::clone(kernel.pool());
    let filesystem = kernel.block_on(pool.filesystem("tank")).expect("it is open");
    let zfs = &filesystem.zfs;
    zfs.set_options(zpl::ZfsOptions { posix_acls: true, ..zfs.options() });
    let file = make(&mut kernel, b"file\0", 0o6755);
    let set = SetxattrIn { size: ACL.len() as u32, flags: 0 };
    for (setxattr_flags, after) in [(0, 0o6755), (SETXATTR_ACL_KILL_SGID, 0o4755)] {
        let ext = SetxattrExt { setxattr_flags, padding: 0 };
        let parts: [&[u8]; 4] = [set.as_bytes(), ext.as_bytes(), b"system.posix_acl_access\0", &ACL];
        ask(&mut kernel, opcode::SETXATTR, file, &parts);
        assert_eq!(mode(&mut kernel, file), after);
    }
    // Other attributes have the longer structure too.
    let set = SetxattrIn { size: 1, flags: 0 };
    let ext = SetxattrExt::default();
    ask(&mut kernel, opcode::SETXATTR, file, &[set.as_bytes(), ext.as_bytes(), b"user.a\0", b"v"]);
    drop(filesystem);
    kernel.hang_up();
}

#[test]
fn attributes_without_a_namespace_of_users_are_refused() {
    let mut kernel = Kernel::new();
    let file = make(&mut kernel, b"file\0", 0o644);
    let refused = Errno::OPNOTSUPP.raw_os_error();
    let empty = Errno::INVAL.raw_os_error();
    for (name, errno) in [
        (b"user.a\0".as_slice(), 0),
        (b"trusted.a\0", 0),
        (b"security.a\0", 0),
        (b"system.evil\0", refused),
        (b"system.\0", refused),
        (b"system.posix_acl_other\0", refused),
        (b"foo\0", refused),
        (b"users.a\0", refused),
        (b"user.\0", empty),
    ] {
        let set = SetxattrIn { size: 1, flags: 0 };
        kernel.ask(opcode::SETXATTR, file, &[set.as_bytes(), name, b"v"].concat());
        assert_eq!(kernel.answer().errno, errno, "{}", name.escape_ascii());
        let get = GetxattrIn { size: 10, padding: 0 };
        kernel.ask(opcode::GETXATTR, file, &[get.as_bytes(), name].concat());
        let found = kernel.answer();
        if errno == 0 {
            assert_eq!((found.errno, found.body), (0, b"v".to_vec()), "{}", name.escape_ascii());
        } else {
            assert_ne!(found.errno, 0, "{}", name.escape_ascii());
        }
        if name.starts_with(b"system.") {
            kernel.ask(opcode::REMOVEXATTR, file, name);
            assert_eq!(kernel.answer().errno, refused);
        }
    }
    kernel.hang_up();
}
