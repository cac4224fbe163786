//! Which uberblock and which label count: the two decisions of every import.
//!
//! Among uberblocks whose checksum and magic number hold:
//!
//! | txg | timestamp | heartbeat | which |
//! |---|---|---|---|
//! | higher | any | any | this one |
//! | equal | later | any | this one: a mirror's half was away when the other was written |
//! | equal | equal | higher | this one: written by a living host since |
//! | equal | equal | equal | the first found: they are copies |
//!
//! Among labels: the highest txg that is not above the uberblock's. A label of txg 0 was written
//! when its vdev was about to join and does not say so yet; it counts only when there is no other.

use ondisk::{NvList, UberblockPhys};
use units::Txg;

use crate::config::key;

/// The uberblock that counts, of those not after `max`.
pub fn best_uberblock<'a>(
    found: impl IntoIterator<Item = &'a UberblockPhys>,
    max: Option<Txg>,
) -> Option<&'a UberblockPhys> {
    let allowed = found.into_iter().filter(|ub| max.is_none_or(|max| ub.txg() <= max));
    allowed.fold(None, |best, ub| match best {
        Some(best) if newer(best, ub) => Some(best),
        _ => Some(ub),
    })
}

fn newer(best: &UberblockPhys, ub: &UberblockPhys) -> bool {
    best.rank() >= ub.rank()
}

/// The label that counts, of those not after `max`.
pub fn best_config<'a>(labels: impl IntoIterator<Item = &'a NvList>, max: Option<Txg>) -> Option<&'a NvList> {
    let txg = |label: &NvList| label.get_u64(key::POOL_TXG).unwrap_or(0);
    let allowed = labels.into_iter().filter(|label| max.is_none_or(|max| txg(label) <= max.get()));
    allowed.fold(None, |best, label| match best {
        Some(best) if txg(best) >= txg(label) => Some(best),
        _ => Some(label),
    })
}
