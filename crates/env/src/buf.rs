//! Buffers that a disk can take as they are.

mod spare;

use std::ops::{Deref, DerefMut, Range};
use std::sync::Arc;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Alignment of every [`IoBuf`] in memory, in bytes: enough for `O_DIRECT` everywhere.
pub const IO_ALIGN_BYTES: usize = 4096;

/// The memory of an `Arc<IoBuf>` without its pages, in bytes: two counts and the fields.
const SHARED_BYTES: usize = 2 * size_of::<usize>() + size_of::<IoBuf>();

#[derive(Clone, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(4096))]
struct Page([u8; IO_ALIGN_BYTES]);

/// Owned bytes that begin at a page boundary. Zeroed when made; the length is exact,
/// the memory behind it whole pages.
pub struct IoBuf {
    pages: Vec<Page>,
    len: usize,
}

impl IoBuf {
    /// `len` zero bytes.
    ///
    /// # Panics
    /// When memory is exhausted.
    #[must_use]
    pub fn zeroed(len: usize) -> Self {
        let count = len.div_ceil(IO_ALIGN_BYTES);
        let mut pages = spare::take(count).unwrap_or_default();
        pages.clear();
        // Not memory that the allocator says is zero: for large buffers it gets that from the
        // kernel, by a system call and a fault for each page.
        pages.resize(count, Page([0; IO_ALIGN_BYTES]));
        Self { pages, len }
    }

    /// `len` bytes with anything in them, for those who write them all before anybody reads one.
    ///
    /// # Panics
    /// When memory is exhausted.
    #[must_use]
    pub fn stale(len: usize) -> Self {
        match spare::take(len.div_ceil(IO_ALIGN_BYTES)) {
            Some(pages) => Self { pages, len },
            None => Self::zeroed(len),
        }
    }

    /// A copy of `bytes`.
    #[must_use]
    pub fn copy_of(bytes: &[u8]) -> Self {
        let (whole, rest) = bytes.as_chunks::<IO_ALIGN_BYTES>();
        let mut pages = spare::take(bytes.len().div_ceil(IO_ALIGN_BYTES)).unwrap_or_default();
        pages.clear();
        pages.reserve_exact(bytes.len().div_ceil(IO_ALIGN_BYTES));
        pages.extend(whole.iter().map(|page| Page(*page)));
        if !rest.is_empty() {
            let mut last = Page([0; IO_ALIGN_BYTES]);
            last.0[..rest.len()].copy_from_slice(rest);
            pages.push(last);
        }
        Self { pages, len: bytes.len() }
    }

    /// A copy cut or padded with zeros to `len` bytes.
    #[must_use]
    pub fn resized(&self, len: usize) -> Self {
        let mut buf = self.grown(len);
        buf[len.min(self.len)..].fill(0);
        buf
    }

    /// A copy cut to `len` bytes, or with anything behind what there is, for those who write that before anybody reads it.
    #[must_use]
    pub fn grown(&self, len: usize) -> Self {
        let mut buf = Self::stale(len);
        let common = len.min(self.len);
        buf[..common].copy_from_slice(&self[..common]);
        buf
    }

    /// The memory of the buffer in bytes: whole pages, and the fields of a shared buffer.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.pages.capacity() * IO_ALIGN_BYTES + SHARED_BYTES
    }

    /// Shortens to `len` bytes; longer lengths are ignored.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}

impl Clone for IoBuf {
    fn clone(&self) -> Self {
        Self::copy_of(self)
    }
}

impl Default for IoBuf {
    /// No bytes.
    fn default() -> Self {
        Self::zeroed(0)
    }
}

impl PartialEq for IoBuf {
    fn eq(&self, other: &Self) -> bool {
        self[..] == other[..]
    }
}

impl Eq for IoBuf {}

impl Drop for IoBuf {
    fn drop(&mut self) {
        spare::give(std::mem::take(&mut self.pages));
    }
}

impl Deref for IoBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.pages.as_bytes()[..self.len]
    }
}

impl DerefMut for IoBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.pages.as_mut_bytes()[..self.len]
    }
}

impl std::fmt::Debug for IoBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "IoBuf({} bytes)", self.len)
    }
}

/// A shared view of part of an [`IoBuf`]: what a write gathers.
#[derive(Clone, Debug)]
pub struct BufSlice {
    buf: Arc<IoBuf>,
    range: Range<usize>,
}

impl BufSlice {
    /// The part `range` of `buf`.
    ///
    /// # Panics
    /// When `range` does not lie within `buf`.
    #[must_use]
    pub fn new(buf: Arc<IoBuf>, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= buf.len());
        Self { buf, range }
    }

    /// The part `range` of this part.
    ///
    /// # Panics
    /// When `range` does not lie within it.
    #[must_use]
    pub fn part(&self, range: Range<usize>) -> Self {
        assert!(range.end <= self.range.len());
        Self::new(self.buf.clone(), self.range.start + range.start..self.range.start + range.end)
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.buf[self.range.clone()]
    }
}

impl From<Arc<IoBuf>> for BufSlice {
    fn from(buf: Arc<IoBuf>) -> Self {
        let range = 0..buf.len();
        Self { buf, range }
    }
}

impl From<IoBuf> for BufSlice {
    fn from(buf: IoBuf) -> Self {
        Self::from(Arc::new(buf))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_used_again_shows_nothing_of_its_former_owner() {
        for len in [32 << 10, (128 << 10) - 100, 128 << 10, 1 << 20] {
            for _ in 0..4 {
                let mut old = IoBuf::zeroed(len);
                old.fill(0xaa);
                let short = old.resized(len / 2);
                drop(old);
                assert!(IoBuf::zeroed(len).iter().all(|&byte| byte == 0));
                let longer = short.resized(len);
                assert!(longer[..len / 2].iter().all(|&byte| byte == 0xaa));
                assert!(longer[len / 2..].iter().all(|&byte| byte == 0));
                assert_eq!(longer.clone()[..], longer[..]);
            }
        }
    }
}
