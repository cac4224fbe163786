//! The database's own log (its WAL): appends in order, each stable before its transaction is done.
//!
//! ```text
//!  commit ─► is somebody writing? ── no ──► write the records of all who wait, as one ─► wake them
//!                  └── yes ──► wait ──► stable meanwhile, or write it oneself
//! ```
//! As databases do, who finds nobody writing writes for all that wait (group commit). The file is used in a circle, and
//! was written before, as databases recycle theirs: an append changes no size.

use std::sync::{Condvar, Mutex, MutexGuard};

use super::aligned::Aligned;
use super::store::{OltpError, Store};
use crate::dice::Dice;

/// No append is longer, unless one record is.
const APPEND_BYTES_MAX: usize = 1 << 20;

/// The log as a whole.
pub(crate) struct Wal {
    record: usize,
    span: u64,
    records: Aligned,
    state: Mutex<State>,
    moved_on: Condvar,
}

#[derive(Default)]
struct State {
    /// Records that somebody waits or waited for.
    asked: u64,
    /// Of those the stable ones.
    stable: u64,
    /// Where the next append goes.
    at: u64,
    /// Somebody writes.
    is_busy: bool,
    has_failed: bool,
    appends: u64,
}

/// An append to be made.
struct Append {
    offset: u64,
    len: usize,
    /// Records stable after it.
    stable: u64,
}

impl Wal {
    /// Of records of that many bytes, in a file of `span`, which has room for one append at least.
    pub fn new(record: usize, span: u64) -> Self {
        let most = (APPEND_BYTES_MAX / record).max(1) * record;
        let most = most.min(span as usize / record * record).max(record);
        let records = Aligned::copy_of(&Dice::new(span).noise(most));
        Self { record, span, records, state: Mutex::default(), moved_on: Condvar::new() }
    }

    /// Returns when a record of this transaction is stable.
    ///
    /// # Errors
    /// Those of the store, of this thread or of the one that wrote for it.
    pub fn commit(&self, store: &impl Store) -> Result<(), OltpError> {
        let mut state = self.lock();
        state.asked += 1;
        let mine = state.asked;
        loop {
            if state.stable >= mine {
                return Ok(());
            }
            if state.has_failed {
                return Err(OltpError::Log);
            }
            state = if state.is_busy {
                self.moved_on.wait(state).expect("no thread panics here")
            } else {
                let append = self.next(&mut state);
                drop(state);
                self.write(store, &append)?
            };
        }
    }

    /// How many appends were made since the last call.
    pub fn take_appends(&self) -> u64 {
        std::mem::take(&mut self.lock().appends)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics here")
    }

    /// Everything that is waited for, as far as it goes into one append.
    fn next(&self, state: &mut State) -> Append {
        let room = (self.records.as_ref().len() / self.record) as u64;
        let records = (state.asked - state.stable).min(room);
        let len = records as usize * self.record;
        let offset = if state.at + len as u64 > self.span { 0 } else { state.at };
        state.at = offset + len as u64;
        state.is_busy = true;
        state.appends += 1;
        Append { offset, len, stable: state.stable + records }
    }

    fn write(&self, store: &impl Store, append: &Append) -> Result<MutexGuard<'_, State>, OltpError> {
        let written = store.append(append.offset, &self.records.as_ref()[..append.len]);
        let mut state = self.lock();
        state.is_busy = false;
        match written {
            Ok(()) => state.stable = append.stable,
            Err(_) => state.has_failed = true,
        }
        self.moved_on.notify_all();
        written.map(|()| state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(append: &Append) -> (u64, usize, u64) {
        (append.offset, append.len, append.stable)
    }

    #[test]
    fn those_who_wait_go_out_as_one_append() {
        let wal = Wal::new(4096, 64 << 10);
        let mut state = State { asked: 3, ..State::default() };
        assert_eq!(taken(&wal.next(&mut state)), (0, 3 * 4096, 3));
        (state.stable, state.asked) = (3, 5);
        assert_eq!(taken(&wal.next(&mut state)), (3 * 4096, 2 * 4096, 5));
        assert_eq!(state.appends, 2);
    }

    #[test]
    fn an_append_never_crosses_the_end_of_the_file() {
        let wal = Wal::new(4096, 16 << 10);
        let mut state = State { asked: 3, at: 8 << 10, ..State::default() };
        assert_eq!(taken(&wal.next(&mut state)), (0, 3 * 4096, 3));
        // More than fits goes out in two.
        let mut state = State { asked: 9, ..State::default() };
        assert_eq!(taken(&wal.next(&mut state)), (0, 4 * 4096, 4));
    }
}
