//! What the faces of one log share: the live log, its handle for the txg engine, its replay.

use std::sync::Arc;

use env::Env;
use ondisk::zil::ZilHeader;
use parking_lot::Mutex;
use units::{ObjsetId, ZilSeq};

use crate::chain::rests::Rests;
use crate::commit::shelf::Shelf;
use crate::commit::state::State;
use crate::itx::pending::Pending;
use crate::replay::meter::Meter;
use crate::replay::progress::Progress;
use crate::stats::Stats;
use crate::store::LogStore;

/// One dataset's log. Locks are taken in the order of the fields: `state`, then `pending`.
pub struct Core {
    pub(crate) objset: ObjsetId,
    pub(crate) store: Arc<dyn LogStore>,
    pub(crate) env: Arc<dyn Env>,
    pub(crate) state: Mutex<State>,
    pub(crate) pending: Mutex<Pending>,
    pub(crate) stats: Stats,
    pub(crate) meter: Meter,
    pub(crate) shelf: Arc<Shelf>,
    /// Txgs do not attend to the log: see [`crate::chain::rest`].
    pub(crate) rests: Rests,
}

impl Core {
    pub(crate) fn new(
        objset: ObjsetId,
        header: ZilHeader,
        store: Arc<dyn LogStore>,
        env: Arc<dyn Env>,
    ) -> Arc<Self> {
        let progress = Progress::new(ZilSeq::new(header.replay_seq.get()));
        let state = State { header, progress, synced: store.synced_txg(), ..State::default() };
        Arc::new(Self {
            objset,
            store,
            env,
            state: Mutex::new(state),
            pending: Mutex::default(),
            stats: Stats::default(),
            meter: Meter::default(),
            shelf: Arc::default(),
            rests: Rests::default(),
        })
    }
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "IntentLog({})", self.objset)
    }
}
