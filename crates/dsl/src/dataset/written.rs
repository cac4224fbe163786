//! How much was written since a snapshot.
//!
//! ```text
//!  snapshot S ──► later snapshots ──► dataset D
//!  refers to R(S)   each with a deadlist    refers to R(D)
//!
//!  written = R(D) - R(S) + what S refers to and D does not any more
//! ```
//! What S refers to and D does not was let go by one of those behind S, up to D: it is on that one's
//! deadlist, and was born no later than S. The deadlist of the first behind S has only such blocks.

use std::time::Duration;

use dmu::SpaceDelta;
use env::boxed;
use ondisk::ObjectType;
use ondisk::dsl::dir_names::SNAPSHOTS_CHANGED;
use ondisk::dsl::{DslDatasetPhys, DslDirPhys};
use units::ObjectId;

use crate::tree::ORIGIN;
use crate::{DatasetName, Dsl, DslError};

/// More snapshots than that in a row are a circle.
const SNAPSHOTS_MAX: usize = 1 << 24;

/// Dirs below each other; a name has 255 bytes.
const DEPTH_MAX: usize = 256;

/// What blocks on a list take, which is never less than nothing.
fn bytes(space: SpaceDelta) -> u64 {
    u64::try_from(space.used).unwrap_or(0)
}

impl Dsl {
    /// What a dataset or snapshot refers to that was written since the snapshot before it, or since its
    /// origin: the property `written`.
    ///
    /// # Errors
    /// Those of reading the MOS.
    #[boxed]
    pub async fn written(&self, dataset: &DslDatasetPhys) -> Result<u64, DslError> {
        match dataset.prev_snapshot.get() {
            0 => Ok(dataset.referenced_bytes.get()),
            before => Ok(self.written_since(dataset, ObjectId::new(before)).await?.unwrap_or(0)),
        }
    }

    /// What a dataset refers to that was written since `snapshot`: the property `written@SNAPSHOT`.
    /// `None` when that is none of the snapshots before it.
    ///
    /// # Errors
    /// Those of reading the MOS.
    #[boxed]
    pub async fn written_since(
        &self,
        dataset: &DslDatasetPhys,
        snapshot: ObjectId,
    ) -> Result<Option<u64>, DslError> {
        let since = self.dataset(snapshot).await?;
        let born = since.creation_txg.get();
        let (mut newer, mut let_go) = (*dataset, 0_u64);
        for _ in 0..SNAPSHOTS_MAX {
            let before = ObjectId::new(newer.prev_snapshot.get());
            let deadlist = ObjectId::new(newer.deadlist.get());
            if before == snapshot {
                let_go = let_go.saturating_add(bytes(self.deadlist_total(deadlist).await?));
                let referenced = dataset.referenced_bytes.get().saturating_add(let_go);
                return Ok(Some(referenced.saturating_sub(since.referenced_bytes.get())));
            }
            if before.get() == 0 {
                return Ok(None);
            }
            let_go = let_go.saturating_add(bytes(self.deadlist_space(deadlist, 0..born).await?));
            newer = self.dataset(before).await?;
        }
        Err(DslError::damaged(snapshot, "snapshots in a circle"))
    }

    /// What a dataset refers to that was written since a bookmark's snapshot, which may be gone: the property
    /// `written#BOOKMARK`. `None` when that was none of the snapshots before it, or the bookmark does not count.
    ///
    /// # Errors
    /// [`DslError::NoSuchDataset`], and those of reading the MOS.
    #[boxed]
    pub async fn written_since_bookmark(
        &self,
        dataset: &DslDatasetPhys,
        name: &str,
    ) -> Result<Option<u64>, DslError> {
        let (dir, mark) = self.find_bookmark(name).await?;
        let born = mark.made();
        if !mark.counts() || !self.is_before_dataset(dataset, dir, born).await? {
            return Ok(None);
        }
        let (mut newer, mut let_go) = (*dataset, mark.freed_bytes());
        for _ in 0..SNAPSHOTS_MAX {
            // What the first snapshot behind the bookmark's let go the bookmark has counted itself.
            if newer.prev_snapshot_txg.get() <= born {
                let referenced = dataset.referenced_bytes.get().saturating_add(let_go);
                return Ok(Some(referenced.saturating_sub(mark.referenced_bytes())));
            }
            let deadlist = ObjectId::new(newer.deadlist.get());
            let_go = let_go.saturating_add(bytes(self.deadlist_space(deadlist, 0..born).await?));
            newer = self.dataset(ObjectId::new(newer.prev_snapshot.get())).await?;
        }
        Err(DslError::damaged(self.root, "snapshots in a circle"))
    }

    /// Whether a snapshot of this dir made in this txg is, or was, one of those before a dataset: in its dir, or in those it
    /// is a clone of.
    async fn is_before_dataset(
        &self,
        dataset: &DslDatasetPhys,
        dir: ObjectId,
        made: u64,
    ) -> Result<bool, DslError> {
        let mut newer = *dataset;
        for _ in 0..SNAPSHOTS_MAX {
            if newer.is_snapshot() && newer.creation_txg.get() <= made {
                return Ok(false);
            }
            let of = ObjectId::new(newer.dir.get());
            if of == dir {
                return Ok(true);
            }
            match self.dir(of).await?.origin.get() {
                0 => return Ok(false),
                origin => newer = self.dataset(ObjectId::new(origin)).await?,
            }
        }
        Err(DslError::damaged(dir, "origins in a circle"))
    }

    /// Names of the clones of a snapshot of this pool, in order.
    ///
    /// # Errors
    /// Those of reading the MOS.
    #[boxed]
    pub async fn clones_of(&self, snapshot: &DslDatasetPhys, pool: &str) -> Result<Vec<String>, DslError> {
        if snapshot.next_clones.get() == 0 {
            return Ok(Vec::new());
        }
        let mut names = Vec::new();
        for entry in self.zap(snapshot.next_clones.get()).await?.all().await? {
            let Some(clone) = entry.value.as_u64() else { continue };
            let dir = self.dataset(ObjectId::new(clone)).await?.dir.get();
            names.push(self.dir_name(ObjectId::new(dir), pool).await?);
        }
        names.sort();
        Ok(names)
    }

    /// The name of the snapshot that a dir's head is a clone of; `None` where it is none: the origin of all others,
    /// `$ORIGIN@$ORIGIN`, counts for nothing.
    ///
    /// # Errors
    /// Those of reading the MOS.
    #[boxed]
    pub async fn origin_name(&self, of: &DslDirPhys, pool: &str) -> Result<Option<String>, DslError> {
        let origin = ObjectId::new(of.origin.get());
        if origin == ObjectId::new(0) {
            return Ok(None);
        }
        let dir = ObjectId::new(self.dataset(origin).await?.dir.get());
        if self.child(self.root, ORIGIN).await? == Some(dir) {
            return Ok(None);
        }
        let (name, dataset) = (self.dir_name(dir, pool).await?, self.dir(dir).await?.head_dataset.get());
        let head = DatasetName { name, dir, dataset: ObjectId::new(dataset) };
        let snapshots = self.snapshots(&head).await?.into_iter();
        Ok(snapshots
            .map(|snapshot| (snapshot.dataset, snapshot.name))
            .find(|(dataset, _)| *dataset == origin)
            .map(|(_, name)| name))
    }

    /// The full name of a dir: who is whose child is told by the parents.
    pub(crate) async fn dir_name(&self, dir: ObjectId, pool: &str) -> Result<String, DslError> {
        let (mut components, mut at) = (Vec::new(), dir);
        while at != self.root {
            let parent = ObjectId::new(self.dir(at).await?.parent.get());
            let found = self.child_dirs(parent).await?.into_iter().find(|(_, child)| *child == at);
            let (component, _) = found.ok_or(DslError::damaged(at, "dir that its parent does not know"))?;
            components.push(component);
            if components.len() > DEPTH_MAX {
                return Err(DslError::damaged(dir, "dir below itself"));
            }
            at = parent;
        }
        components.push(pool.to_owned());
        components.reverse();
        Ok(components.join("/"))
    }

    /// When snapshots of this directory's head last came, went or got another name, since 1970, if that was noted.
    ///
    /// # Errors
    /// Those of reading the MOS.
    #[boxed]
    pub async fn snapshots_changed(&self, dir: ObjectId) -> Result<Option<Duration>, DslError> {
        if self.mos.hold(dir).await?.object_type() != ObjectType::OTN_ZAP_METADATA {
            return Ok(None);
        }
        let value = self.zap(dir.get()).await?.lookup(SNAPSHOTS_CHANGED.as_bytes()).await?;
        Ok(value.and_then(|value| match *value.as_u64s() {
            [secs, nanos, ..] => Some(Duration::from_secs(secs).saturating_add(Duration::from_nanos(nanos))),
            _ => None,
        }))
    }
}
