//! The place of a pool: the process that has the pool now, or will have it.
//!
//! ```text
//!            ends                    opened
//!  Open ──────────────► Opening ──────────────► Open
//!   │                      │ ends too often
//!   │ exported             ▼
//!   └──► Closed           Down: until somebody imports the pool
//! ```

use std::sync::Arc;

use control::{ByteSink, ByteSource, Call, Failure};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::deaths::Deaths;
use crate::pool_process::PoolProcess;

/// See the module.
#[derive(Clone)]
pub enum SeatState {
    /// The process answers.
    Open(Arc<PoolProcess>),
    /// The last process has ended, and the next one opens the pool.
    Opening,
    /// Nothing opens the pool by itself.
    Down(Failure),
    /// The pool is not here any more.
    Closed,
}

/// See the module.
pub struct PoolSeat {
    /// The number of the directories of its processes.
    pub number: u64,
    /// The name of the pool.
    pub name: String,
    state: watch::Sender<SeatState>,
    deaths: Mutex<Deaths>,
    /// True if the process was told to end.
    is_leaving: Mutex<bool>,
}

impl PoolSeat {
    /// The seat of a pool that a process has opened.
    pub fn of(number: u64, name: String, process: Arc<PoolProcess>) -> Self {
        let (state, _) = watch::channel(SeatState::Open(process));
        Self { number, name, state, deaths: Mutex::default(), is_leaving: Mutex::new(false) }
    }

    /// The seat of a pool that no process could open.
    pub fn empty(number: u64, name: String) -> Self {
        let (state, _) = watch::channel(SeatState::Opening);
        Self { number, name, state, deaths: Mutex::default(), is_leaving: Mutex::new(false) }
    }

    /// Returns the state of this moment.
    pub fn state(&self) -> SeatState {
        self.state.borrow().clone()
    }

    /// Moves to another state.
    pub fn set(&self, state: SeatState) {
        self.state.send_replace(state);
    }

    /// Returns the process, once there is one.
    ///
    /// # Errors
    /// Why there will be none.
    pub async fn process(&self) -> Result<Arc<PoolProcess>, Failure> {
        let mut state = self.state.subscribe();
        loop {
            match &*state.borrow_and_update() {
                SeatState::Open(process) => return Ok(Arc::clone(process)),
                SeatState::Down(why) => return Err(why.clone()),
                SeatState::Closed => return Err(Failure::no_such_pool(&self.name)),
                SeatState::Opening => {}
            }
            if state.changed().await.is_err() {
                return Err(Failure::no_such_pool(&self.name));
            }
        }
    }

    /// Returns the process of this moment.
    pub fn open(&self) -> Option<Arc<PoolProcess>> {
        match self.state() {
            SeatState::Open(process) => Some(process),
            _ => None,
        }
    }

    /// Asks the process, once there is one.
    ///
    /// # Errors
    /// The refusal of the process, or why there is no process.
    pub async fn ask<C: Call>(&self, call: &C) -> Result<C::Answer, Failure> {
        self.process().await?.ask(call).await
    }

    /// The same for an answer that follows bytes.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub async fn ask_for_bytes<C: Call>(&self, call: &C, sink: ByteSink) -> Result<C::Answer, Failure> {
        self.process().await?.ask_for_bytes(call, sink).await
    }

    /// The same for a request about bytes.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub async fn ask_with_source<C: Call>(&self, call: &C, source: ByteSource) -> Result<C::Answer, Failure> {
        self.process().await?.ask_with_source(call, source).await
    }

    /// True if the next process may be started after one has ended at `now`.
    pub fn may_start_again(&self, now: std::time::Duration) -> bool {
        self.deaths.lock().may_start_again(now)
    }

    /// Has the process sync its pool and end.
    pub fn terminate(&self) {
        *self.is_leaving.lock() = true;
        if let Some(process) = self.open() {
            process.terminate();
        }
    }

    /// The pool was closed: has the process end.
    pub fn let_go(&self) {
        *self.is_leaving.lock() = true;
        if let Some(process) = self.open() {
            process.let_go();
        }
    }

    /// True if the process was told to end.
    pub fn is_leaving(&self) -> bool {
        *self.is_leaving.lock()
    }

    /// Waits until no process will have the pool.
    pub async fn until_closed(&self) {
        let has_ended = |state: &SeatState| matches!(state, SeatState::Closed | SeatState::Down(_));
        _ = self.state.subscribe().wait_for(has_ended).await;
    }
}
