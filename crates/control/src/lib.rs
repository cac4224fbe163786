//! What the commands and the daemon say to each other: requests, answers, refusals, and the way between.
//!
//! ```text
//!  a command ─► client ──HTTP/JSON over a Unix socket──► server ─► Service (the daemon's engine)
//!     ▲                                                               │
//!     └────────── Answer, or Failure {stdout, stderr, exit} ◄─────────┘
//! ```
//! Streams of snapshots go the same way in pieces before the answer (`transfer`); those that come are read from a descriptor
//! that the command hands over with its request (`handover`, `source`).
//!
//! A command is a thin front: it parses words, asks, and prints a tree. Every rule is the engine's, so
//! that any client gets the same answer. The words of a refusal are
//! part of the interface scripts rely on, so a [`Failure`] carries them ready to print.
//!
//! Invariants
//! - Whatever comes over the socket gives an answer or a [`Failure`], never a panic
//!   (test: `garbage_on_the_socket_gets_an_error_and_the_server_lives_on`).
//! - Only the owner of the daemon, or root, is listened to (`server::OwnerOnly`); others by a socket of their own, for what
//!   only shows, and for what was delegated to them (`Service::check_delegated`).
#![forbid(unsafe_code)]

mod accounts;
mod call;
mod client;
mod counted;
mod dataset;
mod descent;
mod device;
mod diff;
mod events;
mod failure;
mod handover;
mod inject;
mod io;
mod log_facts;
mod log_recording;
mod log_users;
mod logs;
mod names;
mod paths;
mod patience;
mod permissions;
mod pool;
mod process;
mod prop;
mod receive;
mod relay;
mod send;
mod server;
mod service;
mod snapshot;
mod source;
mod state;
mod sweep;
mod transfer;
mod vdev;
mod visitors;

pub use accounts::*;
pub use call::*;
pub use client::{Client, ClientError, TOLD_AFTER};
pub use counted::*;
pub use dataset::{DatasetInfo, DatasetKind, DatasetMade, MountInfo, pool_of};
pub use descent::*;
pub use device::*;
pub use diff::*;
pub use events::*;
pub use failure::{Failure, FailureKind};
pub use inject::*;
pub use io::*;
pub use log_facts::*;
pub use log_recording::*;
pub use log_users::*;
pub use logs::*;
pub use names::{NameStyle, find_vdev, vdev_name};
pub use paths::{RunPaths, UntrustedDir};
pub use patience::{Pace, Patient};
pub use permissions::*;
pub use pool::{
    CheckpointInfo, DedupInfo, ErrorScrubInfo, ImportCandidate, InUse, PoolInfo, RemovalInfo, ReplayInfo,
    ScanFunction, ScanInfo, ScanState, mark_shared_spares,
};
pub use process::*;
pub use prop::{Prop, Props, Source, Value};
pub use receive::*;
pub use relay::Relay;
pub use send::*;
pub use server::{ServeError, Server};
pub use service::{Service, blank_requests};
pub use snapshot::*;
pub use source::ByteSource;
pub use state::{PoolHealth, VdevAux, VdevClass, VdevState};
pub use sweep::*;
pub use transfer::ByteSink;
pub use vdev::{IoCounters, Layout, VdevInfo, VdevKind, VdevSpec, VdevStats};
pub use visitors::Work;
