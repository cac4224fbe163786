//! A device's queue: who goes first, how many at once, and what goes together.
//!
//! ```text
//!   read, write ─► place free? ──yes──────────────────────► device, on the thread that asks
//!                      │ no                                      │ ends
//!                      ▼                                         ▼
//!                    waits, by class ◄── next by urgency ── place given back
//!                      └─► with its neighbours, as one I/O ─► device
//! ```
//! A request that finds a place free goes straight on: the lone synchronous write costs two short
//! locks more than without a queue, and no hand-off. Only what waits is sorted and merged; and it
//! is woken to do its own I/O, so that the queue needs no thread.
//!
//! What goes through is counted at the device's end (`meter`): two looks at a clock and a few relaxed additions.
//!
//! Flushes do not queue: they cover completed writes, and those have left the queue.
//!
//! Invariants
//! - Every class moves, however much there is of a more urgent one.
//!   (test: `no_class_starves_beside_a_more_urgent_one`)
//! - An I/O dropped while it waits, or after, never keeps a place.
//!   (test: `dropped_futures_give_their_places_back`)
//! - When a merged I/O fails, each part is tried alone: a bad sector is an error only for those
//!   who asked for it. (test: `a_merged_read_that_fails_is_an_error_only_for_the_bad_part`)

mod class;
mod lanes;
mod meter;
mod queued;
#[cfg(test)]
mod tests;
mod ticket;

pub use class::{InClass, IoClass, impatient, impatient_until, in_class, is_impatient};
pub use lanes::{Bound, Bounds};
pub use meter::{Clock, InQueue, IoOp, Meter, Priority, PrioritySnapshot, QueueSnapshot, QueueStats, Times};
pub use queued::Queued;
