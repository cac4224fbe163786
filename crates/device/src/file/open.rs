//! Finding out what a path leads to, and taking it.
//!
//! A directory that is searched for devices may belong to another user, who can put any file there
//! and exchange the file at any time. So a path is looked up only once, by [`Place::find`], and
//! everything after that names the file that was found.
//!
//! Invariants
//! - Opening a path does not wait for another process, whatever the path leads to and whenever it
//!   is exchanged.
//!   (tests: `a_pipe_that_takes_the_place_of_a_file_holds_up_nobody`,
//!   `a_file_with_a_lease_of_another_process_is_in_use`)
//! - Only regular files and block devices are opened, because the open of a character device may
//!   have effects (a watchdog starts).
//!   (test: `what_is_no_device_is_named_so`)
//! - Both descriptors of a device belong to the same file.

use std::any::Any;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use rustix::fs::{
    AtFlags, FileType, FlockOperation, Mode, OFlags, SeekFrom, StatxFlags, fcntl_getfl, fcntl_setfl, fstat,
    fstatfs, major, minor, statx,
};
use rustix::io::Errno;

use super::claim::{self, DeviceClaim};
use super::{Direct, FileDevice, Inner};
use crate::exec::descriptor::Descriptor;
use crate::exec::flight::Route;
use env::{DeviceError, DeviceInfo, IO_ALIGN_BYTES, IoBuf, OpenMode};

/// Sector size of a plain file, whatever disk it lies on.
const FILE_SECTOR_BYTES: u32 = 512;
/// `f_type` of file systems that live in memory: tmpfs and ramfs (`statfs(2)`).
const MEMORY_FILE_SYSTEMS: [u64; 2] = [0x0102_1994, 0x8584_58f6];
/// `f_type` of file systems on disks of this machine that a ring can submit to without being held up: ext4, XFS,
/// btrfs. Others lock or ask a server while they submit, FUSE among them. Their files are closed without a wait, too.
const PROMPT_FILE_SYSTEMS: [u64; 3] = [0xef53, 0x5846_5342, 0x9123_683e];

/// True if a block device of this number takes no writes.
fn is_read_only(device: u64) -> bool {
    let says = std::fs::read_to_string(format!("/sys/dev/block/{}:{}/ro", major(device), minor(device)));
    says.is_ok_and(|says| says.trim() == "1")
}

/// A regular file or block device that was opened: by this process, or by another process that has handed the
/// descriptors over.
#[derive(Debug)]
pub struct OpenedFile {
    /// What is known of the device.
    pub info: DeviceInfo,
    /// How the device was opened.
    pub mode: OpenMode,
    /// The descriptor for requests that `O_DIRECT` does not take. This descriptor has the lock of a device that is
    /// open for writing.
    pub buffered: OwnedFd,
    /// The descriptor that goes around the page cache, where there is one.
    pub direct: Option<DirectFile>,
    /// The file lies in a file system in memory.
    pub is_memory: bool,
    /// The file lies on a disk of this machine, in a file system that a ring can submit to without being held up.
    pub is_prompt: bool,
    /// The hold on a block device that was opened with [`OpenMode::Hold`].
    pub hold: Option<DeviceHold>,
}

/// A hold on a device. Other programs cannot take the device as long as the hold lives.
pub type DeviceHold = Box<dyn Any + Send + Sync>;

/// A descriptor with `O_DIRECT`, and the alignments that the descriptor demands, in bytes.
#[derive(Debug)]
pub struct DirectFile {
    /// The descriptor.
    pub file: OwnedFd,
    /// The alignment of offsets and lengths.
    pub offset_align: u32,
    /// The alignment of addresses.
    pub memory_align: u32,
}

/// What opens files and disks for a [`RealEnv`](crate::RealEnv).
pub trait FileOpener: Send + Sync + 'static {
    /// Opens the regular file or block device at `path`. Blocks the calling thread for as long as opening takes.
    ///
    /// # Errors
    /// When there is no device at `path`, when the device is in use, or when the system refuses.
    fn open(&self, path: &Path, mode: OpenMode) -> Result<OpenedFile, DeviceError>;
}

/// Opens files and disks with the rights of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnRights;

impl FileOpener for OwnRights {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<OpenedFile, DeviceError> {
        OpenedFile::open(&Place::find(path)?, mode)
    }
}

impl OwnRights {
    /// Opens the file that `path` leads to if `may_open` returns true. `may_open` gets a descriptor that names the
    /// file (`O_PATH`), because an open can have effects: an `O_EXCL` of a disk keeps other programs from the disk.
    ///
    /// # Errors
    /// Those of [`FileOpener::open`]. A file that may not be opened is [`DeviceError::Missing`].
    pub fn open_if(
        self,
        path: &Path,
        mode: OpenMode,
        may_open: impl FnOnce(BorrowedFd<'_>) -> bool,
    ) -> Result<OpenedFile, DeviceError> {
        let place = Place::find(path)?;
        match may_open(place.name.as_fd()) {
            true => OpenedFile::open(&place, mode),
            false => Err(DeviceError::Missing { path: path.to_owned() }),
        }
    }
}

impl OpenedFile {
    fn open(place: &Place<'_>, mode: OpenMode) -> Result<Self, DeviceError> {
        let fail = |errno| open_error(place.path, errno);
        let is_block_device = place.is_block_device;
        let hold = place.hold(mode).map_err(fail)?;
        let buffered = place.open_buffered(mode).map_err(fail)?;
        if mode == OpenMode::ReadWrite {
            lock(&buffered).map_err(fail)?;
        }
        let info = if is_block_device { block_info(&buffered) } else { file_info(&buffered) };
        let info = info.map_err(fail)?;
        let is_memory = !is_block_device && lies_on(&buffered, &MEMORY_FILE_SYSTEMS);
        let is_prompt = lies_on(&buffered, &PROMPT_FILE_SYSTEMS);
        let direct = if is_memory { None } else { open_direct(place, mode, &info) };
        Ok(Self { info, mode, buffered, direct, is_memory, is_prompt, hold })
    }
}

impl FileDevice {
    /// Opens the regular file or block device at `path` with the rights of this process. `uring` says whether I/O may
    /// use a ring. Blocks the calling thread for as long as opening takes.
    #[cfg(test)]
    pub(crate) fn open(path: &Path, mode: OpenMode, uring: bool) -> Result<Self, DeviceError> {
        Ok(Self::of(OwnRights.open(path, mode)?, uring))
    }

    /// Makes a device of what was opened. `uring` says whether I/O may use a ring.
    pub(crate) fn of(opened: OpenedFile, uring: bool) -> Self {
        let OpenedFile { info, mode, buffered, direct, is_memory, is_prompt, hold } = opened;
        let is_locked = mode == OpenMode::ReadWrite;
        let buffered = Arc::new(Descriptor::new(buffered, is_memory || is_prompt, is_locked));
        let direct = direct.map(|direct| Direct::beside(&buffered, direct));
        let route = match (is_memory, uring) {
            (true, _) => Route::Inline,
            (false, true) if info.is_block_device || is_prompt => Route::Ring,
            (false, true) => Route::RingThread,
            (false, false) => Route::Helpers,
        };
        Self(Arc::new(Inner {
            size_bytes: AtomicU64::new(info.size_bytes),
            info,
            buffered,
            direct,
            route,
            cannot_discard: AtomicBool::new(false),
            _hold: hold,
        }))
    }

    /// Whether aligned I/O goes around the page cache.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.0.direct.is_some()
    }
}

impl Direct {
    fn beside(buffered: &Arc<Descriptor>, direct: DirectFile) -> Self {
        Self {
            file: Arc::new(Descriptor::beside(buffered, direct.file)),
            offset_align: direct.offset_align.into(),
            memory_align: direct.memory_align as usize,
            is_refused: AtomicBool::new(false),
        }
    }
}

fn open_error(path: &Path, errno: Errno) -> DeviceError {
    let path = path.to_owned();
    match errno {
        Errno::NOENT | Errno::NOTDIR | Errno::NXIO | Errno::NODEV => DeviceError::Missing { path },
        Errno::BUSY | Errno::WOULDBLOCK => DeviceError::InUse { path },
        _ => DeviceError::Open { path, errno: errno.raw_os_error() },
    }
}

/// The file that a path led to. It stays the same file if the path leads to another file later.
struct Place<'a> {
    path: &'a Path,
    /// A descriptor that only names the file (`O_PATH`).
    name: OwnedFd,
    is_block_device: bool,
}

impl<'a> Place<'a> {
    /// Looks `path` up, without opening the file.
    fn find(path: &'a Path) -> Result<Self, DeviceError> {
        let fail = |errno| open_error(path, errno);
        let name = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(fail)?;
        let is_block_device = match FileType::from_raw_mode(fstat(&name).map_err(fail)?.st_mode) {
            FileType::RegularFile => false,
            FileType::BlockDevice => true,
            _ => return Err(DeviceError::NotADevice { path: path.to_owned() }),
        };
        Ok(Self { path, name, is_block_device })
    }

    /// Opens the file.
    ///
    /// A regular file is opened with `O_NONBLOCK`. Without this flag, `open(2)` waits for a process
    /// that has a lease on the file, for `/proc/sys/fs/lease-break-time` (45 s) at most, and every
    /// user can lease their own files. The flag is cleared as soon as the file is open. `read(2)`
    /// and `write(2)` of a regular file ignore the flag, but io_uring does not: on a file system
    /// without `FMODE_NOWAIT`, such as FUSE, a request that has to wait could fail with `EAGAIN`.
    /// `F_SETFL` does not change `O_DIRECT` here.
    ///
    /// A block device is opened without `O_NONBLOCK`, because with the flag some drivers open a
    /// drive that has no medium. Nobody but root makes block devices, so none is made to wait.
    fn open(&self, mode: OpenMode, extra: OFlags) -> Result<OwnedFd, Errno> {
        let access = match mode {
            OpenMode::ReadOnly | OpenMode::Hold => OFlags::RDONLY,
            OpenMode::ReadWrite => OFlags::RDWR,
        };
        let flags = access | OFlags::CLOEXEC | extra;
        if self.is_block_device {
            // The kernel opens such a device for writing, and refuses each write.
            if mode == OpenMode::ReadWrite && is_read_only(self.number()?) {
                return Err(Errno::ROFS);
            }
            return self.reopen(flags);
        }
        let file = self.reopen(flags | OFlags::NONBLOCK)?;
        fcntl_setfl(&file, fcntl_getfl(&file)?.difference(OFlags::NONBLOCK))?;
        Ok(file)
    }

    /// Keeps other programs from a block device if the mode is [`OpenMode::Hold`].
    fn hold(&self, mode: OpenMode) -> Result<Option<DeviceHold>, Errno> {
        if !self.is_block_device || mode != OpenMode::Hold {
            return Ok(None);
        }
        let claim = DeviceClaim::new(self.number()?, || self.open(mode, OFlags::EXCL))?;
        Ok(Some(Box::new(claim)))
    }

    /// Opens the file for requests that `O_DIRECT` does not take. No other program can take a block device that is open
    /// for writing.
    fn open_buffered(&self, mode: OpenMode) -> Result<OwnedFd, Errno> {
        if !self.is_block_device || mode != OpenMode::ReadWrite {
            return self.open(mode, OFlags::empty());
        }
        claim::instead_of_a_claim(self.number()?, || self.open(mode, OFlags::EXCL))
    }

    /// Returns the number of a block device.
    fn number(&self) -> Result<u64, Errno> {
        Ok(fstat(&self.name)?.st_rdev)
    }

    /// Opens the file by the link that `/proc` has of the descriptor, which leads to this very file.
    fn reopen(&self, flags: OFlags) -> Result<OwnedFd, Errno> {
        let link = format!("/proc/self/fd/{}", self.name.as_raw_fd());
        match rustix::fs::open(link, flags, Mode::empty()) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => self.reopen_by_path(flags),
            opened => opened,
        }
    }

    /// Opens the file by its path, where no `/proc` is mounted or this process may not use the link.
    /// If the path leads to another file by now, that file is neither waited for nor used.
    fn reopen_by_path(&self, flags: OFlags) -> Result<OwnedFd, Errno> {
        let file = rustix::fs::open(self.path, flags | OFlags::NONBLOCK, Mode::empty())?;
        let identity = |file: &OwnedFd| fstat(file).map(|stat| (stat.st_dev, stat.st_ino));
        if identity(&file)? != identity(&self.name)? {
            return Err(Errno::NOENT);
        }
        if self.is_block_device {
            fcntl_setfl(&file, fcntl_getfl(&file)?.difference(OFlags::NONBLOCK))?;
        }
        Ok(file)
    }
}

fn lock(file: &OwnedFd) -> Result<(), Errno> {
    rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive)
}

/// How large it is.
pub(super) fn size_now(file: &OwnedFd, is_block_device: bool) -> Result<u64, Errno> {
    match is_block_device {
        // The end of a block device is its size (BLKGETSIZE64 says the same).
        true => rustix::fs::seek(file, SeekFrom::End(0)),
        false => u64::try_from(fstat(file)?.st_size).map_err(|_| Errno::OVERFLOW),
    }
}

fn file_info(file: &OwnedFd) -> Result<DeviceInfo, Errno> {
    Ok(DeviceInfo {
        size_bytes: size_now(file, false)?,
        logical_sector_bytes: FILE_SECTOR_BYTES,
        physical_sector_bytes: FILE_SECTOR_BYTES,
        is_block_device: false,
        has_volatile_cache: true,
        can_discard: true,
    })
}

fn block_info(file: &OwnedFd) -> Result<DeviceInfo, Errno> {
    let queue = QueueDir::of(fstat(file)?.st_rdev);
    Ok(DeviceInfo {
        size_bytes: size_now(file, true)?,
        logical_sector_bytes: rustix::fs::ioctl_blksszget(file)?,
        physical_sector_bytes: rustix::fs::ioctl_blkpbszget(file)?,
        is_block_device: true,
        has_volatile_cache: queue.value("write_cache").as_deref() != Some("write through"),
        can_discard: queue.value("discard_max_bytes").is_some_and(|bytes| bytes != "0"),
    })
}

/// What the kernel tells of a block device's queue, in `/sys/dev/block/MAJOR:MINOR/queue`; for a
/// partition, that of its disk.
struct QueueDir([PathBuf; 2]);

impl QueueDir {
    fn of(device: u64) -> Self {
        let dir = format!("/sys/dev/block/{}:{}", major(device), minor(device));
        Self([format!("{dir}/queue"), format!("{dir}/../queue")].map(PathBuf::from))
    }

    fn value(&self, name: &str) -> Option<String> {
        let text = self.0.iter().find_map(|dir| std::fs::read_to_string(dir.join(name)).ok())?;
        Some(text.trim().to_owned())
    }
}

fn lies_on(file: &OwnedFd, file_systems: &[u64]) -> bool {
    fstatfs(file).is_ok_and(|fs| file_systems.contains(&(fs.f_type as u64)))
}

/// A second descriptor, around the page cache; `None` where that cannot be had.
fn open_direct(place: &Place<'_>, mode: OpenMode, info: &DeviceInfo) -> Option<DirectFile> {
    // No O_EXCL: the first descriptor holds the claim already.
    let file = place.open(mode, OFlags::DIRECT).ok()?;
    let (offset_align, memory_align) = if info.is_block_device {
        (info.logical_sector_bytes, info.logical_sector_bytes)
    } else {
        direct_alignment(&file)?
    };
    let whole_pages = memory_align as usize <= IO_ALIGN_BYTES;
    let is_usable = whole_pages && memory_align > 0 && offset_align > 0;
    is_usable.then_some(DirectFile { file, offset_align, memory_align })
}

/// What direct I/O on a plain file asks of offsets and of addresses, in bytes: what the
/// kernel says (Linux 6.1, `STATX_DIOALIGN`), or what a read shows.
fn direct_alignment(file: &OwnedFd) -> Option<(u32, u32)> {
    if let Ok(stat) = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN)
        && stat.stx_mask & StatxFlags::DIOALIGN.bits() != 0
    {
        let offset_align = stat.stx_dio_offset_align;
        return (offset_align != 0).then_some((offset_align, stat.stx_dio_mem_align));
    }
    [FILE_SECTOR_BYTES, 4096].into_iter().find_map(|align| {
        let mut probe = IoBuf::zeroed(align as usize);
        rustix::io::pread(file, &mut probe[..], 0).is_ok().then_some((align, align))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{BufRead, BufReader};
    use std::os::unix::net::UnixListener;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use oracle::needs::Need;
    use rustix::fs::{CWD, RenameFlags, mkfifoat, renameat_with};

    use super::*;

    /// An open that has not returned by then waits for somebody.
    const SOON: Duration = Duration::from_secs(60);

    fn pipe(path: &Path) {
        mkfifoat(CWD, path, Mode::from(0o600)).expect("a pipe");
    }

    #[test]
    fn a_pipe_that_takes_the_place_of_a_file_holds_up_nobody() {
        let dir = tempfile::tempdir().expect("a directory");
        let (path, other) = (dir.path().join("device"), dir.path().join("other"));
        fs::write(&path, [7; 4096]).expect("written");
        pipe(&other);
        let opened = path.clone();
        let opener = std::thread::spawn(move || {
            for _ in 0..2000 {
                match FileDevice::open(&opened, OpenMode::ReadOnly, false) {
                    Ok(_) | Err(DeviceError::NotADevice { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        });
        let end = Instant::now() + SOON;
        while !opener.is_finished() {
            renameat_with(CWD, &path, CWD, &other, RenameFlags::EXCHANGE).expect("exchanged");
            assert!(Instant::now() < end, "an open waits for the other end of a pipe");
        }
        opener.join().expect("every open ends well");
    }

    #[test]
    fn what_is_opened_is_what_was_found() {
        let dir = tempfile::tempdir().expect("a directory");
        let (path, elsewhere) = (dir.path().join("device"), dir.path().join("elsewhere"));
        fs::write(&path, [7; 4096]).expect("written");
        let place = Place::find(&path).expect("found");
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        for open in [Place::reopen, Place::reopen_by_path] {
            let file = open(&place, flags).expect("opened");
            assert_eq!(fstat(&file).expect("known").st_ino, fstat(&place.name).expect("known").st_ino);
        }
        let file = place.open(OpenMode::ReadWrite, OFlags::empty()).expect("opened");
        assert!(!fcntl_getfl(&file).expect("has flags").contains(OFlags::NONBLOCK));
        fs::rename(&path, &elsewhere).expect("moved");
        pipe(&path);
        assert_eq!(place.reopen_by_path(flags).err(), Some(Errno::NOENT));
        let file = place.reopen(flags).expect("it is still there");
        assert_eq!(fstat(&file).expect("known").st_size, 4096);
    }

    #[test]
    fn a_socket_is_no_device() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("socket");
        let _socket = UnixListener::bind(&path).expect("a socket");
        let error = FileDevice::open(&path, OpenMode::ReadOnly, false).err();
        assert!(matches!(error, Some(DeviceError::NotADevice { .. })), "{error:?}");
    }

    #[test]
    fn a_file_with_a_lease_of_another_process_is_in_use() {
        // 1024 is F_SETLEASE, and 1 is F_WRLCK. The kernel sends SIGIO when somebody else opens the file.
        const LEASE: &str = "$SIG{IO} = 'IGNORE'; open(F, '+<', $ARGV[0]) && fcntl(F, 1024, 1) || die; $| = 1; print \"held\\n\"; <STDIN>";
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("device");
        fs::write(&path, [7; 4096]).expect("written");
        let mut perl = Command::new("perl");
        perl.args(["-e", LEASE]).arg(&path).stdin(Stdio::piped()).stdout(Stdio::piped());
        let Ok(mut holder) = perl.spawn() else {
            Need::Program("perl").is_missing("perl takes a lease");
            return;
        };
        let mut line = String::new();
        BufReader::new(holder.stdout.take().expect("piped")).read_line(&mut line).expect("reads");
        assert_eq!(line, "held\n");
        for mode in [OpenMode::ReadOnly, OpenMode::ReadWrite] {
            let error = FileDevice::open(&path, mode, false).err();
            assert!(matches!(error, Some(DeviceError::InUse { .. })), "{error:?}");
        }
        drop(holder.stdin.take());
        holder.wait().expect("it ends");
        FileDevice::open(&path, OpenMode::ReadWrite, false).expect("free again");
    }
}
