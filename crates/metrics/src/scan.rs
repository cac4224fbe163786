//! Scrubs and resilvers.

use crate::PoolLook;
use crate::family::{Family, Known, maybe, one, write as write_all};
use crate::text::{Text, Unit};
use control::{ScanFunction, ScanInfo};

const FAMILIES: &[Family<ScanInfo>] = &[
    Family::gauge(
        "sawmill_scan_running",
        Unit::None,
        "1 while a scrub or resilver is under way, paused ones too.",
        |scan| one(scan.is_under_way()),
    ),
    Family::gauge("sawmill_scan_paused", Unit::None, "1 while a scrub is paused.", |scan| {
        one(scan.is_under_way() && scan.paused_secs.is_some())
    }),
    Family::gauge("sawmill_scan_total", Unit::Bytes, "What the scan has to read in all.", |scan| {
        one(scan.total_bytes)
    }),
    Family::gauge("sawmill_scan_issued", Unit::Bytes, "What the scan has issued reads for.", |scan| {
        one(scan.issued_bytes)
    }),
    Family::gauge("sawmill_scan_repaired", Unit::Bytes, "What the scan has repaired or rebuilt.", |scan| {
        one(scan.repaired_bytes)
    }),
    Family::gauge("sawmill_scan_errors", Unit::None, "Errors that the scan could not repair.", |scan| {
        one(scan.errors)
    }),
    Family::gauge("sawmill_scan_start_time", Unit::Seconds, "When it began, since 1970.", |scan| {
        one(scan.start_secs)
    }),
    Family::gauge("sawmill_scan_end_time", Unit::Seconds, "When it ended, since 1970.", |scan| {
        maybe(Some(scan.end_secs).filter(|secs| *secs > 0))
    }),
];

pub(crate) fn write(text: &mut Text, pools: &[PoolLook]) {
    let scans = pools.iter().filter_map(|look| Some((&look.pool.name, look.pool.scan.as_ref()?)));
    let known = scans.map(|(pool, scan)| Known {
        labels: vec![("pool", pool.as_str()), ("function", word(scan.function))],
        thing: scan,
    });
    write_all(text, FAMILIES, &known.collect::<Vec<_>>());
}

fn word(function: ScanFunction) -> &'static str {
    match function {
        ScanFunction::Scrub => "scrub",
        ScanFunction::Resilver => "resilver",
    }
}
