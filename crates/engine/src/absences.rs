//! Keeps the leaves that lack data in the list of pools, so that such a leaf does not speak for its
//! pool after a crash.

use crate::{Held, Holder};
use env::BoxFuture;
use pool::{AbsenceWatch, Pool};
use std::sync::{Arc, Weak};
use units::Guid;

/// Writes the list when its contents change.
struct AbsenceRecorder {
    holder: Weak<Holder>,
    pool: Weak<Pool>,
}

impl AbsenceWatch for AbsenceRecorder {
    fn changed(&self) {
        let (Some(holder), pool) = (self.holder.upgrade(), Weak::clone(&self.pool)) else { return };
        pool.upgrade().iter().for_each(|pool| holder.follow_returning(pool));
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
    /// Keeps the list up to date with the devices of a pool.
    pub(super) fn follow_absences(&self, pool: &Arc<Pool>) {
        let (holder, weak) = (Weak::clone(&self.own), Arc::downgrade(pool));
        pool.watch_absences(Box::new(AbsenceRecorder { holder, pool: weak }));
        self.follow_returning(pool);
    }

    /// Runs `work`, which takes a leaf out of use. The list is updated first, because the next
    /// commit may be acknowledged without the leaf.
    pub(super) async fn taking_out<T>(&self, held: &Held, leaf: Guid, work: impl Future<Output = T>) -> T {
        held.begin_leaving(leaf);
        self.remember();
        let done = work.await;
        held.end_leaving(leaf);
        self.remember();
        done
    }
}
