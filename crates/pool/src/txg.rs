//! Transaction groups as the pool makes them: what a sync does, and what else happens in one.
//!
//! ```text
//!  open ─► quiescing ─► syncing ─────────────────────────────────────────► stable
//!                         tasks (changes of the meta-objset) ─► datasets ─► labels
//!                         trim: rooms freed long enough ago, told to the devices
//!                         suspend: a device does not do what the sync needs
//! ```
//! Joining, quiescing and waiting are `dmu::TxgGate`'s.

pub(crate) mod record;
pub(crate) mod suspend;
pub(crate) mod sync;
pub(crate) mod tasks;
pub(crate) mod trim;
