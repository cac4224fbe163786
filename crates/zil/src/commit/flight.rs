//! A batch on its way to the devices.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use env::{BoxFuture, BufSlice, Durability, Env};
use futures::future::{join, join_all};
use units::{Histogram, ObjsetId, VdevId};

use crate::ZilError;
use crate::commit::batch::FilledBlock;
use crate::commit::state::Landed;
use crate::itx::data_place::DataBlock;
use crate::log::Core;
use crate::stats::bump;
use crate::trace::{BatchTrace, IoTrace};

/// When a batch was where.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// Its first record was asked for, if it has any.
    pub came: Option<Duration>,
    /// It was begun to be put together.
    pub begun: Duration,
    /// It is sent off.
    pub sent: Duration,
}

/// What is known of a batch as it is sent off.
#[derive(Clone, Copy, Debug)]
pub struct Departure {
    /// Its number.
    pub id: u64,
    /// How it came here.
    pub way: Way,
    /// Records in it.
    pub records: u64,
    /// Batches under way at that time.
    pub beside: usize,
}

impl Departure {
    fn trace<'a>(
        self,
        objset: ObjsetId,
        writes: impl Iterator<Item = &'a Done>,
        flushes: &[Done],
        ended: Duration,
    ) -> BatchTrace {
        let Self { id, way: Way { came, begun, sent }, records, beside } = self;
        let (writes, flushes) =
            (writes.map(Done::trace).collect(), flushes.iter().map(Done::trace).collect());
        BatchTrace { objset, id, came, begun, sent, ended, records, beside, writes, flushes }
    }
}

/// Writes `blocks` and the `data` that they name, and tells `core` how that went. The only block of a
/// vdev is written stable: one round trip. Several are written together, then flushed.
pub fn fly(
    core: &Arc<Core>,
    departure: Departure,
    mut blocks: Vec<FilledBlock>,
    data: Vec<Box<dyn DataBlock>>,
) -> impl Future<Output = ()> + Send + use<> {
    let (env, store) = (Arc::clone(&core.env), Arc::clone(&core.store));
    let core = Arc::downgrade(core);
    async move {
        let load = load(&blocks, &data);
        let durability = |vdev| if load[&vdev] == 1 { Durability::Stable } else { Durability::Cached };
        let begun = departure.way.sent;
        let reopened = store.reopened();
        let writes = blocks.iter().map(|block| {
            let vdev = block.bp.dva(0).vdev;
            let slices = vec![BufSlice::from(Arc::clone(&block.buf))];
            let write = store.write(&block.bp, slices, durability(vdev));
            timed(&*env, (vdev, block.buf.len() as u64), begun, write)
        });
        let copies =
            data.iter().flat_map(|block| block.bp().dvas().map(move |dva| (block, dva)).collect::<Vec<_>>());
        let of_data = copies.map(|(block, dva)| {
            let write = block.write(dva, durability(dva.vdev));
            timed(&*env, (dva.vdev, block.bp().psize().get()), begun, write)
        });
        let (writes, of_data) = join(join_all(writes), join_all(of_data)).await;
        let all = || writes.iter().chain(&of_data);
        let mut flushes = Vec::new();
        if all().all(|write| write.result.is_ok()) {
            let begun = all().map(|write| write.ended).max().unwrap_or(begun);
            let crowded = load.iter().filter(|&(_, &blocks)| blocks > 1);
            let each = crowded.map(|(&vdev, _)| timed(&*env, (vdev, 0), begun, store.flush(&[vdev])));
            flushes = join_all(each).await;
        }
        let is_suspect = store.reopened() != reopened;
        let is_stable = !is_suspect && all().chain(&flushes).all(|done| done.result.is_ok());
        data.iter().for_each(|block| block.ended(is_stable));
        if let Some(core) = core.upgrade() {
            note(&core.stats.write, all());
            note(&core.stats.flush, flushes.iter());
            blocks.iter_mut().zip(&writes).for_each(|(block, done)| block.took = done.took());
            flushes.iter().for_each(|done| core.stats.home_flushed(done.vdev, done.took()));
            let failed_flushes = flushes.iter().filter(|flush| flush.result.is_err()).count();
            bump(&core.stats.flush_errors, failed_flushes as u64);
            let ended = all().chain(&flushes).map(|done| done.ended).max().unwrap_or(begun);
            if let Some(recorder) = core.recorder() {
                recorder.note_batch(departure.trace(core.objset, all(), &flushes, ended));
            }
            let lost = is_suspect.then_some(ZilError::Reopened);
            let Way { begun, sent, .. } = departure.way;
            let written = all().map(|write| write.ended).max().unwrap_or(sent);
            let landed = Landed { at: ended, id: departure.id, begun, sent, written };
            let failures = writes.into_iter().chain(of_data).chain(flushes);
            let failures = failures.filter_map(|done| done.result.err());
            core.landed(landed, blocks, failures.chain(lost).collect());
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
    bytes: u64,
    begun: Duration,
    ended: Duration,
    result: Result<(), ZilError>,
}

impl Done {
    fn took(&self) -> Duration {
        self.ended.saturating_sub(self.begun)
    }

    fn trace(&self) -> IoTrace {
        IoTrace { vdev: self.vdev, bytes: self.bytes, took: self.took(), is_ok: self.result.is_ok() }
    }
}

/// Does the work of so many bytes on a vdev.
async fn timed(
    env: &dyn Env,
    (vdev, bytes): (VdevId, u64),
    begun: Duration,
    work: BoxFuture<'static, Result<(), ZilError>>,
) -> Done {
    let result = work.await;
    Done { vdev, bytes, begun, ended: env.now(), result }
}

/// Notes the time of all of them together.
fn note<'a>(all: &Histogram, done: impl Iterator<Item = &'a Done>) {
    if let Some(longest) = done.map(Done::took).max() {
        all.note(longest);
    }
}
