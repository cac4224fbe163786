//! The locks and atomics of what threads share. `crates/models` compiles it with others in their place, which try every
//! order of the threads' steps.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub(crate) use parking_lot::Mutex;
