//! Runs futures on real threads, each with an io_uring of its own.
//!
//! Waking a thread on another core costs about 20 µs, a whole FUSE round trip half of
//! that. So a request is polled by the thread that took it, and its I/O is submitted to
//! that thread's ring and awaited there; no hand-off on the lone path.
//!
//! ```text
//!   poll the future ──Pending──► staged I/O ──► one io_uring_enter: submit and wait
//!        ▲                          │ exactly one, nothing else going on:
//!        │                          └──► pwritev2 and the like, on this very thread
//!        └── NOTIFIED ◄── completions, timers, wakes from other threads
//! ```
//!
//! A lone 8 KiB `O_DIRECT` stable write on ext4 took 87 µs as a bare pwritev2, 87 µs by
//! [`local::block_on`], and 117 µs when forced through the ring, where the kernel hands
//! such a write to a thread of its own; hence the second way. On tmpfs it was 1.9 and 2.2 µs
//! (`benches/lone_write.rs`).
//!
//! - [`parker`]: one thread's wake-up state; says whether a wake needs a system call.
//! - [`op`], [`flight`]: one read, write or flush, its buffers and who waits for it.
//! - [`ring`]: the submission and completion queues and what the kernel holds.
//! - [`local`]: what a thread owns: staged I/O, ring, timers; [`local::block_on`].
//! - [`descriptor`]: an open file, and where it is closed.
//! - [`helpers`]: threads that make the calls that a ring cannot, or that nobody here may wait in.
//! - [`keeper`]: waits for what a thread leaves behind when its `block_on` returns.
//! - [`worker`]: threads for spawned tasks; some of them are loops, whose one wait is for files too.
//! - [`watch`], [`watched`]: that wait, and what is waited for.
//! - [`company`]: loops that serve the same requests; one of them always watches.
//!
//! Invariants
//! - A wake between a poll and the wait that follows is never lost.
//!   (test: `wakes_from_other_threads_are_never_lost`)
//! - Buffers the kernel may still touch stay alive, even if the future is dropped.
//!   (test: `a_dropped_write_still_reaches_the_file`)
//! - A future first polled on one thread may be finished by another, even after the first
//!   has returned from `block_on` or exited. (test: `io_begun_on_one_thread_ends_on_another`)

pub(crate) mod company;
pub(crate) mod descriptor;
pub(crate) mod flight;
pub(crate) mod helpers;
pub(crate) mod keeper;
pub(crate) mod local;
pub(crate) mod op;
pub(crate) mod parker;
pub(crate) mod processors;
pub(crate) mod ring;
pub(crate) mod timer;
pub(crate) mod watch;
pub(crate) mod watched;
pub(crate) mod worker;
