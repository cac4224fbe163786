//! A run of bytes in a vdev's allocatable space.

/// The bytes from `start` up to, not including, `end`. Never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Segment {
    /// First byte, as a vdev offset.
    pub start: u64,
    /// The byte after the last.
    pub end: u64,
}

impl Segment {
    /// The `len` bytes from `start`; `None` if that is no byte at all, or ends past 64 bits.
    #[must_use]
    pub fn new(start: u64, len: u64) -> Option<Self> {
        if len == 0 {
            return None;
        }
        start.checked_add(len).map(|end| Self { start, end })
    }

    /// Its length in bytes.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a segment is never empty")]
    pub const fn len(self) -> u64 {
        self.end - self.start
    }

    /// Whether all of `inner` lies in here.
    #[must_use]
    pub const fn covers(self, inner: Self) -> bool {
        self.start <= inner.start && inner.end <= self.end
    }

    /// Whether any byte is in both.
    #[must_use]
    pub const fn overlaps(self, other: Self) -> bool {
        self.start < other.end && other.start < self.end
    }
}
