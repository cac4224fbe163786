//! A batch on its way to the devices.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use device::{BoxFuture, BufSlice, Durability, Env};
use futures::future::join_all;
use units::VdevId;

use crate::ZilError;
use crate::batch::FilledBlock;
use crate::histogram::Histogram;
use crate::log::Core;

/// Writes `blocks` and tells `core` how that went. The only block of a vdev is written stable:
/// one round trip. Several are written together, then flushed.
pub fn fly(core: &Arc<Core>, id: u64, blocks: Vec<FilledBlock>) -> impl Future<Output = ()> + Send + use<> {
    let (env, store) = (Arc::clone(&core.env), Arc::clone(&core.store));
    let core = Arc::downgrade(core);
    async move {
        let mut load: BTreeMap<VdevId, usize> = BTreeMap::new();
        for block in &blocks {
            *load.entry(block.bp.dva(0).vdev).or_default() += 1;
        }
        let begun = env.now();
        let writes = blocks.iter().map(|block| {
            let vdev = block.bp.dva(0).vdev;
            let durability = if load[&vdev] == 1 { Durability::Stable } else { Durability::Cached };
            let slices = vec![BufSlice::from(Arc::clone(&block.buf))];
            timed(&*env, vdev, begun, store.write(&block.bp, slices, durability))
        });
        let writes = join_all(writes).await;
        let mut flushes = Vec::new();
        if writes.iter().all(|write| write.result.is_ok()) {
            let begun = writes.iter().map(|write| write.ended).max().unwrap_or(begun);
            let crowded = load.iter().filter(|&(_, &blocks)| blocks > 1);
            let each = crowded.map(|(&vdev, _)| timed(&*env, vdev, begun, store.flush(&[vdev])));
            flushes = join_all(each).await;
        }
        if let Some(core) = core.upgrade() {
            note(&core.stats.write, &writes, |done| core.stats.home_wrote(done.vdev, done.took()));
            note(&core.stats.flush, &flushes, |done| core.stats.home_flushed(done.vdev, done.took()));
            let failures = writes.into_iter().chain(flushes).filter_map(|done| done.result.err());
            core.landed(id, blocks, failures.collect());
        }
    }
}

/// A write or a flush that has ended.
struct Done {
    vdev: VdevId,
    begun: Duration,
    ended: Duration,
    result: Result<(), ZilError>,
}

impl Done {
    fn took(&self) -> Duration {
        self.ended.saturating_sub(self.begun)
    }
}

async fn timed(
    env: &dyn Env,
    vdev: VdevId,
    begun: Duration,
    work: BoxFuture<'static, Result<(), ZilError>>,
) -> Done {
    let result = work.await;
    Done { vdev, begun, ended: env.now(), result }
}

/// Notes the time of all of them together, and has each noted by `each`.
fn note(all: &Histogram, done: &[Done], each: impl Fn(&Done)) {
    if let Some(longest) = done.iter().map(Done::took).max() {
        all.note(longest);
    }
    done.iter().for_each(each);
}
