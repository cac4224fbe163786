//! Pools: made, imported, synced, exported.
//!
//! ```text
//!  create, import ─► Pool ─► datasets ─► Zfs (files), IntentLog
//!                     │ every 5 s, or when somebody waits
//!                     ▼
//!                    sync: datasets ─► meta-objset ⇄ space maps ─► labels, uberblock
//! ```
#![forbid(unsafe_code)]

mod absences;
mod add;
mod attach;
mod auxiliary;
mod caches;
mod checkpoint;
mod config;
mod create;
mod dataset;
mod deadman;
mod detach;
mod ending;
mod errlog;
mod error;
mod evacuate;
mod events;
mod facts;
mod held_work;
mod history;
mod identity;
mod import;
mod log;
mod memory;
mod multihost;
mod pace;
mod pool;
mod pool_props;
mod presence;
mod receive;
mod remove;
mod scan;
mod shared;
mod space;
mod spares;
mod split;
mod sweeps;
mod txg;
mod vdev_props;

pub use absences::AbsenceWatch;
pub use attach::DeviceRefusal;
pub use auxiliary::Auxiliary;
pub use checkpoint::{CheckpointRefusal, CheckpointReport};
pub use config::{Host, RootOwner};
pub use create::PoolSpec;
pub use dataset::counted::CountedDataset;
pub use dataset::files::Filesystem;
pub use dataset::frozen::Sealed;
pub use dataset::props::DatasetProps;
pub use dataset::readers::PinnedSnapshots;
pub use dataset::redact::RedactRefusal;
pub use dataset::set_prop::Inherit;
pub use dataset::views::DatasetView;
pub use dataset::visits::KeptOpen;
pub use dsl::BookmarkInfo;
pub use ending::Ending;
pub use errlog::DamagedObject;
pub use error::{MissingFeature, PoolError};
pub use evacuate::EvacuationReport;
pub use facts::{DedupFacts, DedupRow, Facts};
pub use held_work::BackgroundWork;
pub use import::owner::{Left, LeftAlone, watch_for_owner};
pub use import::rewind::Rewind;
pub use import::{Candidate, ImportSpec, find_pools};
pub use l2arc::CacheDeviceStats;
pub use log::by_dataset::CountedLog;
pub use log::load::{LIVE_TXGS, LogLoadReport, LogPeak, TxgLog};
pub use log::look::DatasetLog;
pub use log::replay_plan::{ObjectPlan, ReplayPlan, Stopped};
pub use log::replays::Replay;
pub use memory::cache_part;
pub use multihost::{HeartbeatCounts, Heartbeats};
pub use pool::{Pool, Tuning};
pub use presence::Absence;
pub use receive::{ReceiveOrder, ReceiveRefusal, Received};
pub use remove::RemovalRefusal;
pub use scan::error_scrub::ErrorScrubReport;
pub use scan::scrub::{Pass, ScanReport, ScrubRefusal};
pub use shared::SharedSpace;
pub use space::Room;
pub use split::SplitRefusal;
pub use sweep;
pub use txg::record::{DeviceTotals, TxgRecord, TxgStage};
pub use vdev::OtherCopy;
pub use vdev_props::VdevPropRefusal;
pub use zil::{ActiveRecording, BatchTrace, CommitTrace, IoTrace, Recording, WaitedFor};
pub use zio::{AheadStats, BlockTraffic, CachedBytes, FailMode, Lookups};
pub use zvol::{Volume, VolumeSpec, ZvolError};
