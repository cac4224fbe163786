//! What of a pool's vdevs keeps it from being opened here: a feature that is not there yet.
//!
//! OpenZFS made such a pool, and can open it: it is not damaged. So what keeps it is named, with what
//! can be done about it.

use ondisk::Feature;
use pool::PoolError;
use vdev::VdevError;

/// The feature that this error is about, if it is about one.
pub fn obstacle(error: &PoolError) -> Option<String> {
    let PoolError::Vdev(VdevError::UnsupportedKind { kind }) = error else { return None };
    let feature = |feature: Feature| {
        let info = feature.info();
        Some(format!("{} ({})", info.guid, info.description))
    };
    match kind.as_str() {
        "dspare" | "draid with failure domains" => feature(Feature::Draid),
        "raidz being widened" => feature(Feature::RaidzExpansion),
        _ => None,
    }
}
