//! What threads share state by. `crates/models` compiles the protocols of this crate with others in their place, which
//! try every order of the threads' steps.

pub(crate) use std::sync::atomic::{AtomicBool, Ordering};
