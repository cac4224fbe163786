//! What a pool's intent log does, for somebody who watches: from one look at its counters to the next.
//!
//! ```text
//!  control: PoolInfo, LogFacts, LogUsers ─► Look ─┐
//!                                           Look ─┴─► Interval ─► Series of Points ─► HeatMap
//!                                                    what lies     the last so many    time by latency
//!                                                    between
//! ```
//! [`Monitor`] keeps the last look, what lies between it and the one before, and the series. Pure functions over
//! counters: no clock, no device, no daemon; the moment of a look is how long the pool had been open then, by the
//! clock of who counts. All of it can be serialized for a page or a program.
//!
//! Invariants
//! - A pool that was opened anew between two looks gives no interval, and begins a new series.
//!   (test: `a_pool_that_was_opened_anew_begins_a_new_series`)
//! - A counter that went back, as that of a log that was closed and opened does, counts as new.
//!   (test: `counters_that_went_back_count_as_new`)
//! - A series has no more points than it was made for. (test: `a_series_forgets_its_oldest_points`)
#![forbid(unsafe_code)]

mod heat;
mod interval;
mod logs;
mod look;
mod monitor;
mod series;
mod users;

pub use heat::{HeatMap, HeatRow, density};
pub use interval::{CommitMean, Interval, Quantiles, Stages};
pub use logs::{LogDevice, LogVdev};
pub use look::Look;
pub use monitor::Monitor;
pub use series::{Point, Series};
pub use users::{DatasetUse, ProcessUse};

#[cfg(test)]
mod tests;
