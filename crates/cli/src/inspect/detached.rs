//! A log device by itself: its pool is elsewhere, or lost.
//!
//! The labels say whose it is. Where chains begin, only the pool knows, so blocks are looked for everywhere
//! ([`zil::scan`]), and put in order by what they say of themselves. Which of their records the pool has already,
//! it cannot be told: those of blocks that were needed no more are still there until something else is written
//! over them.

use super::report::Report;
use super::zil::record_with_state;
use engine::refusal;
use env::{BoxFuture, Device, IoBuf};
use std::collections::BTreeMap;
use std::sync::Arc;
use units::{LABEL_END_BYTES, LABEL_START_BYTES, VdevOffset};
use vdev::LeafLabels;
use zil::FoundBlock;

/// Blocks of one chain by their number. A place may have been used twice: the later block is what is there.
type Chain = BTreeMap<u64, FoundBlock>;

/// All blocks of logs on the device, by dataset and chain; and whether there is any, or a label.
pub async fn log(device: &Arc<dyn Device>) -> (Report, bool) {
    let mut report = Report::default();
    let labels = LeafLabels::read(device).await;
    report.section("label", "whose device this is", owner(&labels));
    let mut datasets: BTreeMap<u64, BTreeMap<[u64; 2], Chain>> = BTreeMap::new();
    for block in blocks(device).await {
        let chains = datasets.entry(block.objset.get()).or_default();
        chains.entry(block.chain).or_default().insert(block.seq.get(), block);
    }
    let is_any = !datasets.is_empty() || labels.configs.iter().any(Option::is_some);
    let mut found = Report::default();
    for (objset, chains) in datasets {
        let mut section = Report::default();
        for ([high, low], chain) in chains {
            section.section(format!("chain {high:016x}{low:016x}"), "named at random", of_chain(&chain));
        }
        found.section(format!("objset {objset}"), "a dataset, by its number in the pool", section);
    }
    report.section("logs", "blocks that verify; the pool may have some of their records already", found);
    (report, is_any)
}

fn owner(labels: &LeafLabels) -> Report {
    let mut report = Report::default();
    let Some(config) = labels.configs.iter().flatten().max_by_key(|config| config.get_u64("txg")) else {
        report.value("config", "missing", "no label verifies");
        return report;
    };
    report.value("pool", config.get_str("name").unwrap_or_default(), "its name when the label was written");
    for (name, about) in [
        ("pool_guid", "the pool's lasting name"),
        ("guid", "this device's"),
        ("txg", "group with which the label was written"),
        ("is_log", "1: a log device"),
    ] {
        if let Some(number) = config.get_u64(name) {
            report.value(name, number, about);
        }
    }
    report
}

async fn blocks(device: &Arc<dyn Device>) -> Vec<FoundBlock> {
    let extent = device.info().size_bytes.saturating_sub(LABEL_START_BYTES + LABEL_END_BYTES);
    let read = |from: u64, len: usize| {
        let bytes = VdevOffset::new(from).on_leaf().map(|at| device.read(at, len));
        Box::pin(async move { bytes?.await.ok() }) as BoxFuture<'_, Option<IoBuf>>
    };
    let mut found = Vec::new();
    zil::scan(&read, 0..extent, |block| found.push(block)).await;
    found
}

fn of_chain(chain: &Chain) -> Report {
    let mut report = Report::default();
    for (seq, block) in chain {
        let mut section = Report::default();
        section.value("offset", block.offset, "where on the device, behind its first labels");
        section.value("used", block.used() as u64, "bytes of its records");
        for record in block.records() {
            match record {
                Ok(record) => {
                    let name = format!("record {}", record.seq().get());
                    section.section(name, "", record_with_state(&record, None));
                }
                Err(error) => {
                    section.value("error", refusal::chain(&error), "what follows cannot be read");
                }
            }
        }
        report.section(format!("block {seq}"), "", section);
    }
    report
}
