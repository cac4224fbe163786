//! What the commands and the daemon say to each other, and the rules both must share.
//!
//! ```text
//!  zpool create tank mirror a b log c
//!     │ spec::parse, properties' words         (the command: what needs no pool)
//!     ▼
//!  client ──HTTP/JSON over a Unix socket──► server ─► Service (the daemon's engine)
//!     ▲                                                  │ admit: in use? sizes? names?
//!     └── Answer, or Failure {stdout, stderr, exit} ◄────┘
//! ```
//!
//! A command is a thin front: it parses words, asks, and prints a tree. Every rule that
//! protects data is checked on the daemon's side, by the pure functions of [`admit`] and
//! [`props`], so that any client gets the same answer. The words of a refusal are
//! part of the interface scripts rely on, so a [`Failure`] carries them ready to print.
//!
//! Invariants
//! - Whatever comes over the socket gives an answer or a [`Failure`], never a panic
//!   (test: `garbage_on_the_socket_gets_an_error_and_the_server_lives_on`).
//! - Only the owner of the daemon, or root, is listened to (`server::OwnerOnly`).
#![forbid(unsafe_code)]

pub mod admit;
mod call;
mod client;
pub mod compat;
mod dataset;
mod failure;
pub mod foreign;
pub mod names;
pub mod nice;
mod paths;
mod pool;
pub mod props;
mod server;
mod service;
pub mod spec;
mod state;
mod vdev;

pub use call::*;
pub use client::{Client, ClientError, TOLD_AFTER};
pub use dataset::{DatasetInfo, DatasetKind, MountInfo};
pub use failure::{Failure, FailureKind};
pub use paths::{RunPaths, UntrustedDir};
pub use pool::{ImportCandidate, PoolInfo, ReplayInfo, ScanFunction, ScanInfo, ScanState};
pub use server::{ServeError, Server};
pub use service::Service;
pub use state::{PoolHealth, VdevAux, VdevClass, VdevState};
pub use vdev::{IoCounters, VdevInfo, VdevKind, VdevStats};
