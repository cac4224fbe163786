//! What was measured of a pool's intent logs, as advice about log devices: how large, how fast, how long it
//! lives, what it lies on.
//!
//! ```text
//!  LogFacts (the daemon's counters), one look or two ─► Measured ─┬─► Load     rates, latencies, what blocks are filled with
//!                                                                 ├─► Size     how large a log has to be, and why
//!                                                                 ├─► Device   what it lies on, what is doubtful, how long it lives
//!                                                                 ├─► Mirror   what copies cost
//!                                                                 └─► LoadShape ─► a simulation, which is somebody else's
//!  LogRecording (commits, one by one) ─► recorded            where the time of each went, and the load as steps of writers
//! ```
//! Pure functions over counters: no clock, no device, no daemon. Formulas and reasons: docs/decisions/2026-11-25-advise.md.
#![forbid(unsafe_code)]

mod device;
mod endurance;
mod load;
mod measured;
mod mirror;
pub mod recorded;
mod shape;
mod size;

pub use device::{Device, Doubt, mean_us};
pub use endurance::{Life, Rating};
pub use load::{Load, Times};
pub use measured::{Measured, Watch, counts, more, worked};
pub use mirror::Mirror;
pub use shape::{LoadShape, VdevTimes};
pub use size::{Peak, Size};

use serde::Serialize;

/// What a log device is taken to have that is not there yet: 100 GB, as makers count.
pub const NEW_DEVICE_BYTES: u64 = 100_000_000_000;

/// All that is said about a pool's logs.
#[derive(Clone, Debug, Serialize)]
pub struct Advice {
    /// How long it was measured, in seconds.
    pub seconds: f64,
    /// It was measured since the pool was opened, and not only while somebody watched.
    pub is_since_import: bool,
    /// More txgs went by between two looks than are remembered: peaks may be missing.
    pub has_gaps: bool,
    /// What commits did.
    pub load: Load,
    /// How large a log has to be.
    pub size: Size,
    /// How long a device would live that took all of the log: only without log devices. Where a rating is by the
    /// device's size, of one of [`NEW_DEVICE_BYTES`].
    pub life_of_new: Option<Life>,
    /// What copies cost.
    pub mirror: Mirror,
    /// The devices of log vdevs, then those of data vdevs.
    pub devices: Vec<Device>,
}

impl Advice {
    /// What follows from what was measured, for devices that are rated so.
    #[must_use]
    pub fn of(measured: &Measured, rating: Option<Rating>) -> Self {
        let load = Load::of(measured);
        let size = Size::of(measured);
        let devices = Device::all(measured, rating);
        let life_of_new = rating
            .filter(|_| !size.has_logs)
            .and_then(|rating| Life::of(rating, NEW_DEVICE_BYTES, load.log_bytes_per_second));
        Self {
            seconds: measured.span.as_secs_f64(),
            is_since_import: measured.is_since_import,
            has_gaps: measured.has_gaps,
            mirror: Mirror::of(measured),
            load,
            size,
            life_of_new,
            devices,
        }
    }
}

#[cfg(test)]
mod tests;
