//! `sawmill bench oltp`.

use std::time::Duration;

use bench::oltp::{self, ALIGN_BYTES, Devices, Load, On, Pages, Plan, Rate, Setup, WalIn};
use bench::{Refusal, failed};

use super::words::Words;
use super::{CACHE, JSON, LOG, MAIN, SECONDS, SPAN, THREADS, environment, outcome, print_report};
use crate::args::{Flag, Spec};
use crate::program::Command;

pub(super) const OLTP: Command = Command::new(
    Spec {
        name: "oltp",
        alias: None,
        about: "measures what a database does, in process, and each way to set up a pool for one beside direct I/O",
        flags: &[
            MAIN,
            LOG,
            Flag::long("table", "all ways to set up a pool in turn, each beside direct I/O on the same disk"),
            Flag::long_value("rounds", "number", "how often --table goes through all of them (1)"),
            Flag::long(
                "direct",
                "no pool: O_DIRECT and fdatasync on the first device, the database's log on the log device",
            ),
            Flag { help: "how many transactions at once (8)", ..THREADS },
            Flag::long_value("reads", "number", "pages that a transaction reads, at random (2)"),
            Flag::long_value("writes", "number", "pages that it writes, at random (1)"),
            Flag::long_value("size", "size", "bytes of a page, a multiple of 4k (8k)"),
            Flag { help: "bytes of all pages: above --cache they do not fit into memory (256m)", ..SPAN },
            CACHE,
            Flag::long_value(
                "pages",
                "cached|stable",
                "pages are stable with a checkpoint, or each at once (cached)",
            ),
            Flag::long_value("checkpoint", "seconds", "from one checkpoint to the next (2)"),
            Flag::long_value(
                "wal-size",
                "size",
                "bytes that a transaction appends to the database's own log (16k)",
            ),
            Flag::long_value("wal-span", "size", "bytes of that log, which is used in a circle (64m)"),
            Flag::long_value(
                "wal",
                "same|own|pool",
                "that log in the dataset of the pages, in its own, or in a pool on --log (own)",
            ),
            Flag::long_value("record", "size", "the record size of the pages' dataset (as --size)"),
            Flag::long_value("checksum", "on|off", "the property of all datasets (on)"),
            Flag::long_value("logbias", "latency|throughput", "the property of the pages' dataset (latency)"),
            Flag::long_value(
                "rate",
                "number",
                "transactions a second that are asked for, whatever they take; 0 for the most (0)",
            ),
            Flag::long_value("utilisation", "percent", "the same, of the most that were made in --ramp"),
            Flag::long_value("ramp", "seconds", "as many as possible for so long before it is measured (2)"),
            SECONDS,
            JSON,
        ],
        operands: "",
    },
    |_, args| outcome(args, run),
);

fn run(words: &Words<'_>) -> Result<u8, Refusal> {
    let load = load(words)?;
    let devices = Devices {
        main: words.paths("main"),
        log: words.paths("log"),
        cache: words.bytes("cache", daemon::memory::default_bytes())?,
    };
    if devices.main.is_empty() {
        return Err(Refusal::Usage("--main FILE is needed".into()));
    }
    if words.has("table") {
        return table(words, &load, &devices);
    }
    let on =
        if words.has("direct") { On::Direct { wal_on_log: true } } else { On::Pool(setup(words, &load)?) };
    if matches!(&on, On::Pool(setup) if setup.wal == WalIn::Pool) && devices.log.is_empty() {
        return Err(Refusal::Usage("--wal pool needs --log FILE".into()));
    }
    let report = oltp::run(&environment()?, &Plan { load, devices, on }).map_err(failed)?;
    print_report(words, &report, report.text());
    Ok(0)
}

fn table(words: &Words<'_>, load: &Load, devices: &Devices) -> Result<u8, Refusal> {
    let set = ["direct", "wal", "record", "checksum", "logbias"].into_iter().find(|word| words.has(word));
    if let Some(word) = set {
        return Err(Refusal::Usage(format!("--table has all ways: no --{word}")));
    }
    let rounds = words.number("rounds", 1)?;
    if rounds == 0 {
        return Err(Refusal::Usage("--rounds above 0".into()));
    }
    let table = oltp::table(&environment()?, load, devices, rounds).map_err(failed)?;
    print_report(words, &table, table.text());
    Ok(0)
}

fn load(words: &Words<'_>) -> Result<Load, Refusal> {
    let seconds = |name, default| words.number(name, default).map(|secs| Duration::from_secs(secs as u64));
    let load = Load {
        threads: words.number("threads", 8)?,
        reads: words.number("reads", 2)?,
        writes: words.number("writes", 1)?,
        block: words.bytes("size", 8 << 10)? as usize,
        span: words.bytes("span", 256 << 20)?,
        wal_record: words.bytes("wal-size", 16 << 10)? as usize,
        wal_span: words.bytes("wal-span", 64 << 20)?,
        pages: word(words, "pages", &[("cached", Pages::Cached), ("stable", Pages::Stable)])?,
        checkpoint: seconds("checkpoint", 2)?,
        rate: rate(words)?,
        ramp: seconds("ramp", 2)?,
        time: seconds("seconds", 5)?,
    };
    let fits = |part: usize, whole: u64| part > 0 && part.is_multiple_of(ALIGN_BYTES) && part as u64 <= whole;
    if load.threads == 0 || !fits(load.block, load.span) || !fits(load.wal_record, load.wal_span) {
        return Err(Refusal::Usage(
            "--threads above 0, --size and --wal-size multiples of 4k, and --span and --wal-span no less than they".into(),
        ));
    }
    if load.ramp.is_zero() && matches!(load.rate, Rate::Percent(_)) {
        return Err(Refusal::Usage("--utilisation needs --ramp above 0".into()));
    }
    Ok(load)
}

fn rate(words: &Words<'_>) -> Result<Rate, Refusal> {
    match (words.number("rate", 0)?, words.number("utilisation", 0)?) {
        (0, 0) => Ok(Rate::Most),
        (rate, 0) => Ok(Rate::PerSecond(rate as f64)),
        (0, percent) => Ok(Rate::Percent(percent as f64)),
        _ => Err(Refusal::Usage("either --rate or --utilisation".into())),
    }
}

fn setup(words: &Words<'_>, load: &Load) -> Result<Setup, Refusal> {
    let wal = word(words, "wal", &[("own", WalIn::Own), ("same", WalIn::Same), ("pool", WalIn::Pool)])?;
    Ok(Setup {
        record: record(words, load.block)?,
        wal,
        has_log: wal != WalIn::Pool,
        no_checksum: word(words, "checksum", &[("on", false), ("off", true)])?,
        throughput: word(words, "logbias", &[("latency", false), ("throughput", true)])?,
    })
}

fn record(words: &Words<'_>, block: usize) -> Result<u64, Refusal> {
    let record = words.bytes("record", Setup::matched(block).record)?;
    if !record.is_power_of_two() || !(512..=16 << 20).contains(&record) {
        return Err(Refusal::Usage("--record is a power of two from 512 to 16m".into()));
    }
    Ok(record)
}

/// The value of one of these words; the first where none was given.
fn word<T: Copy>(words: &Words<'_>, name: &str, choices: &[(&str, T)]) -> Result<T, Refusal> {
    let Some(given) = words.one(name) else { return Ok(choices[0].1) };
    let found = choices.iter().find(|(word, _)| *word == given);
    found.map(|(_, value)| *value).ok_or_else(|| Refusal::Usage(format!("bad value '{given}' for --{name}")))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::bench::tests::code;

    /// A load that is over at once, on these devices.
    fn small(dir: &Path) -> String {
        let [main, log] = ["main", "log"].map(|name| dir.join(name));
        for path in [&main, &log] {
            std::fs::File::create(path).and_then(|file| file.set_len(128 << 20)).expect("room");
        }
        format!(
            "oltp --main {} --log {} --threads 2 --span 1m --wal-span 1m --cache 16m --seconds 0",
            main.display(),
            log.display()
        )
    }

    #[test]
    fn a_database_runs_on_every_kind_of_pool_and_on_none() {
        let dir = tempfile::tempdir().expect("a directory");
        let small = small(dir.path());
        for words in [
            "--ramp 0",
            "--ramp 0 --direct --json",
            "--ramp 0 --wal same --record 128k --checksum off --logbias throughput --pages stable",
            "--ramp 0 --wal pool --reads 0 --writes 3 --size 12k --rate 100",
            "--ramp 1 --utilisation 50",
            "--ramp 0 --table --json",
        ] {
            assert_eq!(code(&format!("{small} {words}")), 0, "{words}");
        }
        assert_eq!(code(&format!("{small} --direct --wal-span 256m")), 1);
    }

    #[test]
    fn words_that_make_no_sense_are_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let small = small(dir.path());
        for words in [
            "--threads 0",
            "--size 1000",
            "--size 2m",
            "--wal-size 0",
            "--wal bogus",
            "--pages sometimes",
            "--checksum maybe",
            "--logbias neither",
            "--record 12k",
            "--rate 5 --utilisation 50",
            "--utilisation 50 --ramp 0",
            "--table --wal pool",
            "--table --rounds 0",
        ] {
            assert_eq!(code(&format!("{small} {words}")), 2, "{words}");
        }
        assert_eq!(code("oltp --span 1m"), 2);
        let (main, _) = small.split_once(" --log").expect("it has one");
        assert_eq!(code(&format!("{main} --wal pool")), 2);
    }
}
