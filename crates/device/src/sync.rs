//! What threads share state by, and wait for each other. `crates/models` compiles the protocols of this crate with others
//! in their place, which try every order of the threads' steps.

pub(crate) use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
pub(crate) use std::thread;
pub(crate) use std::time::Instant;
