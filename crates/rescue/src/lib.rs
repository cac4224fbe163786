//! Copies files out of pools that no import accepts.
//!
//! ```text
//!  devices ─► labels, options ─► Geometry ─► RescueView (vdevs and zio, read-only)
//!     │                                          │ blocks, each verified by the pointer above it
//!     ├─► rings of uberblocks ─► states ─────────┤
//!     └─► Scanner: roots by content ─► states ───┤
//!                                                ▼
//!            ObjectTable ─► datasets ─► FileTree ─► Rescue ─► Beneath (a directory of this system)
//! ```
//! An import needs intact labels, space maps, logs and an intact meta-objset. Files need only the
//! path from one root down to their blocks. Each step here returns the readable part together with
//! the ranges that are lost, so a damaged block costs only the data below it.
//!
//! Invariants
//! - No device is written to: [`RescueView`] opens devices for reading only.
//!   (test: `a_rescue_leaves_every_device_as_it_was`)
//! - Bytes that do not match a checksum never reach the target. Lost ranges stay holes and are
//!   reported.
//!   (tests: `damaged`)
//! - Names from a device never lead out of the target. (tests: `beneath`)
#![forbid(unsafe_code)]

mod attributes;
mod beneath;
mod contents;
mod datasets;
mod error;
mod file_tree;
mod geometry;
mod names;
mod objects;
mod report;
mod rescue;
mod resume;
mod root;
mod scan;
mod search;
mod states;
mod tree;
mod view;

pub use beneath::{Beneath, check_name};
pub use contents::{LostRanges, copy_contents};
pub use datasets::{FoundDataset, FoundDatasets};
pub use error::RescueError;
pub use geometry::{DraidHint, Geometry, LayoutHint};
pub use report::{LostPart, REPORT_PATH};
pub use rescue::{Rescue, RescueSelection, RescueSummary, RescueWatch};
pub use resume::STATE_PATH;
pub use root::PoolRoot;
pub use scan::{FoundRoot, FoundRoots, ScanProgress, Scanner};
pub use search::{RescueSearch, StateSurvey};
pub use states::{DeviceLabels, FoundState, find_states, read_labels, states_of};
pub use tree::{BlockTree, TreeRun};
pub use view::RescueView;
