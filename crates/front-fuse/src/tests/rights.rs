//! Rights that the kernel leaves to the file system.

use rustix::io::Errno;
use zerocopy::{FromBytes, IntoBytes};

use super::kernel::Kernel;
use crate::abi::{
    AttrOut, CopyFileRangeIn, CreateIn, EntryOut, FallocateIn, GetxattrIn, SetxattrIn, WriteIn, opcode,
};

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
