//! A device in memory: for tests, and for trying things out.

use std::sync::Arc;

use parking_lot::RwLock;
use units::LeafOffset;

use crate::{BoxFuture, BufSlice, Device, DeviceError, DeviceInfo, Durability, IoBuf};

/// Bytes kept together; memory is taken for chunks that were written.
const CHUNK_BYTES: usize = 64 << 10;

type Chunk = RwLock<Option<Box<[u8]>>>;

/// Memory that behaves like a disk of 512-byte sectors, and is as durable as the process.
/// Clones share the memory: keep one to open it again.
#[derive(Clone)]
pub struct RamDevice {
    size_bytes: u64,
    chunks: Arc<[Chunk]>,
}

impl RamDevice {
    /// A device of `size_bytes` zeros, rounded down to whole 512-byte sectors.
    #[must_use]
    pub fn new(size_bytes: u64) -> Self {
        let size_bytes = size_bytes - size_bytes % 512;
        let chunks = size_bytes.div_ceil(CHUNK_BYTES as u64);
        Self { size_bytes, chunks: (0..chunks).map(|_| Chunk::default()).collect() }
    }

    fn fill(&self, offset: u64, into: &mut [u8]) {
        for (chunk, start, part) in pieces(offset, into.len()) {
            if let Some(bytes) = &*self.chunks[chunk].read() {
                let len = part.len();
                into[part].copy_from_slice(&bytes[start..start + len]);
            }
        }
    }

    fn put(&self, offset: u64, from: &[u8]) {
        for (chunk, start, part) in pieces(offset, from.len()) {
            let mut chunk = self.chunks[chunk].write();
            let bytes = chunk.get_or_insert_with(|| vec![0; CHUNK_BYTES].into());
            bytes[start..start + part.len()].copy_from_slice(&from[part]);
        }
    }
}

/// Cuts `len` bytes from `offset` at chunk borders: chunk, offset in it, range of the bytes.
fn pieces(offset: u64, len: usize) -> impl Iterator<Item = (usize, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == len {
            return None;
        }
        let at = offset + done as u64;
        let start = (at % CHUNK_BYTES as u64) as usize;
        let part = done..len.min(done + CHUNK_BYTES - start);
        done = part.end;
        Some(((at / CHUNK_BYTES as u64) as usize, start, part))
    })
}

impl Device for RamDevice {
    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            size_bytes: self.size_bytes,
            logical_sector_bytes: 512,
            physical_sector_bytes: 512,
            is_block_device: false,
            has_volatile_cache: false,
            can_discard: true,
        }
    }

    fn read(&self, offset: LeafOffset, len: usize) -> BoxFuture<'static, Result<IoBuf, DeviceError>> {
        let ram = self.clone();
        Box::pin(async move {
            ram.info().check_range("read", offset, len as u64)?;
            let mut buf = IoBuf::zeroed(len);
            ram.fill(offset.get(), &mut buf);
            Ok(buf)
        })
    }

    fn write(
        &self,
        offset: LeafOffset,
        slices: Vec<BufSlice>,
        _durability: Durability,
    ) -> BoxFuture<'static, Result<(), DeviceError>> {
        let ram = self.clone();
        Box::pin(async move {
            let len = slices.iter().map(|slice| slice.bytes().len() as u64).sum();
            ram.info().check_range("write", offset, len)?;
            let mut at = offset.get();
            for slice in &slices {
                ram.put(at, slice.bytes());
                at += slice.bytes().len() as u64;
            }
            Ok(())
        })
    }

    fn flush(&self) -> BoxFuture<'static, Result<(), DeviceError>> {
        Box::pin(async { Ok(()) })
    }

    fn discard(&self, offset: LeafOffset, len: u64) -> BoxFuture<'static, Result<(), DeviceError>> {
        let ram = self.clone();
        Box::pin(async move {
            ram.info().check_range("discard", offset, len)?;
            for (chunk, start, part) in pieces(offset.get(), len as usize) {
                let mut chunk = ram.chunks[chunk].write();
                match &mut *chunk {
                    whole if part.len() == CHUNK_BYTES => *whole = None,
                    Some(bytes) => bytes[start..start + part.len()].fill(0),
                    None => {}
                }
            }
            Ok(())
        })
    }
}
