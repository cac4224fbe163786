//! The second-level read cache (L2ARC): blocks that memory has no room for, on cache devices.
//!
//! ```text
//!   zio's cache ──leaves memory──► SecondCache::offer ─► waits, 16 MiB at most ─► next, by whichever device is free
//!        ▲                                                                            │
//!        └── read: is it on a device? its checksum tells ◄── device: header, blocks, logs in a row, round and round
//! ```
//! A cache device has nothing that is not in the pool, too. So it may fail, lie, hang or be pulled at any time, and the
//! worst that comes of it is a read from the pool: no error of it reaches a reader, and one that does not answer
//! within a tenth of a second is not waited for, which OpenZFS does for as long as the device likes. It follows that a read
//! from it proves nothing about the pool, and whoever repairs or scrubs reads past it.
//!
//! What is where is in memory ([`CacheDevice`]), and in logs between the blocks, so that it is found again at the next
//! import: OpenZFS's own format ([`ondisk::l2arc`]), so that either program finds what the other one left. As an export ends a log
//! that is not full, nothing that was written is forgotten by it.
//!
//! Neither header nor logs are flushed as they are written, for all they promise is checked: a power cut may leave a
//! header that names what was overwritten, and then checksums do not match.
//!
//! Invariants
//! - What is not the block's is never handed out. (tests: `a_cache_device_may_fail_lie_or_hang`, in `pool`)
//! - What is about to be overwritten is forgotten first. (test: `what_is_overwritten_was_forgotten_and_what_is_held_was_not`)
//! - OpenZFS reads every log that counts. (test: `what_fell_out_of_memory_is_read_from_the_cache_device`, in `pool`)
#![forbid(unsafe_code)]

mod device;
mod index;
mod logs;
mod rebuild;
mod ring;
mod second;
mod stats;

pub use device::{CacheDevice, Stored};
pub use second::{Form, Offered, SecondCache};
pub use stats::CacheDeviceStats;
