//! FUSE over io_uring: the kernel has a queue for each processor, and hands over a request in memory of ours.
//!
//! ```text
//!  kernel, queue n ─► slot ─► its task, on loop n ─► Files ─► answer, in the slot ─► kernel: the next, please
//! ```
//! A program's request comes to the loop of the processor that it runs on, and the answer asks for the next request: no
//! reads, no writes, and no loop of another processor to be woken, for each loop is bound to one. What the kernel does not
//! wait for (FORGET, INTERRUPT) comes by the device as without queues.
//!
//! A slot is busy until its request is answered. A queue whose slots are nearly all busy gets another with each request
//! that comes, up to [`SLOTS_MAX`]: requests that wait hold up no others until so many wait.
//! (test: `requests_that_wait_hold_up_no_others`)
//!
//! Linux has it since 6.14, where the administrator allows it (`/sys/module/fuse/parameters/enable_uring`).

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use device::{Command, Serving, spawn_here};
use futures::future::BoxFuture;
use rustix::io::Errno;
use zerocopy::{FromBytes, IntoBytes};

use crate::abi::{self, InHeader, OutHeader, RingCommand, RingEntry};
use crate::attr::Inodes;
use crate::handshake::RING_REQUEST_BYTES;
use crate::request::Request;
use crate::server::Server;
use crate::session::Guest;

/// A queue has so many slots at first, and gets another where fewer are ready for a request: as many as may come
/// before its loop takes the first of them.
const READY: usize = 32;
/// Slots that a queue gets at most.
const SLOTS_MAX: usize = 1024;
/// Offsets in a slot's head, of the structure that the operation begins with and of what the kernel and we say of the
/// slot (`struct fuse_uring_req_header`, linux/fuse.h).
const OPERATION_AT: usize = 128;
const ENTRY_AT: usize = 256;
const HEAD_BYTES: usize = 288;

/// How many queues the kernel has: one for each processor that there may ever be.
///
/// # Errors
/// When the system does not tell.
pub(crate) fn count() -> io::Result<u16> {
    let possible = std::fs::read_to_string("/sys/devices/system/cpu/possible")?;
    let last = possible.trim().rsplit(['-', ',']).next().and_then(|last| last.parse::<u16>().ok());
    let unknown = || io::Error::new(io::ErrorKind::InvalidData, "the number of processors is not told");
    Ok(last.ok_or_else(unknown)? + 1)
}

/// Gives the tasks of all slots to the loops.
///
/// # Errors
/// When the system does not tell how many there must be.
pub(crate) fn spawn<S: Server>(guest: impl Fn() -> Guest<S>, loops: &device::Loops) -> io::Result<()> {
    let queues = count()?;
    tracing::info!(queues, slots = READY, "requests come over io_uring");
    loops.bind();
    for number in 0..queues {
        let queue = Arc::new(Queue::new(number));
        for _ in 0..READY {
            let guest = guest();
            queue.add_slot();
            loops.spawn_at(number.into(), "fuse slot", Box::pin(serve(guest, Arc::clone(&queue))));
        }
    }
    Ok(())
}

/// One of the kernel's queues, in a session.
struct Queue {
    /// That of its processor.
    number: u16,
    slots: AtomicUsize,
    /// Those that wait for a request.
    ready: AtomicUsize,
}

impl Queue {
    fn new(number: u16) -> Self {
        Self { number, slots: AtomicUsize::new(0), ready: AtomicUsize::new(0) }
    }

    fn add_slot(&self) {
        self.slots.fetch_add(1, Ordering::Relaxed);
        self.ready.fetch_add(1, Ordering::Relaxed);
    }

    /// A request has come to a slot; whether the queue is to get another. Only the loop of the queue calls it.
    fn take_slot(&self) -> bool {
        let ready = self.ready.fetch_sub(1, Ordering::Relaxed) - 1;
        ready < READY && self.slots.load(Ordering::Relaxed) < SLOTS_MAX
    }

    /// The request of a slot is answered.
    fn give_back_slot(&self) {
        self.ready.fetch_add(1, Ordering::Relaxed);
    }
}

/// Serves one slot until the kernel hangs up.
async fn serve<S: Server>(guest: Guest<S>, queue: Arc<Queue>) {
    let session = guest.session();
    let commands = session.commands().expect("a session with queues");
    let mut slot = Slot::new(queue.number);
    loop {
        let (command, ended) = commands.give(slot.command).await;
        slot.command = command;
        match ended {
            Ok(()) => {}
            // It is mounted no more.
            Err(error) if error.raw_os_error() == Some(libc::ENOTCONN) => break,
            Err(error) => {
                tracing::error!(queue = queue.number, %error, "the kernel takes no more requests to a queue");
                session.hang_up();
                break;
            }
        }
        if queue.take_slot() {
            queue.add_slot();
            spawn_here("fuse slot", another(guest.again(), Arc::clone(&queue)));
        }
        let _serving = Serving::begin();
        // Slots mostly have none: its memory is only there while it is worked on.
        let answered: BoxFuture<'_, ()> = Box::pin(session.answer_in(&mut slot));
        answered.await;
        queue.give_back_slot();
    }
}

/// One slot more. By itself, for what a task consists of cannot name itself.
fn another<S: Server>(guest: Guest<S>, queue: Arc<Queue>) -> BoxFuture<'static, ()> {
    Box::pin(serve(guest, queue))
}

/// One slot of a queue.
pub(crate) struct Slot {
    queue: u16,
    /// Its memory is the slot's: the head, and what goes behind headers.
    command: Command,
}

impl Slot {
    fn new(queue: u16) -> Self {
        let areas = [vec![0; HEAD_BYTES], vec![0; RING_REQUEST_BYTES as usize]];
        let data = data(RingCommand { commit_id: 0, queue, ..RingCommand::default() });
        Self { queue, command: Command { code: abi::ring::REGISTER, data, areas } }
    }

    fn entry(&self) -> RingEntry {
        let (entry, _) =
            RingEntry::read_from_prefix(&self.command.areas[0][ENTRY_AT..]).expect("it has room");
        entry
    }

    /// The request that lies there.
    ///
    /// # Errors
    /// When it is not as long as it says.
    pub fn request(&self, inodes: Inodes) -> Result<Request<'_>, Errno> {
        let [head, payload] = &self.command.areas;
        let payload = payload.get(..self.entry().payload_bytes as usize).ok_or(Errno::IO)?;
        let (header, _) = InHeader::read_from_prefix(head).expect("it has room");
        let operation = (header.len as usize).checked_sub(size_of::<InHeader>() + payload.len());
        let operation = operation.filter(|&bytes| bytes <= ENTRY_AT - OPERATION_AT).ok_or(Errno::IO)?;
        Ok(Request::new(header, &head[OPERATION_AT..][..operation], payload, inodes))
    }

    /// Answers the request, and asks for the next: with a body in parts, or with an errno. A body longer than the slot
    /// is an error, which the kernel never asks for.
    pub fn answer<'a>(&mut self, unique: u64, errno: i32, body: impl Iterator<Item = &'a [u8]>) {
        let entry = self.entry();
        let gathered = gather(body, &mut self.command.areas[1]);
        let (errno, bytes) = gathered.map_or((libc::EIO, 0), |bytes| (errno, bytes));
        let data =
            data(RingCommand { commit_id: entry.commit_id, queue: self.queue, ..RingCommand::default() });
        let head = &mut self.command.areas[0];
        let len = (size_of::<OutHeader>() + bytes) as u32;
        OutHeader { len, error: -errno, unique }.write_to_prefix(head).expect("it has room");
        let entry = RingEntry { payload_bytes: bytes as u32, ..entry };
        entry.write_to_prefix(&mut head[ENTRY_AT..]).expect("it has room");
        (self.command.code, self.command.data) = (abi::ring::COMMIT_AND_FETCH, data);
    }
}

/// Puts parts one behind the other; how many bytes they are, if there is room.
fn gather<'a>(parts: impl Iterator<Item = &'a [u8]>, into: &mut [u8]) -> Option<usize> {
    let mut len = 0;
    for part in parts {
        into.get_mut(len..len + part.len())?.copy_from_slice(part);
        len += part.len();
    }
    Some(len)
}

/// What a command says, behind which there is nothing.
fn data(command: RingCommand) -> [u8; 80] {
    let mut data = [0; 80];
    command.write_to_prefix(&mut data).expect("it has room");
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(body: &[&[u8]]) -> Slot {
        let mut slot = Slot::new(3);
        let entry = RingEntry { commit_id: 9, ..RingEntry::default() };
        entry.write_to_prefix(&mut slot.command.areas[0][ENTRY_AT..]).expect("it has room");
        slot.answer(5, 0, body.iter().copied());
        slot
    }

    fn header(slot: &Slot) -> OutHeader {
        OutHeader::read_from_prefix(&slot.command.areas[0]).expect("it is there").0
    }

    #[test]
    fn parts_of_an_answer_lie_one_behind_the_other_in_the_slot() {
        let slot = answer(&[b"one ", b"", b"two"]);
        assert_eq!((header(&slot).len, header(&slot).error, header(&slot).unique), (23, 0, 5));
        assert_eq!((slot.entry().payload_bytes, slot.entry().commit_id), (7, 9));
        assert_eq!(slot.command.areas[1][..8], *b"one two\0");
    }

    #[test]
    fn an_answer_that_no_slot_holds_is_an_error_without_a_body() {
        let half = vec![1; RING_REQUEST_BYTES as usize / 2];
        let slot = answer(&[&half, &half, b"!"]);
        assert_eq!((header(&slot).len, header(&slot).error), (16, -libc::EIO));
        assert_eq!(slot.entry().payload_bytes, 0);
        assert_eq!(header(&answer(&[&half, &half])).error, 0);
    }

    #[test]
    fn a_request_that_is_longer_than_its_slot_is_none() {
        let mut slot = Slot::new(0);
        let inodes = Inodes { root: units::ObjectId::new(34), fsid: crate::attr::Fsid::LIVE };
        let mut say = |len: u32, payload_bytes: u32| {
            let [head, _] = &mut slot.command.areas;
            InHeader { len, ..InHeader::default() }.write_to_prefix(head).expect("it has room");
            let entry = RingEntry { payload_bytes, ..RingEntry::default() };
            entry.write_to_prefix(&mut head[ENTRY_AT..]).expect("it has room");
            slot.request(inodes).map(|_| ())
        };
        assert_eq!(say(40, 0), Ok(()));
        assert_eq!(say(40 + 128 + 10, 10), Ok(()));
        assert_eq!(say(40 + 129, 0), Err(Errno::IO), "more than an operation may begin with");
        assert_eq!(say(39, 0), Err(Errno::IO));
        assert_eq!(say(45, 10), Err(Errno::IO), "less than what lies behind");
        assert_eq!(say(u32::MAX, RING_REQUEST_BYTES + 1), Err(Errno::IO), "more than there is");
    }
}
