//! Where bytes lie: in a vdev's allocatable space, and on a leaf device.

use crate::newtype;

/// Size of one of the four labels of a leaf: 256 KiB.
pub const LABEL_BYTES: u64 = 256 << 10;
/// What comes before allocatable space on a leaf: labels L0 and L1, and the 3.5 MiB boot area.
pub const LABEL_START_BYTES: u64 = 4 << 20;
/// What comes after allocatable space on a leaf: labels L2 and L3.
pub const LABEL_END_BYTES: u64 = 2 * LABEL_BYTES;

newtype! {
    /// A byte offset in a vdev's allocatable space: what a DVA means, and what mirror and
    /// raidz map it to on a child. On a leaf, labels L0 and L1 and the boot area come first,
    /// so the same number is 4 MiB too early on the device. Only `on_leaf` crosses over.
    VdevOffset(u64)
}
newtype! {
    /// A byte offset from the start of a leaf device, labels included.
    LeafOffset(u64)
}

impl VdevOffset {
    /// The same place on a leaf device; `None` past the end of 64 bits.
    #[must_use]
    pub const fn on_leaf(self) -> Option<LeafOffset> {
        match self.get().checked_add(LABEL_START_BYTES) {
            Some(raw) => Some(LeafOffset::new(raw)),
            None => None,
        }
    }
}
