//! Why a rescue stops. Damage is no reason: damage is reported, and the rescue goes on.

use std::path::PathBuf;

/// An error that ends a rescue.
#[derive(Debug, thiserror::Error)]
pub enum RescueError {
    /// A device cannot be opened.
    #[error("cannot open {path}")]
    Open {
        /// The device.
        path: PathBuf,
        /// Why.
        #[source]
        source: env::DeviceError,
    },
    /// The layout of the devices makes no sense.
    #[error("the devices cannot be arranged as a pool")]
    Layout(#[source] vdev::VdevError),
    /// The devices hold several pools, and nothing says which one is meant.
    #[error("the devices belong to more than one pool: {names}")]
    Ambiguous {
        /// Name and guid of each pool.
        names: String,
    },
    /// No state can be read.
    #[error("{what}")]
    Nothing {
        /// What was looked for.
        what: &'static str,
    },
    /// The target cannot be written to.
    #[error("cannot write {path}")]
    Target {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The target holds the results of another rescue.
    #[error("the target was begun with another state: txg {begun}, not {asked}")]
    OtherState {
        /// The txg of the state that was begun.
        begun: u64,
        /// The txg asked for.
        asked: u64,
    },
    /// The notes of an earlier run cannot be understood.
    #[error("the state file of the target is damaged; remove the directory .sawmill-rescue to begin again")]
    Notes,
}
