//! How many file systems and snapshots lie below a dir, and how many may.
//!
//! ```text
//!  Dir "tank"       filesystem_count 3   snapshot_count 5      counts are kept in the ZAP that the dir's object is
//!    └ Dir "a"      filesystem_count 1   snapshot_count 4      (feature `filesystem_limits`); volumes count as file systems
//!        └ Dir "b"  filesystem_count 0   snapshot_count 2
//! ```
//! Nobody counts before a limit is set somewhere. Then all below that dir is counted once, and from then on every dir
//! that is made begins with counts of its own. So below a dir that counts, all count; and a count that is missing says
//! that there is no limit above either.
//!
//! Invariant: counts are what a walk over the tree finds (test: `snapshots_and_clones_account_for_every_block`).

use std::sync::Arc;

use dmu::Tx;
use dmu::zap::Zap;
use env::boxed;
use ondisk::ObjectType;
use ondisk::dsl::dir_names;
use units::ObjectId;

use crate::dir::Dir;
use crate::features::FILESYSTEM_LIMITS;
use crate::{DatasetName, Dsl, DslError};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Counted {
    /// File systems and volumes below a dataset.
    Filesystems,
    /// Its snapshots, and those of all below it.
    Snapshots,
}

impl Counted {
    /// The property that limits it.
    #[must_use]
    pub const fn limit(self) -> &'static str {
        match self {
            Self::Filesystems => "filesystem_limit",
            Self::Snapshots => "snapshot_limit",
        }
    }

    /// The property that tells it.
    #[must_use]
    pub const fn count(self) -> &'static str {
        match self {
            Self::Filesystems => "filesystem_count",
            Self::Snapshots => "snapshot_count",
        }
    }

    const fn field(self) -> &'static str {
        match self {
            Self::Filesystems => dir_names::FILESYSTEM_COUNT,
            Self::Snapshots => dir_names::SNAPSHOT_COUNT,
        }
    }
}

/// Everything that is counted.
pub const COUNTED: [Counted; 2] = [Counted::Filesystems, Counted::Snapshots];

/// Names of dirs that belong to the pool itself begin so.
const HIDDEN: char = '$';
/// Names of snapshots that nobody is to see begin so.
const TEMPORARY: char = '%';

impl Dsl {
    /// How many of these lie below a dataset; none where nobody counts.
    ///
    /// # Errors
    /// Damage, and those of reading the MOS.
    #[boxed]
    pub async fn counted(&self, dir: ObjectId, what: Counted) -> Result<Option<u64>, DslError> {
        let dnode = self.mos.hold(dir).await?;
        if dnode.object_type() != ObjectType::OTN_ZAP_METADATA {
            return Ok(None);
        }
        Ok(Zap::open(dnode).await?.lookup_u64(what.field().as_bytes()).await?)
    }

    /// Has all below a dir counted from now on, before it gets a limit.
    ///
    /// # Errors
    /// [`DslError::FeatureDisabled`], and those of changing the MOS.
    pub(crate) async fn begin_counting(&self, tx: &Tx, dir: ObjectId) -> Result<(), DslError> {
        match self.feature_count(&FILESYSTEM_LIMITS).await? {
            None => {
                let property = Counted::Filesystems.limit().to_owned();
                return Err(DslError::FeatureDisabled { property, feature: FILESYSTEM_LIMITS.name });
            }
            Some(0) => self.count_feature(tx, &FILESYSTEM_LIMITS, 1).await?,
            Some(_) => {}
        }
        self.count_below(tx, dir).await
    }

    /// Whether new dirs count.
    async fn is_counting(&self) -> Result<bool, DslError> {
        Ok(self.feature_count(&FILESYSTEM_LIMITS).await?.is_some_and(|count| count > 0))
    }

    /// Counts what is below a dir, as far as that was not counted yet.
    async fn count_below(&self, tx: &Tx, top: ObjectId) -> Result<(), DslError> {
        let mut below = vec![top];
        let mut at = 0;
        while let Some(dir) = below.get(at).copied() {
            if self.counted(dir, Counted::Filesystems).await?.is_none() {
                below.extend(self.children_that_count(dir).await?);
            }
            at += 1;
        }
        // Children come behind their parents.
        for dir in below.into_iter().rev() {
            if self.counted(dir, Counted::Filesystems).await?.is_none() {
                self.count_one(tx, dir).await?;
            }
        }
        Ok(())
    }

    /// Counts what is below a dir whose children have counted already.
    async fn count_one(&self, tx: &Tx, object: ObjectId) -> Result<(), DslError> {
        let dir = self.loaded_dir(object).await?;
        let (mut filesystems, mut snapshots) = (0, self.own_snapshots(&dir).await?);
        for child in self.children_that_count(object).await? {
            filesystems += 1 + self.counted(child, Counted::Filesystems).await?.unwrap_or(0);
            snapshots += self.counted(child, Counted::Snapshots).await?.unwrap_or(0);
        }
        self.store_counts(tx, &dir, [filesystems, snapshots]).await
    }

    async fn store_counts(&self, tx: &Tx, dir: &Dir, counts: [u64; 2]) -> Result<(), DslError> {
        let fields = self.fields_of(tx, dir.dnode()).await?;
        for (what, count) in COUNTED.into_iter().zip(counts) {
            fields.update_u64(tx, what.field().as_bytes(), count).await?;
        }
        Ok(())
    }

    async fn children_that_count(&self, dir: ObjectId) -> Result<Vec<ObjectId>, DslError> {
        let children = self.child_dirs(dir).await?.into_iter();
        Ok(children.filter(|(name, _)| !name.starts_with(HIDDEN)).map(|(_, dir)| dir).collect())
    }

    async fn own_snapshots(&self, dir: &Dir) -> Result<u64, DslError> {
        let head = self.dataset(ObjectId::new(dir.phys().head_dataset.get())).await?;
        let names = crate::tree::named_objects(&self.zap(head.snapshot_names.get()).await?).await?;
        Ok(names.iter().filter(|(name, _)| !name.starts_with(TEMPORARY)).count() as u64)
    }

    /// A dir that was just made begins to count, where the pool counts.
    pub(crate) async fn count_from_birth(&self, tx: &Tx, dir: ObjectId) -> Result<(), DslError> {
        match self.is_counting().await? {
            true => self.store_counts(tx, &*self.loaded_dir(dir).await?, [0, 0]).await,
            false => Ok(()),
        }
    }

    /// So many more, or fewer, are below a dir, and so below all above it.
    pub(crate) async fn count(
        &self,
        tx: &Tx,
        dir: &Arc<Dir>,
        what: Counted,
        delta: i64,
    ) -> Result<(), DslError> {
        for dir in dir.ancestry() {
            let Some(count) = self.counted(dir.object(), what).await? else { return Ok(()) };
            let count = count.checked_add_signed(delta);
            let count = count.ok_or(DslError::damaged(dir.object(), "count of what is below a dir"))?;
            let fields = self.fields_of(tx, dir.dnode()).await?;
            fields.update_u64(tx, what.field().as_bytes(), count).await?;
        }
        Ok(())
    }

    /// A dir and all below it moves from one parent to another.
    pub(crate) async fn count_moved(
        &self,
        tx: &Tx,
        dir: &Arc<Dir>,
        from: &Arc<Dir>,
        to: &Arc<Dir>,
    ) -> Result<(), DslError> {
        if !self.is_counting().await? {
            return Ok(());
        }
        self.count_below(tx, dir.object()).await?;
        for what in COUNTED {
            let itself = u64::from(what == Counted::Filesystems);
            let all = self.counted(dir.object(), what).await?.unwrap_or(0).saturating_add(itself);
            let all = i64::try_from(all).map_err(|_| DslError::damaged(dir.object(), "count below a dir"))?;
            self.count(tx, from, what, -all).await?;
            self.count(tx, to, what, all).await?;
        }
        Ok(())
    }

    /// Counts and limits of a dataset and all above it, the nearest first, as far as they count: what would be more
    /// there than a limit allows may be refused.
    ///
    /// # Errors
    /// Damage, and those of reading the MOS.
    #[boxed]
    pub async fn count_limits(
        &self,
        dataset: &DatasetName,
        what: Counted,
    ) -> Result<Vec<CountLimit>, DslError> {
        let mut name = crate::names::split(&dataset.name).0;
        let mut limits = Vec::new();
        for dir in self.loaded_dir(dataset.dir).await?.ancestry() {
            let Some(count) = self.counted(dir.object(), what).await? else { break };
            let limit = self.own_number(&dir, what.limit()).await?.unwrap_or(u64::MAX);
            limits.push(CountLimit { dataset: name.to_owned(), count, limit });
            name = name.rsplit_once('/').map_or(name, |(above, _)| above);
        }
        Ok(limits)
    }
}

/// How many are below a dataset, and how many may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountLimit {
    /// Its full name.
    pub dataset: String,
    /// There are.
    pub count: u64,
    /// There may be.
    pub limit: u64,
}
