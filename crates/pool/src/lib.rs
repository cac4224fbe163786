//! Pools: made, imported, synced, exported.
//!
//! ```text
//!  create, import ─► Pool ─► datasets ─► Zfs (files), IntentLog
//!                     │ every 5 s, or when somebody waits
//!                     ▼
//!                    sync: datasets ─► meta-objset ⇄ space maps ─► labels, uberblock
//! ```
#![forbid(unsafe_code)]

mod add;
mod ahead_room;
mod clones;
mod config;
mod create;
mod dataset;
mod dedup;
mod destroy;
mod error;
mod errors;
mod expand;
mod facts;
mod free;
mod frozen;
mod heal;
mod history;
mod import;
mod log_homes;
mod log_loss;
mod log_reader;
mod log_share;
mod log_store;
mod logs;
mod memory;
mod owner;
mod pool;
mod pool_props;
mod props;
mod replay_plan;
mod replays;
mod scrub;
mod set_prop;
mod shared;
mod space;
mod space_map;
mod suspend;
mod sync;
mod tasks;
mod trim;
mod volume;

pub use config::Host;
pub use create::PoolSpec;
pub use dataset::Filesystem;
pub use error::{MissingFeature, PoolError};
pub use errors::DamagedObject;
pub use facts::{DedupFacts, Facts};
pub use frozen::Sealed;
pub use import::{Candidate, ImportSpec, find_pools};
pub use logs::DatasetLog;
pub use owner::{Left, LeftAlone};
pub use pool::{Pool, Tuning};
pub use props::DatasetProps;
pub use replay_plan::{ObjectPlan, ReplayPlan, Stopped};
pub use replays::Replay;
pub use scrub::{Pass, ScanReport, ScrubRefusal};
pub use set_prop::Inherit;
pub use shared::SharedSpace;
pub use space::Room;
pub use volume::Volume;
pub use zio::FailMode;
