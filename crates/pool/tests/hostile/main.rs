//! Hostile images: a block of a pool is changed and sealed again, with right checksums up to the uberblock.
//!
//! ```text
//!   uberblock ─► objset ─► dnodes ─► a block of an object
//!       ▲           ▲         ▲          │ changed
//!       └─ sealed ──┴─ sealed ┴─ sealed ─┘
//! ```
//! Labels, headers of gangs and blocks of logs, which carry their checksums themselves, are changed as well. Checksums find nothing then, and what is read is somebody's intent. Whatever it is: an error, or something that can be
//! worked with; never a panic, an allocation of more than the pool's size, or a loop without an end. Each image is
//! imported for writing, walked, sent, scrubbed, written to and exported, in a simulated world.
//!
//! Streams whose records are changed and sealed again are received in the same way: see [`streams`].
//!
//! `SAWMILL_HOSTILE_SECONDS` is how long each lane goes on, in place of a number of images; `SAWMILL_HOSTILE_FIRST` is the
//! seed of its first image, and `SAWMILL_HOSTILE_SEED` tries one image again. A lane that is ended by the allocator or by the watch leaves the seed of its image in the build directory, `hostile-LANE.txt`.
#![forbid(unsafe_code)]

mod disks;
mod forge;
mod lane;
mod mutate;
mod ours;
mod own;
#[path = "../streams/mod.rs"]
mod sends;
mod streams;
mod work;

use std::alloc::System;

use cap::Cap;

/// What all lanes together may have in memory: their pools' size, and their images.
const MEMORY_MAX: usize = 1 << 30;

#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, MEMORY_MAX);
