//! Send streams: a snapshot, or what changed since an earlier one, as bytes that any ZFS receives.
//!
//! ```text
//!  dmu::Objset ─► Walk ─► Ahead ─► Composer ─► Writer ─► bytes ─► Reader ─► records
//!                 what    reads    what makes   sums
//!                 is new  some     a record
//!                         blocks
//!                         ahead
//! ```
//! [`send`] writes a stream from an objset, byte for byte what OpenZFS's `zfs send` writes of the same blocks;
//! [`size_of`] tells how long it will be, and a [`Compound`] holds several. [`Reader`] takes a stream apart, or
//! refuses it; a [`Receiver`] makes an objset of its records.
#![forbid(unsafe_code)]

mod ahead;
mod compose;
mod compound;
mod error;
mod free_run;
mod order;
mod read;
mod receive;
mod redact;
mod redaction_list;
mod sender;
mod sum;
mod summary;
mod token;
mod walk;
mod write;

pub use compound::Compound;
pub use error::SendError;
pub use order::{Features, Form, Origin, Resume, SendOrder, Target};
pub use read::{ReadError, Reader, StreamRecord};
pub use receive::{Progress, ReceiveError, Receiver};
pub use redact::Redaction;
pub use redaction_list::redaction_list;
pub use sender::{send, size_of};
pub use summary::Summary;
pub use token::{TokenError, token, token_list, token_state};
