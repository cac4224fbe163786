//! Events: what happened to pools and their devices, under OpenZFS's names, for those who watch.
//!
//! ```text
//!   pool: a device fails, a scrub ends, … ─► Event: class, payload ─► EventRing ─► eid, time
//!                                                                      │  512 at most, the oldest go first
//!                                      zpool events ◄── page after eid ┘
//! ```
//! A ring belongs to a program and not to a pool: what a pool's last event tells is read when the pool is gone. It
//! ends with the program. So readers keep a place ([`Seen`]) that names the ring, too.
//!
//! Posting is for all who can afford a lock and an allocation; it waits for nobody, and nobody is asked.
//!
//! Invariants
//! - A ring never has more than its bound, and its numbers have no gaps that a reader is not told of.
//!   (tests: `the_oldest_event_goes_when_the_ring_is_full`, `who_reads_too_late_is_told_how_much_he_missed`)
//! - Who waits is told of every event that is posted after he looked. (test: `who_waits_hears_of_the_next_event`)
#![forbid(unsafe_code)]

mod event;
mod rate;
mod ring;

pub use event::{Event, names};
pub use rate::Rate;
pub use ring::{EventRing, Page, Seen};
