//! The one program of Sawmill. `sawmill zpool …`, `sawmill zfs …` and `sawmill daemon …`
//! are its commands; called through a link named `zpool`, `zfs`, `zinject`, `zilstat` or `zed`, it is that command.
//!
//! ```text
//!  argv ─► program ─► args (flags, operands) ─► zpool::*, zfs::* ─► Session::ask ─► daemon
//!                          │ usage errors: 2         │                  │ starts it when
//!                          ▼                         ▼                  │ nobody listens
//!                        stderr               view::* (tables, JSON) ◄──┘
//! ```
//!
//! `sawmill ls | cat | tree | cp …` need no daemon: see [`visit`]. `sawmill rescue` needs none
//! either.
//!
//! Output and messages are an interface that scripts parse: tests compare them with what
//! OpenZFS 2.3.2 printed (`tests/golden`).
#![forbid(unsafe_code)]

#[macro_use]
mod terminal;

mod advise;
mod args;
mod bench;
mod cat;
mod complete;
mod cp;
mod daemon;
mod disk_model;
mod doctor;
mod environment;
mod inspect;
mod ls;
mod manual;
mod mount_helper;
mod mount_zfs;
mod numbers;
mod program;
mod rescue;
mod session;
mod top;
mod trace;
mod tree;
mod unknown;
mod view;
mod visit;
mod zed;
mod zfs;
mod zilstat;
mod zinject;
mod zpool;

pub use manual::{ExampleStep, ManualExample, PageExamples, examples};
pub use program::main;
