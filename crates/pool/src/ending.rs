//! The end of the program, which long waits give way to.
//!
//! A pool of another host is watched for minutes before this host opens it. A daemon that is
//! stopped meanwhile must not keep its user, or the next daemon, waiting for that long.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use env::Env;
use event_listener::Event;
use futures::future::{Either, select};

use crate::LeftAlone;

/// Whether the program is about to end. All clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct Ending(Arc<State>);

#[derive(Debug, Default)]
struct State {
    has_begun: AtomicBool,
    begun: Event,
}

impl Ending {
    /// Ends waits that may take minutes, those that begin later too. There is no way back.
    pub fn begin(&self) {
        self.0.has_begun.store(true, Ordering::SeqCst);
        self.0.begun.notify(usize::MAX);
    }

    /// Sleeps for `span`.
    ///
    /// # Errors
    /// [`LeftAlone::Ending`], at once, if the program is about to end.
    pub(crate) async fn sleep(&self, env: &Arc<dyn Env>, span: Duration) -> Result<(), LeftAlone> {
        let begun = self.0.begun.listen();
        if self.0.has_begun.load(Ordering::SeqCst) {
            return Err(LeftAlone::Ending);
        }
        match select(begun, env.sleep(span)).await {
            Either::Left(_) => Err(LeftAlone::Ending),
            Either::Right(_) => Ok(()),
        }
    }
}
