//! Intent logs: every block and every record.

use super::report::Report;
use engine::refusal;
use ondisk::describe::Describe;
use ondisk::zil::TxType;
use pool::{DatasetLog, Pool, PoolError};
use std::sync::Arc;
use zil::{WalkedBlock, WalkedRecord};

/// The logs of all datasets, or of one.
pub async fn logs(pool: &Arc<Pool>, dataset: Option<&str>) -> Result<Report, PoolError> {
    let mut report = Report::default();
    for log in pool.logs().await? {
        if dataset.is_none_or(|name| name == log.name) {
            report.section(log.name.clone(), "a dataset with a log", of_dataset(&log).await);
        }
    }
    Ok(report)
}

async fn of_dataset(log: &DatasetLog) -> Report {
    let mut report = Report::default();
    report.section("header", "where the log begins", Report::of_fields(&log.header.describe()));
    let mut walk = log.walk();
    let mut blocks = Report::default();
    loop {
        match walk.next().await {
            Ok(Some(block)) => {
                blocks.section(format!("block {}", block.seq.get()), about(&block), of_block(log, &block))
            }
            Ok(None) => break,
            Err(error) => {
                blocks.value("error", refusal::chain(&error), "the log ends here, though it should not");
                break;
            }
        }
    }
    report.section("blocks", "in the order of the chain", blocks);
    report
}

fn about(block: &WalkedBlock) -> &'static str {
    if block.is_written() { "" } else { "allocated, and not written: the end of the chain" }
}

fn of_block(log: &DatasetLog, block: &WalkedBlock) -> Report {
    let mut report = Report::default();
    let dva = block.bp.dva(0);
    report.value("vdev", u64::from(dva.vdev.get()), "top-level vdev it lies on");
    report.value("offset", dva.offset.get(), "where on it");
    report.value("size", block.bp.psize().get(), "bytes that it has");
    if block.is_written() {
        report.value("used", block.used() as u64, "bytes of its records");
    }
    for record in block.records() {
        match record {
            Ok(record) => {
                report.section(format!("record {}", record.seq().get()), "", of_record(log, &record))
            }
            Err(error) => report.value("error", refusal::chain(&error), "what follows cannot be read"),
        }
    }
    report
}

fn of_record(log: &DatasetLog, record: &WalkedRecord<'_>) -> Report {
    record_with_state(record, Some(state(log, record)))
}

/// A record; whether it waits for replay may not be known.
pub fn record_with_state(record: &WalkedRecord<'_>, state: Option<&str>) -> Report {
    let mut report = Report::default();
    let kind = TxType::from_raw(record.txtype())
        .map_or_else(|_| format!("type {}", record.txtype()), |t| t.name().into());
    report.value("type", kind, "");
    report.value("txg", record.txg().get(), "group that holds the change once it is synced");
    if let Some(state) = state {
        report.value("state", state, "");
    }
    match record.decode() {
        Ok((_, decoded)) => report.extend(Report::of_fields(&decoded.describe())),
        Err(error) => report.value("error", refusal::chain(&error), "makes no sense"),
    }
    report
}

fn state(log: &DatasetLog, record: &WalkedRecord<'_>) -> &'static str {
    match () {
        () if record.seq().get() <= log.header.replay_seq.get() => "replayed",
        () if record.txg() <= log.synced => "in the pool",
        () => "waits for replay",
    }
}
