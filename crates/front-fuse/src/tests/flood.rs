//! More requests than there is memory for.

use std::thread::sleep;
use std::time::{Duration, Instant};

use zerocopy::{FromBytes, IntoBytes};

use super::kernel::Kernel;
use crate::abi::{CreateIn, EntryOut, WriteIn, WriteOut, opcode};
use crate::session::LARGE_MAX;

const DATA_BYTES: u32 = 70_000;
/// Large requests that lie in the socket, and not in the session.
const ON_THE_WAY_MAX: usize = 6;
/// Nothing more is taken when nothing was for so long.
const FULL: Duration = Duration::from_secs(1);

/// Asks for as many stable writes as are taken, but no more than `most`.
fn flood(kernel: &mut Kernel, file: u64, most: usize) -> usize {
    let data = vec![7; DATA_BYTES as usize];
    let (mut asked, mut since) = (0, Instant::now());
    while asked < most && since.elapsed() < FULL {
        let (offset, flags) = (asked as u64 * u64::from(DATA_BYTES), libc::O_DSYNC as u32);
        let write = WriteIn { size: DATA_BYTES, offset, flags, ..WriteIn::default() };
        if kernel.is_asked(opcode::WRITE, file, &[write.as_bytes(), &data].concat()) {
            (asked, since) = (asked + 1, Instant::now());
        } else {
            sleep(Duration::from_millis(5));
        }
    }
    asked
}

#[test]
fn large_requests_wait_outside_while_there_are_many() {
    let mut kernel = Kernel::new();
    let create = CreateIn { mode: 0o644, ..CreateIn::default() };
    kernel.ask(opcode::CREATE, 1, &[create.as_bytes(), b"file\0"].concat());
    let file = EntryOut::read_from_prefix(&kernel.answer().body).expect("an entry").0.nodeid;
    kernel.hold(true);
    let asked = flood(&mut kernel, file, 4 * LARGE_MAX);
    kernel.hold(false);
    assert!((LARGE_MAX / 2..=LARGE_MAX + ON_THE_WAY_MAX).contains(&asked), "{asked} were taken");
    for _ in 0..asked {
        let answer = kernel.answer();
        let written = WriteOut::read_from_prefix(&answer.body).expect("how much").0.size;
        assert_eq!((answer.errno, written), (0, DATA_BYTES));
    }
    kernel.hang_up();
}
