//! Faults on order, by number: what `zinject` adds, lists and cancels.
//!
//! A fault concerns a leaf ([`vdev::Injection`]) or blocks of an object ([`zio::BlockFault`]), as long as the pool is open
//! here.

use crate::{Holder, refusal};
use control::{
    Failure, FailureKind, InjectAction, InjectAdd, InjectBlocks, InjectCancel, InjectFault, InjectHandler,
    InjectOrder, InjectRequests,
};
use env::BoxFuture;
use ondisk::dnode::DNODE_SLOT_BYTES;
use pool::{Absence, Pool, PoolError};
use std::sync::{Arc, Weak};
use std::time::Duration;
use units::{BlockId, Guid, Level, ObjectId};
use vdev::{Fault, Injection, Leaf, Requests};
use zio::{BlockFault, BlockFaultKind, FaultyBlocks};

/// More lanes than requests that could be under way at once are none.
const LANES_MAX: u64 = 1 << 16;
/// Blocks of dnodes.
const META_DNODE_BLOCK_BYTES: u32 = 16 << 10;
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
    order: InjectOrder,
    injected: Injected,
}

/// What a fault concerns.
enum Injected {
    Leaf { leaf: Weak<Leaf>, guid: u64, injection: Arc<Injection> },
    Blocks { pool: Weak<Pool>, blocks: InjectBlocks, fault: Arc<BlockFault> },
}

impl Injected {
    fn end(&self) {
        match self {
            Self::Leaf { leaf, injection, .. } => {
                leaf.upgrade().into_iter().for_each(|leaf| leaf.stop_injecting(injection));
            }
            Self::Blocks { pool, fault, .. } => {
                pool.upgrade().into_iter().for_each(|pool| pool.zio().stop_injecting(fault));
            }
        }
    }

    /// False if the pool was closed.
    fn is_there(&self) -> bool {
        match self {
            Self::Leaf { leaf, .. } => leaf.strong_count() > 0,
            Self::Blocks { pool, .. } => pool.strong_count() > 0,
        }
    }
}

impl Handler {
    fn info(&self) -> InjectHandler {
        let (vdev, blocks, (matched, injected)) = match &self.injected {
            Injected::Leaf { guid, injection, .. } => (*guid, None, injection.counts()),
            Injected::Blocks { blocks, fault, .. } => (0, Some(blocks.clone()), fault.counts()),
        };
        let (pool, order) = (self.pool.clone(), self.order.clone());
        InjectHandler { id: self.id, pool, vdev, blocks, order, matched, injected }
    }
}

impl Holder {
    pub(super) fn injections(&self) -> Vec<InjectHandler> {
        let mut handlers = self.handlers.lock();
        // Those of pools that were closed since ended with their leaves.
        handlers.all.retain(|handler| handler.injected.is_there());
        handlers.all.iter().map(Handler::info).collect()
    }

    pub(super) async fn inject(&self, call: InjectAdd) -> Result<u64, Failure> {
        let has_room = |handlers: &Handlers| handlers.all.len() < HANDLERS_MAX;
        let full = || Failure::new(FailureKind::Invalid, "failed to add handler: Cannot allocate memory");
        if !has_room(&self.handlers.lock()) {
            return Err(full());
        }
        let InjectAdd { pool, vdev, blocks, order } = call;
        let injected = match blocks {
            None => self.inject_leaf(&pool, vdev, &order)?,
            Some(blocks) => self.inject_blocks(&pool, blocks, &order).await?,
        };
        let mut handlers = self.handlers.lock();
        if !has_room(&handlers) {
            injected.end();
            return Err(full());
        }
        handlers.last += 1;
        let id = handlers.last;
        handlers.all.push(Handler { id, pool, order, injected });
        Ok(id)
    }

    fn inject_leaf(&self, pool: &str, vdev: u64, order: &InjectOrder) -> Result<Injected, Failure> {
        let leaf = self.leaf(pool, vdev)?;
        let injection = injection(order);
        leaf.inject(&injection);
        Ok(Injected::Leaf { guid: leaf.guid().get(), leaf: Arc::downgrade(&leaf), injection })
    }

    async fn inject_blocks(
        &self,
        pool: &str,
        blocks: InjectBlocks,
        order: &InjectOrder,
    ) -> Result<Injected, Failure> {
        let held = self.pool(pool)?;
        let faulty = faulty_blocks(&held.pool, &blocks).await;
        let faulty = faulty.map_err(|error| {
            let reason = refusal::reason(&error);
            Failure::new(FailureKind::Invalid, format!("cannot inject into '{}': {reason}", blocks.dataset))
        })?;
        let kind = match order.fault {
            InjectFault::Checksum => BlockFaultKind::WrongChecksum,
            _ => BlockFaultKind::Unreadable,
        };
        let blocks = InjectBlocks { objset: faulty.objset.get(), ..blocks };
        let fault = BlockFault::new(faulty, kind, order.frequency);
        held.pool.zio().inject(&fault);
        Ok(Injected::Blocks { pool: Arc::downgrade(&held.pool), blocks, fault })
    }

    /// Has all pools read from their devices again.
    pub(super) fn empty_caches(&self) {
        self.all().iter().for_each(|held| held.pool.zio().empty_cache());
    }

    pub(super) fn cancel_injection(&self, call: InjectCancel) -> Result<(), Failure> {
        let mut handlers = self.handlers.lock();
        let Some(id) = call.id else {
            handlers.all.drain(..).for_each(|handler| handler.injected.end());
            return Ok(());
        };
        let Some(at) = handlers.all.iter().position(|handler| handler.id == id) else {
            let line = format!("failed to remove handler {id}: No such file or directory");
            return Err(Failure::new(FailureKind::Invalid, line));
        };
        handlers.all.remove(at).injected.end();
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

/// The blocks of an object, by their numbers.
async fn faulty_blocks(pool: &Arc<Pool>, blocks: &InjectBlocks) -> Result<FaultyBlocks, PoolError> {
    let objset = pool.dsl().resolve(&blocks.dataset).await?.objset();
    let (object, block_bytes, of_bytes) = if blocks.is_dnode {
        let at = blocks.object.saturating_mul(DNODE_SLOT_BYTES as u64);
        (ObjectId::META_DNODE, META_DNODE_BLOCK_BYTES, Some((at, at)))
    } else {
        let object = ObjectId::new(blocks.object);
        let view = pool.view().await;
        let found = pool.frame(&blocks.dataset, &view).await?;
        let found = found.ok_or_else(|| PoolError::NotFilesystem { name: blocks.dataset.clone() })?;
        (object, found.hold(object).await?.block_bytes(), blocks.range)
    };
    let (first, last) = of_bytes.unwrap_or((0, u64::MAX));
    let block = |at: u64| BlockId::new(at / u64::from(block_bytes));
    Ok(FaultyBlocks { objset, object, level: Level::new(blocks.level), blocks: block(first)..=block(last) })
}

fn injection(order: &InjectOrder) -> Arc<Injection> {
    let fault = match order.fault {
        InjectFault::Nxio => Fault::Gone,
        InjectFault::Io => Fault::Failed,
        InjectFault::IoPrefail => Fault::NotDone,
        InjectFault::Noop => Fault::Lost,
        InjectFault::Corrupt | InjectFault::Checksum => Fault::Flipped,
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
