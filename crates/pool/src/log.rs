//! Intent logs as seen from the pool: the room, the devices and the txgs that they get, and what an import finds.
//!
//! ```text
//!  zil ─► store ─┬─► homes: which log vdev a block goes to
//!                └─► share: how much of the room the open txg may take
//!  import ─► reader ─► claim, replay ─► replays (how far), loss (what breaks off)
//!                        └─► leaked: what none of them holds
//!  looking only: look, replay_plan; load: how much each txg took; by_dataset: what each dataset had its log do
//! ```

pub(crate) mod by_dataset;
pub(crate) mod homes;
pub(crate) mod leaked;
pub(crate) mod load;
pub(crate) mod look;
pub(crate) mod loss;
pub(crate) mod reader;
pub(crate) mod replay_plan;
pub(crate) mod replays;
pub(crate) mod share;
pub(crate) mod store;
