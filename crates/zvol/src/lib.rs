//! Volumes over an objset: what their objects are, how they are read, and how their logs are replayed.
//!
//! ```text
//!  objset of kind "volume" ─┬─ object 1   its bytes, in blocks of volblocksize
//!                           └─ object 2   ZAP: "size" ─► bytes
//! ```
//! Nothing writes to a volume yet but the replay of its log ([`Volume`] is a [`zil::Replay`]).
#![forbid(unsafe_code)]

mod error;
mod replay;
mod volume;

pub use error::ZvolError;
pub use volume::{DATA, Volume};
