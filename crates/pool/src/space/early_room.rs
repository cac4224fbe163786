//! Room for what is written before its txg: blocks of intent logs, and blocks of files that those name.
//!
//! Blocks of a file that change after they were written early take room twice in their txg, however
//! little is dirty. So both kinds leave txgs what those need, and a txg that took much of the room
//! for them is synced soon.

use std::sync::Arc;

use dmu::{EarlyCheck, TxgGate};
use metaslab::Class;
use units::Txg;
use zio::Zio;

use crate::log::share::LogShare;
use crate::space::{WORST_INFLATION, slop_bytes};

/// Whether so much free room is enough for what txgs under way have to write: without it none could
/// be made stable any more, and only one that is frees log blocks.
/// (test: `small_commits_that_fill_a_pool_with_log_blocks_leave_groups_their_room`)
pub(crate) fn leaves_reserve(free: u64, capacity: u64, gate: &TxgGate) -> bool {
    let coming = gate.bytes_to_write().saturating_mul(WORST_INFLATION);
    free >= (slop_bytes(capacity) / 2).saturating_add(coming)
}

/// Says whether there is room for blocks of files.
pub(crate) struct EarlyRoom {
    zio: Arc<Zio>,
    gate: Arc<TxgGate>,
    share: LogShare,
}

impl EarlyRoom {
    /// `share_percent`: see [`crate::Tuning::log_share_percent`].
    pub fn new(zio: Arc<Zio>, gate: Arc<TxgGate>, share_percent: u64) -> Arc<Self> {
        Arc::new(Self { zio, gate, share: LogShare::new(share_percent) })
    }
}

impl EarlyCheck for EarlyRoom {
    fn admits(&self, txg: Txg, bytes: u64) -> bool {
        let figures = self.zio.with_allocator(|allocator| allocator.open_space(Class::Normal));
        let free = figures.free.get().saturating_sub(bytes);
        if !leaves_reserve(free, figures.capacity.get(), &self.gate) {
            return false;
        }
        if self.share.take(txg, bytes, || figures.free.get() + figures.resting.get()) {
            self.gate.hurry(txg);
        }
        true
    }
}
