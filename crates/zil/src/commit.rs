//! From records in memory to stable blocks: what happens while somebody waits for a commit.
//!
//! ```text
//!  commit ─► writer ─► seats: who waits, and who of them does the work
//!               │
//!               └─► batch ─► plan (which record in which block) ─► flight ─► devices
//!                                                                    │
//!            state ◄──── stable, or failed and told to those who wait┘
//! ```
//! [`state`] stands under the one lock of a log, which nobody holds while waiting.

pub(crate) mod batch;
pub(crate) mod flight;
pub(crate) mod pace;
pub(crate) mod plan;
pub(crate) mod seats;
pub(crate) mod shelf;
pub(crate) mod state;
pub(crate) mod writer;
