//! The pool's datasets: opening them, finding them by name, listing them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use dmu::zap::{Zap, ZapSpec};
use dmu::{Objset, Tx};
use env::boxed;
use ondisk::dsl::{DslDatasetPhys, DslDirPhys};
use ondisk::{Blkptr, ObjectType};
use parking_lot::Mutex;
use units::ObjectId;

use crate::dataset::deadlist::keys::KnownKeys;
use crate::dataset::livelist::SUBLIST_ENTRIES;
use crate::dataset::{self, Dataset};
use crate::dir::{self, Dir};
use crate::features::DIRECTORY;
use crate::known::KnownDatasets;
use crate::names::split;
use crate::{DatasetName, DslError};

pub(crate) const ROOT_DATASET: &[u8] = b"root_dataset";
pub(crate) const MOS_DIR: &str = "$MOS";
pub(crate) const FREE_DIR: &str = "$FREE";
pub(crate) const ORIGIN: &str = "$ORIGIN";

/// Deepest nesting of dirs that is followed; names allow less.
const DEPTH_MAX: usize = 128;

/// All datasets of a pool. Names begin with the pool's, which is taken as given.
pub struct Dsl {
    pub(crate) mos: Arc<Objset>,
    pub(crate) directory: Zap,
    pub(crate) root: ObjectId,
    known: KnownDatasets,
    pub(crate) known_keys: KnownKeys,
    pub(crate) sublist_entries: AtomicU64,
    /// Blocks that nothing names by the places that they had on removed vdevs any more.
    pub(crate) obsolete: Mutex<Vec<Blkptr>>,
}

impl Dsl {
    /// The datasets of an existing pool. Features are not judged: see
    /// [`Dsl::unsupported_features`].
    ///
    /// # Errors
    /// Damage, and those of reading the MOS.
    #[boxed]
    pub async fn open(mos: Arc<Objset>) -> Result<Self, DslError> {
        let directory = Zap::hold(&mos, DIRECTORY).await?;
        let root = directory.lookup_u64(ROOT_DATASET).await?;
        let root = root.ok_or(DslError::damaged(DIRECTORY, "no root_dataset"))?;
        Ok(Self::of(mos, directory, ObjectId::new(root)))
    }

    pub(crate) fn of(mos: Arc<Objset>, directory: Zap, root: ObjectId) -> Self {
        Self {
            mos,
            directory,
            root,
            known: KnownDatasets::default(),
            known_keys: KnownKeys::default(),
            sublist_entries: AtomicU64::new(SUBLIST_ENTRIES),
            obsolete: Mutex::default(),
        }
    }

    /// The meta-objset.
    #[must_use]
    pub fn mos(&self) -> &Arc<Objset> {
        &self.mos
    }

    /// The ZAP in which everything in the pool is found by name.
    #[must_use]
    pub fn directory(&self) -> &Zap {
        &self.directory
    }

    /// The object that the directory has under this name.
    ///
    /// # Errors
    /// [`DslError::Damaged`] when there is none; those of reading.
    #[boxed]
    pub async fn directory_object(&self, name: &str) -> Result<ObjectId, DslError> {
        let object = self.directory.lookup_u64(name.as_bytes()).await?;
        object.map(ObjectId::new).ok_or(DslError::damaged(DIRECTORY, "an entry of the directory is missing"))
    }

    /// A new, plain ZAP in the MOS.
    ///
    /// # Errors
    /// Those of allocating an object.
    #[boxed]
    pub async fn create_zap(&self, tx: &Tx, object_type: ObjectType) -> Result<ObjectId, DslError> {
        Ok(Zap::create(&self.mos, tx, &ZapSpec::new(object_type)).await?.object())
    }

    pub(crate) async fn zap(&self, object: u64) -> Result<Zap, DslError> {
        Ok(Zap::hold(&self.mos, ObjectId::new(object)).await?)
    }

    /// Finds a dataset, `pool/dir` or `pool/dir@snapshot`, by its full name.
    ///
    /// # Errors
    /// [`DslError::NoSuchDataset`], damage, and those of reading the MOS.
    #[boxed]
    pub async fn resolve(&self, name: &str) -> Result<DatasetName, DslError> {
        let (path, snapshot) = split(name);
        let mut dir = self.root;
        for component in path.split('/').skip(1) {
            dir = self.child(dir, component).await?.ok_or_else(|| DslError::no_such(name))?;
        }
        let mut dataset = self.dir(dir).await?.head_dataset.get();
        if dataset == 0 {
            return Err(DslError::no_such(name));
        }
        if let Some(snapshot) = snapshot.filter(|snapshot| is_key(snapshot)) {
            let names = self.dataset(ObjectId::new(dataset)).await?.snapshot_names.get();
            let found = self.zap(names).await?.lookup_u64(snapshot.as_bytes()).await?;
            dataset = found.ok_or_else(|| DslError::no_such(name))?;
        } else if snapshot.is_some() {
            return Err(DslError::no_such(name));
        }
        Ok(DatasetName { name: name.to_owned(), dir, dataset: ObjectId::new(dataset) })
    }

    /// The numbers of a dir, as of the newest change.
    ///
    /// # Errors
    /// Damage, and those of reading the MOS.
    #[boxed]
    pub async fn dir(&self, object: ObjectId) -> Result<DslDirPhys, DslError> {
        dir::decode(&*self.mos.hold(object).await?)
    }

    /// The numbers of a dataset, as of the newest change.
    ///
    /// # Errors
    /// Damage, and those of reading the MOS.
    #[boxed]
    pub async fn dataset(&self, object: ObjectId) -> Result<DslDatasetPhys, DslError> {
        dataset::decode(&*self.mos.hold(object).await?)
    }

    /// Datasets directly below another, by name. Those that users do not see are left out.
    ///
    /// # Errors
    /// Damage, and those of reading the MOS.
    #[boxed]
    pub async fn children(&self, of: &DatasetName) -> Result<Vec<DatasetName>, DslError> {
        let mut children = Vec::new();
        for (component, dir) in self.child_dirs(of.dir).await? {
            let hidden = component.starts_with('$') || component.starts_with('%');
            let head = self.dir(dir).await?.head_dataset.get();
            if !hidden && head != 0 {
                let name = format!("{}/{component}", of.name);
                children.push(DatasetName { name, dir, dataset: ObjectId::new(head) });
            }
        }
        Ok(children)
    }

    /// The same in the order of their table, in which streams have them.
    ///
    /// # Errors
    /// As [`Self::children`].
    #[boxed]
    pub async fn children_as_stored(&self, of: &DatasetName) -> Result<Vec<DatasetName>, DslError> {
        let mut children = self.children(of).await?;
        let table = self.dir(of.dir).await?.child_dirs.get();
        if table == 0 {
            return Ok(children);
        }
        let entries = self.zap(table).await?.all().await?;
        let place = |child: &DatasetName| {
            entries.iter().position(|entry| entry.value.as_u64() == Some(child.dir.get()))
        };
        children.sort_by_key(place);
        Ok(children)
    }

    /// Whether below a dataset there is one that users do not see and that may have files: OpenZFS makes some while it
    /// receives, or rolls back.
    ///
    /// # Errors
    /// As [`Self::list`].
    #[boxed]
    pub async fn has_temporary(&self, name: &str) -> Result<bool, DslError> {
        for dataset in self.list(name).await? {
            if self.child_dirs(dataset.dir).await?.iter().any(|(component, _)| component.starts_with('%')) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The dataset of this name and all below it, parents first, siblings by name.
    ///
    /// # Errors
    /// [`DslError::NoSuchDataset`], damage, and those of reading the MOS.
    #[boxed]
    pub async fn list(&self, name: &str) -> Result<Vec<DatasetName>, DslError> {
        let found = self.list_levels(name, None).await?;
        Ok(found.into_iter().map(|(_, dataset)| dataset).collect())
    }

    /// The same down to so many levels below the dataset, each with its level.
    ///
    /// # Errors
    /// As [`Self::list`].
    #[boxed]
    pub async fn list_levels(
        &self,
        name: &str,
        depth: Option<u32>,
    ) -> Result<Vec<(u32, DatasetName)>, DslError> {
        let mut found = Vec::new();
        let mut seen = BTreeSet::new();
        let mut todo = vec![(0, self.resolve(name).await?)];
        while let Some((level, next)) = todo.pop() {
            if !seen.insert(next.dir) {
                return Err(DslError::damaged(next.dir, "dir below itself"));
            }
            if depth.is_none_or(|depth| level < depth) {
                let children = self.children(&next).await?.into_iter().rev();
                todo.extend(children.map(|child| (level + 1, child)));
            }
            found.push((level, next));
        }
        Ok(found)
    }

    /// Snapshots of a head, by name.
    ///
    /// # Errors
    /// Damage, and those of reading the MOS.
    #[boxed]
    pub async fn snapshots(&self, of: &DatasetName) -> Result<Vec<DatasetName>, DslError> {
        let names = self.dataset(of.dataset).await?.snapshot_names.get();
        if names == 0 {
            return Ok(Vec::new());
        }
        let named = named_objects(&self.zap(names).await?).await?.into_iter();
        let found = |(snapshot, dataset)| DatasetName {
            name: format!("{}@{snapshot}", of.name),
            dir: of.dir,
            dataset,
        };
        Ok(named.map(found).collect())
    }

    /// How many snapshots a head has.
    ///
    /// # Errors
    /// Damage, and those of reading the MOS.
    #[boxed]
    pub async fn snapshot_count(&self, of: &DatasetName) -> Result<u64, DslError> {
        match self.dataset(of.dataset).await?.snapshot_names.get() {
            0 => Ok(0),
            names => Ok(self.zap(names).await?.count().await?),
        }
    }

    /// Dirs directly below another, all of them.
    pub(crate) async fn child_dirs(&self, dir: ObjectId) -> Result<Vec<(String, ObjectId)>, DslError> {
        named_objects(&self.zap(self.dir(dir).await?.child_dirs.get()).await?).await
    }

    /// A dir's child of this name.
    pub(crate) async fn child(&self, dir: ObjectId, component: &str) -> Result<Option<ObjectId>, DslError> {
        if !is_key(component) {
            return Ok(None);
        }
        let map = self.zap(self.dir(dir).await?.child_dirs.get()).await?;
        Ok(map.lookup_u64(component.as_bytes()).await?.map(ObjectId::new))
    }

    /// A dir below the root that users do not see.
    pub(crate) async fn special_dir(&self, name: &'static str) -> Result<Arc<Dir>, DslError> {
        let dir = self.child(self.root, name).await?;
        self.loaded_dir(dir.ok_or(DslError::damaged(self.root, "a special dir is missing"))?).await
    }

    /// The snapshot from which all datasets that are no clones begin.
    pub(crate) async fn origin(&self) -> Result<Arc<Dataset>, DslError> {
        let dir = self.special_dir(ORIGIN).await?;
        let head = self.dataset(ObjectId::new(dir.phys().head_dataset.get())).await?;
        self.loaded_dataset(ObjectId::new(head.prev_snapshot.get())).await
    }

    /// A dir, with its ancestors.
    pub(crate) async fn loaded_dir(&self, object: ObjectId) -> Result<Arc<Dir>, DslError> {
        loop {
            if let Some(dir) = self.load_dir(object, self.known.dirs.forgotten()).await? {
                return Ok(dir);
            }
        }
    }

    /// Returns `None` if an object was forgotten since the caller read `forgotten`.
    async fn load_dir(&self, object: ObjectId, forgotten: u64) -> Result<Option<Arc<Dir>>, DslError> {
        let mut unknown = Vec::new();
        let mut at = object;
        let mut parent = loop {
            if let Some(known) = self.known.dirs.get(at) {
                break Some(known);
            }
            if unknown.len() > DEPTH_MAX {
                return Err(DslError::damaged(at, "dirs nested too deeply, or below themselves"));
            }
            let dnode = self.mos.hold(at).await?;
            let above = dir::decode(&dnode)?.parent.get();
            unknown.push(dnode);
            if above == 0 {
                break None;
            }
            at = ObjectId::new(above);
        };
        while let Some(dnode) = unknown.pop() {
            let dir = Dir::load(dnode, parent)?;
            let Some(kept) = self.known.dirs.keep(dir.object(), dir, forgotten) else { return Ok(None) };
            parent = Some(kept);
        }
        parent.map(Some).ok_or(DslError::damaged(object, "dir without an object"))
    }

    pub(crate) async fn loaded_dataset(&self, object: ObjectId) -> Result<Arc<Dataset>, DslError> {
        loop {
            let forgotten = self.known.datasets.forgotten();
            if let Some(known) = self.known.datasets.get(object) {
                return Ok(known);
            }
            let loaded = self.load_dataset(object).await?;
            if let Some(kept) = self.known.datasets.keep(object, loaded, forgotten) {
                return Ok(kept);
            }
        }
    }

    async fn load_dataset(&self, object: ObjectId) -> Result<Dataset, DslError> {
        let dnode = self.mos.hold(object).await?;
        let dir = self.loaded_dir(ObjectId::new(dataset::decode(&dnode)?.dir.get())).await?;
        let dataset = Dataset::load(dnode, dir)?;
        if !dataset.is_snapshot() {
            let (refquota, refreservation) = self.limits(&dataset).await?;
            dataset.set_limits(refquota, refreservation);
        }
        Ok(dataset)
    }

    /// Forgets a dataset that was destroyed, or lies in another dir now.
    pub(crate) fn forget_dataset(&self, dataset: ObjectId) {
        self.known.datasets.forget(dataset);
    }

    /// Forgets what has been destroyed: its numbers may be given to others.
    pub(crate) fn forget(&self, dir: ObjectId, dataset: ObjectId) {
        self.known.dirs.forget(dir);
        self.forget_dataset(dataset);
    }
}

/// Whether a ZAP can have this name.
fn is_key(name: &str) -> bool {
    !name.is_empty() && name.len() <= 255 && name.is_ascii() && !name.contains('\0')
}

/// A ZAP of names and objects, by name.
pub(crate) async fn named_objects(zap: &Zap) -> Result<Vec<(String, ObjectId)>, DslError> {
    let mut named = Vec::new();
    for entry in zap.all().await? {
        let damaged = || DslError::damaged(zap.object(), "name without an object");
        let name = String::from_utf8(entry.name).map_err(|_| damaged())?;
        named.push((name, ObjectId::new(entry.value.as_u64().ok_or_else(damaged)?)));
    }
    named.sort_unstable();
    Ok(named)
}
