//! The errors that end a rescue. Damage is not among them: it is reported, and the rescue
//! continues.

use std::path::PathBuf;

/// An error that ends a rescue.
#[derive(Debug, thiserror::Error)]
pub enum RescueError {
    /// A device cannot be opened.
    #[error("cannot open {path}")]
    Open {
        /// The path of the device.
        path: PathBuf,
        /// The reason.
        #[source]
        source: env::DeviceError,
    },
    /// The layout of the devices is invalid.
    #[error("the devices cannot be arranged as a pool")]
    Layout(#[source] vdev::VdevError),
    /// The devices hold several pools, and neither a name nor a guid was given.
    #[error("the devices belong to more than one pool: {names}")]
    Ambiguous {
        /// The name and guid of each pool.
        names: String,
    },
    /// No state can be read.
    #[error("{what}")]
    Nothing {
        /// What the search looked for.
        what: &'static str,
    },
    /// The target cannot be written to.
    #[error("cannot write {path}")]
    Target {
        /// The path.
        path: PathBuf,
        /// The reason.
        #[source]
        source: std::io::Error,
    },
    /// The target has the results of the rescue of another state.
    #[error("the target was begun with another state: txg {begun}, not {asked}")]
    OtherState {
        /// The txg of the state in the target.
        begun: u64,
        /// The requested txg.
        asked: u64,
    },
    /// The state file of an earlier run is damaged.
    #[error("the state file of the target is damaged; remove the directory .sawmill-rescue to begin again")]
    Notes,
}
