//! Numbers have types: transaction groups, sizes, offsets and ids.
//!
//! In C, ZFS's sizes, offsets and ids are all `uint64_t`. Here the compiler tells them
//! apart, and arithmetic that has a meaning is a method with a name.
#![forbid(unsafe_code)]

mod ids;
mod latency;
mod offset;
mod size;
mod sizes;
mod txg;

pub use ids::{BlockId, Guid, Level, ObjectId, ObjsetId, VdevId, ZilSeq};
pub use latency::{Histogram, LATENCY_BUCKETS, Latencies};
pub use offset::{LABEL_BYTES, LABEL_END_BYTES, LABEL_START_BYTES, LeafOffset, VdevOffset};
pub use size::{Ashift, Asize, Lsize, Psize, SECTOR_BYTES, Spread, round_up};
pub use sizes::{SIZE_BUCKETS, SizeHistogram, Sizes};
pub use txg::{TXG_CONCURRENT_STATES, TXG_DEFER, TXG_INITIAL, TXG_SLOTS, Txg};

/// Declares a `u64` newtype with `new`, `get`, ordering, hashing and plain display.
macro_rules! newtype {
    ($(#[$doc:meta])* $name:ident($raw:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $name($raw);

        impl $name {
            /// Gives a raw number its type.
            #[must_use]
            pub const fn new(raw: $raw) -> Self {
                Self(raw)
            }
            /// The raw number.
            #[must_use]
            pub const fn get(self) -> $raw {
                self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(&self.0, f)
            }
        }
    };
}
pub(crate) use newtype;

#[cfg(test)]
mod tests;
