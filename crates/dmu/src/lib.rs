//! Objsets, dnodes, dirty data, transactions, ZAP.
//!
//! ```text
//!  zpl, dsl ──► Objset ──► Dnode ──► changes of a txg, in memory
//!                 │                        │ sync
//!                 ▼                        ▼
//!         Plan, Tx, TxgGate          block trees ──► zio
//! ```
#![forbid(unsafe_code)]

mod account;
mod async_destroy;
mod changes;
mod diff;
mod dmu_sync;
pub(crate) mod dnode;
mod error;
mod extent;
mod find;
mod hole;
mod in_flight;
mod kinds;
mod known;
mod numbers;
mod objset;
mod plan;
mod prefetch;
mod shape;
mod space;
mod stored;
mod sync_read;
mod tree;
mod txg;
mod uses;
mod visit;
mod walk;
pub mod zap;

pub use async_destroy::{DestroyedObjset, Remains, Taken};
pub use diff::ChangedObjects;
pub use dmu_sync::{EarlyBlock, EarlyWrite};
pub use dnode::{Clonable, Dnode, DnodeSpec, FreePiece, SeekTo};
pub use error::DmuError;
pub use in_flight::IN_FLIGHT_BYTES;
pub use kinds::BlockKinds;
pub use objset::{EarlyCheck, Objset, ObjsetContext, SpaceCheck, SyncedObjset};
pub use plan::{AnyTransaction, Plan, Step, Transaction};
pub use space::{BlockClass, ObjsetProps, Redundancy, SpaceDelta};
pub use sync_read::{SyncRead, WithoutRead};
pub use txg::{ChangeStats, Estimate, Footprint, Hold, Quiet, Tx, TxgGate, WhileSuspended};
pub use uses::{UseCounters, UseCounts};
pub use visit::{Lost, Place, Reach, Visited};
