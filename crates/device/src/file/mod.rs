//! Regular files and block devices as devices.
//!
//! Data goes around the page cache (`O_DIRECT`) where the file system allows it: the cache
//! above is ours. A request that does not meet the direct alignment (a 512-byte write to a
//! file on a 4096-byte disk) goes through a second, buffered descriptor of the same file;
//! the kernel keeps the two coherent. [`Durability::Stable`] is `RWF_DSYNC` on the write
//! itself, one system call and on many disks one FUA command; flush is `fdatasync`.
//!
//! Plain files report 512-byte sectors whatever lies below, as OpenZFS treats them, so that
//! pools on files get the ashift (9) they get there.
//!
//! Writing takes an exclusive `flock`, given back when the last descriptor is closed, by
//! the kernel if need be; block devices are opened `O_EXCL` too, which mounts and other
//! pools respect. (test: `a_device_is_written_by_one_owner_at_a_time`)

mod claim;
mod holder;
mod open;
#[cfg(test)]
mod tests;

pub use holder::held_by;
pub use open::{DeviceHold, DirectFile, FileOpener, OpenedFile, OwnRights};

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::io::Errno;
use units::LeafOffset;

use crate::exec::descriptor::Descriptor;
use crate::exec::flight::{IoFuture, Route};
use crate::exec::op::{GATHER_MAX, Op, Work};
use env::{BoxFuture, BufSlice, Device, DeviceError, DeviceInfo, Durability, IoBuf};
use open::size_now;

/// A regular file or a block device.
pub struct FileDevice(Arc<Inner>);

struct Inner {
    /// As it was when it was opened.
    info: DeviceInfo,
    /// How large it has become.
    size_bytes: AtomicU64,
    buffered: Arc<Descriptor>,
    direct: Option<Direct>,
    route: Route,
    /// It said so when asked.
    cannot_discard: AtomicBool,
    /// See [`OpenedFile::hold`].
    _hold: Option<DeviceHold>,
}

/// The descriptor that goes around the page cache, and what it asks for.
struct Direct {
    file: Arc<Descriptor>,
    /// Offsets and lengths must be multiples of this.
    offset_align: u64,
    /// Addresses must be multiples of this.
    memory_align: usize,
    /// The kernel said `EINVAL` to a well-formed request: not to be tried again.
    is_refused: AtomicBool,
}

impl Direct {
    fn takes(&self, offset: u64, len: u64) -> bool {
        !self.is_refused.load(Ordering::Relaxed)
            && offset.is_multiple_of(self.offset_align)
            && len.is_multiple_of(self.offset_align)
    }

    fn takes_slice(&self, slice: &BufSlice) -> bool {
        let bytes = slice.bytes();
        (bytes.as_ptr() as usize).is_multiple_of(self.memory_align)
            && (bytes.len() as u64).is_multiple_of(self.offset_align)
    }
}

/// One request's coordinates, for bounds and errors.
#[derive(Clone, Copy)]
struct Request {
    op: &'static str,
    offset: LeafOffset,
    len: u64,
}

impl Request {
    fn error(self, errno: Errno) -> DeviceError {
        match errno {
            Errno::NODEV | Errno::NXIO | Errno::NOMEDIUM => DeviceError::Gone,
            _ => DeviceError::Io {
                op: self.op,
                offset: self.offset,
                len: self.len,
                errno: errno.raw_os_error(),
            },
        }
    }

    fn check(self, info: &DeviceInfo) -> Result<Self, DeviceError> {
        info.check_range(self.op, self.offset, self.len)?;
        Ok(self)
    }
}

impl Inner {
    fn info(&self) -> DeviceInfo {
        DeviceInfo { size_bytes: self.size_bytes.load(Ordering::Relaxed), ..self.info.clone() }
    }

    /// The direct descriptor, if the request at `offset` may use it.
    fn direct_for(&self, request: Request) -> Option<&Direct> {
        self.direct.as_ref().filter(|direct| direct.takes(request.offset.get(), request.len))
    }

    async fn run(&self, file: &Arc<Descriptor>, request: Request, work: Work) -> (Work, Result<(), Errno>) {
        let fits_ring = work.fits_ring();
        let op = Op::new(Arc::clone(file), request.offset.get(), work);
        let route = if fits_ring || self.route == Route::Inline { self.route } else { Route::Helpers };
        IoFuture::new(op, route).await
    }

    /// Runs `work` around the page cache if `direct`, through it otherwise, or when the
    /// kernel will not have it the first way.
    async fn transfer(
        &self,
        direct: Option<&Direct>,
        request: Request,
        work: Work,
    ) -> Result<Work, DeviceError> {
        let Some(direct) = direct else {
            let (work, result) = self.run(&self.buffered, request, work).await;
            return result.map(|()| work).map_err(|errno| request.error(errno));
        };
        match self.run(&direct.file, request, work).await {
            (work, Ok(())) => Ok(work),
            (work, Err(Errno::INVAL)) => {
                direct.is_refused.store(true, Ordering::Relaxed);
                let (work, result) = self.run(&self.buffered, request, work).await;
                result.map(|()| work).map_err(|errno| request.error(errno))
            }
            (_, Err(errno)) => Err(request.error(errno)),
        }
    }

    async fn read(&self, request: Request) -> Result<IoBuf, DeviceError> {
        let request = request.check(&self.info())?;
        let work = Work::Read(IoBuf::stale(request.len as usize));
        match self.transfer(self.direct_for(request), request, work).await? {
            Work::Read(buf) => Ok(buf),
            Work::Write { .. } | Work::Flush | Work::Discard { .. } | Work::Command(_) => {
                unreachable!("a read's work stays a read's")
            }
        }
    }

    async fn write(
        &self,
        request: Request,
        slices: Vec<BufSlice>,
        durability: Durability,
    ) -> Result<(), DeviceError> {
        let request = request.check(&self.info())?;
        let direct = self.direct_for(request);
        let is_aligned = direct.is_none_or(|direct| slices.iter().all(|slice| direct.takes_slice(slice)));
        let slices = if is_aligned && slices.len() <= GATHER_MAX { slices } else { vec![joined(&slices)] };
        let work = Work::Write { slices, stable: durability == Durability::Stable };
        self.transfer(direct, request, work).await.map(drop)
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        let request = Request { op: "flush", offset: LeafOffset::new(0), len: 0 };
        let (_, result) = self.run(&self.buffered, request, Work::Flush).await;
        result.map_err(|errno| request.error(errno))
    }
}

impl Inner {
    async fn discard(&self, request: Request) -> Result<(), DeviceError> {
        let request = request.check(&self.info())?;
        if request.len == 0 || self.cannot_discard.load(Ordering::Relaxed) {
            return Ok(());
        }
        let work = Work::Discard { len: request.len, on_block_device: self.info.is_block_device };
        match self.run(&self.buffered, request, work).await.1 {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                self.cannot_discard.store(true, Ordering::Relaxed);
                Ok(())
            }
            result => result.map_err(|errno| request.error(errno)),
        }
    }
}

/// All slices in one aligned buffer.
fn joined(slices: &[BufSlice]) -> BufSlice {
    let len = slices.iter().map(|slice| slice.bytes().len()).sum();
    let mut buf = IoBuf::zeroed(len);
    let mut at = 0;
    for slice in slices {
        let bytes = slice.bytes();
        buf[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    }
    BufSlice::from(buf)
}

impl Device for FileDevice {
    fn info(&self) -> DeviceInfo {
        self.0.info()
    }

    fn look_again(&self) {
        if let Ok(size_bytes) = size_now(self.0.buffered.file(), self.0.info.is_block_device) {
            self.0.size_bytes.fetch_max(size_bytes, Ordering::Relaxed);
        }
    }

    fn read(&self, offset: LeafOffset, len: usize) -> BoxFuture<'static, Result<IoBuf, DeviceError>> {
        let inner = Arc::clone(&self.0);
        let request = Request { op: "read", offset, len: len as u64 };
        Box::pin(async move { inner.read(request).await })
    }

    fn write(
        &self,
        offset: LeafOffset,
        slices: Vec<BufSlice>,
        durability: Durability,
    ) -> BoxFuture<'static, Result<(), DeviceError>> {
        let inner = Arc::clone(&self.0);
        let len = slices.iter().map(|slice| slice.bytes().len() as u64).sum();
        let request = Request { op: "write", offset, len };
        Box::pin(async move { inner.write(request, slices, durability).await })
    }

    fn flush(&self) -> BoxFuture<'static, Result<(), DeviceError>> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move { inner.flush().await })
    }

    fn discard(&self, offset: LeafOffset, len: u64) -> BoxFuture<'static, Result<(), DeviceError>> {
        let inner = Arc::clone(&self.0);
        let request = Request { op: "discard", offset, len };
        Box::pin(async move { inner.discard(request).await })
    }
}
