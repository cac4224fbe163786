//! The body of an answer, in memory that a thread uses again and again.

use zerocopy::{Immutable, IntoBytes};

/// See the module. What lies behind `len` is left over from earlier answers.
#[derive(Default)]
pub(crate) struct Reply {
    bytes: Vec<u8>,
    len: usize,
}

impl Reply {
    pub fn clear(&mut self) {
        self.len = 0;
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    pub fn len(&self) -> usize {
        self.len
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
