//! A dataset that takes part in txgs: its objset, its log, and what is in it once it was brought up.
//!
//! ```text
//!  Claimed ─ replay ─► Live ─ unload ─► Idle        Idle ─ bring up ─► Live
//!     ▲         │ it stops
//!     └─────────┘ what is left waits for the next try
//!
//!  Receiving ─ the stream has ended, or is given up ─► (closed)   (a dropped receive: as Idle)
//! ```
//! Txgs see the objset and the log alone ([`OpenDataset::sync_log`], [`OpenDataset::synced`]): those are the same
//! whatever the dataset is.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use dmu::{BlockKinds, Objset};
use dsl::DatasetName;
use env::boxed;
use ondisk::send::ResumePoint;
use ondisk::zil::ZilHeader;
use parking_lot::{Mutex, RwLock};
use units::{ObjectId, Txg, VdevId};
use zil::{Claimed, IntentLog, LogHandle, ReplayProgress};

use crate::dataset::kind::Dataset;
use crate::dataset::props::DatasetProps;

/// A dataset whose objset is in memory.
pub(crate) struct OpenDataset {
    pub objset: Arc<Objset>,
    /// Its objects in the meta-objset stay; what it is called may change.
    name: RwLock<DatasetName>,
    props: RwLock<DatasetProps>,
    state: Mutex<State>,
    /// Kinds of blocks whose features are noted.
    noted: Mutex<BlockKinds>,
    /// The log takes part in every txg from the moment it is opened.
    log: Mutex<Option<LogHandle>>,
    /// How far a stream has come that is received into it, by the txgs that have that.
    received: Mutex<BTreeMap<Txg, ResumePoint>>,
    /// Held by who brings it up: others who want what is in it wait here.
    pub loading: async_lock::Mutex<()>,
    /// Held by readers that do not have the pool's turn. The dataset is not closed before they have
    /// ended.
    pub visits: Arc<async_lock::RwLock<()>>,
}

pub(crate) enum State {
    /// The log was found with blocks in it, and they are claimed.
    Claimed(IntentLog<Claimed>),
    /// No log to replay.
    Idle,
    /// A stream is being received into the dataset, as long as the target of this reference exists.
    /// Until then, only the receive closes the dataset.
    Receiving(Weak<()>),
    /// Brought up.
    Live(Arc<dyn Dataset>),
}

impl OpenDataset {
    pub fn new(name: &DatasetName, objset: Arc<Objset>, props: DatasetProps, state: State) -> Arc<Self> {
        Arc::new(Self {
            objset,
            name: RwLock::new(name.clone()),
            props: RwLock::new(props),
            state: Mutex::new(state),
            noted: Mutex::default(),
            log: Mutex::default(),
            received: Mutex::default(),
            loading: async_lock::Mutex::new(()),
            visits: Arc::default(),
        })
    }

    /// Remembers kinds of blocks; whether one of them is new.
    pub fn has_new_kinds(&self, kinds: BlockKinds) -> bool {
        let mut noted = self.noted.lock();
        let all = noted.with(kinds);
        std::mem::replace(&mut *noted, all) != all
    }

    /// A txg that is held open will have a stream so far.
    pub fn note_received(&self, txg: Txg, point: ResumePoint) {
        self.received.lock().insert(txg, point);
    }

    /// How far it is in a txg that is being written, if that had some of it.
    pub fn take_received(&self, txg: Txg) -> Option<ResumePoint> {
        self.received.lock().remove(&txg)
    }

    /// How far the replay of its log has got, if one is under way.
    pub fn replay_progress(&self) -> Option<ReplayProgress> {
        self.log.lock().as_ref()?.replay_progress()
    }

    /// Its object in the meta-objset.
    pub fn object(&self) -> ObjectId {
        ObjectId::new(self.objset.id().get())
    }

    pub fn name(&self) -> DatasetName {
        self.name.read().clone()
    }

    /// It is called otherwise from now on; who holds what is in it goes on with the same.
    pub fn rename(&self, name: DatasetName) {
        *self.name.write() = name;
    }

    /// It was brought up.
    pub fn set_live(&self, dataset: Arc<dyn Dataset>) {
        *self.state.lock() = State::Live(dataset);
    }

    /// What was in it is closed.
    pub fn set_idle(&self) {
        *self.state.lock() = State::Idle;
    }

    /// Its log waits for another try.
    pub fn set_claimed(&self, log: IntentLog<Claimed>) {
        *self.state.lock() = State::Claimed(log);
    }

    /// The log that waits for its replay, if there is one.
    pub fn take_claimed(&self) -> Option<IntentLog<Claimed>> {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, State::Idle) {
            State::Claimed(claimed) => Some(claimed),
            other => {
                *state = other;
                None
            }
        }
    }

    /// True while a stream is being received into the dataset.
    pub fn is_receiving(&self) -> bool {
        matches!(&*self.state.lock(), State::Receiving(receive) if receive.strong_count() > 0)
    }

    /// Whether its log was claimed and is not replayed yet.
    pub fn is_claimed(&self) -> bool {
        matches!(*self.state.lock(), State::Claimed(_))
    }

    /// Where the log begins that was claimed and is not replayed yet.
    pub fn claimed_header(&self) -> Option<ZilHeader> {
        match &*self.state.lock() {
            State::Claimed(log) => Some(log.header()),
            State::Idle | State::Receiving(_) | State::Live(_) => None,
        }
    }

    /// Whether its log has something to replay.
    pub fn needs_replay(&self) -> bool {
        matches!(&*self.state.lock(), State::Claimed(log) if log.needs_replay())
    }

    pub fn set_props(&self, props: DatasetProps) {
        *self.props.write() = props;
    }

    pub fn props(&self) -> DatasetProps {
        self.props.read().clone()
    }

    /// What is in it, if it was brought up.
    pub fn live(&self) -> Option<Arc<dyn Dataset>> {
        match &*self.state.lock() {
            State::Live(dataset) => Some(Arc::clone(dataset)),
            State::Claimed(_) | State::Idle | State::Receiving(_) => None,
        }
    }

    /// Txgs attend to this log from now on.
    pub fn use_log(&self, log: LogHandle) {
        *self.log.lock() = Some(log);
    }

    /// Its log, once there is one.
    pub fn log(&self) -> Option<LogHandle> {
        self.log.lock().clone()
    }

    /// Its log waits no more for a vdev that does not answer.
    pub fn give_up_with_log(&self, vdev: VdevId) {
        if let Some(log) = self.log() {
            log.give_up(vdev);
        }
    }

    /// Its log may use a vdev again that works again.
    pub fn trust_with_log(&self, vdev: VdevId) {
        if let Some(log) = self.log() {
            log.trust(vdev);
        }
    }

    /// What the log's header is to say when `txg` is stable, if that changed.
    #[boxed]
    pub async fn sync_log(&self, txg: Txg) -> Option<ZilHeader> {
        match self.log() {
            Some(log) => log.sync(txg).await,
            None => None,
        }
    }

    /// `txg` is stable.
    pub fn synced(&self, txg: Txg) {
        if let Some(log) = self.log() {
            log.clean(txg);
            log.rest();
        }
    }
}
