//! The directory of kstat files, below the run-time directory: `proc/spl/kstat/zfs/...`, as in a
//! `/proc` with OpenZFS.
//!
//! ```text
//!  RUN/proc/.new ── renamed to ──► RUN/proc/spl/kstat/zfs/arcstats, .../tank/objset-0x36
//! ```
//! Whoever reads a file has one of its versions, whole. No path is followed: each directory is opened
//! in the one above, and none may be a link. Nothing here is stable, and nothing has to be.
//!
//! Invariants
//! - A file is there as long as its pool or dataset is. (test: `files_and_directories_go_with_their_pools`)
//! - A file whose figures are the same is not written. (test: `what_has_not_changed_is_not_written`)
//! - Nothing outside of the tree is written or removed, whatever lies in it. (test: `no_link_is_followed`)

use control::RunPaths;
use kstat::{KstatFile, KstatPath, Stamp};
use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, fchmod, mkdirat, openat, renameat, unlinkat};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};

/// The directories from the run-time directory on.
const BELOW: [&str; 4] = ["proc", "spl", "kstat", "zfs"];
/// The name of a file that is being written.
const NEW: &str = ".new";
/// Directories of pools are so deep below the tree's own directory.
const DEPTH: usize = 1;

/// What was written of a file last.
#[derive(Clone, Copy, Debug)]
struct Written {
    kid: u64,
    created_nanos: u64,
    hash: u64,
}

/// The tree. It is empty when it is opened.
pub(crate) struct KstatTree {
    /// `RUN/proc`.
    top: OwnedFd,
    /// `RUN/proc/spl/kstat/zfs`.
    root: OwnedFd,
    written: BTreeMap<KstatPath, Written>,
    kids: u64,
}

impl KstatTree {
    /// Makes the directories that are missing, and removes what an earlier daemon has left in them.
    ///
    /// # Errors
    /// The system's, and when one of the directories is none.
    pub(crate) fn open(paths: &RunPaths) -> io::Result<Self> {
        let run = openat(CWD, paths.run_dir(), directory(), Mode::empty())?;
        let top = made_below(&run, BELOW[0])?;
        let mut root = made_below(&top, BELOW[1])?;
        for name in &BELOW[2..] {
            root = made_below(&root, name)?;
        }
        empty(&root, DEPTH)?;
        Ok(Self { top, root, written: BTreeMap::new(), kids: 0 })
    }

    /// Makes these the files of the tree. Those of the pools in `kept` stay as they are.
    ///
    /// # Errors
    /// The system's. Then files that were not written stay as they were.
    pub(crate) fn renew(
        &mut self,
        files: &[KstatFile],
        kept: &BTreeSet<String>,
        now_nanos: u64,
    ) -> io::Result<()> {
        self.remove_all_but(files, kept)?;
        for file in files {
            self.write(file, now_nanos)?;
        }
        Ok(())
    }

    fn remove_all_but(&mut self, files: &[KstatFile], kept: &BTreeSet<String>) -> io::Result<()> {
        let wanted: BTreeSet<&KstatPath> = files.iter().map(|file| &file.path).collect();
        let is_kept = |path: &KstatPath| path.pool.as_ref().is_some_and(|pool| kept.contains(pool));
        let is_gone = |path: &&KstatPath| !wanted.contains(path) && !is_kept(path);
        let gone: Vec<KstatPath> = self.written.keys().filter(is_gone).cloned().collect();
        for path in &gone {
            let removed = match &path.pool {
                None => unlinkat(&self.root, path.name.as_str(), AtFlags::empty()),
                Some(pool) => unlinkat(below(&self.root, pool)?, path.name.as_str(), AtFlags::empty()),
            };
            unless_gone(removed)?;
            self.written.remove(path);
        }
        let pools: BTreeSet<&String> = gone.iter().filter_map(|path| path.pool.as_ref()).collect();
        for pool in pools {
            if self.written.keys().all(|path| path.pool.as_ref() != Some(pool)) {
                unless_gone(unlinkat(&self.root, pool.as_str(), AtFlags::REMOVEDIR))?;
            }
        }
        Ok(())
    }

    /// Writes a file whose figures have changed.
    fn write(&mut self, file: &KstatFile, now_nanos: u64) -> io::Result<()> {
        let mut hasher = DefaultHasher::new();
        file.data().hash(&mut hasher);
        let hash = hasher.finish();
        let before = self.written.get(&file.path).copied();
        if before.is_some_and(|before| before.hash == hash) {
            return Ok(());
        }
        let written = before.unwrap_or_else(|| {
            self.kids += 1;
            Written { kid: self.kids, created_nanos: now_nanos, hash }
        });
        let stamp = Stamp { kid: written.kid, created_nanos: written.created_nanos, taken_nanos: now_nanos };
        self.put(&file.path, file.text(&stamp).as_bytes())?;
        self.written.insert(file.path.clone(), Written { hash, ..written });
        Ok(())
    }

    fn put(&self, path: &KstatPath, text: &[u8]) -> io::Result<()> {
        let placed = self.put_new(text).and_then(|()| {
            let renamed = match &path.pool {
                None => renameat(&self.top, NEW, &self.root, path.name.as_str()),
                Some(pool) => renameat(&self.top, NEW, made_below(&self.root, pool)?, path.name.as_str()),
            };
            Ok(renamed?)
        });
        if placed.is_err() {
            _ = unlinkat(&self.top, NEW, AtFlags::empty());
        }
        placed
    }

    fn put_new(&self, text: &[u8]) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        unless_gone(unlinkat(&self.top, NEW, AtFlags::empty()))?;
        let new = openat(&self.top, NEW, flags, Mode::from_raw_mode(0o644))?;
        // Whatever the umask takes away.
        fchmod(&new, Mode::from_raw_mode(0o644))?;
        File::from(new).write_all(text)
    }

    /// Removes all of its files. The directories that lead to it stay.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        self.written.clear();
        empty(&self.root, DEPTH)
    }
}

/// A directory that is no link.
fn directory() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

fn below(above: impl AsFd, name: &str) -> io::Result<OwnedFd> {
    Ok(openat(above, name, directory(), Mode::empty())?)
}

/// A directory that everybody can enter; it is made where it is missing.
fn made_below(above: impl AsFd, name: &str) -> io::Result<OwnedFd> {
    let mode = Mode::from_raw_mode(0o755);
    match mkdirat(&above, name, mode) {
        Ok(()) => {
            let made = below(above, name)?;
            // Whatever the umask takes away.
            fchmod(&made, mode)?;
            Ok(made)
        }
        Err(Errno::EXIST) => below(above, name),
        Err(error) => Err(error.into()),
    }
}

fn unless_gone(removed: rustix::io::Result<()>) -> io::Result<()> {
    match removed {
        Err(Errno::NOENT) | Ok(()) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Removes what is in a directory, and in directories so deep below it.
fn empty(directory: &OwnedFd, depth: usize) -> io::Result<()> {
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if [c".", c".."].contains(&name) {
            continue;
        }
        match unlinkat(directory, name, AtFlags::empty()) {
            Err(Errno::ISDIR) if depth > 0 => {
                let inner = openat(directory, name, self::directory(), Mode::empty())?;
                empty(&inner, depth - 1)?;
                unless_gone(unlinkat(directory, name, AtFlags::REMOVEDIR))?;
            }
            removed => unless_gone(removed)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::{DatasetCounted, PoolCounted, PoolHealth};
    use kstat::{Observed, PoolSeen, files};
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};
    use std::path::PathBuf;

    struct World {
        dir: tempfile::TempDir,
        tree: KstatTree,
    }

    impl World {
        fn new() -> Self {
            let dir = tempfile::tempdir().expect("a directory");
            let tree = KstatTree::open(&RunPaths::under(dir.path())).expect("a tree");
            Self { dir, tree }
        }

        fn path(&self, below: &str) -> PathBuf {
            self.dir.path().join("proc/spl/kstat/zfs").join(below)
        }

        fn renew(&mut self, pools: &[PoolSeen], now_nanos: u64) {
            let files = files(&Observed { pools: pools.to_vec(), ..Observed::default() });
            self.tree.renew(&files, &BTreeSet::new(), now_nanos).expect("renewed");
        }
    }

    fn pool(name: &str, writes: u64) -> PoolSeen {
        let mut dataset = DatasetCounted { name: name.into(), objset: 54, ..DatasetCounted::default() };
        dataset.uses.writes = writes;
        let counted = PoolCounted {
            name: name.into(),
            health: Some(PoolHealth::Online),
            datasets: vec![dataset],
            ..PoolCounted::default()
        };
        PoolSeen { counted, ..PoolSeen::default() }
    }

    #[test]
    fn files_and_directories_go_with_their_pools() {
        let mut world = World::new();
        world.renew(&[pool("a", 1), pool("b", 1)], 10);
        assert_eq!(fs::read_to_string(world.path("a/state")).expect("a state"), "ONLINE\n");
        assert!(world.path("b/objset-0x36").exists() && world.path("arcstats").exists());
        let mut unmounted = pool("a", 1);
        unmounted.counted.datasets.clear();
        world.renew(&[unmounted], 20);
        assert!(world.path("a/state").exists() && !world.path("a/objset-0x36").exists());
        assert!(!world.path("b").exists(), "the directory went with the pool");
        assert!(!world.dir.path().join("proc/.new").exists());
        world.tree.clear().expect("cleared");
        assert_eq!(fs::read_dir(world.path("")).expect("a directory").count(), 0);
    }

    #[test]
    fn a_pool_that_does_not_answer_keeps_its_files() {
        let mut world = World::new();
        world.renew(&[pool("a", 1), pool("b", 1)], 10);
        let files = files(&Observed { pools: vec![pool("b", 1)], ..Observed::default() });
        world.tree.renew(&files, &BTreeSet::from(["a".to_owned()]), 20).expect("renewed");
        assert!(world.path("a/objset-0x36").exists());
    }

    #[test]
    fn what_has_not_changed_is_not_written() {
        let mut world = World::new();
        world.renew(&[pool("a", 1), pool("b", 1)], 10);
        let inode = |world: &World, name: &str| fs::metadata(world.path(name)).expect("there").ino();
        let first_line = |world: &World, name: &str| -> String {
            let text = fs::read_to_string(world.path(name)).expect("there");
            text.lines().next().expect("a line").to_owned()
        };
        let [kept, renewed] = ["a/objset-0x36", "b/objset-0x36"];
        let before = [kept, renewed].map(|name| (inode(&world, name), first_line(&world, name)));
        world.renew(&[pool("a", 1), pool("b", 2)], 20);
        assert_eq!((inode(&world, kept), first_line(&world, kept)), before[0]);
        let after = first_line(&world, renewed);
        assert_eq!(
            after,
            before[1].1.replace(" 10 10", " 10 20"),
            "the same file, and figures of a later time"
        );
        assert_ne!(inode(&world, renewed), before[1].0, "a reader keeps the version that it has open");
    }

    #[test]
    fn what_an_earlier_daemon_left_is_removed() {
        let mut world = World::new();
        world.renew(&[pool("gone", 1)], 10);
        KstatTree::open(&RunPaths::under(world.dir.path())).expect("a tree");
        assert_eq!(fs::read_dir(world.path("")).expect("a directory").count(), 0);
    }

    #[test]
    fn no_link_is_followed() {
        let mut world = World::new();
        let outside = tempfile::tempdir().expect("a directory");
        fs::write(outside.path().join("kept"), b"x").expect("a file");
        symlink(outside.path(), world.path("a")).expect("a link in the place of a pool");
        symlink(outside.path().join("kept"), world.path("zil")).expect("a link in the place of a file");
        let files = files(&Observed { pools: vec![pool("a", 1)], ..Observed::default() });
        assert!(world.tree.renew(&files, &BTreeSet::new(), 10).is_err(), "the pool has no directory");
        assert!(!fs::symlink_metadata(world.path("zil")).expect("there").is_symlink(), "replaced");
        KstatTree::open(&RunPaths::under(world.dir.path())).expect("opened again").clear().expect("cleared");
        assert_eq!(fs::read(outside.path().join("kept")).expect("there"), b"x");
        assert_eq!(fs::read_dir(outside.path()).expect("there").count(), 1);
        fs::remove_dir_all(world.dir.path().join("proc/spl")).expect("removed");
        symlink(outside.path(), world.dir.path().join("proc/spl")).expect("a link above the tree");
        assert!(KstatTree::open(&RunPaths::under(world.dir.path())).is_err());
    }

    #[test]
    fn a_tree_that_was_removed_is_an_error_until_it_is_opened_again() {
        let mut world = World::new();
        world.renew(&[pool("a", 1)], 10);
        fs::remove_dir_all(world.dir.path().join("proc")).expect("removed");
        let files = files(&Observed { pools: vec![pool("a", 2)], ..Observed::default() });
        assert!(world.tree.renew(&files, &BTreeSet::new(), 20).is_err());
        world.tree = KstatTree::open(&RunPaths::under(world.dir.path())).expect("made again");
        world.renew(&[pool("a", 2)], 30);
        assert!(world.path("a/objset-0x36").exists());
    }
}
