//! What the labels of a device say.

use super::report::Report;
use env::Device;
use ondisk::describe::Describe;
use ondisk::label::{LABELS, label_offset};
use std::sync::Arc;
use vdev::{FoundUberblock, LeafLabels};

/// The four labels: configuration, and the ring of uberblocks. Those that read alike are told
/// once. `all`: every uberblock whole, and not only the best. And whether there is a label at all.
pub async fn labels(device: &Arc<dyn Device>, all: bool) -> (Report, bool) {
    let size = device.info().size_bytes;
    let found = LeafLabels::read(device).await;
    let mut report = Report::default();
    report.value("size_bytes", size, "of the device");
    for label in 0..LABELS {
        let mut section = Report::default();
        if let Some(at) = label_offset(size, label) {
            section.value("offset", at.get(), "where it lies on the device");
        }
        let earlier = (0..label).find(|&earlier| found.configs[earlier] == found.configs[label]);
        match (&found.configs[label], earlier) {
            (None, _) => section.value("config", "missing", "no configuration that verifies"),
            (Some(_), Some(earlier)) => {
                section.value("config", format!("as in label {earlier}"), "the pool and this vdev");
            }
            (Some(config), None) => {
                section.section("config", "the pool and this vdev", Report::of_nvlist(config));
            }
        }
        let valid = found.uberblocks.iter().filter(|uberblock| uberblock.label == label);
        section.value("uberblocks", valid.count() as u64, "that verify, in this label's ring");
        report.section(format!("label {label}"), "", section);
    }
    report.section("ring", "uberblocks by slot, as the labels that have them say", ring(&found, all));
    if let Some(best) = found.uberblock(None) {
        report.section("best uberblock", "the one that an import takes", Report::of_fields(&best.describe()));
    }
    let is_any = found.configs.iter().any(Option::is_some) || !found.uberblocks.is_empty();
    (report, is_any)
}

fn ring(found: &LeafLabels, all: bool) -> Report {
    let best = found.uberblock(None).map(|best| best.rank());
    let mut slots: Vec<&FoundUberblock> = found.uberblocks.iter().collect();
    slots.sort_by_key(|found| (found.slot, found.uberblock.rank(), found.label));
    let mut report = Report::default();
    for same in slots.chunk_by(|a, b| a.slot == b.slot && a.uberblock == b.uberblock) {
        let (first, labels) = (&same[0], same.iter().map(|f| f.label.to_string()).collect::<Vec<_>>());
        let star = if Some(first.uberblock.rank()) == best { ", best" } else { "" };
        let name = format!("slot {} in labels {}", first.slot, labels.join(" "));
        if all {
            report.section(
                name,
                star.trim_start_matches(", "),
                Report::of_fields(&first.uberblock.describe()),
            );
        } else {
            let (txg, time) = (first.uberblock.txg.get(), first.uberblock.timestamp.get());
            report.value(name, format!("txg {txg}, time {time}{star}"), "");
        }
    }
    report
}
