//! Initialize and trim.

use crate::{Holder, refusal};
use control::{Failure, FailureKind, PoolInitialize, PoolTrim, SweepInfo, SweepOrder, SweepState, VdevInfo};
use pool::Pool;
use pool::sweep::{Kind, Order, State, SweepRefusal, can_trim};
use std::sync::Arc;
use units::Guid;
use vdev::Leaf;

/// The exit code of commands that fail in the library: scripts expect it.
const LIBRARY_FAILED: u8 = 255;

/// What is asked of the devices of a pool.
struct Asked<'a> {
    pool: &'a str,
    devices: &'a [(u64, String)],
    kind: Kind,
    order: Order,
}

impl Holder {
    pub(super) async fn initialize(&self, call: PoolInitialize) -> Result<(), Failure> {
        let order = order_of(call.order, 0, false);
        let asked = Asked { pool: &call.pool, devices: &call.devices, kind: Kind::Initialize, order };
        match refusals(&self.sweep(&asked).await?, &asked) {
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    }

    pub(super) async fn trim(&self, call: PoolTrim) -> Result<(), Failure> {
        let order = order_of(call.order, call.rate, call.secure);
        let asked = Asked { pool: &call.pool, devices: &call.devices, kind: Kind::Trim, order };
        let mut refused = self.sweep(&asked).await?;
        if call.whole_pool && !call.secure {
            let all = refused.len();
            refused.retain(|(_, refusal)| *refusal != SweepRefusal::CannotTrim);
            if all == call.devices.len() && refused.is_empty() {
                let line = "cannot trim: no devices in pool support trim operations";
                return Err(Failure::new(FailureKind::Unsupported, line).exits(LIBRARY_FAILED));
            }
        }
        match refusals(&refused, &asked) {
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    }

    async fn sweep(&self, asked: &Asked<'_>) -> Result<Vec<(Guid, SweepRefusal)>, Failure> {
        let held = self.pool(asked.pool)?;
        let leaves: Vec<Guid> = asked.devices.iter().map(|(guid, _)| Guid::new(*guid)).collect();
        let swept = held.pool.sweep(asked.kind, asked.order, &leaves).await;
        let refused = swept
            .map_err(|error| refusal::pool(asked.kind.name(), asked.pool, &error).exits(LIBRARY_FAILED))?;
        tracing::info!(pool = asked.pool, order = ?asked.order, "{}", asked.kind.name());
        Ok(refused)
    }
}

fn order_of(order: SweepOrder, rate: u64, secure: bool) -> Order {
    match order {
        SweepOrder::Start => Order::Start { rate, secure },
        SweepOrder::Suspend => Order::Suspend,
        SweepOrder::Cancel => Order::Cancel,
        SweepOrder::Forget => Order::Forget,
    }
}

/// A line for each device that was refused, in the order in which they were named.
fn refusals(refused: &[(Guid, SweepRefusal)], asked: &Asked<'_>) -> Option<Failure> {
    let verb = asked.kind.name();
    let lines = refused.iter().map(|(guid, refusal)| {
        let name = asked.devices.iter().find(|(asked, _)| *asked == guid.get());
        format!(
            "cannot {verb} '{}': {refusal}",
            name.map_or_else(|| guid.to_string(), |(_, name)| name.clone())
        )
    });
    let mut lines = lines.collect::<Vec<_>>().into_iter();
    let first = Failure::new(FailureKind::Invalid, lines.next()?).exits(LIBRARY_FAILED);
    Some(lines.fold(first, Failure::and))
}

/// What is told of a leaf.
pub fn put(info: &mut VdevInfo, pool: &Pool, leaf: &Arc<Leaf>) {
    info.initialize = sweep_info(pool, leaf, Kind::Initialize);
    info.trim = sweep_info(pool, leaf, Kind::Trim);
    info.cannot_trim = leaf.is_usable() && !can_trim(leaf);
}

fn sweep_info(pool: &Pool, leaf: &Arc<Leaf>, kind: Kind) -> SweepInfo {
    let report = pool.sweep_report(leaf, kind);
    SweepInfo {
        state: match report.record.state {
            State::None => SweepState::None,
            State::Active => SweepState::Active,
            State::Canceled => SweepState::Canceled,
            State::Suspended => SweepState::Suspended,
            State::Complete => SweepState::Complete,
        },
        done_bytes: report.done_bytes,
        total_bytes: report.total_bytes,
        changed_secs: report.record.changed_secs,
        errors: report.errors,
    }
}
