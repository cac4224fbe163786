//! Whose turn it is: spreads blocks over the vdevs of a class.
//!
//! Each vdev gets a portion of blocks in a row, so that it writes, and later reads, a stretch at
//! once; then it is the next one's turn. A vdev that is emptier than the others gets larger
//! portions, a fuller one smaller, until all are equally full.
//! (tests: `vdevs_take_turns`, `an_emptier_vdev_gets_more`)

use units::VdevId;

use crate::figures::SpaceFigures;

/// What a vdev as full as the average gets in a row.
const PORTION_BYTES: u64 = 512 << 10;
/// Portions are multiples of the usual large block.
const PORTION_STEP_BYTES: u64 = 128 << 10;
/// The largest and smallest portion: as a multiple, and as a part.
const PORTION_SKEW: u64 = 4;

/// The vdevs of a class in order, and where the turn is.
#[derive(Debug, Default)]
pub(crate) struct Rotor {
    ring: Vec<VdevId>,
    at: usize,
    left_bytes: u64,
}

impl Rotor {
    pub(crate) fn insert(&mut self, id: VdevId) {
        self.ring.push(id);
        self.ring.sort_unstable();
        self.restart();
    }

    pub(crate) fn remove(&mut self, id: VdevId) {
        self.ring.retain(|&other| other != id);
        self.restart();
    }

    fn restart(&mut self) {
        (self.at, self.left_bytes) = (0, PORTION_BYTES);
    }

    pub(crate) fn vdevs(&self) -> &[VdevId] {
        &self.ring
    }

    /// The vdev `ahead` turns from now.
    pub(crate) fn turn(&self, ahead: usize) -> VdevId {
        self.ring[(self.at + ahead) % self.ring.len()]
    }

    /// `bytes` went to `id`. Its portion shrinks if it was its turn; once that is used up, or if it
    /// had to step in for those before it, the turn moves on. Says whether it did.
    pub(crate) fn charge(&mut self, id: VdevId, bytes: u64) -> bool {
        if self.turn(0) == id && self.left_bytes > bytes {
            self.left_bytes -= bytes;
            return false;
        }
        let at = self.ring.iter().position(|&other| other == id).unwrap_or(self.at);
        self.at = (at + 1) % self.ring.len();
        true
    }

    /// Measures out the portion of the vdev whose turn it now is.
    pub(crate) fn start_portion(&mut self, own: SpaceFigures, class: SpaceFigures) {
        let (own_free, own_all) = (u128::from(own.free.get()), u128::from(own.capacity.get()));
        let (free, all) = (u128::from(class.free.get()), u128::from(class.capacity.get()));
        // PORTION × (own_free / own_all) / (free / all), in an order that keeps precision.
        let fair = (u128::from(PORTION_BYTES) * own_free * all).checked_div(own_all * free).unwrap_or(0);
        let fair = u64::try_from(fair).unwrap_or(u64::MAX);
        let whole = fair.saturating_add(PORTION_STEP_BYTES / 2) & !(PORTION_STEP_BYTES - 1);
        self.left_bytes = whole.clamp(PORTION_BYTES / PORTION_SKEW, PORTION_BYTES * PORTION_SKEW);
    }
}
