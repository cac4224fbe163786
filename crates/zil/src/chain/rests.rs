//! Whether a log is at rest, for those who would wake it while it goes to rest: see [`super::rest`].
//! (tests of every order of the threads' steps: `crates/models`, `a_log_with_something_to_do_is_attended_to`)

use crate::sync::{AtomicBool, Ordering};

/// Set while txgs do not attend to a log.
#[derive(Debug, Default)]
pub(crate) struct Rests(AtomicBool);

impl Rests {
    /// Whether the log is at rest.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Has txgs attend to the log; whether it was at rest until now. Whoever gave the log something to do, under one of
    /// the locks under which `may_rest` looks, calls this after that, and sees to it that this cannot be done before the
    /// call returns: by holding the lock, or the txg open. Otherwise the log could come to rest again between the two
    /// steps here, and the second would undo that.
    pub(crate) fn awaken(&self, attend: impl FnOnce()) -> bool {
        if !self.is_set() {
            return false;
        }
        attend();
        self.0.swap(false, Ordering::AcqRel)
    }

    /// The log leaves, says that it rests, and looks then whether it may: what it was given before it said so it finds,
    /// and who gives it something later finds it at rest. Only one thread at a time calls this.
    pub(crate) fn rest(
        &self,
        may_rest: impl Fn() -> bool,
        leave: impl FnOnce(),
        attend: impl FnOnce(),
    ) -> bool {
        if !may_rest() {
            return false;
        }
        leave();
        self.0.store(true, Ordering::Release);
        let rests = may_rest();
        if !rests {
            self.awaken(attend);
        }
        rests
    }
}
