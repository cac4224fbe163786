//! The world as everything above sees it: an [`Env`] with devices, time, tasks and randomness, and a [`Machine`]
//! with small files.
//!
//! ```text
//!   engine, pool … vdev ─► Env, Machine, Device (traits) ◄── device: the system calls
//!                              │                         ◄── sim: one seed, one clock
//!                              └─ over any device: Queued, Part, Faulty, RamDevice
//! ```
//! This crate makes no system call. Nothing above it starts a thread, reads a clock, draws a random number or
//! opens a file on its own.
#![forbid(unsafe_code)]

mod buf;
mod env;
mod error;
mod faulty;
mod lease;
mod machine;
mod part;
mod queue;
mod ram;
mod shared;
mod sync;
mod turn;

pub use boxed::boxed;
pub use buf::{BufSlice, IO_ALIGN_BYTES, IoBuf};
pub use env::{BoxFuture, Device, DeviceInfo, Durability, Env, OpenMode};
pub use error::DeviceError;
pub use faulty::{FaultOp, Faults, Faulty};
pub use lease::Shelf;
pub use machine::{Machine, MemoryNow, Readers};
pub use part::Part;
pub use queue::{
    Bound, Bounds, Clock, InClass, InQueue, IoClass, IoOp, Meter, Priority, PrioritySnapshot, QueueSnapshot,
    QueueStats, Queued, Times, impatient, impatient_until, in_class, is_impatient,
};
pub use ram::RamDevice;
pub use shared::Shared;
pub use turn::let_others_first;
