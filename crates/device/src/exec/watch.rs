//! What a loop waits with: one `epoll` for its bell, its ring and the files that its tasks wait for.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use slab::Slab;

use super::watched::WatchedFile;

/// Marks what needs nothing but to end the wait: the bell and the ring.
const OWN: u64 = u64::MAX;
/// Events taken at once; more come with the next wait.
const EVENTS: usize = 64;

/// See the module. Files are added and taken away by any thread.
pub(crate) struct Watch {
    epoll: OwnedFd,
    files: Mutex<Slab<Arc<WatchedFile>>>,
}

impl Watch {
    /// One whose waits `bell` ends.
    pub(crate) fn new(bell: &OwnedFd) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        // Each time the counter rises is an event of its own, so nobody has to read it.
        epoll::add(&epoll, bell, EventData::new_u64(OWN), EventFlags::IN | EventFlags::ET)?;
        Ok(Self { epoll, files: Mutex::default() })
    }

    /// Lets completions of a ring end a wait, as long as they are not collected.
    pub(crate) fn add_ring(&self, ring: BorrowedFd<'_>) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, ring, EventData::new_u64(OWN), EventFlags::IN)?)
    }

    /// Watches a file; its key. Of several loops that watch it and wait, one is woken for an event, the one that
    /// was added first; where all are at work, each hears of it when it waits next.
    pub(crate) fn add(&self, fd: &impl AsFd, file: &Arc<WatchedFile>) -> io::Result<usize> {
        let key = self.files.lock().insert(Arc::clone(file));
        let flags = EventFlags::IN | EventFlags::ET | EventFlags::EXCLUSIVE;
        let added = epoll::add(&self.epoll, fd, EventData::new_u64(key as u64), flags);
        if added.is_err() {
            self.files.lock().remove(key);
        }
        Ok(added.map(|()| key)?)
    }

    /// Watches a file no more.
    pub(crate) fn remove(&self, fd: &impl AsFd, key: usize) {
        // It is open, and was added: nothing can fail.
        let _ = epoll::delete(&self.epoll, fd);
        self.files.lock().remove(key);
    }

    /// Waits for an event, but no longer than that; whom to wake for it goes to `wakers`.
    pub(crate) fn wait(&self, timeout: Option<Duration>, wakers: &mut Vec<Waker>) {
        let timeout = timeout.map(|span| Timespec {
            tv_sec: span.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: span.subsec_nanos().into(),
        });
        let mut room: [MaybeUninit<Event>; EVENTS] = [const { MaybeUninit::uninit() }; EVENTS];
        // A signal ends the wait, and the loop looks at everything again.
        let Ok((events, _)) = epoll::wait(&self.epoll, &mut room, timeout.as_ref()) else { return };
        if events.is_empty() {
            return;
        }
        let files = self.files.lock();
        let keys = events.iter().map(|event| event.data.u64()).filter(|&key| key != OWN);
        wakers.extend(keys.filter_map(|key| files.get(key as usize)?.tell()));
    }
}
