//! The pages that the kernel must drop before it gets an answer.

use zerocopy::IntoBytes;

use super::kernel::Kernel;
use crate::abi::{
    CopyFileRangeIn, CreateIn, EntryOut, LseekIn, OpenIn, OpenOut, READ_LOCKOWNER, ReadIn, ReleaseIn,
    WRITE_CACHE, WRITE_LOCKOWNER, WriteIn, opcode,
};
use zerocopy::FromBytes;

const PAGE: u64 = 64 << 10;

/// Creates a file of ten pages and opens it with `flags`. Returns its inode and the handle.
fn make(kernel: &mut Kernel, name: &[u8], flags: i32) -> (u64, u64) {
    let create = CreateIn { mode: 0o644, flags: flags as u32, ..CreateIn::default() };
    kernel.ask(opcode::CREATE, 1, &[create.as_bytes(), name].concat());
    let body = kernel.answer().body;
    let (entry, rest) = EntryOut::read_from_prefix(&body).expect("an entry");
    let opened = OpenOut::read_from_bytes(rest).expect("a handle");
    let is_direct = flags & (libc::O_DIRECT | libc::O_DSYNC) != 0;
    for page in 0..10 {
        let write_flags = if is_direct { WRITE_LOCKOWNER } else { 0 };
        assert_eq!(write(kernel, entry.nodeid, page, write_flags), [], "a new file");
    }
    (entry.nodeid, opened.fh)
}

fn open(kernel: &mut Kernel, inode: u64, flags: i32) -> u64 {
    kernel.ask(opcode::OPEN, inode, OpenIn { flags: flags as u32, open_flags: 0 }.as_bytes());
    OpenOut::read_from_bytes(&kernel.answer().body).expect("a handle").fh
}

fn close(kernel: &mut Kernel, inode: u64, fh: u64, flags: i32) {
    let release = ReleaseIn { fh, flags: flags as u32, ..ReleaseIn::default() };
    kernel.ask(opcode::RELEASE, inode, release.as_bytes());
    assert_eq!(kernel.answer().errno, 0);
}

/// Returns the byte ranges of the file that were dropped before the answer.
fn dropped(kernel: &Kernel, inode: u64) -> Vec<(i64, i64)> {
    let (answer, dropped) = kernel.answer_after();
    assert_eq!(answer.errno, 0);
    assert!(dropped.iter().all(|drop| drop.ino == inode));
    dropped.iter().map(|drop| (drop.off, drop.len)).collect()
}

fn write(kernel: &mut Kernel, inode: u64, page: u64, write_flags: u32) -> Vec<(i64, i64)> {
    let data = vec![7; PAGE as usize];
    let write = WriteIn { size: PAGE as u32, offset: page * PAGE, write_flags, ..WriteIn::default() };
    kernel.ask(opcode::WRITE, inode, &[write.as_bytes(), &data].concat());
    dropped(kernel, inode)
}

fn read(kernel: &mut Kernel, inode: u64, page: u64, read_flags: u32) {
    let read = ReadIn { size: PAGE as u32, offset: page * PAGE, read_flags, ..ReadIn::default() };
    kernel.ask(opcode::READ, inode, read.as_bytes());
    assert_eq!(dropped(kernel, inode), []);
}

#[test]
fn a_direct_write_is_answered_when_the_kernel_has_dropped_its_pages() {
    for flags in [libc::O_DIRECT, libc::O_DSYNC, libc::O_SYNC] {
        let mut kernel = Kernel::new();
        let (inode, fh) = make(&mut kernel, b"file\0", libc::O_RDWR | flags);
        let page = |number: u64| ((number * PAGE) as i64, PAGE as i64);
        assert_eq!(write(&mut kernel, inode, 3, WRITE_LOCKOWNER), [], "nobody has read it");
        read(&mut kernel, inode, 3, READ_LOCKOWNER);
        assert_eq!(write(&mut kernel, inode, 3, WRITE_LOCKOWNER), [], "nor into the cache");
        read(&mut kernel, inode, 3, 0);
        assert_eq!(write(&mut kernel, inode, 3, WRITE_LOCKOWNER), [page(3)]);
        assert_eq!(write(&mut kernel, inode, 4, WRITE_LOCKOWNER), [], "other pages");
        assert_eq!(write(&mut kernel, inode, 3, WRITE_CACHE | WRITE_LOCKOWNER), [], "out of the cache");
        assert_eq!(write(&mut kernel, inode, 4, 0), [], "through the cache, which locks its pages meanwhile");
        assert_eq!(write(&mut kernel, inode, 4, WRITE_LOCKOWNER), [page(4)], "and has them then");
        close(&mut kernel, inode, fh, libc::O_RDWR | flags);
        read(&mut kernel, inode, 9, 0);
        let fh = open(&mut kernel, inode, libc::O_RDWR | flags);
        assert_eq!(
            write(&mut kernel, inode, 9, WRITE_LOCKOWNER),
            [(0, 0)],
            "what was read before it was opened"
        );
        assert_eq!(write(&mut kernel, inode, 9, WRITE_LOCKOWNER), [], "and is dropped");
        close(&mut kernel, inode, fh, libc::O_RDWR | flags);
        kernel.hang_up();
    }
}

#[test]
fn the_kernel_hands_over_what_a_mapping_changed_before_it_looks_for_data() {
    let mut kernel = Kernel::new();
    let (inode, fh) = make(&mut kernel, b"file\0", libc::O_RDWR);
    let seek = |kernel: &mut Kernel, offset: u64, whence: i32| {
        let lseek = LseekIn { offset, whence: whence as u32, ..LseekIn::default() };
        kernel.ask(opcode::LSEEK, inode, lseek.as_bytes());
        dropped(kernel, inode)
    };
    for whence in [libc::SEEK_DATA, libc::SEEK_HOLE] {
        assert_eq!(seek(&mut kernel, PAGE, whence), [(PAGE as i64, 0)], "from there to the end");
    }
    close(&mut kernel, inode, fh, libc::O_RDWR);
    open(&mut kernel, inode, libc::O_RDONLY);
    assert_eq!(seek(&mut kernel, 0, libc::SEEK_DATA), [], "nobody can have changed it");
    kernel.hang_up();
}

#[test]
fn the_kernel_hands_over_what_a_mapping_changed_before_it_is_copied() {
    let mut kernel = Kernel::new();
    let (inode, fh) = make(&mut kernel, b"file\0", libc::O_RDWR);
    let (target, of_target) = make(&mut kernel, b"copy\0", libc::O_WRONLY);
    close(&mut kernel, target, of_target, libc::O_WRONLY);
    let copy = |kernel: &mut Kernel| {
        let range = CopyFileRangeIn {
            off_in: PAGE,
            nodeid_out: target,
            off_out: PAGE,
            len: PAGE,
            ..CopyFileRangeIn::default()
        };
        kernel.ask(opcode::COPY_FILE_RANGE, inode, range.as_bytes());
        dropped(kernel, inode)
    };
    assert_eq!(copy(&mut kernel), [(PAGE as i64, PAGE as i64)]);
    close(&mut kernel, inode, fh, libc::O_RDWR);
    open(&mut kernel, inode, libc::O_RDONLY);
    assert_eq!(copy(&mut kernel), [], "nobody can have changed it");
    kernel.hang_up();
}
