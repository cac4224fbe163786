//! `sawmill bench zil | replay | stream | create | names | file | check`: measuring, and checking what was promised.
//!
//! These take `--name value …` words: a value list goes on to the next `--name`.

mod beside;
mod create;
mod dice;
mod file;
mod latencies;
mod names;
mod replay;
mod stream;
mod usage;
mod words;
mod world;
mod zil;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use device::{Options, RealEnv};

use words::Words;

const USAGE: &str = "usage:
	bench zil --threads N --size S --span S --seconds T --main FILE... [--log FILE...] [--log-mirror] [--ramp T]
		[--idle-datasets N] [--json]
	bench replay --main FILE... [--log FILE...] [--records N] [--files N] [--size S] [--span S] [--batch N] [--cache S] [--json]
	bench stream --size S --main FILE... [--record S] [--compression C] [--compressible] [--cache S] [--seconds T] [--json]
	bench create --files N --main FILE... [--size S] [--cache S] [--json]
	bench names --path DIR [--files N] [--json]
	bench file --path FILE --threads N --size S --span S --seconds T [--acks FILE] [--json]
	bench check --path FILE --acks FILE
";

const EXIT_FAILED: u8 = 1;
const EXIT_USAGE: u8 = 2;

/// Runs one of them; gives the exit code.
pub(crate) fn main(words: &[String]) -> u8 {
    let Some((name, rest)) = words.split_first() else { return usage("missing command") };
    let words = match Words::parse(rest) {
        Ok(words) => words,
        Err(reason) => return usage(&reason),
    };
    let done = match name.as_str() {
        "zil" => zil(&words),
        "replay" => replay(&words, rest),
        "stream" => stream(&words),
        "create" => create(&words),
        "names" => names(&words),
        "file" => file(&words),
        "check" => check(&words),
        other => return usage(&format!("unrecognized command '{other}'")),
    };
    match done {
        Ok(code) => code,
        Err(Refusal::Usage(reason)) => usage(&reason),
        Err(Refusal::Failed(reason)) => {
            eprintln!("{reason}");
            EXIT_FAILED
        }
    }
}

fn usage(reason: &str) -> u8 {
    eprint!("{reason}\n{USAGE}");
    EXIT_USAGE
}

/// Why a bench did not run.
enum Refusal {
    Usage(String),
    Failed(String),
}

fn failed(error: impl std::error::Error) -> Refusal {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    Refusal::Failed(text)
}

fn zil(words: &Words) -> Result<u8, Refusal> {
    let plan = zil::Plan {
        threads: words.number("threads", 1)?,
        size: words.bytes("size", 8 << 10)? as usize,
        span: words.bytes("span", 400 << 20)?,
        ramp: Duration::from_secs(words.number("ramp", 0)? as u64),
        time: Duration::from_secs(words.number("seconds", 5)? as u64),
        main: words.paths("main"),
        log: words.paths("log"),
        log_mirror: words.has("log-mirror"),
        idle_datasets: words.number("idle-datasets", 0)?,
    };
    if plan.main.is_empty() || plan.threads == 0 || plan.size == 0 {
        return Err(Refusal::Usage("--main FILE is needed, and --threads and --size above 0".into()));
    }
    let report = zil::run(&environment()?, &plan).map_err(failed)?;
    print_report(words, &report, report.text());
    Ok(0)
}

fn replay(words: &Words, raw: &[String]) -> Result<u8, Refusal> {
    let plan = replay::Plan {
        records: words.number("records", 1_000_000)?,
        files: words.number("files", 1_000)?,
        size: words.bytes("size", 4 << 10)? as usize,
        span: words.bytes("span", 400 << 20)?,
        batch: words.number("batch", 32)?,
        main: words.paths("main"),
        log: words.paths("log"),
        cache: words.bytes("cache", crate::memory::cache_bytes())?,
    };
    if plan.main.is_empty() || [plan.records, plan.files, plan.size, plan.batch].contains(&0) {
        return Err(Refusal::Usage(
            "--main FILE is needed, and --records, --files, --size and --batch above 0".into(),
        ));
    }
    if words.has("make") {
        let made = replay::make(&environment()?, &plan).map_err(failed)?;
        let made =
            made.ok_or_else(|| Refusal::Failed("the log devices are too small for so many records".into()))?;
        println!("{}", serde_json::to_string(&made).expect("plain data"));
        // Nothing is closed or put in order: as if the process had been killed.
        std::process::exit(0);
    }
    let report = replay::run(&environment()?, &plan, raw)?;
    print_report(words, &report, report.text());
    Ok(0)
}

fn stream(words: &Words) -> Result<u8, Refusal> {
    let compression = words.one("compression").unwrap_or("off");
    let plan = stream::Plan {
        main: words.paths("main"),
        compression_number: compression_number(compression)?,
        size: words.bytes("size", 4 << 30)?,
        record: words.bytes("record", 128 << 10)? as usize,
        compression: compression.to_owned(),
        compressible: words.has("compressible"),
        cache: words.bytes("cache", 256 << 20)?,
        time: Duration::from_secs(words.number("seconds", 3)? as u64),
    };
    if plan.main.is_empty() || plan.record < 8 << 10 || plan.size < plan.record as u64 {
        return Err(Refusal::Usage(
            "--main FILE is needed, and --record of 8k, --size of one record at least".into(),
        ));
    }
    let report = stream::run(&environment()?, &plan).map_err(failed)?;
    print_report(words, &report, report.text());
    Ok(0)
}

fn compression_number(word: &str) -> Result<u64, Refusal> {
    let def = control::props::dataset_prop("compression").expect("there is such a property");
    match def.parse(word) {
        Ok(control::props::Value::Number(number)) => Ok(number),
        _ => Err(Refusal::Usage(format!("bad value '{word}' for --compression"))),
    }
}

fn create(words: &Words) -> Result<u8, Refusal> {
    let plan = create::Plan {
        main: words.paths("main"),
        files: words.number("files", 100_000)?,
        size: words.bytes("size", 1 << 10)? as usize,
        cache: words.bytes("cache", 256 << 20)?,
    };
    if plan.main.is_empty() {
        return Err(Refusal::Usage("--main FILE is needed".into()));
    }
    let report = create::run(&environment()?, &plan).map_err(failed)?;
    print_report(words, &report, report.text());
    Ok(0)
}

fn names(words: &Words) -> Result<u8, Refusal> {
    let plan = names::Plan { path: words.path("path")?, files: words.number("files", 200_000)? };
    let report = names::run(&plan).map_err(failed)?;
    print_report(words, &report, report.text());
    Ok(0)
}

fn environment() -> Result<Arc<RealEnv>, Refusal> {
    Ok(RealEnv::new(Options::from_process_environment().map_err(failed)?))
}

fn file(words: &Words) -> Result<u8, Refusal> {
    let plan = file::Plan {
        path: words.path("path")?,
        threads: words.number("threads", 1)?,
        size: words.bytes("size", 8 << 10)? as usize,
        span: words.bytes("span", 400 << 20)?,
        time: Duration::from_secs(words.number("seconds", 5)? as u64),
    };
    if plan.threads == 0 || plan.size < file::HEADER_BYTES {
        return Err(Refusal::Usage(format!(
            "--threads above 0 and --size of {} bytes or more",
            file::HEADER_BYTES
        )));
    }
    let run = file::run(&plan).map_err(failed)?;
    if let Some(path) = words.paths("acks").first() {
        run.acks.save(path).map_err(failed)?;
    }
    print_report(words, &run.report, run.report.text());
    Ok(0)
}

fn check(words: &Words) -> Result<u8, Refusal> {
    let acks = file::Acks::load(&words.path("acks")?).map_err(failed)?;
    let verdict = file::check(&words.path("path")?, &acks).map_err(failed)?;
    println!("{} acknowledged places checked, {} lost", verdict.checked, verdict.lost);
    Ok(if verdict.lost == 0 { 0 } else { EXIT_FAILED })
}

fn print_report(words: &Words, report: &impl serde::Serialize, text: String) {
    if words.has("json") {
        println!("{}", serde_json::to_string(report).expect("a report is plain data"));
    } else {
        println!("{text}");
    }
}

impl Words {
    fn number(&self, name: &str, default: usize) -> Result<usize, Refusal> {
        match self.one(name) {
            None => Ok(default),
            Some(word) => {
                word.parse().map_err(|_| Refusal::Usage(format!("bad number '{word}' for --{name}")))
            }
        }
    }

    fn bytes(&self, name: &str, default: u64) -> Result<u64, Refusal> {
        match self.one(name) {
            None => Ok(default),
            Some(word) => {
                words::bytes(word).ok_or_else(|| Refusal::Usage(format!("bad size '{word}' for --{name}")))
            }
        }
    }

    fn path(&self, name: &str) -> Result<PathBuf, Refusal> {
        self.one(name).map(PathBuf::from).ok_or_else(|| Refusal::Usage(format!("--{name} FILE is needed")))
    }

    fn paths(&self, name: &str) -> Vec<PathBuf> {
        self.all(name).iter().map(PathBuf::from).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(words: &str) -> u8 {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        main(&words)
    }

    #[test]
    fn every_way_of_measuring_runs() {
        let dir = tempfile::tempdir().expect("a directory");
        let (one, two) = (dir.path().join("a"), dir.path().join("b"));
        for path in [&one, &two] {
            std::fs::File::create(path).and_then(|file| file.set_len(128 << 20)).expect("room");
        }
        let main = format!("--main {} {}", one.display(), two.display());
        for words in [
            "stream --size 4m --seconds 0 --compression off --cache 16m",
            "stream --size 4m --seconds 0 --compression zstd-3 --compressible --json",
            "create --files 50 --size 700",
            "create --files 0",
            "zil --threads 2 --span 1m --seconds 0",
        ] {
            assert_eq!(code(&format!("{words} {main}")), 0, "{words}");
        }
        assert_eq!(code(&format!("stream --size 4m --compression bogus {main}")), EXIT_USAGE);
        assert_eq!(code("stream --size 4m"), EXIT_USAGE);
    }
}
