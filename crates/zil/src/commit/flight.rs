//! A batch on its way to the devices.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use env::{BoxFuture, BufSlice, Durability, Env};
use futures::future::{join, join_all};
use units::{Histogram, VdevId};

use crate::ZilError;
use crate::commit::batch::FilledBlock;
use crate::itx::data_place::DataBlock;
use crate::log::Core;
use crate::stats::bump;

/// Writes `blocks` and the `data` that they name, and tells `core` how that went. The only block of a
/// vdev is written stable: one round trip. Several are written together, then flushed.
pub fn fly(
    core: &Arc<Core>,
    id: u64,
    blocks: Vec<FilledBlock>,
    data: Vec<Box<dyn DataBlock>>,
) -> impl Future<Output = ()> + Send + use<> {
    let (env, store) = (Arc::clone(&core.env), Arc::clone(&core.store));
    let core = Arc::downgrade(core);
    async move {
        let load = load(&blocks, &data);
        let durability = |vdev| if load[&vdev] == 1 { Durability::Stable } else { Durability::Cached };
        let begun = env.now();
        let reopened = store.reopened();
        let writes = blocks.iter().map(|block| {
            let vdev = block.bp.dva(0).vdev;
            let slices = vec![BufSlice::from(Arc::clone(&block.buf))];
            timed(&*env, vdev, begun, store.write(&block.bp, slices, durability(vdev)))
        });
        let copies =
            data.iter().flat_map(|block| block.bp().dvas().map(move |dva| (block, dva)).collect::<Vec<_>>());
        let of_data =
            copies.map(|(block, dva)| timed(&*env, dva.vdev, begun, block.write(dva, durability(dva.vdev))));
        let (writes, of_data) = join(join_all(writes), join_all(of_data)).await;
        let all = || writes.iter().chain(&of_data);
        let mut flushes = Vec::new();
        if all().all(|write| write.result.is_ok()) {
            let begun = all().map(|write| write.ended).max().unwrap_or(begun);
            let crowded = load.iter().filter(|&(_, &blocks)| blocks > 1);
            let each = crowded.map(|(&vdev, _)| timed(&*env, vdev, begun, store.flush(&[vdev])));
            flushes = join_all(each).await;
        }
        let is_suspect = store.reopened() != reopened;
        let is_stable = !is_suspect && all().chain(&flushes).all(|done| done.result.is_ok());
        data.iter().for_each(|block| block.ended(is_stable));
        if let Some(core) = core.upgrade() {
            note(&core.stats.write, all());
            note(&core.stats.flush, flushes.iter());
            writes.iter().for_each(|done| core.stats.home_wrote(done.vdev, done.took()));
            flushes.iter().for_each(|done| core.stats.home_flushed(done.vdev, done.took()));
            let failed_flushes = flushes.iter().filter(|flush| flush.result.is_err()).count();
            bump(&core.stats.flush_errors, failed_flushes as u64);
            let failures = writes.into_iter().chain(of_data).chain(flushes);
            let failures = failures.filter_map(|done| done.result.err());
            let lost = is_suspect.then_some(ZilError::Reopened);
            core.landed(id, blocks, failures.chain(lost).collect());
        }
    }
}

/// How much is written to each vdev.
fn load(blocks: &[FilledBlock], data: &[Box<dyn DataBlock>]) -> BTreeMap<VdevId, usize> {
    let mut load: BTreeMap<VdevId, usize> = BTreeMap::new();
    for block in blocks {
        *load.entry(block.bp.dva(0).vdev).or_default() += 1;
    }
    for block in data {
        block.bp().dvas().for_each(|dva| *load.entry(dva.vdev).or_default() += 1);
    }
    load
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

/// Notes the time of all of them together.
fn note<'a>(all: &Histogram, done: impl Iterator<Item = &'a Done>) {
    if let Some(longest) = done.map(Done::took).max() {
        all.note(longest);
    }
}
