//! A FUSE mount over a file system: the kernel's requests in, errnos and bytes out.
//!
//! ```text
//!  kernel ─► /dev/fuse ─► one of the session's threads ─► Zfs, polled on that very thread
//!                                                          │  down to the device and back
//!  kernel ◄───────────────────── reply ◄──────────────────┘
//! ```
//! Every rule lives below; this crate translates. A file opened with `O_SYNC` or `O_DSYNC` is
//! opened for direct I/O: its writes then arrive as one request each, with that flag, and are
//! stable when the reply goes out. All others are cached by the kernel for reading, and come as
//! writes at once; `fsync` follows as a request of its own.
#![forbid(unsafe_code)]

mod attr;
mod errno;
mod files;
mod mount;
mod requests;

pub use mount::{MountError, MountOptions, Mounted, detach_stale, mount};
