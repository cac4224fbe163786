//! The body of an answer: in memory that a loop uses again and again, and behind it what lies in a cache.

use std::cell::RefCell;

use env::BufSlice;
use zerocopy::{Immutable, IntoBytes};

/// Answers whose memory a loop keeps.
const SPARE_MAX: usize = 8;

thread_local! {
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// See the module. What lies behind `len` is left over from earlier answers.
pub(crate) struct Reply {
    bytes: Vec<u8>,
    len: usize,
    shared: Vec<BufSlice>,
}

impl Reply {
    /// An empty one.
    pub fn spare() -> Self {
        Self { bytes: SPARE.with_borrow_mut(Vec::pop).unwrap_or_default(), len: 0, shared: Vec::new() }
    }

    /// All of it, in order.
    pub fn parts(&self) -> impl Iterator<Item = &[u8]> {
        std::iter::once(&self.bytes[..self.len]).chain(self.shared.iter().map(BufSlice::bytes))
    }

    /// Bytes of its own memory.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Appends what lies elsewhere, behind all that is put here.
    pub fn share(&mut self, slices: Vec<BufSlice>) {
        self.shared = slices;
    }

    /// Appends a structure.
    pub fn put<T: IntoBytes + Immutable>(&mut self, value: &T) {
        self.put_bytes(value.as_bytes());
    }

    pub fn put_bytes(&mut self, bytes: &[u8]) {
        self.room(bytes.len()).copy_from_slice(bytes);
    }

    /// Appends `len` bytes for the caller to fill: they hold whatever was there.
    pub fn room(&mut self, len: usize) -> &mut [u8] {
        let start = self.len;
        self.len += len;
        if self.bytes.len() < self.len {
            self.bytes.resize(self.len, 0);
        }
        &mut self.bytes[start..self.len]
    }

    /// Drops all behind the first `len` bytes.
    pub fn cut(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        SPARE.with_borrow_mut(|spare| {
            if spare.len() < SPARE_MAX {
                spare.push(std::mem::take(&mut self.bytes));
            }
        });
    }
}
