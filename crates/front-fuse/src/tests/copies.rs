//! `copy_file_range`, as the kernel asks for it.

use std::time::{Duration, Instant};

use zerocopy::{FromBytes, IntoBytes};

use super::kernel::Kernel;
use crate::abi::{AttrOut, CopyFileRangeIn, CreateIn, EntryOut, ReadIn, WriteIn, WriteOut, opcode};

const HOLE_BYTES: u64 = 4 << 40;
const TAIL_BYTES: u32 = 64 << 10;
/// The hole has 32 million blocks. To share them one by one takes far longer.
const BOUND: Duration = Duration::from_secs(20);

fn make(kernel: &mut Kernel, name: &[u8]) -> u64 {
    let create = CreateIn { mode: 0o644, flags: libc::O_RDWR as u32, ..CreateIn::default() };
    kernel.ask(opcode::CREATE, 1, &[create.as_bytes(), name].concat());
    EntryOut::read_from_prefix(&kernel.answer().body).expect("an entry").0.nodeid
}

fn write(kernel: &mut Kernel, inode: u64, offset: u64, byte: u8) {
    let write = WriteIn { size: TAIL_BYTES, offset, ..WriteIn::default() };
    kernel.ask(opcode::WRITE, inode, &[write.as_bytes(), &vec![byte; TAIL_BYTES as usize]].concat());
    assert_eq!(kernel.answer().errno, 0);
}

fn read(kernel: &mut Kernel, inode: u64, offset: u64) -> Vec<u8> {
    let read = ReadIn { size: TAIL_BYTES, offset, ..ReadIn::default() };
    kernel.ask(opcode::READ, inode, read.as_bytes());
    let answer = kernel.answer();
    assert_eq!(answer.errno, 0);
    answer.body
}

/// Copies the source from beginning to end. Returns the number of bytes.
fn copy(kernel: &mut Kernel, source: u64, target: u64, len: u64) -> u64 {
    let mut done = 0;
    while done < len {
        let range = CopyFileRangeIn {
            off_in: done,
            nodeid_out: target,
            off_out: done,
            len: len - done,
            ..CopyFileRangeIn::default()
        };
        kernel.ask(opcode::COPY_FILE_RANGE, source, range.as_bytes());
        let (answer, _) = kernel.answer_after();
        assert_eq!(answer.errno, 0);
        let copied = WriteOut::read_from_bytes(&answer.body).expect("a size").size;
        if copied == 0 {
            break;
        }
        done += u64::from(copied);
    }
    done
}

#[test]
fn a_long_hole_is_copied_at_once() {
    let mut kernel = Kernel::new();
    let size = HOLE_BYTES + u64::from(TAIL_BYTES);
    let source = make(&mut kernel, b"source\0");
    write(&mut kernel, source, 0, 1);
    write(&mut kernel, source, HOLE_BYTES, 2);
    let target = make(&mut kernel, b"target\0");
    // These bytes lie where the source has its hole.
    write(&mut kernel, target, HOLE_BYTES / 2, 3);
    let start = Instant::now();
    assert_eq!(copy(&mut kernel, source, target, u64::MAX >> 1), size);
    assert!(start.elapsed() < BOUND, "{:?}", start.elapsed());
    for (offset, byte) in [(0, 1), (HOLE_BYTES / 2, 0), (HOLE_BYTES, 2)] {
        assert_eq!(read(&mut kernel, target, offset), vec![byte; TAIL_BYTES as usize], "at {offset}");
    }
    kernel.ask(opcode::GETATTR, target, &[0; 16]);
    let attr = AttrOut::read_from_prefix(&kernel.answer().body).expect("attributes").0.attr;
    assert_eq!(attr.size, size);
    assert!(attr.blocks < 4096, "{} sectors", attr.blocks);
    kernel.hang_up();
}

#[test]
fn a_hole_at_the_end_makes_the_copy_as_long_as_its_source() {
    let mut kernel = Kernel::new();
    let source = make(&mut kernel, b"source\0");
    write(&mut kernel, source, 0, 1);
    write(&mut kernel, source, HOLE_BYTES, 2);
    let target = make(&mut kernel, b"target\0");
    assert_eq!(copy(&mut kernel, source, target, HOLE_BYTES), HOLE_BYTES);
    kernel.ask(opcode::GETATTR, target, &[0; 16]);
    let attr = AttrOut::read_from_prefix(&kernel.answer().body).expect("attributes").0.attr;
    assert_eq!(attr.size, HOLE_BYTES);
    assert_eq!(read(&mut kernel, target, HOLE_BYTES - 1), [0]);
    kernel.hang_up();
}
