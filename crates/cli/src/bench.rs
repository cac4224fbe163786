//! `sawmill bench slog | device | zil | oltp | replay | stream | create | names | files | snapshots | destroy |
//! file | check`: measuring, and
//! checking what was promised.
//!
//! Their flags are `--name value …`: a list of values goes on to the next `--name`.

mod destroy;
mod files;
mod model;
mod oltp;
mod slog;
mod snapshots;
mod words;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bench::{Refusal, create, failed, file, in_words, names, replay, stream, zil};
use control::{Failure, FailureKind};
use device::{Options, RealEnv};
use front_fuse::Fuse;

use crate::args::{Args, Flag, Spec};
use crate::program::{Command, Kind, Program};
use crate::session::{Outcome, usage};
use words::Words;

/// The commands.
pub const PROGRAM: Program = Program {
    name: "bench",
    about: "measuring, and checking what was promised",
    kind: Kind::Own,
    commands: &[
        slog::SLOG,
        model::DEVICE,
        ZIL,
        oltp::OLTP,
        REPLAY,
        STREAM,
        CREATE,
        NAMES,
        files::FILES,
        snapshots::SNAPSHOTS,
        destroy::DESTROY,
        FILE,
        CHECK,
    ],
};

const MAIN: Flag = Flag::long_list("main", "file", "devices of the pool, which is made anew on them: needed");
const LOG: Flag = Flag::long_list("log", "file", "log devices");
const THREADS: Flag = Flag::long_value("threads", "number", "how many write at once (1)");
const SECONDS: Flag = Flag::long_value("seconds", "number", "for how long");
const CACHE: Flag = Flag::long_value("cache", "size", "memory for the pool's cache");
const SPAN: Flag = Flag::long_value("span", "size", "bytes of the files that are written to (400m)");
const JSON: Flag = Flag::long("json", "as JSON");
const PATH: Flag = Flag::long_value("path", "file", "the file: needed");
const FLOOR: Flag = Flag::long_value(
    "floor",
    "device|io-uring",
    "in place of what is there, a FUSE server that does nothing, with its requests by that way",
);
const ACKS: Flag = Flag::long_value("acks", "file", "where what was acknowledged is written down");

const ZIL: Command = Command::new(
    Spec {
        name: "zil",
        alias: None,
        about: "measures synchronous writes in process, without a daemon or a mount",
        flags: &[
            MAIN,
            LOG,
            Flag::long("log-mirror", "the log devices are one mirror"),
            THREADS,
            Flag::long_value(
                "tasks",
                "number",
                "how many tasks of a few threads write at once, in place of threads",
            ),
            Flag::long_value("size", "size", "bytes of each write (8k)"),
            SPAN,
            Flag::long_value("ramp", "seconds", "write for so long before measuring begins (0)"),
            SECONDS,
            Flag::long_value(
                "idle-datasets",
                "number",
                "so many more datasets open, whose logs are idle (0)",
            ),
            JSON,
        ],
        operands: "",
    },
    |_, args| outcome(args, run_zil),
);

const REPLAY: Command = Command::new(
    Spec {
        name: "replay",
        alias: None,
        about: "measures the import and the replay of a long log that a killed process left",
        flags: &[
            MAIN,
            LOG,
            Flag::long_value("records", "number", "records in the log (1000000)"),
            Flag::long_value("files", "number", "files that they write to (1000)"),
            Flag::long_value("size", "size", "bytes of each record (4k)"),
            SPAN,
            Flag::long_value("batch", "number", "records that are made stable together (32)"),
            CACHE,
            Flag::long("make", "leave the log behind and end as if killed: what the other process does"),
            JSON,
        ],
        operands: "",
    },
    |_, args| outcome(args, run_replay),
);

const STREAM: Command = Command::new(
    Spec {
        name: "stream",
        alias: None,
        about: "measures one large file written and read, and small reads at random",
        flags: &[
            MAIN,
            Flag::long_value("size", "size", "bytes of the file (4g)"),
            Flag::long_value("record", "size", "the record size, and bytes of each call (128k)"),
            Flag::long_value("compression", "algorithm", "the property of the file system (off)"),
            Flag::long("compressible", "half of each record is zeros; else nothing compresses"),
            CACHE,
            Flag::long_value("l2arc", "device", "measure reads from this cache device, too"),
            SECONDS,
            JSON,
        ],
        operands: "",
    },
    |_, args| outcome(args, run_stream),
);

const CREATE: Command = Command::new(
    Spec {
        name: "create",
        alias: None,
        about: "measures many small files made, exported and imported again",
        flags: &[
            MAIN,
            Flag::long_value("files", "number", "how many (100000)"),
            Flag::long_value("size", "size", "bytes of each (1k)"),
            CACHE,
            JSON,
        ],
        operands: "",
    },
    |_, args| outcome(args, run_create),
);

const NAMES: Command = Command::new(
    Spec {
        name: "names",
        alias: None,
        about: "times files made, looked at twice and removed in a directory of any file system",
        flags: &[
            Flag::long_value("path", "directory", "where: needed"),
            Flag::long_value("files", "number", "how many (200000)"),
            FLOOR,
            JSON,
        ],
        operands: "",
    },
    |_, args| outcome(args, run_names),
);

const FILE: Command = Command::new(
    Spec {
        name: "file",
        alias: None,
        about: "measures synchronous writes to a file of any mounted file system",
        flags: &[
            PATH,
            THREADS,
            Flag::long_value("size", "size", "bytes of each write (8k)"),
            SPAN,
            SECONDS,
            Flag::long_value(
                "rate",
                "number",
                "writes a second that all threads ask for together, 0 for as many as they can (0)",
            ),
            FLOOR,
            ACKS,
            JSON,
        ],
        operands: "",
    },
    |_, args| outcome(args, run_file),
);

const CHECK: Command = Command::new(
    Spec {
        name: "check",
        alias: None,
        about: "looks whether all that was acknowledged to 'bench file' is in the file",
        flags: &[PATH, ACKS],
        operands: "",
    },
    |_, args| outcome(args, run_check),
);

const EXIT_FAILED: u8 = 1;

fn outcome(args: &Args, bench: fn(&Words<'_>) -> Result<u8, Refusal>) -> Outcome {
    if !args.operands.is_empty() {
        return usage("too many arguments");
    }
    match bench(&Words(args)) {
        Ok(code) => Ok(code),
        Err(Refusal::Usage(reason)) => usage(reason),
        Err(Refusal::Failed(reason)) => Err(Failure::new(FailureKind::Other, reason).into()),
    }
}

fn run_zil(words: &Words<'_>) -> Result<u8, Refusal> {
    let writers = match (words.one("threads"), words.one("tasks")) {
        (Some(_), Some(_)) => return Err(Refusal::Usage("either --threads or --tasks".into())),
        (_, Some(_)) => zil::Writers::Tasks(words.number("tasks", 1)?),
        (_, None) => zil::Writers::Threads(words.number("threads", 1)?),
    };
    let plan = zil::Plan {
        writers,
        size: words.bytes("size", 8 << 10)? as usize,
        span: words.bytes("span", 400 << 20)?,
        ramp: Duration::from_secs(words.number("ramp", 0)? as u64),
        time: Duration::from_secs(words.number("seconds", 5)? as u64),
        main: words.paths("main"),
        log: words.paths("log"),
        log_mirror: words.has("log-mirror"),
        with_flushes: true,
        idle_datasets: words.number("idle-datasets", 0)?,
        cache: daemon::memory::default_bytes(),
    };
    if plan.main.is_empty() || plan.writers.count() == 0 || plan.size == 0 {
        return Err(Refusal::Usage(
            "--main FILE is needed, and --threads or --tasks, and --size, above 0".into(),
        ));
    }
    let report = zil::run(&environment()?, &plan).map_err(failed)?;
    print_report(words, &report, report.text());
    Ok(0)
}

fn run_replay(words: &Words<'_>) -> Result<u8, Refusal> {
    let plan = replay::Plan {
        records: words.number("records", 1_000_000)?,
        files: words.number("files", 1_000)?,
        size: words.bytes("size", 4 << 10)? as usize,
        span: words.bytes("span", 400 << 20)?,
        batch: words.number("batch", 32)?,
        main: words.paths("main"),
        log: words.paths("log"),
        cache: words.bytes("cache", daemon::memory::default_bytes())?,
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
    let report = replay::run(&environment()?, &plan, words.typed())?;
    print_report(words, &report, report.text());
    Ok(0)
}

fn run_stream(words: &Words<'_>) -> Result<u8, Refusal> {
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
        second: words.one("l2arc").map(PathBuf::from),
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
    let def = engine::props::dataset_prop("compression").expect("there is such a property");
    match def.parse(word) {
        Ok(engine::props::Value::Number(number)) => Ok(number),
        _ => Err(Refusal::Usage(format!("bad value '{word}' for --compression"))),
    }
}

fn run_create(words: &Words<'_>) -> Result<u8, Refusal> {
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

fn run_names(words: &Words<'_>) -> Result<u8, Refusal> {
    let plan = names::Plan { path: words.path("path")?, files: words.number("files", 200_000)? };
    let _floor = floor(words, &plan.path)?;
    let report = names::run(&plan).map_err(failed)?;
    print_report(words, &report, report.text());
    Ok(0)
}

/// What `--floor` asks for, mounted at `place` while it lives.
fn floor(words: &Words<'_>, place: &Path) -> Result<Option<Box<dyn engine::Mounted>>, Refusal> {
    let over_rings = match words.one("floor") {
        None => return Ok(None),
        Some("device") => false,
        Some("io-uring") => true,
        Some(other) => return Err(Refusal::Usage(format!("bad value '{other}' for --floor"))),
    };
    let fuse = Fuse::new(environment()?).over_rings(over_rings);
    let refused = |error| Refusal::Failed(format!("cannot mount '{}': {}", place.display(), in_words(error)));
    fuse.mount_floor(place).map(Some).map_err(refused)
}

fn environment() -> Result<Arc<RealEnv>, Refusal> {
    Ok(RealEnv::new(Options::from_process_environment().map_err(failed)?))
}

fn run_file(words: &Words<'_>) -> Result<u8, Refusal> {
    let plan = file::Plan {
        path: words.path("path")?,
        threads: words.number("threads", 1)?,
        size: words.bytes("size", 8 << 10)? as usize,
        span: words.bytes("span", 400 << 20)?,
        time: Duration::from_secs(words.number("seconds", 5)? as u64),
        rate: words.number("rate", 0)? as u64,
    };
    if plan.threads == 0 || plan.size < file::HEADER_BYTES {
        return Err(Refusal::Usage(format!(
            "--threads above 0 and --size of {} bytes or more",
            file::HEADER_BYTES
        )));
    }
    let _floor = floor(words, plan.path.parent().unwrap_or(Path::new(".")))?;
    let run = file::run(&plan).map_err(failed)?;
    if let Some(path) = words.paths("acks").first() {
        run.acks.save(path).map_err(failed)?;
    }
    print_report(words, &run.report, run.report.text());
    Ok(0)
}

fn run_check(words: &Words<'_>) -> Result<u8, Refusal> {
    let acks = file::Acks::load(&words.path("acks")?).map_err(failed)?;
    let verdict = file::check(&words.path("path")?, &acks).map_err(failed)?;
    println!("{} acknowledged places checked, {} lost", verdict.checked, verdict.lost);
    Ok(if verdict.lost == 0 { 0 } else { EXIT_FAILED })
}

fn print_report(words: &Words<'_>, report: &impl serde::Serialize, text: String) {
    if words.has("json") {
        println!("{}", serde_json::to_string(report).expect("a report is plain data"));
    } else {
        println!("{text}");
    }
}

#[cfg(test)]
mod tests {
    pub(super) fn code(words: &str) -> u8 {
        crate::main(["sawmill", "bench"].into_iter().chain(words.split(' ')).map(Into::into))
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
            "slog --threads 2 --span 1m --seconds 1 --ramp 0 --disks 2 --csv",
        ] {
            assert_eq!(code(&format!("{words} {main}")), 0, "{words}");
        }
        assert_eq!(code(&format!("stream --size 4m --compression bogus {main}")), 2);
        assert_eq!(code("stream --size 4m"), 2);
        assert_eq!(
            code("slog --simulate ssd --threads 2 --seconds 1 --ramp 0 --disks 1 --flushes yes --html"),
            0
        );
        for words in ["slog", "slog --simulate bogus", "slog --simulate ssd --csv --json", "device"] {
            assert_eq!(code(words), 2, "{words}");
        }
        assert_eq!(code(&format!("slog --simulate ssd {main}")), 2, "either or");
        assert_eq!(code(&format!("slog --disks 4 {main}")), 2, "there are two");
    }
}
