//! I/O that a pool cannot do without, and that its devices did not do: it waits.
//!
//! ```text
//!   I/O fails ─► wait ─► resume: the same I/O again ─┬─► done: goes on as if nothing had been
//!                 ▲                                  │
//!                 └──────────── failed ◄─────────────┘
//!                 give up ─► the error
//! ```
//! A txg's sync changes memory as it goes: space, objects, lists of what to free. Had it to be done
//! again from its beginning, all of that would have to be taken back. So it never sees a device's error:
//! each failed request waits here and is made again. Exceptions are reads that a txg can do
//! without, if only bad sectors are to blame (`dmu::SyncRead`, [`crate::Zio::read`]). Reads of
//! users wait likewise where a vdev is out of use. The pool is suspended for as long as anything
//! waits.
//!
//! Who resumes is not known here: the pool does, when the administrator says so (`zpool clear`), and now
//! and then by itself. Until [`Suspension::engage`] nothing waits, as while a pool is imported.
//!
//! A pool may also be held ([`Suspension::hold`]) though its devices work: it counts as suspended until it is let go, whatever
//! is tried again meanwhile.
//!
//! Invariants
//! - A request that waited and was done leaves no trace but time.
//!   (test: `a_write_waits_until_its_vdev_is_back`)
//! - Who gives the pool up leaves nobody waiting. (test: `what_waits_fails_when_the_pool_is_given_up`)

use std::error::Error;
use std::sync::OnceLock;

use env::{IoClass, boxed, is_impatient};
use event_listener::Event;
use parking_lot::Mutex;

use crate::ZioError;

/// What a pool does when its devices fail (`failmode`). The numbers are the format's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum FailMode {
    /// Everything that needs the devices waits for them.
    #[default]
    Wait = 0,
    /// Transactions wait; whoever would begin one, or read, gets an error.
    Continue = 1,
    /// The program ends.
    Panic = 2,
}

impl FailMode {
    /// The mode of a number; what is unknown waits.
    #[must_use]
    pub const fn from_number(number: u64) -> Self {
        match number {
            1 => Self::Continue,
            2 => Self::Panic,
            _ => Self::Wait,
        }
    }
}

/// Who is told when a pool is suspended and when that has ended. Called with a lock held, so that both
/// come in the order in which they happened: it may not come back here.
pub trait SuspensionWatch: Send + Sync {
    /// Something waits from now on, because of this error; `mode` is what is to be done then.
    fn suspended(&self, cause: &(dyn Error + Send + Sync + 'static), mode: FailMode);
    /// Nothing waits any more.
    fn resumed(&self);
}

#[derive(Default)]
struct State {
    is_engaged: bool,
    is_given_up: bool,
    mode: FailMode,
    /// Requests that wait, or are made again.
    waiting: usize,
    /// Those of them that have waited since the last resume.
    parked: usize,
    /// How often it was said that devices work again.
    resumes: u64,
    /// It is suspended for another reason than that something waits.
    is_held: bool,
}

impl State {
    fn is_suspended(&self) -> bool {
        self.waiting > 0 || self.is_held
    }
}

/// Where I/O waits for devices to come back.
#[derive(Default)]
pub struct Suspension {
    state: Mutex<State>,
    watch: OnceLock<Box<dyn SuspensionWatch>>,
    changed: Event,
}

impl Suspension {
    /// From now on I/O waits, and `watch` is told.
    pub fn engage(&self, watch: Box<dyn SuspensionWatch>) {
        // A pool has one watch all its life; engaged twice, it keeps the first.
        let _ = self.watch.set(watch);
        self.state.lock().is_engaged = true;
    }

    /// Whether anything waits, or would.
    #[must_use]
    pub fn is_engaged(&self) -> bool {
        self.state.lock().is_engaged
    }

    /// Sets what is done when devices fail.
    pub fn set_mode(&self, mode: FailMode) {
        self.state.lock().mode = mode;
    }

    /// What is done when devices fail.
    #[must_use]
    pub fn mode(&self) -> FailMode {
        self.state.lock().mode
    }

    /// Whether anything waits, or the pool is held.
    #[must_use]
    pub fn is_suspended(&self) -> bool {
        self.state.lock().is_suspended()
    }

    /// Whether the pool is held.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.state.lock().is_held
    }

    /// From now on the pool is suspended, until it is let go.
    pub fn hold(&self, cause: &(dyn Error + Send + Sync + 'static)) {
        let mut state = self.state.lock();
        if state.is_held {
            return;
        }
        let was_suspended = state.is_suspended();
        state.is_held = true;
        if !was_suspended {
            self.tell_suspended(&state, cause);
        }
        drop(state);
        self.changed.notify(usize::MAX);
    }

    /// Ends what [`Suspension::hold`] began.
    pub fn let_go(&self) {
        let mut state = self.state.lock();
        let was_suspended = state.is_suspended();
        state.is_held = false;
        if was_suspended && !state.is_suspended() {
            self.watch.get().into_iter().for_each(|watch| watch.resumed());
        }
        drop(state);
        self.changed.notify(usize::MAX);
    }

    fn tell_suspended(&self, state: &State, cause: &(dyn Error + Send + Sync + 'static)) {
        self.watch.get().into_iter().for_each(|watch| watch.suspended(cause, state.mode));
    }

    /// Has all that waits tried again.
    pub fn resume(&self) {
        {
            let mut state = self.state.lock();
            state.resumes += 1;
            state.parked = 0;
        }
        self.changed.notify(usize::MAX);
    }

    /// All that waits fails, and from now on nothing waits.
    pub fn give_up(&self) {
        self.state.lock().is_given_up = true;
        self.changed.notify(usize::MAX);
    }

    /// Whether nothing is to wait any more.
    #[must_use]
    pub fn is_given_up(&self) -> bool {
        self.state.lock().is_given_up
    }

    /// Ready when something waits, or nothing ever will: then false.
    #[boxed]
    pub async fn until_suspended(&self) -> bool {
        self.until(|state| state.is_suspended() || state.is_given_up).await;
        !self.is_given_up()
    }

    /// Ready when it has turned out what came of the last resume: all that waited is done, or something
    /// waits again. (Not all that waited need be tried: some of it may be for whom the rest waits.)
    #[boxed]
    pub async fn until_settled(&self) {
        self.until(|state| state.waiting == 0 || state.parked > 0 || state.is_held).await;
    }

    /// Ready when nothing waits, and the pool is not held.
    #[boxed]
    pub async fn until_resumed(&self) {
        self.until(|state| !state.is_suspended()).await;
    }

    async fn until(&self, holds: impl Fn(&State) -> bool) {
        loop {
            let listener = self.changed.listen();
            if holds(&self.state.lock()) {
                return;
            }
            listener.await;
        }
    }

    /// For the tries of one request.
    #[must_use]
    pub fn tries(&self) -> Tries<'_> {
        Tries { suspension: self, resumes: self.state.lock().resumes, counts: false, is_parked: false }
    }

    /// Whether what is being polled may wait for a vdev that is out of use. A txg has to, all others only
    /// if they can.
    fn may_wait(&self) -> bool {
        let state = self.state.lock();
        let is_asked_for = match IoClass::current() {
            IoClass::Async => true,
            IoClass::Sync => !is_impatient() && state.mode != FailMode::Continue,
            IoClass::Prefetch | IoClass::Scrub => false,
        };
        state.is_engaged && !state.is_given_up && is_asked_for
    }

    fn begin(&self, cause: &(dyn Error + Send + Sync + 'static)) {
        let mut state = self.state.lock();
        state.waiting += 1;
        if state.waiting == 1 {
            if !state.is_held {
                self.tell_suspended(&state, cause);
            }
            self.changed.notify(usize::MAX);
        }
    }

    /// A request is over. `parked_since`: the resumes before it was left waiting, if it was.
    fn end(&self, parked_since: Option<u64>) {
        let mut state = self.state.lock();
        state.waiting -= 1;
        state.parked -= usize::from(parked_since == Some(state.resumes));
        if !state.is_suspended() {
            self.watch.get().into_iter().for_each(|watch| watch.resumed());
        }
        drop(state);
        self.changed.notify(usize::MAX);
    }
}

/// The tries of one request. The pool counts as suspended from the first that fails until the request is
/// over, done or not.
pub struct Tries<'a> {
    suspension: &'a Suspension,
    /// The resumes before the last try.
    resumes: u64,
    counts: bool,
    is_parked: bool,
}

impl Tries<'_> {
    /// Waits for another try after one that failed by a device's fault; false when there is none.
    #[boxed]
    pub async fn next(&mut self, cause: &(dyn Error + Send + Sync + 'static)) -> bool {
        if !self.suspension.may_wait() {
            return false;
        }
        if !self.counts {
            self.suspension.begin(cause);
            self.counts = true;
        }
        self.park();
        // Who failed late does not wait for another resume than those who failed early.
        let before = self.resumes;
        self.suspension.until(|state| state.resumes > before || state.is_given_up).await;
        self.is_parked = false;
        let state = self.suspension.state.lock();
        self.resumes = state.resumes;
        !state.is_given_up
    }

    fn park(&mut self) {
        let mut state = self.suspension.state.lock();
        self.is_parked = state.resumes == self.resumes;
        state.parked += usize::from(self.is_parked);
        drop(state);
        self.suspension.changed.notify(usize::MAX);
    }
}

impl Drop for Tries<'_> {
    fn drop(&mut self) {
        if self.counts {
            self.suspension.end(self.is_parked.then_some(self.resumes));
        }
    }
}

/// Whether devices are at fault, and not what lies on them: another try may do better.
pub(crate) fn is_of_devices(error: &ZioError) -> bool {
    match error {
        ZioError::Write { .. } => true,
        // A txg cannot do without what it reads. Others are told of a bad place, and wait only for
        // a device that is not there. So does what a txg does beside, as repairing: it is impatient.
        ZioError::Read { source, .. } => {
            source.is_absence() || (IoClass::current() == IoClass::Async && !is_impatient())
        }
        _ => false,
    }
}
