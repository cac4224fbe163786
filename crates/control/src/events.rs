//! What happened lately, and what came since somebody last asked.

use serde::{Deserialize, Serialize};

/// How far somebody has read the events of a daemon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventsSeen {
    /// Of which run of the daemon; 0 for who has read nothing.
    pub run: u64,
    /// Up to which event.
    pub eid: u64,
}

/// Events that somebody had not seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventsPage {
    /// Oldest first: nvlists in XDR, as OpenZFS names their pairs.
    pub events: Vec<Vec<u8>>,
    /// How many went before they were read.
    pub dropped: u64,
    /// Up to where this goes.
    pub seen: EventsSeen,
}
