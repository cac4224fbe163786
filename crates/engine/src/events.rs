//! Events of all pools: kept here, so that they outlive an export, and told to who asks or waits.

use crate::Holder;
use control::{Events, EventsPage, EventsSeen};
use env::Env;
use events::{EventRing, Seen};
use futures::future::select;
use std::sync::Arc;
use std::time::Duration;

/// So long a request waits at most: who is ending does not wait longer for it.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// The ring of a program that begins now.
pub fn ring(env: &Arc<dyn Env>) -> Arc<EventRing> {
    let run = u64::try_from(env.wall_clock().as_nanos()).unwrap_or(u64::MAX);
    // 0 is nobody's, so that who has read nothing reads from the beginning.
    Arc::new(EventRing::of_run(run.max(1)))
}

impl Holder {
    /// What somebody has not seen, as soon as there is something.
    pub(super) async fn events(&self, call: Events) -> EventsPage {
        let ring = &self.tuning.events;
        let seen = Seen { run: call.seen.run, eid: call.seen.eid };
        let wait = Duration::from_millis(call.wait_millis).min(WAIT_MAX);
        if wait > Duration::ZERO {
            select(Box::pin(ring.until_after(seen)), self.env.sleep(wait)).await;
        }
        let page = ring.after(seen);
        EventsPage {
            events: page.events.iter().map(ondisk::NvList::encode).collect(),
            dropped: page.dropped,
            seen: EventsSeen { run: page.seen.run, eid: page.seen.eid },
        }
    }
}
