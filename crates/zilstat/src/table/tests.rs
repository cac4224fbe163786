use super::*;
use crate::{DATASET_DEFAULT, EXTRA, FIELDS, GLOBAL_DEFAULT, find};
use control::{Counts, LogBlocks, LogWrites};

/// A log with figures of every length.
fn busy() -> LogInfo {
    LogInfo {
        commits: 9_000,
        writes: 1_200,
        records: 12_345,
        copied: LogWrites { records: 999, bytes: 1 << 20 },
        needcopy: LogWrites { records: 1, bytes: 512 << 10 },
        indirect: LogWrites { records: 40, bytes: 5 << 20 },
        normal: LogBlocks { count: 7, used_bytes: 5_000, written_bytes: 8_192, allocated_bytes: 131_072 },
        slog: LogBlocks { count: 100, used_bytes: 300_000, written_bytes: 409_600, allocated_bytes: 600_000 },
        failed_flushes: 2,
        latency: Counts(vec![0; 20].into_iter().chain([98, 0, 2]).collect()),
        ..LogInfo::default()
    }
}

fn table(names: &[&str], seconds: Option<u64>) -> Table {
    let fields = names.iter().map(|name| find(name).expect("a field")).collect();
    Table { fields, separator: "  ".to_owned(), seconds }
}

const SUBJECT: Subject<'_> = Subject { time: "12:34:56", pool: "tank", dataset: "tank/db", objset: "0x36" };

#[test]
fn a_dataset_and_all_together_are_shown_in_zilstats_columns() {
    let of_dataset = table(&DATASET_DEFAULT, None);
    assert_eq!(
        of_dataset.heading() + &of_dataset.row(&SUBJECT, &busy()),
        "    time            ds     cc     ic    idc    idb    iic    iib    imnc    imnw    imsc    imsw  \n\
         12:34:56       tank/db   9.0K    12K   1000   1.5M     40   5.0M       7    8.0K     100    400K  \n"
    );
    let of_all = table(&GLOBAL_DEFAULT, None);
    assert_eq!(
        of_all.heading(),
        "    time     cc     ic    idc    idb    iic    iib    imnc    imnw    imsc    imsw  \n"
    );
}

#[test]
fn figures_of_an_interval_are_those_of_a_second_but_for_parts_and_times() {
    let mut rates = table(&["cc", "imsw", "se%", "ten%", "tes%", "p50", "p99", "fec"], Some(10));
    rates.separator = ",".to_owned();
    // 305,000 of 731,072 allocated; 5,000 of 8,192 and 300,000 of 409,600 written; 2^20 and 2^22 ns.
    assert_eq!(
        rates.heading() + &rates.row(&SUBJECT, &busy()),
        " cc/s,imsw/s,se%,ten%,tes%,   p50,   p99,fec/s,\n  900,   40K, 41,  61,  73,  1.0K,  4.2K,    0,\n"
    );
}

#[test]
fn every_field_has_a_name_of_its_own_and_a_value_of_an_idle_log() {
    let all: Vec<_> = FIELDS.iter().chain(&EXTRA).collect();
    for (place, field) in all.iter().enumerate() {
        assert!(all[..place].iter().all(|other| other.name != field.name), "{}", field.name);
        let idle = if field.scale == Scale::Percent { 100 } else { 0 };
        assert_eq!((field.value)(&LogInfo::default()), idle, "{}", field.name);
    }
    assert_eq!(find("zimnb").map(|field| field.name), None);
}
