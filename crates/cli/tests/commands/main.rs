//! The real commands, against a daemon whose pools are trees in memory.
//!
//! `output`: what they print. `descent`: the same of snapshots and what becomes of them. `send`: of streams. `help`: what
//! tells how they are called. `doctor`: what a machine lacks. `socket`: how they speak with the daemon.
#![forbid(unsafe_code)]

mod descent;
mod doctor;
mod fake;
mod help;
mod output;
mod send;
mod socket;
mod world;
