//! What of a pool's vdevs keeps it from being opened here: a feature, or something under way.
//!
//! OpenZFS made such a pool, and can open it: it is not damaged. So what keeps it is named, with what
//! can be done about it.

use ondisk::Feature;
use pool::PoolError;
use vdev::VdevError;

/// Why a pool cannot be opened here though nothing is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// It uses a feature, which is called so.
    Feature(String),
    /// Something is under way.
    UnderWay(&'static str),
}

/// What can be done about what is under way.
pub const WAIT: &str = "Let it end on the system that began it, then export the pool there.";

/// The obstacle that this error is about, if it is about one.
pub fn obstacle(error: &PoolError) -> Option<Obstacle> {
    let PoolError::Vdev(VdevError::UnsupportedKind { kind }) = error else { return None };
    let feature = |feature: Feature| {
        let info = feature.info();
        Some(Obstacle::Feature(format!("{} ({})", info.guid, info.description)))
    };
    match kind.as_str() {
        "draid" | "dspare" => feature(Feature::Draid),
        "indirect" => feature(Feature::DeviceRemoval),
        "widened raidz" => feature(Feature::RaidzExpansion),
        "replacing" => Some(Obstacle::UnderWay("A device is being replaced.")),
        "spare" => Some(Obstacle::UnderWay("A hot spare is in use in place of a device.")),
        _ => None,
    }
}
