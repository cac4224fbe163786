//! Mounts of other pools below a place where a process mounts a file system: they step aside for a moment.
//!
//! ```text
//!  process of "tank" mounts /a ─► its desk ─► "home" is mounted at /a/b: its process unmounts /a/b
//!                                    │ /a is mounted                             │
//!                                    └───────────► the process of "home" mounts /a/b again
//! ```

use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use broker::{MountedAt, Neighbours};
use control::{Failure, FailureKind, Mount, Unmount, UnmountScope};
use engine::MountError;
use tokio::runtime::Handle;

use crate::Inner;
use crate::seat::PoolSeat;

/// How long another process may take to unmount or to mount. Before an unmount, the kernel may still hand over what
/// programs have written.
const PATIENCE: Duration = Duration::from_secs(30);

/// The neighbours of one process.
pub struct MountNeighbours {
    inner: Weak<Inner>,
    /// The number of the process.
    number: u64,
    runtime: Handle,
}

/// A mount of another process.
type Other = (Arc<PoolSeat>, MountedAt);

impl MountNeighbours {
    /// Returns the neighbours of the process with this number. Only a task of the runtime may call this.
    pub fn of(inner: &Arc<Inner>, number: u64) -> Self {
        Self { inner: Arc::downgrade(inner), number, runtime: Handle::current() }
    }

    /// Has another process unmount. A process that does not answer keeps its mount.
    fn ask_in_time(&self, (seat, _): &Other, call: &Unmount) -> Result<(), Failure> {
        let late = || Failure::new(FailureKind::Busy, "the process of another pool does not answer");
        let asked = async { tokio::time::timeout(PATIENCE, seat.ask(call)).await };
        self.runtime.block_on(asked).unwrap_or_else(|_| Err(late()))
    }

    /// Returns the mounts of other processes below a place, the deepest first.
    fn below(&self, place: &Path) -> Vec<Other> {
        let Some(inner) = self.inner.upgrade() else { return Vec::new() };
        let seats = inner.seats.all().into_iter().filter(|seat| seat.number != self.number);
        let mounts = seats.flat_map(|seat| {
            let mounts = seat.open().map(|process| process.mounted_below(place)).unwrap_or_default();
            mounts.into_iter().map(move |at| (Arc::clone(&seat), at))
        });
        let mut below: Vec<Other> = mounts.collect();
        below.sort_by(|(_, a), (_, b)| b.path.cmp(&a.path));
        below
    }
}

impl Neighbours for MountNeighbours {
    fn step_aside(&self, place: &Path) -> Result<Box<dyn FnOnce() + Send>, MountError> {
        let mut gone = Vec::new();
        for other in self.below(place) {
            let call =
                Unmount { target: Some(other.1.dataset.clone()), force: false, scope: UnmountScope::Alone };
            if let Err(failure) = self.ask_in_time(&other, &call) {
                // Its process may have ended, or a mount above whose server has ended was taken away.
                if !self.below(place).iter().any(|(_, at)| *at == other.1) {
                    continue;
                }
                tracing::info!(place = %place.display(), %failure, "nothing is mounted there");
                mount_again(&self.runtime, gone);
                return Err(MountError::Hides { path: place.to_owned() });
            }
            gone.push(other);
        }
        let runtime = self.runtime.clone();
        Ok(Box::new(move || mount_again(&runtime, gone)))
    }
}

/// Mounts again what was unmounted, the deepest last.
fn mount_again(runtime: &Handle, gone: Vec<Other>) {
    for (seat, at) in gone.into_iter().rev() {
        let place = Some(at.path.display().to_string());
        let call = Mount { dataset: Some(at.dataset), at: place, ..Mount::default() };
        let asked = async { tokio::time::timeout(PATIENCE, seat.ask(&call)).await };
        match runtime.block_on(asked) {
            Ok(Ok(())) => {}
            Ok(Err(failure)) => {
                tracing::error!(place = %at.path.display(), %failure, "is not mounted again");
            }
            Err(_) => tracing::error!(place = %at.path.display(), "its process does not mount it again"),
        }
    }
}
