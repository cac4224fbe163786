//! Protocols between threads, tried in many orders of their steps.
//!
//! The simulator runs one thread and switches at awaits; what happens between two of them it cannot show. Here the very
//! sources of `zil`, `env` and `device` are compiled a second time, with the locks, atomics and threads of shuttle in place of
//! the system's (`sync.rs`): each is a point at which another thread may run, and a seed decides which. A wake that
//! is lost is a deadlock then, and a thread that spins in vain exceeds its steps; both fail, with a schedule that
//! `shuttle::replay` runs again.
//!
//! ```text
//!   env/shared.rs         whoever polls moves the work on, the others are woken    whoever_waits_for_shared_work_is_told
//!   device/exec/parker.rs RUNNING, NOTIFIED, PARKED, AWAY                          a_wake_is_never_missed …
//!   zil/chain/rests.rs    leave, say so, look again: or be woken                   a_log_with_something_to_do_is_attended_to
//!   env/queue             places at a device, taken, waited for, given back        a_place_is_given_back_and_nobody_waits_for_ever
//! ```
//! What is under one lock has no orders to be tried: `zil`'s `Seats` are data of `State`, and shared work is what its
//! seats wait for.
#![forbid(unsafe_code)]

#[cfg(test)]
use env::{BoxFuture, BufSlice, Device, DeviceError, DeviceInfo, Durability, IoBuf};

#[cfg(test)]
#[path = "../../device/src/exec/parker.rs"]
mod parker;
#[cfg(test)]
mod queue;
#[cfg(test)]
#[path = "../../zil/src/chain/rests.rs"]
mod rests;
#[cfg(test)]
#[expect(dead_code, reason = "a model waits for its answers")]
#[path = "../../env/src/shared.rs"]
mod shared;
#[cfg(test)]
mod sync;
#[cfg(test)]
mod tests;

#[cfg(test)]
use shared::Shared;
