//! What befalls devices: one at a time, and each is well again after a while.

use std::time::Duration;

use env::{Env, FaultOp};
use pool::Pool;
use sim::Sim;

use super::DISKS;
use crate::dice::Dice;
use crate::story::number;

/// Draws what befalls which device.
pub(super) struct Mishaps<'a> {
    sim: &'a Sim,
    dice: Dice,
}

impl<'a> Mishaps<'a> {
    pub(super) fn new(sim: &'a Sim, seed: u64) -> Self {
        Self { sim, dice: Dice::new(seed, 2) }
    }

    /// `SAWMILL_LIFE_CALM=1` leaves them out, to tell what a failure is of.
    pub(super) fn are_off() -> bool {
        number("SAWMILL_LIFE_CALM").is_some()
    }

    /// Waits a while; then something may befall a device, and ends. Whether it did.
    pub(super) async fn one(&mut self, pool: &Pool) -> bool {
        self.sim.sleep(Duration::from_millis(20 + self.dice.below(200))).await;
        let leaves = pool.vdevs().leaves();
        let Some(leaf) = self.dice.pick(&leaves).filter(|_| !Self::are_off()) else { return false };
        let path = leaf.path();
        let Some(name) = DISKS.into_iter().find(|name| path.starts_with(name)) else { return false };
        let disk = self.sim.disk(name);
        let nth = 1 + self.dice.below(10);
        let which = self.dice.below(6);
        super::say(self.sim, &format!("mishap {which} of {name} in {nth}"));
        match which {
            0 => disk.faults().disappear_at(nth),
            1 => disk.faults().fail_range(FaultOp::Write, nth, 1 + self.dice.below(8)),
            2 => disk.faults().fail_range(FaultOp::Flush, nth, 1 + self.dice.below(2)),
            // A task of a txg that has begun and cannot read what is nowhere else ends the txgs.
            3 if pool.vdevs().can_do_without(leaf) => {
                disk.faults().fail_range(FaultOp::Read, nth, 1 + self.dice.below(8));
            }
            4 => disk.hang_from(nth),
            _ => disk.set_delay(Duration::from_millis(1 + self.dice.below(30))),
        }
        self.sim.sleep(Duration::from_millis(10 + self.dice.below(1_500))).await;
        disk.faults().heal();
        disk.answer();
        disk.set_delay(Duration::ZERO);
        super::say(self.sim, &format!("{name} is well"));
        true
    }
}
