//! One seed, one world: simulated devices, virtual clock, crash images.
//!
//! # The fault model
//!
//! What a device of this world may do, and so what everything above must stand:
//!
//! - **Lose** any write that has not become stable when the power is cut. A write becomes
//!   stable when it was asked to be ([`env::Durability::Stable`]) and is done; when a
//!   flush is done that began after the write was done; or, without a volatile cache, when
//!   it is done. A flush says nothing of writes still under way when it began.
//! - **Reorder**: of the writes not yet stable, any subset may survive.
//! - **Tear** one of them: a head or a tail of its sectors survives. A sector (512 bytes,
//!   or 4096 by choice) is old or new, never mixed.
//! - **Fail** a read, a write, a flush or a discard, once or from now on. A failed write may have
//!   written nothing, all, or its first sectors. What a failed flush was to make stable
//!   never becomes so, though reads still find it.
//! - **Lose its cache while the system keeps running**: a flush or a stable write fails and takes
//!   some or all of the earlier writes with it that were done but not stable
//!   ([`SimDisk::lose_cache_at`]); or the disk is reset ([`SimDisk::reset_at`]). Reads find the
//!   earlier contents at once. The rest of the cache never becomes stable. Each loss is reported by
//!   a flush or stable write that fails, at the latest by the next one. The loss may precede its
//!   report.
//!   (tests: `a_stable_write_that_fails_takes_cached_writes_with_it_at_once`,
//!   `a_reset_fails_what_is_under_way_and_the_next_flush_and_loses_the_cache`)
//! - **Have bad sectors**: reads, writes or discards that touch a range of bytes always fail
//!   ([`env::Faults::fail_within`]). (test: `a_bad_stretch_stays_bad_for_what_it_was_ordered_for`)
//! - **Lie**: acknowledge flushes and stable writes, and do nothing about them.
//! - **Corrupt** in silence: flip a bit on the way ([`Mischief::FlipBit`]) or on the medium
//!   ([`SimDisk::rot`]); **forget** a write; **misdirect** it to another place.
//! - **Discard**: what is discarded is from then on its old bytes, zeros or noise, by lot. The
//!   discard is at risk like a write: a cut leaves the old bytes or the new, and a write below it
//!   that was acknowledged while the discard was under way may be gone with it.
//!   (tests: `what_is_discarded_is_anything_and_stays_so`, `a_cut_leaves_a_discard_done_or_not_done`)
//! - **Disappear**, with requests under way, and come back with its content.
//! - **Take time**, by [`DiskModel`]: from one draw to the next quite different times, and
//!   requests given at once end in any order. A part of its writes and flushes, or all, may take so many times as
//!   long ([`SimDisk::slow_down`]).
//!
//! A device may not invent content, change what is stable (except by an ordered corruption), lose
//! its cache without a report (except by a lie), give the result of one request to another request,
//! let reads find anything but the acknowledged contents (except after such a loss), or tear a
//! sector.
//! sector.
//!
//! # How it runs
//!
//! ```text
//!   tasks ready ─┐
//!                ├─► the seed draws one ──► it runs until it waits ──► ...
//!   things due ──┘        nothing? ──► the clock jumps to what is due next
//!                                      nothing due? ──► deadlock: panic
//! ```
//! No time passes while tasks compute; all time is that of disks and sleeps. The history
//! of all disks is recorded, and [`Recording::crash_images`] gives what a power cut at any
//! of its moments could have left, to be booted as a new world.
//!
//! ```
//! use env::{BufSlice, Durability, Env, IoBuf, OpenMode};
//! use sim::{DiskSpec, Sim};
//!
//! let sim = Sim::seed(7);
//! sim.add_disk("/a", DiskSpec::instant(1 << 20));
//! let env = sim.env();
//! sim.run_until(async {
//!     let disk = env.open("/a".as_ref(), OpenMode::ReadWrite).await.expect("there is a disk");
//!     let mut block = IoBuf::zeroed(512);
//!     block.fill(1);
//!     let offset = units::LeafOffset::new(0);
//!     disk.write(offset, vec![BufSlice::from(block)], Durability::Stable).await.expect("written");
//!     sim.mark("promised");
//! });
//! for image in sim.recording().crash_images() {
//!     if image.is_after("promised") {
//!         assert_eq!(image.peek("/a", 0, 512), [1; 512], "{}", image.story());
//!     }
//! }
//! ```
//!
//! Invariants
//! - One seed, one history. (test: `one_seed_gives_one_history`)
//! - Nothing acknowledged as stable is missing in an image.
//!   (test: `stable_writes_survive_every_cut_after_them`)
//! - Every state the model allows is made, for short histories.
//!   (test: `all_states_of_two_writes_are_made_and_no_others`)
#![forbid(unsafe_code)]

mod count;
mod disk;
mod env;
mod fates;
mod history;
mod host;
mod ledger;
mod log;
mod mechanics;
mod model;
mod pages;
mod quirks;
mod recording;
mod rng;
mod sleep;
mod world;

pub use disk::{DiskSpec, SimDisk};
pub use env::{Sim, SimEnv};
pub use history::Mark;
pub use host::SimHost;
pub use model::{DiskModel, Latency, Platter};
pub use quirks::{Mischief, Slowness};
pub use recording::{CrashImage, CrashPlan, Cuts, Recording};

#[cfg(test)]
mod tests;
