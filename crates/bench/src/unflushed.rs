//! A world whose devices are never flushed: what a commit would take if no cache forgot anything. Only for measuring, on pools
//! that are made for it; a power cut may leave nothing of them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use env::{BoxFuture, BufSlice, Device, DeviceError, DeviceInfo, Durability, Env, IoBuf, OpenMode};
use units::LeafOffset;

/// That world around another one.
pub(crate) struct Unflushed<E>(pub Arc<E>);

impl<E: Env> Env for Unflushed<E> {
    fn now(&self) -> Duration {
        self.0.now()
    }

    fn wall_clock(&self) -> Duration {
        self.0.wall_clock()
    }

    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        self.0.sleep(span)
    }

    fn spawn(&self, name: &'static str, task: BoxFuture<'static, ()>) {
        self.0.spawn(name, task);
    }

    fn has_ready(&self) -> bool {
        self.0.has_ready()
    }

    fn random_u64(&self) -> u64 {
        self.0.random_u64()
    }

    fn open(&self, path: &Path, mode: OpenMode) -> BoxFuture<'static, Result<Arc<dyn Device>, DeviceError>> {
        let open = self.0.open(path, mode);
        Box::pin(async move { Ok(Arc::new(Cached(open.await?)) as Arc<dyn Device>) })
    }
}

/// A device whose writes count as stable once it has taken them.
struct Cached(Arc<dyn Device>);

impl Device for Cached {
    fn info(&self) -> DeviceInfo {
        self.0.info()
    }

    fn look_again(&self) {
        self.0.look_again();
    }

    fn read(&self, offset: LeafOffset, len: usize) -> BoxFuture<'static, Result<IoBuf, DeviceError>> {
        self.0.read(offset, len)
    }

    fn write(
        &self,
        offset: LeafOffset,
        slices: Vec<BufSlice>,
        _: Durability,
    ) -> BoxFuture<'static, Result<(), DeviceError>> {
        self.0.write(offset, slices, Durability::Cached)
    }

    fn flush(&self) -> BoxFuture<'static, Result<(), DeviceError>> {
        Box::pin(async { Ok(()) })
    }

    fn discard(&self, offset: LeafOffset, len: u64) -> BoxFuture<'static, Result<(), DeviceError>> {
        self.0.discard(offset, len)
    }
}
