//! What threads share the state of a queue by. `crates/models` compiles it with others in their place, which try every
//! order of the threads' steps.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) use parking_lot::Mutex;
