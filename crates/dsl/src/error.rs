//! What can go wrong with datasets.

use dmu::DmuError;
use dmu::zap::ZapError;
use units::ObjectId;

/// Why an operation on datasets failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DslError {
    /// There is no dataset or snapshot of that name.
    #[error("dataset {name:?} does not exist")]
    NoSuchDataset {
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
    /// The dataset has children and cannot be destroyed.
    #[error("dataset {name:?} has children")]
    HasChildren {
        /// The dataset.
        name: String,
    },
    /// The dataset has snapshots and cannot be destroyed.
    #[error("dataset {name:?} has snapshots")]
    HasSnapshots {
        /// The dataset.
        name: String,
    },
    /// The dataset cannot be destroyed for another reason.
    #[error("dataset {name:?} cannot be destroyed: {why}")]
    InUse {
        /// The dataset.
        name: String,
        /// What keeps it.
        why: &'static str,
    },
    /// The dataset cannot get that name.
    #[error("dataset {name:?} cannot be renamed: {why}")]
    NoRename {
        /// The dataset.
        name: String,
        /// What forbids it.
        why: &'static str,
    },
    /// Quotas or the pool's size leave no room for what is asked.
    #[error("dataset {name:?}: out of space")]
    NoSpace {
        /// The dataset.
        name: String,
    },
    /// The property does not exist, cannot be set, or not to such a value.
    #[error("property {property:?}: {why}")]
    BadProperty {
        /// The property.
        property: String,
        /// What is wrong.
        why: &'static str,
    },
    /// The property's value needs a feature that is not enabled.
    #[error("property {property:?}: feature {feature} is not enabled")]
    FeatureDisabled {
        /// The property.
        property: String,
        /// The feature's name for users.
        feature: &'static str,
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

    pub(crate) fn no_such(name: &str) -> Self {
        Self::NoSuchDataset { name: name.to_owned() }
    }
}
