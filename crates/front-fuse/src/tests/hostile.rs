//! Requests that no kernel sends: whatever they say, they are answered or passed over, take little memory, and leave
//! the session well.

use std::collections::BTreeSet;
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use fastrand::Rng;
use zerocopy::{FromBytes, IntoBytes};

use super::kernel::Kernel;
use crate::abi::{AttrOut, CreateIn, EntryOut, InHeader, ReadIn, WriteIn, opcode};

const ROUNDS: usize = 400;
/// Requests under way at the same time.
const AT_ONCE: usize = 50;
/// What the process may have grown by, caches and all.
const GROWTH_MAX_KIB: u64 = 256 << 10;
const OPCODE_MAX: u32 = 55;
const NAMES: [&[u8]; 6] = [b"a\0", b"b\0", b"..\0", b"\0", b"a/b\0", b"no end"];
const NUMBERS: [u64; 15] = [
    0,
    1,
    2,
    3,
    7,
    4096,
    70_000,
    1 << 20,
    u32::MAX as u64,
    i64::MAX as u64,
    i64::MAX as u64 + 1,
    u64::MAX,
    // The control directory, and what may be a snapshot's root in it.
    0xffff_ffff_ffff,
    0xffff_ffff_fffd,
    (1 << 48) + 34,
];

/// Numbers as requests have them, two of 32 bits or one of 64, then names, then bytes of any kind.
fn body(dice: &mut Rng) -> Vec<u8> {
    let mut body = Vec::new();
    for _ in 0..dice.usize(..12) {
        match dice.u8(..3) {
            0 => body.extend((of(dice, &NUMBERS) as u32).to_le_bytes()),
            1 => body.extend(of(dice, &NUMBERS).to_le_bytes()),
            _ => body.extend(dice.u64(..).to_le_bytes()),
        }
    }
    (0..dice.usize(..3)).for_each(|_| body.extend(of(dice, &NAMES)));
    let noise = if dice.u8(..40) == 0 { 70_000 } else { dice.usize(..40) };
    body.extend((0..noise).map(|_| dice.u8(..)));
    body
}

fn of<T: Copy>(dice: &mut Rng, all: &[T]) -> T {
    all[dice.usize(..all.len())]
}

/// In KiB.
fn most_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its memory");
    line.trim_end_matches("kB").trim().parse().expect("a number")
}

/// Counts panics of any thread as long as it lives.
struct Panics(Arc<AtomicUsize>);

impl Panics {
    fn count() -> Self {
        let (count, told) = (Arc::<AtomicUsize>::default(), panic::take_hook());
        let panics = Arc::clone(&count);
        panic::set_hook(Box::new(move |info| {
            panics.fetch_add(1, SeqCst);
            told(info);
        }));
        Self(count)
    }
}

/// Makes a file of 100,000 bytes; its inode.
fn make_file(kernel: &mut Kernel, name: &[u8]) -> u64 {
    let create = CreateIn { mode: 0o644, ..CreateIn::default() };
    kernel.ask(opcode::CREATE, 1, &[create.as_bytes(), name].concat());
    let made = kernel.answer();
    assert_eq!(made.errno, 0);
    let inode = EntryOut::read_from_prefix(&made.body).expect("an entry").0.nodeid;
    let data = vec![7; 100_000];
    let write = WriteIn { size: data.len() as u32, ..WriteIn::default() };
    kernel.ask(opcode::WRITE, inode, &[write.as_bytes(), &data].concat());
    assert_eq!(kernel.answer().errno, 0);
    inode
}

#[test]
fn requests_that_no_kernel_sends_do_no_harm() {
    let panics = Panics::count();
    let mut kernel = Kernel::new();
    let file = make_file(&mut kernel, b"kept\0");
    let other = make_file(&mut kernel, b"a\0");
    let before = most_memory();
    let mut dice = Rng::with_seed(0x5eed);
    let (mut asked, mut answered) = (BTreeSet::new(), 0);
    for round in 0..ROUNDS {
        for _ in 0..AT_ONCE {
            let opcode = dice.u32(..OPCODE_MAX);
            // The file that is looked at in the end is only read.
            let nodeid = of(&mut dice, &[1, 1, other, other, 0, 99, u64::MAX]);
            let body = body(&mut dice);
            let len = match dice.u8(..20) {
                0 => of(&mut dice, &NUMBERS) as u32,
                _ => (size_of::<InHeader>() + body.len()) as u32,
            };
            asked.insert(kernel.ask_with(InHeader { len, opcode, nodeid, ..InHeader::default() }, &body));
        }
        // What is asked for after all that is answered, in any order with the rest.
        let last = kernel.ask(opcode::GETATTR, 1, &[0; 16]);
        loop {
            let answer = kernel.answer();
            if answer.unique == last {
                let attr = AttrOut::read_from_prefix(&answer.body).expect("attributes").0.attr;
                assert_eq!((answer.errno, attr.mode >> 12), (0, 4), "the root is a directory, round {round}");
                break;
            }
            assert!(asked.remove(&answer.unique), "{answer:?} was not asked for, or twice");
            answered += 1;
        }
    }
    assert!(answered > ROUNDS * AT_ONCE / 2, "{answered} answers");
    let read = ReadIn { size: 100_000, ..ReadIn::default() };
    let last = kernel.ask(opcode::READ, file, read.as_bytes());
    let bytes = loop {
        let answer = kernel.answer();
        if answer.unique == last {
            break answer.body;
        }
    };
    assert!(bytes == vec![7; 100_000], "another file is what it was");
    let grown = most_memory() - before;
    assert!(grown < GROWTH_MAX_KIB, "{grown} KiB more");
    kernel.hang_up();
    assert_eq!(panics.0.load(SeqCst), 0, "nothing panicked");
}
