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
    /// The snapshot is held and cannot be destroyed.
    #[error("snapshot {name:?} is held")]
    HasHolds {
        /// The snapshot.
        name: String,
    },
    /// The snapshot has clones and cannot be destroyed.
    #[error("snapshot {name:?} has dependent clones")]
    HasClones {
        /// The snapshot.
        name: String,
    },
    /// The snapshot is not the latest, so that its dataset cannot be rolled back to it.
    #[error("more recent snapshots or bookmarks than {name:?} exist")]
    NotLatest {
        /// The snapshot.
        name: String,
    },
    /// The dataset is no clone.
    #[error("dataset {name:?} is no clone that can be promoted")]
    NotClone {
        /// The dataset.
        name: String,
    },
    /// The snapshot or bookmark lies in another line of snapshots than the dataset.
    #[error("{name:?} is not an ancestor of the dataset")]
    NotOfDataset {
        /// The snapshot or bookmark.
        name: String,
    },
    /// The snapshot is held under this tag already.
    #[error("snapshot {name:?} is held under {tag:?} already")]
    TagExists {
        /// The snapshot.
        name: String,
        /// The tag.
        tag: String,
    },
    /// The snapshot is not held under this tag.
    #[error("snapshot {name:?} is not held under {tag:?}")]
    NoSuchTag {
        /// The snapshot.
        name: String,
        /// The tag.
        tag: String,
    },
    /// The pool has no bookmarks: their feature is not enabled.
    #[error("bookmarks are not enabled")]
    BookmarksDisabled,
    /// It cannot be done in the txg in which its latest snapshot was made; in the next it can.
    #[error("dataset {name:?} has a snapshot of this very txg")]
    TryAgain {
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
    /// A quota or a reservation that does not fit what is used, or free.
    #[error("{why}")]
    Limit {
        /// Which of both.
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

    /// True if a part of the MOS is lost, see [`DmuError::is_loss`].
    #[must_use]
    pub fn is_loss(&self) -> bool {
        match self {
            Self::Damaged { .. } => true,
            Self::Zap(error) => error.is_loss(),
            Self::Dmu(error) => error.is_loss(),
            _ => false,
        }
    }

    pub(crate) fn no_such(name: &str) -> Self {
        Self::NoSuchDataset { name: name.to_owned() }
    }
}
