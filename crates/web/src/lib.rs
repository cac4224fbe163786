//! What the daemon shows over HTTP: metrics, and a page for people.
//!
//! ```text
//!  Unix sockets ──────────────► /metrics ─────────────────┐
//!                                                          ├─► Source (the daemon's engine), which is only asked
//!  127.0.0.1:PORT ─► Guard ─┬─► /metrics ─────────────────┤
//!   (off by default)        ├─► /api/…: what is, and what was lately (Watched: one look a second)
//!                           └─► the page: files that are part of the program
//! ```
//! The port is there only if somebody asked for it, and only on a loopback address. Every process of the host can reach that,
//! those of other users and whatever a browser runs for a foreign page; so each request needs a token that only the daemon's
//! user can read, and has to name a loopback host, so that no foreign name that leads here is answered.
//!
//! Invariants
//! - Nothing is shown on the port without the token. (test: `nothing_is_shown_without_the_token`)
//! - A request for a host that is not this one's loopback is refused, token or not. (test: `foreign_hosts_are_refused`)
//! - Nothing that is asked for here changes a pool: there are only the questions of [`Source`].
#![forbid(unsafe_code)]

mod address;
mod api;
mod assets;
mod compare;
mod guard;
mod history;
mod metrics_page;
mod page;
mod port;
mod source;
mod tick;
mod token;
mod tree;
mod watched;

pub use address::{AddressError, loopback};
pub use history::TICKS;
pub use metrics_page::metrics_routes;
pub use page::{Page, PageError};
pub use source::{ServiceSource, Source};
pub use token::{Token, TokenError};
pub use watched::Watched;
