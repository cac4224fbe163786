//! Faults on order, by number: what `zinject` adds, lists and cancels.
//!
//! A fault is a leaf's, as long as its pool is open here ([`vdev::Injection`]).

use crate::{Holder, refusal};
use control::{
    Failure, FailureKind, InjectAction, InjectAdd, InjectCancel, InjectFault, InjectHandler, InjectOrder,
    InjectRequests,
};
use env::BoxFuture;
use pool::{Absence, PoolError};
use std::sync::{Arc, Weak};
use std::time::Duration;
use units::Guid;
use vdev::{Fault, Injection, Leaf, Requests};

/// More lanes than requests that could be under way at once are none.
const LANES_MAX: u64 = 1 << 16;
/// Faults on order at the same time.
const HANDLERS_MAX: usize = 1 << 10;

/// All that are on order.
#[derive(Default)]
pub struct Handlers {
    last: u64,
    all: Vec<Handler>,
}

struct Handler {
    id: u64,
    pool: String,
    leaf: Weak<Leaf>,
    guid: u64,
    order: InjectOrder,
    injection: Arc<Injection>,
}

impl Handler {
    fn end(&self) {
        self.leaf.upgrade().into_iter().for_each(|leaf| leaf.stop_injecting(&self.injection));
    }

    fn info(&self) -> InjectHandler {
        let (matched, injected) = self.injection.counts();
        let (id, vdev) = (self.id, self.guid);
        InjectHandler { id, pool: self.pool.clone(), vdev, order: self.order.clone(), matched, injected }
    }
}

impl Holder {
    pub(super) fn injections(&self) -> Vec<InjectHandler> {
        let mut handlers = self.handlers.lock();
        // Those of pools that were closed since ended with their leaves.
        handlers.all.retain(|handler| handler.leaf.strong_count() > 0);
        handlers.all.iter().map(Handler::info).collect()
    }

    pub(super) fn inject(&self, call: InjectAdd) -> Result<u64, Failure> {
        let leaf = self.leaf(&call.pool, call.vdev)?;
        let injection = injection(&call.order);
        let mut handlers = self.handlers.lock();
        if handlers.all.len() >= HANDLERS_MAX {
            return Err(Failure::new(FailureKind::Invalid, "failed to add handler: Cannot allocate memory"));
        }
        handlers.last += 1;
        let (id, guid) = (handlers.last, leaf.guid().get());
        leaf.inject(&injection);
        let (pool, order) = (call.pool, call.order);
        handlers.all.push(Handler { id, pool, leaf: Arc::downgrade(&leaf), guid, order, injection });
        Ok(id)
    }

    pub(super) fn cancel_injection(&self, call: InjectCancel) -> Result<(), Failure> {
        let mut handlers = self.handlers.lock();
        let Some(id) = call.id else {
            handlers.all.drain(..).for_each(|handler| handler.end());
            return Ok(());
        };
        let Some(at) = handlers.all.iter().position(|handler| handler.id == id) else {
            let line = format!("failed to remove handler {id}: No such file or directory");
            return Err(Failure::new(FailureKind::Invalid, line));
        };
        handlers.all.remove(at).end();
        Ok(())
    }

    pub(super) async fn declare_bad(&self, call: InjectAction) -> Result<(), Failure> {
        let held = self.pool(&call.pool)?;
        let leaf = self.leaf(&call.pool, call.vdev)?;
        if !call.fault {
            leaf.declare_degraded();
            held.pool.vdevs().mark_changed(leaf.vdev());
            return Ok(());
        }
        let done: BoxFuture<'_, Result<_, PoolError>> =
            Box::pin(held.pool.take_offline(leaf.guid(), Absence::Faulted, false));
        done.await.map_err(|error| {
            let reason = refusal::reason(&error);
            Failure::new(FailureKind::Invalid, format!("cannot fault {}: {reason}", leaf.path().display()))
        })
    }

    fn leaf(&self, pool: &str, vdev: u64) -> Result<Arc<Leaf>, Failure> {
        let held = self.pool(pool)?;
        let found = held.pool.vdevs().leaf(Guid::new(vdev));
        found.map_err(|_| {
            let line = format!("cannot find device '{vdev}' in pool '{pool}'");
            Failure::new(FailureKind::Invalid, line)
        })
    }
}

fn injection(order: &InjectOrder) -> Arc<Injection> {
    let fault = match order.fault {
        InjectFault::Nxio => Fault::Gone,
        InjectFault::Io => Fault::Failed,
        InjectFault::IoPrefail => Fault::NotDone,
        InjectFault::Noop => Fault::Lost,
        InjectFault::Corrupt => Fault::Flipped,
        InjectFault::Delay { latency_millis, lanes } => Fault::Delayed {
            latency: Duration::from_millis(latency_millis),
            lanes: usize::try_from(lanes.min(LANES_MAX)).unwrap_or(usize::MAX),
        },
    };
    let requests = match order.requests {
        InjectRequests::Read => Requests::Read,
        InjectRequests::Write => Requests::Write,
        InjectRequests::Flush => Requests::Flush,
        InjectRequests::Trim => Requests::Trim,
        InjectRequests::All => Requests::All,
    };
    Injection::new(fault, requests, order.frequency, order.spares_retries)
}
