//! What is mounted, for clients that have no kernel between them and a file system.

use engine::{
    Front, LetGo, MountError, MountFlags, MountOptions, Mounted, Shown, Snapdir, Suspended, SyncingThread,
    UnmountReach,
};
use env::BoxFuture;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use units::ObjsetId;
use zpl::Zfs;

type Table = Arc<Mutex<BTreeMap<PathBuf, Arc<Zfs>>>>;

/// A table of what is mounted where. Clones are the same table.
#[derive(Clone, Default)]
pub struct TableFront(Table);

impl TableFront {
    /// What is mounted at a place.
    pub fn at(&self, place: &str) -> Option<Arc<Zfs>> {
        self.0.lock().expect("nobody panicked").get(Path::new(place)).cloned()
    }
}

struct Place {
    table: Table,
    path: PathBuf,
}

impl Front for TableFront {
    fn mount(&self, shown: Shown, place: &Path, _: &MountOptions) -> Result<Box<dyn Mounted>, MountError> {
        self.0.lock().expect("nobody panicked").insert(place.to_owned(), shown.zfs);
        Ok(Box::new(Place { table: Arc::clone(&self.0), path: place.to_owned() }))
    }

    fn is_free(&self, place: &Path) -> bool {
        !self.0.lock().expect("nobody panicked").contains_key(place)
    }

    fn forget(&self, _: &Path) {}
}

impl Mounted for Place {
    fn has_ended(&self) -> bool {
        !self.table.lock().expect("nobody panicked").contains_key(&self.path)
    }

    fn is_ending(&self) -> bool {
        self.has_ended()
    }

    fn ends_soon(&self) -> bool {
        self.has_ended()
    }

    fn is_elsewhere(&self) -> bool {
        false
    }

    fn seen_elsewhere(&self) -> Option<String> {
        None
    }

    fn unmount(&self, _: UnmountReach) -> Result<(), MountError> {
        self.table.lock().expect("nobody panicked").remove(&self.path);
        Ok(())
    }

    fn write_back(&self) -> BoxFuture<'_, io::Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn suspend(&self) -> BoxFuture<'_, Result<Option<Box<dyn Suspended>>, MountError>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    fn remount(&self, _: MountFlags) -> Result<(), MountError> {
        Ok(())
    }

    fn set_snapdir(&self, _: Snapdir) {}

    fn let_go_of<'a>(&'a self, _: &'a [ObjsetId]) -> BoxFuture<'a, LetGo> {
        Box::pin(async { Box::new(()) as LetGo })
    }

    fn syncing_threads(&self) -> Vec<SyncingThread> {
        Vec::new()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        _ = self.unmount(UnmountReach::ByForce);
    }
}
