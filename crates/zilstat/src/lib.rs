//! The table of `zilstat`: what intent logs had to do, under the names of OpenZFS's counters.
//!
//! ```text
//!   LogInfo (of a dataset, or the sum of all) ─► Field: its value ─► Table: a line of cells
//! ```
//! Fields, their order, names and widths are those of OpenZFS 2.3; some more ([`EXTRA`]) tell what OpenZFS does not
//! count, and are shown to who asks for them. Numbers are shortened as `zilstat` does it, which is not how `zpool` does.
#![forbid(unsafe_code)]

mod field;
mod number;
mod table;

pub use field::{DATASET_DEFAULT, EXTRA, FIELDS, Field, GLOBAL_DEFAULT, Scale, find};
pub use table::{Subject, Table};
