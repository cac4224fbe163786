//! A batch on its way to the devices.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use device::{BufSlice, Durability};
use futures::future::join_all;
use units::VdevId;

use crate::ZilError;
use crate::batch::FilledBlock;
use crate::log::Core;
use crate::store::LogStore;

/// Writes `blocks` and tells `core` how that went. The only block of a vdev is written stable:
/// one round trip. Several are written together, then flushed.
pub async fn fly(core: Weak<Core>, store: Arc<dyn LogStore>, id: u64, blocks: Vec<FilledBlock>) {
    let mut load: BTreeMap<VdevId, usize> = BTreeMap::new();
    for block in &blocks {
        *load.entry(block.bp.dva(0).vdev).or_default() += 1;
    }
    let writes = blocks.iter().map(|block| {
        let is_alone = load[&block.bp.dva(0).vdev] == 1;
        let durability = if is_alone { Durability::Stable } else { Durability::Cached };
        store.write(&block.bp, vec![BufSlice::from(Arc::clone(&block.buf))], durability)
    });
    let mut failures: Vec<ZilError> = join_all(writes).await.into_iter().filter_map(Result::err).collect();
    if failures.is_empty() {
        let crowded = load.iter().filter(|&(_, &blocks)| blocks > 1);
        let flushes = crowded.map(|(&vdev, _)| store.flush(&[vdev]));
        failures = join_all(flushes).await.into_iter().filter_map(Result::err).collect();
    }
    if let Some(core) = core.upgrade() {
        core.landed(id, blocks, failures);
    }
}
