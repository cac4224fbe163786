//! Mirrors, raidz and leaves, labels, health: from a vdev offset to devices.
//!
//! ```text
//!        zio: vdev, offset, bytes, "are these the right ones?"
//!                         │
//!   VdevTree ─► Top ─► Node ─┴─► Leaf ─► Device
//!      │         mirror, raidz, replacing, spare: which children, who is repaired, who is out
//!      └─ labels: who the leaves are, and which uberblock counts
//! ```
//! A [`VdevTree`] is the pool's devices. It is made new ([`VdevTree::create`]) or found
//! ([`scan()`], [`candidates`], [`VdevTree::open`]); blocks go through [`VdevTree::read`] and
//! [`VdevTree::write`]; a txg becomes stable through [`VdevTree::sync_labels`].
//!
//! The rule on failures, here and above: a write or flush that a device did not make is made by
//! another, or reported. The device that failed is out of use until it is reopened, for it lacks
//! something; if it was the last that has the rest, it stays, and the caller knows what it lacks.
#![forbid(unsafe_code)]

mod address;
mod bias;
mod cache;
mod config;
mod copies;
mod deadman;
mod discard;
mod draid;
mod dtl;
mod error;
mod evacuate;
mod fence;
mod heal;
mod indirect;
mod inject;
mod io;
pub mod label;
mod leaf;
mod mirror;
mod node;
mod open;
mod probe;
mod raidz;
mod rescue;
mod reshape;
mod scan;
mod share;
mod size;
mod spec;
mod split;
mod stability;
mod standing;
mod state;
mod stats;
mod top;
mod tree;
mod watch;
mod whole_disk;

#[cfg(test)]
mod tests;

pub use address::Address;
pub use bias::Bias;
pub use cache::{CacheConfig, NO_VDEV, listed_cache, make_cache};
pub use config::{PoolConfig, PoolState, SplitNote};
pub use copies::OtherCopy;
pub use draid::Shape;
pub use dtl::Dtl;
pub use error::VdevError;
pub use fence::Fence;
pub use indirect::{Located, Mapping, Removed, RemovedConfig, Run};
pub use inject::{Fault, Injection, Requests};
pub use io::Verify;
pub use label::{
    FoundUberblock, LabelSync, LeafLabels, Newest, best_config, best_uberblock, clear_labels, init_label,
    init_labels, retire_label,
};
pub use leaf::{Leaf, LeafConfig, LeafKind};
pub use node::{Group, GroupConfig, Node, NodeKind};
pub use open::{OpenSpec, open_once_free};
pub use scan::{Candidate, FoundLeaf, LabelUse, candidates, candidates_without, label_use, scan};
pub use share::Share;
pub use size::{DEVICE_MIN_BYTES, leaf_ashift, leaf_asize, leaf_psize, metaslab_shift};
pub use spec::{NewLeaf, NewSpare, NewVdev, make_spare};
pub use standing::Standing;
pub use state::{VdevAux, VdevState};
pub use stats::{IoKind, IoTotals, StatsSnapshot, VdevStats};
pub use top::{Leaving, Top, TopConfig};
pub use tree::{RootConfig, VdevTree};
pub use watch::{LeafEvent, LeafWatch, Request};
