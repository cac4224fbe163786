//! Datasets and their directories, as they lie in bonus areas of MOS objects.
//!
//! ```text
//!  MOS directory (object 1) ── root_dataset ──► DslDir ── head ──► DslDataset ── bp ──► objset
//!                                                 │ children          │ prev snap ──► DslDataset
//!                                                 ▼                   ▼
//!                                               DslDir             snapshot names (ZAP)
//! ```
//! A directory has a name, properties, a quota and children; it lives as long as its head dataset.
//! A dataset is a head that changes or a snapshot that does not. Names lie in the parents' ZAPs.

mod dataset;
mod deadlist;
mod dir;

pub use dataset::{DSL_DATASET_BYTES, DslDatasetPhys, flags as dataset_flags, names as dataset_names};
pub use deadlist::{DSL_DEADLIST_BYTES, DslDeadlistPhys};
pub use dir::{DSL_DIR_BYTES, DslDirPhys, flags as dir_flags, names as dir_names, used};
