//! The list of pools follows which devices lack something, so that after a crash such a device does not speak for its pool.

use crate::{Held, Holder};
use env::BoxFuture;
use pool::{AbsenceWatch, Pool};
use std::sync::{Arc, Weak};
use units::Guid;

/// Writes the list when it has to say something else.
struct Recorder {
    holder: Weak<Holder>,
    pool: Weak<Pool>,
}

impl AbsenceWatch for Recorder {
    fn changed(&self) {
        let (Some(holder), pool) = (self.holder.upgrade(), Weak::clone(&self.pool)) else { return };
        let env = Arc::clone(&holder.env);
        env.spawn("absences", Box::pin(record(holder, pool)));
    }
}

async fn record(holder: Arc<Holder>, pool: Weak<Pool>) {
    let runner = Arc::clone(&holder.runner);
    let write: BoxFuture<'static, ()> = Box::pin(async move { holder.remember() });
    runner.run(write).await;
    pool.upgrade().into_iter().for_each(|pool| pool.absences_recorded());
}

impl Holder {
    /// Has the list follow the devices of a pool.
    pub(super) fn follow_absences(&self, pool: &Arc<Pool>) {
        let (holder, weak) = (Weak::clone(&self.own), Arc::downgrade(pool));
        pool.watch_absences(Box::new(Recorder { holder, pool: weak }));
    }

    /// Takes leaves out of use by `work`. The list says so before it is true: the next commit is acknowledged without
    /// them.
    pub(super) async fn taking_out<T>(&self, held: &Held, leaf: Guid, work: impl Future<Output = T>) -> T {
        held.begin_leaving(leaf);
        self.remember();
        let done = work.await;
        held.end_leaving(leaf);
        self.remember();
        done
    }
}
