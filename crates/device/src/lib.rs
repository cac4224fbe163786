//! The only system calls: files and disks as devices, threads, clocks, and the machine that this runs on, as
//! [`env::Env`] and [`env::Machine`] want them.
#![deny(unsafe_code)]

mod commands;
mod delayed;
mod exec;
mod file;
mod fsxattr;
mod host;
mod loops;
mod pages;
mod peer;
mod real;
mod rewrite;
mod sync;
mod system;

pub use commands::{Command, Commands};
pub use delayed::{Delayed, Delays, DelaysError};
pub use exec::helpers::call_elsewhere;
pub use file::{DeviceHold, DirectFile, FileDevice, FileOpener, OpenedFile, OwnRights, held_by};
pub use fsxattr::{Fsxattr, XFLAG_PROJINHERIT};
pub use host::{Variable, host_id, host_name, state_dir, user_and_group};
pub use loops::{LoopWatch, Loops, Serving, Source, spawn_here};
pub use pages::wait_for_pages;
pub use peer::peer_groups;
pub use real::{Options, RealEnv, WrapDevice};
pub use rewrite::Rewrite;
pub use system::{RealMachine, identity};

#[cfg(test)]
mod tests;
