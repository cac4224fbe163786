//! Finding out what a path leads to, and taking it.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use rustix::fs::{
    AtFlags, FileType, FlockOperation, Mode, OFlags, SeekFrom, StatxFlags, fstat, fstatfs, major, minor,
    statx,
};
use rustix::io::Errno;

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

impl FileDevice {
    /// Opens the regular file or block device at `path`. `uring` says whether I/O may use
    /// a ring. Blocks the calling thread for as long as opening takes.
    pub(crate) fn open(path: &Path, mode: OpenMode, uring: bool) -> Result<Self, DeviceError> {
        let fail = |errno| open_error(path, errno);
        // Looked at first: opening a pipe would wait for its other end.
        let kind = FileType::from_raw_mode(rustix::fs::stat(path).map_err(fail)?.st_mode);
        let is_block_device = match kind {
            FileType::RegularFile => false,
            FileType::BlockDevice => true,
            _ => return Err(DeviceError::NotADevice { path: path.to_owned() }),
        };
        let exclusive = is_block_device && mode == OpenMode::ReadWrite;
        let extra = if exclusive { OFlags::EXCL } else { OFlags::empty() };
        let buffered = open(path, mode, extra).map_err(fail)?;
        if mode == OpenMode::ReadWrite {
            lock(&buffered).map_err(fail)?;
        }
        let info = if is_block_device { block_info(&buffered) } else { file_info(&buffered) };
        let info = info.map_err(fail)?;
        let is_memory = !is_block_device && lies_on(&buffered, &MEMORY_FILE_SYSTEMS);
        let is_local = lies_on(&buffered, &PROMPT_FILE_SYSTEMS);
        let buffered = Descriptor::new(buffered, is_memory || is_local, mode == OpenMode::ReadWrite);
        let buffered = Arc::new(buffered);
        let direct = if is_memory { None } else { open_direct(path, mode, &info, &buffered) };
        let route = match (is_memory, uring) {
            (true, _) => Route::Inline,
            (false, true) if is_block_device || is_local => Route::Ring,
            (false, true) => Route::RingThread,
            (false, false) => Route::Helpers,
        };
        Ok(Self(Arc::new(Inner {
            size_bytes: AtomicU64::new(info.size_bytes),
            info,
            buffered,
            direct,
            route,
            cannot_discard: AtomicBool::new(false),
        })))
    }

    /// Whether aligned I/O goes around the page cache.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.0.direct.is_some()
    }
}

fn open_error(path: &Path, errno: Errno) -> DeviceError {
    let path = path.to_owned();
    match errno {
        Errno::NOENT | Errno::NOTDIR | Errno::NXIO | Errno::NODEV => DeviceError::Missing { path },
        Errno::BUSY | Errno::WOULDBLOCK => DeviceError::InUse { path },
        Errno::ISDIR => DeviceError::NotADevice { path },
        _ => DeviceError::Open { path, errno: errno.raw_os_error() },
    }
}

fn open(path: &Path, mode: OpenMode, extra: OFlags) -> Result<OwnedFd, Errno> {
    let access = match mode {
        OpenMode::ReadOnly => OFlags::RDONLY,
        OpenMode::ReadWrite => OFlags::RDWR,
    };
    rustix::fs::open(path, access | OFlags::CLOEXEC | extra, Mode::empty())
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
fn open_direct(path: &Path, mode: OpenMode, info: &DeviceInfo, buffered: &Arc<Descriptor>) -> Option<Direct> {
    // No O_EXCL: the first descriptor holds the claim already.
    let file = open(path, mode, OFlags::DIRECT).ok()?;
    let (offset_align, memory_align) = if info.is_block_device {
        (info.logical_sector_bytes, info.logical_sector_bytes)
    } else {
        direct_alignment(&file)?
    };
    let whole_pages = memory_align as usize <= IO_ALIGN_BYTES;
    (whole_pages && memory_align > 0 && offset_align > 0).then(|| Direct {
        file: Arc::new(Descriptor::beside(buffered, file)),
        offset_align: offset_align.into(),
        memory_align: memory_align as usize,
        is_refused: AtomicBool::new(false),
    })
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
