//! The parts of `env`'s queue.

#[expect(dead_code, reason = "a model has one class")]
#[path = "../../env/src/queue/class.rs"]
mod class;
#[path = "../../env/src/queue/lanes.rs"]
mod lanes;
#[expect(dead_code, reason = "a model does not ask for figures")]
#[path = "../../env/src/queue/meter.rs"]
mod meter;
#[expect(dead_code, reason = "a model does not ask for figures")]
#[path = "../../env/src/queue/queued.rs"]
mod queued;
#[path = "../../env/src/queue/ticket.rs"]
mod ticket;

use class::IoClass;
pub(crate) use lanes::{Bound, Bounds};
use meter::IoOp;
pub(crate) use meter::Meter;
pub(crate) use queued::Queued;

/// Whether nobody waits, and a place is free; it is taken then.
pub(crate) fn has_place(queued: &Queued) -> bool {
    let mut lanes = queued.0.lanes.lock();
    lanes.waiting() == 0 && lanes.try_start(IoClass::current(), IoOp::Read)
}
