//! One read, write or flush, with all the memory that the kernel may touch for it.

use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::time::Duration;

use io_uring::{opcode, squeue, types};
use rustix::fs::FallocateFlags;
use rustix::io::{Errno, ReadWriteFlags};

use super::descriptor::Descriptor;
use crate::Command;
use env::{BufSlice, IoBuf};

/// The most bytes one system call moves (Linux's `MAX_RW_COUNT`, 2 GiB less a page).
const CALL_MAX_BYTES: usize = 0x7fff_f000;
/// The most parts one gathering write takes (`IOV_MAX`).
pub(crate) const GATHER_MAX: usize = 1024;

/// How often a plain system call is repeated when the kernel lacks memory, and the pause before the
/// first repetition. Each further pause is twice as long: a quarter of a second in total.
const REFUSALS_MAX: u32 = 8;
const FIRST_PAUSE: Duration = Duration::from_millis(1);

/// What is asked for.
pub(crate) enum Work {
    /// Fill the buffer.
    Read(IoBuf),
    /// Write the slices one after another, at most [`GATHER_MAX`] of them.
    Write {
        /// What to write.
        slices: Vec<BufSlice>,
        /// Return only when stable.
        stable: bool,
    },
    /// `fdatasync`.
    Flush,
    /// Give back the room of so many bytes: a hole in a file, a discard on a block device.
    Discard {
        /// How many.
        len: u64,
        /// Of a block device.
        on_block_device: bool,
    },
    /// Tell the file's driver something.
    Command(Command),
}

impl Work {
    /// Whether a ring can do it: there is no discard of block devices among its operations.
    pub(crate) fn fits_ring(&self) -> bool {
        !matches!(self, Self::Discard { on_block_device: true, .. })
    }
}

/// The ioctl that discards: two numbers, start and length in bytes (`BLKDISCARD` in linux/fs.h).
const BLKDISCARD: rustix::ioctl::Opcode = rustix::ioctl::opcode::none(0x12, 119);

/// Address and length of one part, as `struct iovec` has them. Plain numbers, so that an
/// operation may wander between threads; the kernel alone makes an address of it again.
#[derive(Clone, Copy)]
#[repr(C)]
struct Part {
    base: usize,
    len: usize,
}

/// An operation on a file, and how far it has come.
pub(crate) struct Op {
    file: Arc<Descriptor>,
    offset: u64,
    work: Work,
    done: usize,
    total: usize,
    parts: Vec<Part>,
}

/// Where an operation stands after one answer of the kernel.
pub(crate) enum Progress {
    /// Not finished: ask again for the rest.
    More,
    /// The kernel has not begun the operation, because it lacks memory or a thread at the moment.
    /// Plain system calls may succeed, now or a little later.
    NotBegun(Errno),
    /// Finished.
    Ended(Result<(), Errno>),
}

impl Op {
    /// An operation not begun yet. `offset` is meaningless for a flush.
    pub(crate) fn new(file: Arc<Descriptor>, offset: u64, work: Work) -> Self {
        let total = match &work {
            Work::Read(buf) => buf.len(),
            Work::Write { slices, .. } => slices.iter().map(|slice| slice.bytes().len()).sum(),
            Work::Flush | Work::Discard { .. } | Work::Command(_) => 0,
        };
        Self { file, offset, work, done: 0, total, parts: Vec::new() }
    }

    /// The buffers, after the end.
    pub(crate) fn into_work(self) -> Work {
        self.work
    }

    /// The submission that asks for what is left. It points into buffers that `self` owns
    /// on the heap: valid as long as `self` lives, wherever it is moved.
    pub(crate) fn entry(&mut self) -> squeue::Entry {
        let fd = types::Fd(self.file.as_raw_fd());
        let at = self.offset + self.done as u64;
        let left = (self.total - self.done).min(CALL_MAX_BYTES);
        match &mut self.work {
            Work::Read(buf) => {
                let start = buf[self.done..].as_mut_ptr();
                opcode::Read::new(fd, start, left as u32).offset(at).build()
            }
            Work::Write { slices, stable } => {
                let flags = write_flags(*stable).bits() as i32;
                self.parts.clear();
                self.parts.extend(rest(slices, self.done).map(part_of));
                match self.parts[..] {
                    [only] => opcode::Write::new(fd, only.base as *const u8, left as u32)
                        .offset(at)
                        .rw_flags(flags)
                        .build(),
                    _ => opcode::Writev::new(fd, self.parts.as_ptr().cast(), self.parts.len() as u32)
                        .offset(at)
                        .rw_flags(flags)
                        .build(),
                }
            }
            Work::Flush => opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build(),
            Work::Discard { len, .. } => {
                opcode::Fallocate::new(fd, *len).offset(at).mode(HOLE.bits() as i32).build()
            }
            Work::Command(_) => unreachable!("commands have submissions of their own"),
        }
    }

    /// The same for a command.
    // JUSTIFICATION: io-uring has no way to say how many parts a command's memory has, which FUSE asks for.
    #[expect(unsafe_code, reason = "a field of a submission is set")]
    pub(crate) fn command_entry(&mut self) -> squeue::Entry128 {
        let Work::Command(command) = &mut self.work else { unreachable!("no command") };
        self.parts.clear();
        let part = |area: &mut Vec<u8>| Part { base: area.as_mut_ptr() as usize, len: area.len() };
        self.parts.extend(command.areas.iter_mut().map(part));
        let mut entry = opcode::UringCmd80::new(types::Fd(self.file.as_raw_fd()), command.code)
            .cmd(command.data)
            .addr(Some(self.parts.as_ptr() as u64))
            .build();
        // SAFETY: an Entry128 begins with a `struct io_uring_sqe` (both are `repr(C)`), whose `len` are the
        // four bytes at 24 (linux/io_uring.h). It is aligned to more than four, and nobody else has it.
        unsafe { (&raw mut entry).cast::<u32>().add(24 / 4).write(self.parts.len() as u32) };
        entry
    }

    /// Takes the kernel's answer: a count of bytes, or a negative error number.
    pub(crate) fn advance(&mut self, answer: i32) -> Progress {
        match u32::try_from(answer) {
            Ok(bytes) => self.advance_by(Ok(bytes as usize)),
            Err(_) => self.advance_by(Err(Errno::from_raw_os_error(-answer))),
        }
    }

    fn advance_by(&mut self, answer: Result<usize, Errno>) -> Progress {
        match answer {
            Err(Errno::INTR) => Progress::More,
            // Nobody here cancels requests. The kernel does when a request would wait, and it gets no
            // thread to let wait: it is at the limit of threads, or short of memory.
            Err(errno @ Errno::CANCELED) => Progress::NotBegun(errno),
            Err(Errno::AGAIN) if matches!(self.work, Work::Command(_)) => Progress::More,
            Err(errno @ (Errno::AGAIN | Errno::NOMEM)) if !self.makes_stable() => Progress::NotBegun(errno),
            Err(errno) => Progress::Ended(Err(errno)),
            Ok(bytes) => {
                self.done += bytes;
                assert!(self.done <= self.total, "the kernel moved more than asked");
                if self.done == self.total {
                    Progress::Ended(Ok(()))
                } else if bytes == 0 {
                    // The end of the file, where the device's size said there was none.
                    Progress::Ended(Err(Errno::IO))
                } else {
                    Progress::More
                }
            }
        }
    }

    /// True for a flush and for a write that includes a flush. Such a call is made only once,
    /// whatever its result, because its bytes may have been written, and the result may be the only
    /// report that earlier writes were lost.
    fn makes_stable(&self) -> bool {
        matches!(self.work, Work::Flush | Work::Write { stable: true, .. })
    }

    /// Does the whole operation with plain system calls on the calling thread. A call for which the
    /// kernel lacks memory is repeated a few times, with growing pauses.
    pub(crate) fn run_to_end(&mut self) -> Result<(), Errno> {
        let mut refusals = 0;
        loop {
            let answer = self.call();
            match self.advance_by(answer) {
                Progress::More => refusals = 0,
                Progress::Ended(result) => return result,
                Progress::NotBegun(errno) if refusals == REFUSALS_MAX => return Err(errno),
                Progress::NotBegun(_) => {
                    std::thread::sleep(FIRST_PAUSE * (1 << refusals));
                    refusals += 1;
                }
            }
        }
    }

    fn call(&mut self) -> Result<usize, Errno> {
        let at = self.offset + self.done as u64;
        match &mut self.work {
            Work::Read(buf) => rustix::io::pread(&*self.file, &mut buf[self.done..], at),
            Work::Write { slices, stable } => {
                let parts: Vec<IoSlice<'_>> = rest(slices, self.done).map(IoSlice::new).collect();
                rustix::io::pwritev2(&*self.file, &parts, at, write_flags(*stable))
            }
            Work::Flush => rustix::fs::fdatasync(&*self.file).map(|()| 0),
            Work::Discard { len, on_block_device: true } => block_discard(&*self.file, at, *len).map(|()| 0),
            Work::Discard { len, .. } => rustix::fs::fallocate(&*self.file, HOLE, at, *len).map(|()| 0),
            Work::Command(_) => Err(Errno::OPNOTSUPP),
        }
    }
}

/// Takes the bytes, leaves the size.
const HOLE: FallocateFlags = FallocateFlags::PUNCH_HOLE.union(FallocateFlags::KEEP_SIZE);

// JUSTIFICATION: rustix has no function for this ioctl, and fallocate on a block device writes zeros
// where the device cannot discard, which is what this must not do.
#[expect(unsafe_code, reason = "an ioctl")]
fn block_discard(file: impl AsFd, offset: u64, len: u64) -> Result<(), Errno> {
    // SAFETY: BLKDISCARD reads two u64 through its pointer and writes nothing; on files that are
    // not block devices it fails. Setter passes a pointer to the array that lives during the call.
    unsafe { rustix::ioctl::ioctl(file, rustix::ioctl::Setter::<BLKDISCARD, [u64; 2]>::new([offset, len])) }
}

fn write_flags(stable: bool) -> ReadWriteFlags {
    if stable { ReadWriteFlags::DSYNC } else { ReadWriteFlags::empty() }
}

fn part_of(bytes: &[u8]) -> Part {
    Part { base: bytes.as_ptr() as usize, len: bytes.len() }
}

/// What remains of `slices` after their first `skip` bytes.
fn rest(slices: &[BufSlice], skip: usize) -> impl Iterator<Item = &[u8]> {
    let mut skip = skip;
    slices.iter().filter_map(move |slice| {
        let bytes = slice.bytes();
        let cut = skip.min(bytes.len());
        skip -= cut;
        Some(&bytes[cut..]).filter(|left| !left.is_empty())
    })
}
