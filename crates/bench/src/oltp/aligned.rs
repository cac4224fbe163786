//! Memory that `O_DIRECT` takes.

use super::ALIGN_BYTES;

/// Bytes that begin at a multiple of [`ALIGN_BYTES`].
pub(crate) struct Aligned {
    room: Vec<u8>,
    begin: usize,
    len: usize,
}

impl Aligned {
    /// A copy of them.
    pub fn copy_of(bytes: &[u8]) -> Self {
        let room = vec![0; bytes.len() + ALIGN_BYTES];
        let begin = room.as_ptr().align_offset(ALIGN_BYTES);
        let mut new = Self { room, begin, len: bytes.len() };
        new.as_mut().copy_from_slice(bytes);
        new
    }
}

impl AsRef<[u8]> for Aligned {
    fn as_ref(&self) -> &[u8] {
        &self.room[self.begin..self.begin + self.len]
    }
}

impl AsMut<[u8]> for Aligned {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.room[self.begin..self.begin + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_copy_begins_where_a_device_wants_it() {
        for len in 1..40 {
            let bytes = vec![len as u8; len * 100];
            let aligned = Aligned::copy_of(&bytes);
            assert_eq!(aligned.as_ref(), bytes);
            assert_eq!(aligned.as_ref().as_ptr().addr() % ALIGN_BYTES, 0);
        }
    }
}
