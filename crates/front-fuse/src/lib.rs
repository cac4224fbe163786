//! A FUSE mount over a file system: the kernel's requests in, errnos and bytes out.
//!
//! ```text
//!  kernel ─► /dev/fuse ─► a loop of the process ─► a task there ─► Zfs, down to the device and back
//!  kernel ◄─────────────────────────────── reply ◄─┘
//! ```
//! What is mounted where is the engine's to say, whose [`engine::Front`] this is; every other rule lives
//! below; this crate translates. A file opened with `O_SYNC` or `O_DSYNC` is
//! opened for direct I/O: its writes then arrive as one request each, with that flag, and are
//! stable when the reply goes out. All others are cached by the kernel for reading, and come as
//! writes at once; `fsync` follows as a request of its own. With writeback ([`engine::MountOptions`]) the kernel keeps what is
//! written to any file, with its size and times, until it is synced or closed.
//!
//! What the kernel does not pass on: `sync(2)` and `syncfs(2)` reach only servers of block devices and of
//! virtual machines (FUSE_SYNCFS, which is answered if it comes), and `umount(2)` does not wait for a
//! server (FUSE_DESTROY likewise). Who unmounts through us waits until data are stable; after `umount(8)` they are
//! made so at once.
#![forbid(unsafe_code)]

mod abi;
mod attr;
mod attributes;
mod buffer;
mod connection;
mod copy;
mod ctldir;
mod data;
mod errno;
mod files;
mod floor;
mod gate;
mod handshake;
mod headroom;
mod ioctl;
mod known;
mod listing;
mod live;
mod mount;
mod names;
mod notifier;
mod pages;
mod queues;
mod reply;
mod request;
mod requester;
mod server;
mod session;
mod syncs;
mod tree;
mod views;
mod writers;

pub use mount::{Attachment, Fuse, MountInUse, Mounter, OwnMounter};

#[cfg(test)]
mod tests;
