//! Cache devices: leaves that are in no vdev.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use env::{Env, OpenMode, boxed};
use units::{Ashift, Guid, VdevId};

use crate::config::key;
use crate::label::{Waiting, init_auxiliary};
use crate::leaf::{LeafConfig, LeafId};
use crate::open::{Expected, open_leaf};
use crate::size::{DEVICE_MIN_BYTES, leaf_ashift};
use crate::spec::open_new;
use crate::{Leaf, LeafEvent, LeafKind, LeafWatch, VdevAux, VdevError, VdevState};

/// The vdev that a leaf is of which is in none.
pub const NO_VDEV: VdevId = VdevId::new(u32::MAX);

/// What is known of a cache device that a pool lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheConfig {
    /// Where it is.
    pub path: PathBuf,
    /// Its guid.
    pub guid: Guid,
    /// What it is.
    pub kind: LeafKind,
    /// An administrator took it out of use.
    pub is_offline: bool,
}

/// Makes a device a cache device: it gets labels that say so, and name no pool. It is open then.
///
/// # Errors
/// When it cannot be opened or written to, is too small, or cannot have the sector size.
#[boxed]
pub async fn make_cache(
    env: &Arc<dyn Env>,
    path: &Path,
    ashift: Option<Ashift>,
    version: u64,
) -> Result<(Arc<Leaf>, Ashift), VdevError> {
    let (leaf, info) = open_new(env, NO_VDEV, path, 0).await?;
    if leaf.psize() < DEVICE_MIN_BYTES {
        return Err(VdevError::TooSmall { path: path.to_owned(), size_bytes: info.size_bytes });
    }
    let ashift = leaf_ashift(path, &info, ashift)?;
    init_auxiliary(&leaf, version, Waiting::Cache(ashift)).await?;
    Ok((Arc::new(leaf), ashift))
}

/// A cache device that a pool lists, closed.
#[must_use]
pub fn listed_cache(env: &Arc<dyn Env>, listed: &CacheConfig) -> Arc<Leaf> {
    let config = LeafConfig { path: listed.path.clone(), ..LeafConfig::default() };
    let id = LeafId { vdev: NO_VDEV, guid: listed.guid, kind: listed.kind };
    let leaf = Leaf::closed(Arc::clone(env), id, config);
    if listed.is_offline {
        leaf.set_state(VdevState::Offline, VdevAux::None);
    }
    Arc::new(leaf)
}

impl Leaf {
    /// Opens a cache device where it was last, and makes sure that it is the one; gives the size of its sectors.
    ///
    /// # Errors
    /// When it cannot be opened, or is something else; its state tells which, too.
    #[boxed]
    pub async fn open_cache(&self, mode: OpenMode) -> Result<Ashift, VdevError> {
        // Its labels name no pool, and have no size to be kept to.
        let expected = Expected { pool: None, asize: DEVICE_MIN_BYTES / 2, is_sole: false };
        let path = self.path();
        let labels = open_leaf(&self.env, self, &path, mode, expected, &|_| true).await?;
        let labelled = labels.config(None).and_then(|label| label.get_u64(key::ASHIFT));
        let labelled = labelled.and_then(|ashift| u8::try_from(ashift).ok()).map(Ashift::new);
        let device = self.device().ok_or(VdevError::NoSuchLeaf { guid: self.guid() })?;
        leaf_ashift(&path, &device.info(), labelled).inspect_err(|_| {
            self.take_out_of_use(VdevState::Unavail, VdevAux::CorruptData);
        })
    }

    /// Has somebody told what befalls a leaf that is in no vdev.
    pub fn have_watched(&self, watch: &Arc<dyn LeafWatch>) {
        self.watched_by(watch);
    }

    /// Gives a leaf that is in no vdev up if it has not answered a request within `limit` at the time `now`: it is out of
    /// use, and every request to it ends. Whether it was in use until now.
    pub fn give_up_if_overdue(&self, now: Duration, limit: Duration) -> bool {
        let waited = self.unanswered().longest(now, Duration::ZERO, 0);
        if waited <= limit {
            return false;
        }
        let was_in_use = self.is_usable();
        if was_in_use {
            self.tell(LeafEvent::Unanswered { waited });
            self.set_state(VdevState::Faulted, VdevAux::IoFailure);
        }
        self.give_up();
        was_in_use
    }
}
