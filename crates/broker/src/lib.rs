//! A process of a pool has no rights: another process opens its devices, mounts its file systems and keeps its list,
//! and hands descriptors over.
//!
//! ```text
//!  process of a pool                                        daemon
//!  Broker: FileOpener, Machine, Mounter ── an errand ──► Desk ─► may this process have that done? (Grants)
//!        ▲                                                 │ yes
//!        └──────────── the answer, descriptors ◄───────────┴─► OwnRights, RealMachine, OwnMounter
//! ```
//! Reads, writes, flushes and the requests of programs use the descriptors, so that the daemon sees none of them.
//!
//! A process that was taken over can send any errand. So the daemon decides by what root's requests have named, and
//! by what the daemon itself has seen ([`Grants`]), never by what the process says.
//!
//! Each errand has a socket of its own, which the process sends over the socket of the process. An errand is done on a
//! thread of its own, because an errand may wait for a disk, or for the very process that asks. (test:
//! `an_errand_that_waits_holds_up_no_other`)
//!
//! Invariants
//! - A process has no device opened that was not granted to the process. (test:
//!   `a_process_gets_its_devices_and_no_others`)
//! - A process has no file read or changed but its own files. (test:
//!   `a_process_reads_and_changes_its_own_files_only`)
//! - A process mounts nothing outside the altroot that the import named. (test:
//!   `a_process_mounts_below_its_altroot_only`)
#![forbid(unsafe_code)]

/// The message by which the daemon has a process sync its pool and end. The daemon sends no other message.
pub const STOP: &[u8] = b"stop";

mod client;
mod errand;
mod fault;
mod grants;
mod server;
mod wire;

pub use client::Broker;
pub use errand::Beginning;
pub use grants::{Grants, Search};
pub use server::{Desk, DeskParts, MountedAt, Neighbours, ProcessCacheFiles, socket_pair};
