//! The side of the daemon.

mod cache_files;
mod files;
mod mounts;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use serde::Serialize;

use crate::errand::{Beginning, Errand};
use crate::grants::Grants;
use crate::wire;
use files::Holds;
use mounts::Mounts;

pub use cache_files::ProcessCacheFiles;
pub use mounts::{MountedAt, Neighbours};

/// Characters of last words at most.
const LAST_WORDS_MAX: usize = 4096;

/// How often the desk looks whether the kernel has hung up a mount.
const PAUSE: Duration = Duration::from_secs(5);

/// Errands of one process that are under way at the same time. The next one waits. With [`wire::ERRAND_MAX_BYTES`],
/// this bounds the memory that a process can take of the daemon.
const ERRANDS_MAX: usize = 32;

/// Returns the two ends of the socket of a process: that of the daemon, and that of the process.
///
/// # Errors
/// The system's.
pub fn socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Where the errands of one process are done.
pub struct Desk {
    grants: Arc<Grants>,
    beginning: Beginning,
    /// What the process gets when it begins.
    handed: Mutex<Option<(UnixListener, File)>>,
    /// The file for the reason of a panic that ends the process.
    last_words: PathBuf,
    mounts: Mounts,
    holds: Mutex<Holds>,
    neighbours: Arc<dyn Neighbours>,
    cache_files: ProcessCacheFiles,
    turns: Turns,
}

/// What the desk of a process is made with.
pub struct DeskParts {
    /// What the process may have done.
    pub grants: Arc<Grants>,
    /// What the process is told.
    pub beginning: Beginning,
    /// The socket of the process.
    pub listener: UnixListener,
    /// The lock file of the process.
    pub lock: File,
    /// The file for the reason of a panic that ends the process.
    pub last_words: PathBuf,
    /// The mounts of the other processes.
    pub neighbours: Arc<dyn Neighbours>,
    /// The cache files that the processes share.
    pub cache_files: ProcessCacheFiles,
}

impl Desk {
    /// Makes the desk of a process.
    #[must_use]
    pub fn new(parts: DeskParts) -> Arc<Self> {
        let DeskParts { grants, beginning, listener, lock, last_words, neighbours, cache_files } = parts;
        let handed = Mutex::new(Some((listener, lock)));
        let (mounts, holds, turns) = (Mounts::default(), Mutex::default(), Turns::default());
        Arc::new(Self {
            grants,
            beginning,
            handed,
            last_words,
            mounts,
            holds,
            neighbours,
            cache_files,
            turns,
        })
    }

    /// Does the errands that come over `socket`, on threads of their own, until the process ends.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn open(self: &Arc<Self>, socket: OwnedFd) -> io::Result<()> {
        let desk = Arc::clone(self);
        thread::Builder::new().name("desk".to_owned()).spawn(move || desk.serve(&socket)).map(drop)
    }

    /// Returns what the process has mounted below a place.
    #[must_use]
    pub fn mounted_below(&self, place: &Path) -> Vec<MountedAt> {
        self.mounts.below(place)
    }

    /// Closes the mounts, the held devices and the socket of a process that has ended. The kernel then ends the
    /// connections of the mounts.
    pub fn close(&self) {
        drop(self.handed.lock().take());
        self.holds.lock().let_all_go();
        self.mounts.close();
    }

    fn serve(self: Arc<Self>, socket: &OwnedFd) {
        loop {
            match self.next(socket) {
                Ok(Next::Errand(stream)) => self.begin(stream),
                Ok(Next::Pause) => self.mounts.let_go_of_ended(),
                Ok(Next::End) => break,
                Err(error) => {
                    tracing::error!(%error, "a process of a pool has no errands done any more");
                    break;
                }
            }
        }
        self.close();
    }

    /// Waits for the next errand. The wait is short where there are mounts.
    fn next(&self, socket: &OwnedFd) -> io::Result<Next> {
        let limit = (self.turns.are_taken() || self.mounts.has_devices()).then_some(PAUSE);
        if !wire::wait(socket, limit)? {
            return Ok(Next::Pause);
        }
        Ok(wire::receive_stream(socket)?.map_or(Next::End, Next::Errand))
    }

    /// Does an errand on a thread of its own.
    fn begin(self: &Arc<Self>, stream: UnixStream) {
        self.turns.begin();
        let desk = Arc::clone(self);
        let work = move || {
            if let Err(error) = desk.work(&stream) {
                tracing::debug!(%error, "an errand of a process was not done");
            }
            desk.turns.end();
        };
        if let Err(error) = thread::Builder::new().name("errand".to_owned()).spawn(work) {
            tracing::error!(%error, "there is no thread for an errand");
            self.turns.end();
        }
    }

    fn work(&self, stream: &UnixStream) -> io::Result<()> {
        let (errand, beside) = wire::receive(stream, wire::ERRAND_MAX_BYTES)?;
        let done = self.do_errand(errand, beside)?;
        let descriptors: Vec<BorrowedFd<'_>> = done.descriptors.iter().map(AsFd::as_fd).collect();
        wire::send(stream, &done.answer, &descriptors)?;
        // This comes before the end of the answer, because a mount is in use as long as a directory of the mount is
        // open here.
        drop(done);
        wire::finish(stream)
    }

    fn do_errand(&self, errand: Errand, beside: Vec<OwnedFd>) -> io::Result<ErrandAnswer> {
        match errand {
            Errand::Begin => self.hand_over(),
            Errand::LastWords { words } => {
                self.keep_last_words(&words);
                ErrandAnswer::of(())
            }
            Errand::Open { path, mode } => self.open_device(&path.path(), mode.into()),
            Errand::LetGo { hold } => {
                self.holds.lock().let_go(hold);
                ErrandAnswer::of(())
            }
            Errand::Read { path } => ErrandAnswer::of(self.read(&path.path())),
            Errand::Replace { path, bytes, is_for_anybody } => {
                ErrandAnswer::of(self.replace(&path.path(), &bytes, is_for_anybody))
            }
            Errand::Rename { from, to } => ErrandAnswer::of(self.rename(&from.path(), &to.path())),
            Errand::Remove { path } => ErrandAnswer::of(self.remove(&path.path())),
            Errand::NamesIn { directory } => ErrandAnswer::of(self.names_in(&directory.path())),
            Errand::IsDirectory { path } => ErrandAnswer::of(self.is_directory(&path.path())),
            Errand::Identity { path } => ErrandAnswer::of(self.identity(&path.path())),
            Errand::HeldBy { path } => ErrandAnswer::of(self.held_by(&path.path())),
            Errand::Attach(wanted) => self.attach(wanted),
            Errand::IsFree { path } => ErrandAnswer::of(mounts::is_free(&path.path())),
            Errand::RemovePoint { path } => ErrandAnswer::of(self.remove_point(&path.path())),
            Errand::MayClaim { uid, gids, place, altroot, is_chosen } => {
                let altroot = altroot.map(|altroot| altroot.path());
                ErrandAnswer::of(mounts::may_claim(uid, gids, &place.path(), altroot.as_deref(), is_chosen))
            }
            Errand::Orphans { pool } => ErrandAnswer::of(mounts::orphans(&pool)),
            Errand::MayAdminister { thread } => ErrandAnswer::of(mounts::may_administer(thread)),
            Errand::UserOf { thread } => ErrandAnswer::of(mounts::user_of(thread)),
            Errand::Mounted { mount, errand } => self.mounts.do_errand(mount, errand, beside),
        }
    }

    fn hand_over(&self) -> io::Result<ErrandAnswer> {
        let handed = self.handed.lock().take();
        let (listener, lock) = handed.ok_or_else(|| io::Error::other("it has begun before"))?;
        ErrandAnswer::with(&self.beginning, vec![listener.into(), lock.into()])
    }

    /// Keeps one line, which commands show.
    fn keep_last_words(&self, words: &str) {
        let words: String = words.chars().filter(|c| !c.is_control()).take(LAST_WORDS_MAX).collect();
        if let Err(error) = std::fs::write(&self.last_words, &words) {
            tracing::warn!(%error, words, "the last words of a process are not kept");
        }
    }
}

/// What the socket of a process brings.
enum Next {
    Errand(UnixStream),
    Pause,
    End,
}

/// An answer, and the descriptors that come with the answer.
pub(crate) struct ErrandAnswer {
    answer: serde_json::Value,
    descriptors: Vec<OwnedFd>,
}

impl ErrandAnswer {
    fn of<T: Serialize>(answer: T) -> io::Result<Self> {
        Self::with(answer, Vec::new())
    }

    /// True if descriptors come with the answer.
    fn has_descriptors(&self) -> bool {
        !self.descriptors.is_empty()
    }

    fn with<T: Serialize>(answer: T, descriptors: Vec<OwnedFd>) -> io::Result<Self> {
        Ok(Self { answer: serde_json::to_value(answer)?, descriptors })
    }
}

/// How many errands are under way.
#[derive(Default)]
struct Turns {
    count: Mutex<usize>,
    ended: Condvar,
}

impl Turns {
    fn begin(&self) {
        let mut count = self.count.lock();
        self.ended.wait_while(&mut count, |count| *count >= ERRANDS_MAX);
        *count += 1;
    }

    fn are_taken(&self) -> bool {
        *self.count.lock() > 0
    }

    fn end(&self) {
        *self.count.lock() -= 1;
        self.ended.notify_one();
    }
}
