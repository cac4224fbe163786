//! What copies of the log cost.

use crate::Measured;
use crate::device::mean_us;
use control::{VdevClass, VdevKind};
use serde::Serialize;

/// What copies of the log cost: each byte is written to each device, and a commit waits for the slowest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Mirror {
    /// Log vdevs that are mirrors.
    pub mirrors: u64,
    /// Log vdevs of one device.
    pub singles: u64,
    /// Log vdevs' devices for each log vdev: bytes written for each byte of the log.
    pub copies: f64,
    /// A write on the mean of the device that is fastest, in microseconds: of a mirror if there is one, else of all
    /// log devices.
    pub fastest_us: Option<f64>,
    /// Of the one that is slowest: what a mirror of them waits for.
    pub slowest_us: Option<f64>,
}

impl Mirror {
    pub(crate) fn of(measured: &Measured) -> Self {
        let logs = || measured.facts.vdevs.iter().filter(|top| top.class == VdevClass::Log);
        let mirrors = || logs().filter(|top| top.kind == VdevKind::Mirror);
        let (count, copied) = (logs().count() as u64, mirrors().count() as u64);
        let devices: usize = logs().map(|top| top.leaves.len()).sum();
        let is_meant = |kind: VdevKind| copied == 0 || kind == VdevKind::Mirror;
        let leaves = logs().filter(|top| is_meant(top.kind)).flat_map(|top| &top.leaves);
        let times: Vec<f64> = leaves.filter_map(|leaf| mean_us(&leaf.writes)).collect();
        Self {
            mirrors: copied,
            singles: count - copied,
            copies: if count > 0 { devices as f64 / count as f64 } else { 0.0 },
            fastest_us: times.iter().copied().reduce(f64::min),
            slowest_us: times.iter().copied().reduce(f64::max),
        }
    }
}
