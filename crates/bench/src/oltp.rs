//! `sawmill bench oltp`: what a database does, on a pool in process, beside direct I/O on the same disk.
//!
//! ```text
//!  a transaction: read, read, write a page at random ─► append to the log (WAL), stable ─► done
//!  beside them:   a checkpoint from time to time makes the pages that were written stable
//! ```
//! Reads to writes are 2:1 and pages have 8 KiB, unless asked otherwise; the log is larger appends in order. With a rate,
//! transactions come in even steps whatever the last one took (an open loop). [`table`] takes the ways to set up a pool
//! that are advised for databases in turn, each beside direct I/O.
//!
//! Figures of the time are of the transactions alone; CPU and bytes include what they left to be written after
//! them: a checkpoint and a sync of the pool are at the end of every measurement.

mod aligned;
mod direct;
mod load;
mod pooled;
mod report;
mod store;
mod table;
mod wal;

use std::sync::Arc;

use device::RealEnv;

pub use load::{Load, Pages, Rate};
pub use pooled::{Devices, Setup, WalIn};
pub use report::Report;
pub use store::{Moved, OltpError};
pub use table::{Row, Table, table};

use direct::Direct;
use load::{drive, fill};
use pooled::Pooled;
use store::Store;
use wal::Wal;

use crate::usage::cpu_time;

/// Pages and records of the log are multiples of this, as `O_DIRECT` may want it.
pub const ALIGN_BYTES: usize = 4096;

/// What the load runs on.
#[derive(Clone, Debug)]
pub enum On {
    /// Plain files, `O_DIRECT` and `fdatasync`; the log is on the log device, when that is asked for and there is one.
    Direct {
        /// It is asked for.
        wal_on_log: bool,
    },
    /// A pool that is made for it.
    Pool(Setup),
}

/// What to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The load.
    pub load: Load,
    /// What it may use. Everything on them is lost.
    pub devices: Devices,
    /// What it runs on.
    pub on: On,
}

/// Runs it.
///
/// # Errors
/// When files or pool cannot be made, read or written, or what is read is not what was written.
pub fn run(env: &Arc<RealEnv>, plan: &Plan) -> Result<Report, OltpError> {
    match &plan.on {
        On::Direct { wal_on_log } => {
            let log = plan.devices.log.first().filter(|_| *wal_on_log);
            measure(&Direct::open(&plan.devices.main[0], log.map(AsRef::as_ref), &plan.load)?, &plan.load)
        }
        On::Pool(setup) => {
            let pooled = Pooled::make(env, &plan.devices, setup)?;
            let report = measure(&pooled, &plan.load)?;
            pooled.destroy()?;
            Ok(report)
        }
    }
}

fn measure(store: &impl Store, load: &Load) -> Result<Report, OltpError> {
    let wal = Wal::new(load.wal_record, load.wal_span);
    fill(store, load)?;
    let most = if load.ramp.is_zero() { 0.0 } else { drive(store, load, &wal, 0.0, load.ramp)?.rate() };
    let rate = load.rate.per_second(most);
    store.checkpoint()?;
    store.settle()?;
    let (before, cpu) = (store.moved(), cpu_time());
    let driven = drive(store, load, &wal, rate, load.time)?;
    store.checkpoint()?;
    store.settle()?;
    let moved = store.moved().since(before);
    Ok(Report::new(load, rate, driven, moved, cpu_time().saturating_sub(cpu)))
}

#[cfg(test)]
mod tests;
