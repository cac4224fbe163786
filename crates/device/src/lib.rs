//! Files, disks and RAM as devices, and the [`Env`] through which all else sees the world.
#![deny(unsafe_code)]

mod buf;
mod delayed;
mod env;
mod error;
mod exec;
mod faulty;
mod file;
mod host;
mod lease;
mod machine;
mod part;
mod queue;
mod ram;
mod real;
mod sync;
mod system;

pub use buf::{BufSlice, IO_ALIGN_BYTES, IoBuf};
pub use delayed::{Delayed, Delays, DelaysError};
pub use env::{BoxFuture, Device, DeviceInfo, Durability, Env, OpenMode};
pub use error::DeviceError;
pub use faulty::{FaultOp, Faults, Faulty};
pub use file::{FileDevice, held_by};
pub use host::{Variable, host_id, host_name, state_dir, user_and_group};
pub use lease::Shelf;
pub use machine::{Machine, MemoryNow, Readers};
pub use part::Part;
pub use queue::{Bound, Bounds, InClass, IoClass, Queued, impatient, in_class, is_impatient};
pub use ram::RamDevice;
pub use real::{Options, RealEnv};
pub use system::RealMachine;

#[cfg(test)]
mod tests;
