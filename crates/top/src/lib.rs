//! A pool's intent log at work, in a terminal.
//!
//! ```text
//!  daemon ─► Source (who asks is somebody else's) ─► a thread that looks ─► Watching ─► panels ─► lines ─┬─► screen
//!                                      keys ───────────────────────────────────┘                        └─► once
//! ```
//! What is shown comes from [`live`]; this crate draws. A panel is a function from what was seen to lines of so many
//! columns, so that what is drawn on a screen can be printed by a script, too, and compared with text in a test.
//!
//! Nothing says anything by colour alone: density is told by characters, states by words. Where the locale has no
//! UTF-8, all characters are ASCII.
//!
//! Invariants
//! - The terminal is as it was before, however the program ends but by `kill -9`.
//! - Looking never holds up a key: a daemon that does not answer is waited for by a thread of its own.
#![forbid(unsafe_code)]

mod ink;
mod once;
mod panels;
mod screen;
mod source;
mod terminal;
mod watching;
mod words;

pub use ink::Ink;
pub use once::once;
pub use source::Source;
pub use terminal::{Options, run};

#[cfg(test)]
mod tests;
