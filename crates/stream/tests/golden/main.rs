//! The streams that OpenZFS sent of a golden pool, read, and sent again by us.
//!
//! ```text
//!  full.zstream ... ─► Reader ─► Summary  ═  what `zstream dump` said of it
//!  a.img ─► Pool ─► frozen objset ─► send ═  the same bytes as in full.zstream ...
//! ```

mod damage;
mod read;
mod received;
mod sent;
mod slow;
mod world;
mod zstream;
