//! ZFS pools as a library: no kernel module, no daemon, no mount.
//!
//! ```
//! use sawmill::{Vdev, blocking::Engine};
//!
//! let engine = Engine::start();
//! let disks = ["a", "b"].map(|name| engine.ram_disk(name, 128 << 20)); // or paths of files, or block devices
//! let pool = engine.create("tank", &[Vdev::mirror(&disks)])?;
//! let files = pool.filesystem("tank")?;
//! files.write("greeting", b"hello")?;
//! files.fsync("greeting")?; // from here on it survives any crash
//! drop(files);
//! pool.export()?;
//! let pool = engine.import("tank", &disks)?;
//! assert_eq!(pool.filesystem("tank")?.read("greeting")?, b"hello");
//! # pool.export()?;
//! # Ok::<(), sawmill::Error>(())
//! ```
//!
//! The bytes on disk are OpenZFS's own: its `zdb` reads them, and its kernel module imports them.
//!
//! ```text
//!  Engine (threads, clocks, I/O) ─► Pool ─► Files   a file system, or what a snapshot holds of one
//!                                        └► Volume  one row of bytes
//! ```
//! Everything comes twice: with futures here, without in [`blocking`]. Futures do their I/O on the
//! thread that polls them; [`Engine::block_on`] is what polls them best. A future that changes files may be
//! dropped: what it was to do has then happened, or not.
#![forbid(unsafe_code)]

pub mod blocking;
mod engine;
mod error;
mod files;
mod host;
mod pool;
mod vdev;

pub use self::engine::Engine;
pub use ::pool::{Host, Volume, VolumeSpec};
pub use control::{Failure, FailureKind};
pub use error::Error;
pub use files::{Files, Spot};
pub use host::this_host;
pub use pool::{Import, Pool};
pub use vdev::Vdev;
pub use zpl::{Attributes, FileKind, ListEntry, Timestamp};
