//! A request's bytes, in memory that fits them.
//!
//! The kernel hands over a request only to who has room for the largest, and most are small: a loop reads into one
//! buffer for all its mounts, and copies what is small out of it. What is large goes with its buffer.

use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;

use crate::connection::try_receive;
use crate::handshake::REQUEST_BYTES;

/// What is longer counts as large.
pub(crate) const LARGE_BYTES: usize = 64 << 10;
/// A write has its data behind one page with the headers.
const BUFFER_BYTES: usize = REQUEST_BYTES as usize + 4096;
/// Buffers that a loop keeps for large requests to come.
const SPARE_MAX: usize = 4;

thread_local! {
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// See the module.
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    len: usize,
}

impl Buffer {
    /// The next request, if there is one.
    ///
    /// # Errors
    /// `ENODEV` when the session has ended.
    pub fn receive(device: &OwnedFd) -> io::Result<Option<Self>> {
        let spare = SPARE.with_borrow_mut(Vec::pop);
        let mut whole = Self { bytes: spare.unwrap_or_else(|| vec![0; BUFFER_BYTES]), len: 0 };
        let Some(len) = try_receive(device, &mut whole.bytes)? else { return Ok(None) };
        whole.len = len;
        if len > LARGE_BYTES {
            return Ok(Some(whole));
        }
        Ok(Some(Self { bytes: whole.bytes().to_vec(), len }))
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.bytes.len() == BUFFER_BYTES {
            let bytes = std::mem::take(&mut self.bytes);
            SPARE.with_borrow_mut(|spare| {
                if spare.len() < SPARE_MAX {
                    spare.push(bytes);
                }
            });
        }
    }
}
