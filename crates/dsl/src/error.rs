//! What can go wrong with datasets.

use dmu::DmuError;
use dmu::zap::ZapError;
use units::ObjectId;

/// Why an operation on datasets failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DslError {
    /// There is no dataset, dir or snapshot of that name.
    #[error("dataset {name:?} does not exist")]
    NotFound {
        /// The name asked for.
        name: String,
    },
    /// A dataset of that name exists already.
    #[error("dataset {name:?} exists already")]
    Exists {
        /// The name.
        name: String,
    },
    /// A name that no dataset can have.
    #[error("{name:?} cannot be the name of a dataset: {why}")]
    BadName {
        /// The name.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The dataset has children, snapshots or clones, or is the pool's root.
    #[error("dataset {name:?} cannot be destroyed: {why}")]
    InUse {
        /// The dataset.
        name: String,
        /// What keeps it.
        why: &'static str,
    },
    /// The property does not exist, cannot be set, or not to such a value.
    #[error("property {property:?}: {why}")]
    BadProperty {
        /// The property.
        property: String,
        /// What is wrong.
        why: &'static str,
    },
    /// The pool uses features that are not supported.
    #[error("unsupported features in use: {}", .features.join(", "))]
    UnsupportedFeatures {
        /// Their names.
        features: Vec<String>,
        /// The pool can still be read.
        readable: bool,
    },
    /// What a MOS object says makes no sense.
    #[error("MOS object {object}: damaged: {what}")]
    Damaged {
        /// The object.
        object: ObjectId,
        /// What is wrong.
        what: &'static str,
    },
    /// A ZAP could not be read or changed.
    #[error(transparent)]
    Zap(#[from] ZapError),
    /// The MOS could not be read or changed.
    #[error(transparent)]
    Dmu(#[from] DmuError),
}

impl DslError {
    pub(crate) fn damaged(object: ObjectId, what: &'static str) -> Self {
        Self::Damaged { object, what }
    }

    pub(crate) fn not_found(name: &str) -> Self {
        Self::NotFound { name: name.to_owned() }
    }
}
