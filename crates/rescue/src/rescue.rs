//! Copies the readable files of a pool to a directory.
//!
//! ```text
//!  TARGET/tank/home/@          the files of tank/home
//!  TARGET/tank/home/@monday    the files of its snapshot
//!  TARGET/tank/volume/@        the data of a volume
//!  TARGET/lost+found/55/1234   object 1234 of dataset 55, whose directory is lost
//!  TARGET/.sawmill-rescue      the report and the state file
//! ```
//! No dataset name contains `@`, so files and child datasets of a dataset cannot collide. Files are
//! copied in the order of their paths ([`crate::resume`]). Objects that no readable directory names
//! come last.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ondisk::{DnodeImage, ObjsetType};
use serde::{Deserialize, Serialize};
use units::ObjsetId;
use zpl::FileKind;

use crate::beneath::check_name;
use crate::file_tree::{FileSlot, FileTree, FoundFile, volume_size};
use crate::objects::{ObjectSlot, ObjectTable, TablePart};
use crate::report::ReportFile;
use crate::resume::{Notes, OWN_DIRECTORY};
use crate::{Beneath, FoundDataset, LostPart, LostRanges, PoolRoot, RescueError, copy_contents};

/// The object with the data of a volume.
const VOLUME_DATA: u64 = 1;
/// The permissions of a directory until it is complete, and of directories that are made up.
const OWNER_ONLY: u32 = 0o700;
/// The interval between two writes of the state file.
const NOTES_EVERY: Duration = Duration::from_secs(2);
/// The number of parents that are searched for the topmost directory without a name above a lost
/// file.
const CLIMB_MAX: usize = 128;

/// The datasets to rescue.
#[derive(Clone, Debug, Default)]
pub struct RescueSelection {
    /// Only these datasets and snapshots, by name, and all datasets below them. If empty,
    /// everything.
    pub only: Vec<String>,
    /// True if snapshots are skipped.
    pub without_snapshots: bool,
}

impl RescueSelection {
    fn has(&self, dataset: &FoundDataset) -> bool {
        let is_below = |name: &String| {
            dataset
                .name
                .strip_prefix(name.as_str())
                .is_some_and(|rest| rest.is_empty() || (!name.contains('@') && rest.starts_with(['/', '@'])))
        };
        let is_chosen = self.only.is_empty() || self.only.iter().any(is_below);
        is_chosen && !(self.without_snapshots && dataset.is_snapshot())
    }
}

/// Receives the progress of a rescue.
pub trait RescueWatch {
    /// The total number of bytes to copy, as far as it is known.
    fn expect(&self, bytes: u64);
    /// The number of bytes that were copied since the last call.
    fn add(&self, bytes: u64);
    /// The rescue of a dataset begins.
    fn begin(&self, dataset: &str);
}

/// The results of a rescue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RescueSummary {
    /// Datasets and snapshots of which something was read.
    pub datasets: u64,
    /// Datasets that cannot be read, because a key is missing or their root is lost.
    pub lost_datasets: u64,
    /// Files of all types except directories, including damaged files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Files with lost parts.
    pub damaged_files: u64,
    /// Files of which only the name is left.
    pub lost_files: u64,
    /// Directories with lost names.
    pub damaged_directories: u64,
    /// Files that were copied to `lost+found`.
    pub nameless_files: u64,
    /// Bytes of files.
    pub bytes: u64,
    /// Lost bytes of files.
    pub lost_bytes: u64,
    /// Objects of the meta-objset that cannot be read. Some of them may be datasets.
    pub lost_objects: u64,
}

impl RescueSummary {
    /// True if everything was read.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let losses = [
            self.lost_datasets,
            self.damaged_files,
            self.lost_files,
            self.damaged_directories,
            self.lost_objects,
        ];
        losses.iter().all(|&loss| loss == 0)
    }
}

/// One rescue into one directory.
pub struct Rescue<'a> {
    root: &'a PoolRoot,
    target_path: PathBuf,
    target: Beneath,
    report: ReportFile,
    notes: Notes,
    noted_at: Duration,
    note_every: Duration,
    watch: &'a dyn RescueWatch,
    /// True if the process may change the owner of a file.
    gives_away: bool,
}

/// The objects of one dataset that were met so far.
#[derive(Default)]
struct MetObjects {
    /// The objects that have been copied, 64 in a word.
    seen: BTreeMap<u64, u64>,
    /// The paths of copied files that have several names.
    first_names: HashMap<u64, Vec<u8>>,
    /// True if a directory is damaged, so that some files may have lost their names.
    misses_names: bool,
    /// The path up to which an earlier run copied everything.
    resumed_behind: Option<Vec<u8>>,
}

impl MetObjects {
    fn is_seen(&self, object: u64) -> bool {
        self.seen.get(&(object / 64)).is_some_and(|word| word & (1 << (object % 64)) != 0)
    }

    /// Records an object. Returns true if it was not met before.
    fn see(&mut self, object: u64) -> bool {
        let is_new = !self.is_seen(object);
        *self.seen.entry(object / 64).or_default() |= 1 << (object % 64);
        is_new
    }

    /// True if an earlier run copied this file or created this directory.
    fn is_done(&self, path: &[u8]) -> bool {
        let parts = |path: &'_ [u8]| path.split(|&byte| byte == b'/').map(<[u8]>::to_vec).collect::<Vec<_>>();
        self.resumed_behind.as_ref().is_some_and(|behind| parts(path) <= parts(behind))
    }

    /// True if an earlier run copied everything in this directory.
    fn is_finished(&self, path: &[u8]) -> bool {
        let is_inside = |behind: &Vec<u8>| {
            behind.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
        };
        self.is_done(path) && !self.resumed_behind.as_ref().is_some_and(is_inside)
    }
}

/// A directory that is being copied.
struct CopyFrame {
    directory: FoundFile,
    path: Vec<u8>,
    entries: std::vec::IntoIter<(Vec<u8>, u64)>,
}

impl<'a> Rescue<'a> {
    /// Begins a rescue into a directory, or continues the rescue in it.
    ///
    /// # Errors
    /// [`RescueError::Target`], [`RescueError::Notes`]; [`RescueError::OtherState`] when the
    /// directory has the rescue of another state.
    pub fn begin(
        root: &'a PoolRoot,
        target_path: &Path,
        watch: &'a dyn RescueWatch,
    ) -> Result<Self, RescueError> {
        let failed = |source| RescueError::Target { path: target_path.to_owned(), source };
        std::fs::create_dir_all(target_path).map_err(failed)?;
        let target = Beneath::open(target_path).map_err(failed)?;
        target.make_dirs(OWN_DIRECTORY.as_bytes(), OWNER_ONLY).map_err(failed)?;
        let asked = root.state().txg;
        let notes = Notes::load(&target)?.unwrap_or_else(|| Notes { txg: asked, ..Notes::default() });
        if notes.txg != asked {
            return Err(RescueError::OtherState { begun: notes.txg, asked });
        }
        let report = ReportFile::open(&target, notes.report_bytes).map_err(failed)?;
        let gives_away = rustix::process::geteuid().is_root();
        let (target_path, noted_at) = (target_path.to_owned(), root.view().vdevs().env().now());
        let note_every = NOTES_EVERY;
        Ok(Self { root, target_path, target, report, notes, noted_at, note_every, watch, gives_away })
    }

    /// Sets how often the state file is written. A shorter interval needs more time. After a longer
    /// one, a killed rescue repeats more work.
    pub fn note_every(&mut self, span: Duration) {
        self.note_every = span;
    }

    /// Returns the txg of the state that an earlier run rescued into this directory.
    ///
    /// # Errors
    /// [`RescueError::Notes`].
    pub fn begun_txg(target_path: &Path) -> Result<Option<u64>, RescueError> {
        let Ok(target) = Beneath::open(target_path) else { return Ok(None) };
        Ok(Notes::load(&target)?.map(|notes| notes.txg))
    }

    /// Copies everything that is selected and readable.
    ///
    /// # Errors
    /// [`RescueError::Target`]; [`RescueError::Nothing`] when the state can no longer be read.
    pub async fn run(&mut self, selection: &RescueSelection) -> Result<RescueSummary, RescueError> {
        let what = "the root of the state cannot be read any more";
        let found = self.root.datasets().await.map_err(|_| RescueError::Nothing { what })?;
        self.notes.summary.lost_objects = found.lost_objects;
        let chosen: Vec<_> = found.datasets.into_iter().filter(|dataset| selection.has(dataset)).collect();
        let todo: Vec<_> = chosen.iter().filter(|dataset| !self.notes.done.contains(&dataset.name)).collect();
        self.watch.expect(todo.iter().map(|dataset| dataset.bytes).sum());
        for dataset in todo {
            self.watch.begin(&dataset.name);
            self.dataset(dataset).await?;
            self.notes.done.push(dataset.name.clone());
            self.notes.begun = None;
            self.make_notes()?;
        }
        Ok(self.notes.summary.clone())
    }

    async fn dataset(&mut self, dataset: &FoundDataset) -> Result<(), RescueError> {
        let root = self.root;
        if dataset.is_encrypted() {
            return self.lose_dataset(dataset, "it is encrypted".into());
        }
        let opened = ObjectTable::open(root.view().zio(), ObjsetId::new(dataset.object), &dataset.root).await;
        let table = match opened {
            Ok(table) => table,
            Err(why) => return self.lose_dataset(dataset, why),
        };
        let base = target_of(dataset);
        match table.kind() {
            ObjsetType::Zfs => self.files(dataset, FileTree::open(table).await, &base).await?,
            ObjsetType::Zvol => self.volume(dataset, &table, &base).await?,
            ObjsetType::None | ObjsetType::Meta | ObjsetType::Other => {
                return self.lose_dataset(dataset, "neither files nor a volume".into());
            }
        }
        self.notes.summary.datasets += 1;
        Ok(())
    }

    fn lose_dataset(&mut self, dataset: &FoundDataset, why: String) -> Result<(), RescueError> {
        self.notes.summary.lost_datasets += 1;
        self.lose(LostPart { dataset: dataset.name.clone(), what: "dataset", why, ..LostPart::default() })
    }

    async fn volume(
        &mut self,
        dataset: &FoundDataset,
        table: &ObjectTable<'_>,
        base: &[u8],
    ) -> Result<(), RescueError> {
        let image = match table.get(VOLUME_DATA).await {
            ObjectSlot::Found(image) => image,
            ObjectSlot::Free => return self.lose_dataset(dataset, "a volume without data".into()),
            ObjectSlot::Lost(why) => return self.lose_dataset(dataset, why),
        };
        let size = volume_size(table, &image).await;
        let (directory, _) = split(base);
        self.target.make_dirs(directory, OWNER_ONLY).map_err(|error| self.failed(directory, error))?;
        let place = CopyPlace { dataset: &dataset.name, path: base, object: VOLUME_DATA };
        self.contents(place, table, &image, size, 0o600).await?;
        self.notes.summary.files += 1;
        Ok(())
    }

    async fn files(
        &mut self,
        dataset: &FoundDataset,
        tree: FileTree<'_>,
        base: &[u8],
    ) -> Result<(), RescueError> {
        let mut met = MetObjects::default();
        if let Some((begun, behind)) = &self.notes.begun
            && *begun == dataset.name
        {
            met.resumed_behind = Some(behind.clone());
        }
        let told = tree.lost.iter().filter(|_| met.resumed_behind.is_none());
        for what in told {
            let why = format!("{what} is lost");
            self.lose(LostPart {
                dataset: dataset.name.clone(),
                what: "attributes",
                why,
                ..LostPart::default()
            })?;
        }
        match tree.root() {
            Some(root) => self.subtree(dataset, &tree, &mut met, root, base).await?,
            None => met.misses_names = true,
        }
        if met.misses_names {
            self.nameless(dataset, &tree, &mut met).await?;
        }
        Ok(())
    }

    /// Copies a directory, and everything below it, to `path`.
    async fn subtree(
        &mut self,
        dataset: &FoundDataset,
        tree: &FileTree<'_>,
        met: &mut MetObjects,
        object: u64,
        path: &[u8],
    ) -> Result<(), RescueError> {
        let (above, _) = split(path);
        self.target.make_dirs(above, OWNER_ONLY).map_err(|error| self.failed(above, error))?;
        let mut frames = Vec::new();
        let first = CopyPlace { dataset: &dataset.name, path, object };
        frames.extend(self.entry(first, tree, met).await?);
        while let Some(frame) = frames.last_mut() {
            let Some((name, object)) = frame.entries.next() else {
                if let Some(CopyFrame { directory, path, .. }) = frames.pop()
                    && !met.is_finished(&path)
                {
                    let place = CopyPlace { dataset: &dataset.name, path: &path, object: directory.object };
                    self.attributes(place, tree, &directory).await?;
                }
                continue;
            };
            let path = [&frame.path, &b"/"[..], &name].concat();
            let place = CopyPlace { dataset: &dataset.name, path: &path, object };
            frames.extend(self.entry(place, tree, met).await?);
            self.note_progress(dataset, met, &path)?;
        }
        Ok(())
    }

    /// Copies the object of a directory entry. For a directory, creates it and returns its frame,
    /// whose entries are not copied yet.
    async fn entry(
        &mut self,
        place: CopyPlace<'_>,
        tree: &FileTree<'_>,
        met: &mut MetObjects,
    ) -> Result<Option<CopyFrame>, RescueError> {
        let why = match tree.file(place.object).await {
            FileSlot::Found(file) => return self.found(place, tree, met, *file).await,
            FileSlot::None => "no such object".to_owned(),
            FileSlot::Lost(why) => {
                // The lost object may have been a directory.
                met.misses_names = true;
                why
            }
        };
        if !met.is_done(place.path) {
            self.lose_file(place, why)?;
        }
        Ok(None)
    }

    async fn found(
        &mut self,
        place: CopyPlace<'_>,
        tree: &FileTree<'_>,
        met: &mut MetObjects,
        file: FoundFile,
    ) -> Result<Option<CopyFrame>, RescueError> {
        let is_new = met.see(place.object);
        if file.attributes.kind == FileKind::Directory {
            return if is_new { self.directory(place, tree, met, file).await } else { Ok(None) };
        }
        if file.attributes.links > 1 {
            match met.first_names.get(&place.object) {
                Some(first) if !met.is_done(place.path) => {
                    let first = first.clone();
                    return self.second_name(place, &first).map(|()| None);
                }
                Some(_) => return Ok(None),
                None => _ = met.first_names.insert(place.object, place.path.to_vec()),
            }
        }
        if !met.is_done(place.path) {
            self.file(place, tree, &file).await?;
        }
        Ok(None)
    }

    async fn directory(
        &mut self,
        place: CopyPlace<'_>,
        tree: &FileTree<'_>,
        met: &mut MetObjects,
        file: FoundFile,
    ) -> Result<Option<CopyFrame>, RescueError> {
        let is_done = met.is_done(place.path);
        match self.target.make_dir(place.path, OWNER_ONLY) {
            Err(error)
                if error.kind() == io::ErrorKind::AlreadyExists && is_directory(&self.target, place.path) => {
            }
            Err(error) => {
                met.misses_names = true;
                self.system(place, error)?;
                return Ok(None);
            }
            Ok(()) => {}
        }
        let (entries, lost_blocks) = tree.entries(&file).await;
        if lost_blocks > 0 {
            met.misses_names = true;
            if !is_done {
                self.notes.summary.damaged_directories += 1;
                self.lose(place.lost("names", format!("{lost_blocks} blocks of the directory are lost")))?;
            }
        }
        if !is_done {
            self.notes.summary.directories += 1;
        }
        let mut safe = Vec::with_capacity(entries.len());
        for (name, object) in entries {
            safe.push((self.safe_name(place, met, name, object)?, object));
        }
        safe.sort();
        Ok(Some(CopyFrame { directory: file, path: place.path.to_vec(), entries: safe.into_iter() }))
    }

    /// Returns a name that a directory of this system accepts.
    fn safe_name(
        &mut self,
        place: CopyPlace<'_>,
        met: &MetObjects,
        name: Vec<u8>,
        object: u64,
    ) -> Result<Vec<u8>, RescueError> {
        let Err(why) = check_name(&name) else { return Ok(name) };
        let escaped = name.iter().flat_map(|&byte| match byte {
            b'/' | b'%' | b'.' | 0 => format!("%{byte:02x}").into_bytes(),
            _ => vec![byte],
        });
        let escaped: Vec<u8> = escaped.take(200).chain(format!("%{object}").into_bytes()).collect();
        let path = [place.path, b"/", &escaped].concat();
        let renamed = CopyPlace { path: &path, object, ..place };
        if !met.is_done(&path) {
            self.lose(renamed.lost("renamed", format!("{why}: {}", String::from_utf8_lossy(&name))))?;
        }
        Ok(escaped)
    }

    fn second_name(&mut self, place: CopyPlace<'_>, first: &[u8]) -> Result<(), RescueError> {
        self.notes.summary.files += 1;
        let linked = self.make_room(place.path).and_then(|()| self.target.link(first, place.path));
        linked.or_else(|error| self.system(place, error))
    }

    fn make_room(&self, path: &[u8]) -> io::Result<()> {
        match self.target.kind_at(path)? {
            None => Ok(()),
            Some(_) => self.target.remove(path),
        }
    }

    /// Copies an object that is not a directory.
    async fn file(
        &mut self,
        place: CopyPlace<'_>,
        tree: &FileTree<'_>,
        file: &FoundFile,
    ) -> Result<(), RescueError> {
        self.notes.summary.files += 1;
        let attributes = &file.attributes;
        match attributes.kind {
            FileKind::File => {
                let size = attributes.size;
                self.contents(place, tree.table(), &file.image, size, OWNER_ONLY & 0o600).await?;
            }
            FileKind::Symlink => match tree.target(file).await {
                None => return self.lose_file(place, "the text of the link is lost".into()),
                Some(text) => {
                    let made =
                        self.make_room(place.path).and_then(|()| self.target.symlink(&text, place.path));
                    if let Err(error) = made {
                        return self.system(place, error);
                    }
                }
            },
            FileKind::Directory => {}
            kind => {
                let make = || {
                    self.make_room(place.path)?;
                    self.target.make_special(place.path, kind, 0o600, attributes.device)
                };
                if let Err(error) = make() {
                    return self.system(place, error);
                }
            }
        }
        self.attributes(place, tree, file).await
    }

    /// Copies the data of a file or volume.
    async fn contents(
        &mut self,
        place: CopyPlace<'_>,
        table: &ObjectTable<'_>,
        image: &DnodeImage,
        size: u64,
        permissions: u32,
    ) -> Result<(), RescueError> {
        let file = match self.target.create(place.path, permissions) {
            Ok(file) => file,
            Err(error) => return self.system(place, error),
        };
        let watch = self.watch;
        let put = |at: u64, bytes: &[u8]| {
            watch.add(bytes.len() as u64);
            file.write_all_at(bytes, at)
        };
        let copied = copy_contents(&table.tree(place.object, image), size, put).await;
        let lost = match copied.and_then(|lost| file.set_len(size).map(|()| lost)) {
            Ok(lost) => lost,
            Err(error) => return self.system(place, error),
        };
        self.notes.summary.bytes += size;
        self.lose_ranges(place, &lost)
    }

    fn lose_ranges(&mut self, place: CopyPlace<'_>, lost: &LostRanges) -> Result<(), RescueError> {
        let Some(why) = &lost.why else { return Ok(()) };
        self.notes.summary.damaged_files += 1;
        self.notes.summary.lost_bytes += lost.bytes();
        self.lose(place.lost("blocks", why.clone()).with_ranges(lost))
    }

    /// Sets the extended attributes, owner, permissions and times of a file or directory.
    async fn attributes(
        &mut self,
        place: CopyPlace<'_>,
        tree: &FileTree<'_>,
        file: &FoundFile,
    ) -> Result<(), RescueError> {
        if let Some(why) = &file.lost_attributes {
            self.lose(place.lost("attributes", why.clone()))?;
        }
        let xattrs = tree.xattrs(file).await;
        for why in xattrs.lost {
            self.lose(place.lost("xattrs", why))?;
        }
        for (name, value) in xattrs.values {
            if let Err(error) = self.target.set_xattr(place.path, &name, &value) {
                let name = String::from_utf8_lossy(&name);
                self.lose(place.lost("system", format!("extended attribute {name} not kept: {error}")))?;
            }
        }
        let set = self.set_attributes(place.path, file);
        set.or_else(|error| self.system(place, error))
    }

    fn set_attributes(&self, path: &[u8], file: &FoundFile) -> io::Result<()> {
        let attributes = &file.attributes;
        if self.gives_away && file.lost_attributes.is_none() {
            self.target.set_owner(path, attributes.uid, attributes.gid)?;
        }
        if attributes.kind != FileKind::Symlink {
            // A set-id program must not become a file of the user who runs the rescue.
            let mask = if self.gives_away { 0o7777 } else { 0o777 };
            self.target.set_permissions(path, attributes.permissions & mask)?;
        }
        if attributes.mtime == zpl::Timestamp::default() && file.lost_attributes.is_some() {
            return Ok(());
        }
        self.target.set_times(path, attributes.atime, attributes.mtime)
    }

    /// Copies all files that no directory names.
    async fn nameless(
        &mut self,
        dataset: &FoundDataset,
        tree: &FileTree<'_>,
        met: &mut MetObjects,
    ) -> Result<(), RescueError> {
        // An earlier run may have been interrupted here, so all of these files are copied again.
        met.resumed_behind = None;
        let mut block = 0;
        while let Some((part, next)) = tree.table().part_at(block).await {
            block = next;
            let TablePart::Objects(objects) = part else { continue };
            for (object, image) in objects {
                let Some(file) = tree.file_of(object, image).await else { continue };
                let attributes = &file.attributes;
                let is_wanted = !attributes.is_hidden && attributes.links > 0 && !tree.is_own(object);
                if is_wanted && !met.is_seen(object) {
                    let top = topmost(tree, met, file).await;
                    let path = format!("lost+found/{}/{top}", dataset.object);
                    self.notes.summary.nameless_files += 1;
                    self.subtree(dataset, tree, met, top, path.as_bytes()).await?;
                }
            }
        }
        Ok(())
    }

    fn lose_file(&mut self, place: CopyPlace<'_>, why: String) -> Result<(), RescueError> {
        self.notes.summary.lost_files += 1;
        self.lose(place.lost("file", why))
    }

    fn lose(&mut self, part: LostPart) -> Result<(), RescueError> {
        let added = self.report.add(&part);
        added.map_err(|error| self.failed(crate::REPORT_PATH.as_bytes(), error))
    }

    /// Reports an error of the system that affects one file. An error that would affect all files
    /// ends the rescue.
    fn system(&mut self, place: CopyPlace<'_>, error: io::Error) -> Result<(), RescueError> {
        use io::ErrorKind as K;
        let is_of_all = matches!(error.kind(), K::StorageFull | K::QuotaExceeded | K::ReadOnlyFilesystem)
            || error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error());
        if is_of_all {
            return Err(self.failed(place.path, error));
        }
        self.lose(place.lost("system", error.to_string()))
    }

    fn failed(&self, path: &[u8], source: io::Error) -> RescueError {
        let path = self.target_path.join(String::from_utf8_lossy(path).as_ref());
        RescueError::Target { path, source }
    }

    fn note_progress(
        &mut self,
        dataset: &FoundDataset,
        met: &MetObjects,
        path: &[u8],
    ) -> Result<(), RescueError> {
        let now = self.root.view().vdevs().env().now();
        if met.is_done(path)
            || now.saturating_sub(self.noted_at) < self.note_every
            || path.starts_with(b"lost+found/")
        {
            return Ok(());
        }
        self.notes.begun = Some((dataset.name.clone(), path.to_vec()));
        self.make_notes()
    }

    fn make_notes(&mut self) -> Result<(), RescueError> {
        let stored = self.report.flush().and_then(|bytes| {
            self.notes.report_bytes = bytes;
            self.notes.store(&self.target)
        });
        stored.map_err(|error| self.failed(crate::STATE_PATH.as_bytes(), error))?;
        self.noted_at = self.root.view().vdevs().env().now();
        Ok(())
    }
}

/// The path and the identity of a file that is being copied.
#[derive(Clone, Copy)]
struct CopyPlace<'a> {
    dataset: &'a str,
    path: &'a [u8],
    object: u64,
}

impl CopyPlace<'_> {
    fn lost(self, what: &'static str, why: String) -> LostPart {
        LostPart {
            dataset: self.dataset.to_owned(),
            path: String::from_utf8_lossy(self.path).into_owned(),
            object: self.object,
            what,
            lost: Vec::new(),
            why,
        }
    }
}

/// Returns the topmost directory without a name above a file. Returns the file itself if its
/// directory is lost or has a name.
async fn topmost(tree: &FileTree<'_>, met: &MetObjects, file: FoundFile) -> u64 {
    let mut top = file;
    let mut passed = vec![top.object];
    for _ in 0..CLIMB_MAX {
        let parent = top.attributes.parent;
        if met.is_seen(parent) || passed.contains(&parent) {
            break;
        }
        let FileSlot::Found(above) = tree.file(parent).await else { break };
        let is_directory = above.attributes.kind == FileKind::Directory;
        if !is_directory || !tree.entries(&above).await.0.iter().any(|(_, object)| *object == top.object) {
            break;
        }
        passed.push(parent);
        top = *above;
    }
    top.object
}

/// Returns the path of a dataset below the target.
fn target_of(dataset: &FoundDataset) -> Vec<u8> {
    let (head, snapshot) = dataset.name.split_once('@').unwrap_or((&dataset.name, ""));
    format!("{head}/@{snapshot}").into_bytes()
}

fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (&path[..0], path),
    }
}

fn is_directory(target: &Beneath, path: &[u8]) -> bool {
    target.kind_at(path).ok().flatten() == Some(FileKind::Directory)
}
