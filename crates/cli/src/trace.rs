//! `sawmill trace record|show`: commits one by one, and what each waited for; `sawmill what-if`: the same load with a log
//! device that is not there.

use crate::args::{Args, Flag, Spec};
use crate::disk_model::Model;
use crate::numbers::{positive, whole};
use crate::program::{Command, Kind, Program};
use crate::session::{Outcome, Session, Stop, usage};
use crate::view::trace as view;
use control::{Failure, FailureKind, LogRecording, PoolLogRecord, RECORDED_COMMITS};
use std::fs::File;
use std::io::{BufReader, BufWriter, Write as _};
use std::path::Path;
use std::time::Duration;

/// The commands.
pub const PROGRAM: Program = Program {
    name: "trace",
    about: "why commits were slow: records each of them, and tells what it waited for",
    kind: Kind::Own,
    commands: &[RECORD, SHOW],
};

const SECONDS: f64 = 10.0;
const SECONDS_MAX: f64 = 3600.0;
const SHOWN: u64 = 10;

const RECORD: Command = Command::new(
    Spec {
        name: "record",
        alias: None,
        about: "records the commits of a pool into a file, with what each waited for",
        flags: &[
            Flag::long_value("seconds", "number", "for how long (10)"),
            Flag::long_value("commits", "number", "keep so many at most (100000)"),
        ],
        operands: "<pool> <file>",
    },
    record,
);

const SHOW: Command = Command::new(
    Spec {
        name: "show",
        alias: None,
        about: "tells where the time of recorded commits went, and what the slowest waited for",
        flags: &[
            Flag::long_value("slowest", "number", "how many of them one by one (10)"),
            Flag::long_value("slower-than", "milliseconds", "only those that took longer"),
        ],
        operands: "<file>",
    },
    show,
);

/// `sawmill what-if`.
pub const WHAT_IF: Command = Command::new(
    Spec {
        name: "what-if",
        alias: None,
        about: "makes a recorded load again, simulated, with a log device that the pool does not have",
        flags: &[
            Flag::long_value(
                "add-log",
                "model",
                "the log device: nvram, ssd-plp, ssd, hdd-2007, or a file of 'bench device --json': needed",
            ),
            Flag::long_value("seed", "number", "decides everything random in the simulations (1)"),
            Flag::long("json", "as JSON"),
        ],
        operands: "<file of 'trace record'>",
    },
    what_if,
);

fn record(session: &mut Session, args: &Args) -> Outcome {
    let [pool, file] = args.operands.as_slice() else { return wrong_operands(args, "pool name and file") };
    let seconds = positive(args, "seconds", SECONDS_MAX)?.unwrap_or(SECONDS);
    let commits_max = whole(args, "commits")?.unwrap_or(RECORDED_COMMITS);
    let path = Path::new(file);
    // Who cannot write it should not wait for it; what it holds stays until there is something else to hold.
    let is_new = !path.exists();
    let out = File::options().write(true).create(true).truncate(false).open(path);
    let out = out.map_err(|error| cannot("write", path, &error))?;
    let span_nanos = Duration::from_secs_f64(seconds).as_nanos() as u64;
    let asked = session.ask(&PoolLogRecord { pool: pool.clone(), span_nanos, commits_max });
    if asked.is_err() && is_new {
        let _nobody_else_knows_it = std::fs::remove_file(path);
    }
    let recording = asked?;
    write(&out, &recording).map_err(|error| cannot("write", path, &error))?;
    session.out().write_all(view::recorded(&recording, file).as_bytes())?;
    Ok(0)
}

fn write(file: &File, recording: &LogRecording) -> std::io::Result<()> {
    file.set_len(0)?;
    let mut out = BufWriter::new(file);
    serde_json::to_writer(&mut out, recording)?;
    out.flush()
}

fn show(session: &mut Session, args: &Args) -> Outcome {
    let slowest = whole(args, "slowest")?.unwrap_or(SHOWN);
    let slower_than =
        positive(args, "slower-than", 1e9)?.map_or(Duration::ZERO, |ms| Duration::from_secs_f64(ms / 1e3));
    let recording = load(args)?;
    let shown = usize::try_from(slowest).unwrap_or(usize::MAX);
    session.out().write_all(view::shown(&recording, shown, slower_than).as_bytes())?;
    Ok(0)
}

fn what_if(session: &mut Session, args: &Args) -> Outcome {
    let Some(name) = args.long_values("add-log").last() else { return usage("no --add-log given") };
    let model = Model::find(name, "add-log").map_err(|refusal| match refusal {
        bench::Refusal::Usage(why) => Stop::Usage(why),
        bench::Refusal::Failed(why) => refused(why),
    })?;
    let seed = whole(args, "seed")?.unwrap_or(1);
    let recording = load(args)?;
    let answer = bench::what_if::run(&recording, model.disk, seed);
    let answer = answer.map_err(|error| refused(format!("the simulation failed: {error}")))?;
    let Some(answer) = answer else {
        return Err(refused(
            "there is too little in the recording: no commits, or no writes and flushes of data devices"
                .into(),
        ));
    };
    let text = match args.has_long("json") {
        true => serde_json::to_string(&answer).map_err(std::io::Error::from)? + "\n",
        false => view::answer(&recording, &answer, name),
    };
    session.out().write_all(text.as_bytes())?;
    Ok(0)
}

fn load(args: &Args) -> Result<LogRecording, Stop> {
    let [file] = args.operands.as_slice() else { return wrong_operands(args, "file") };
    let path = Path::new(file);
    let from = BufReader::new(File::open(path).map_err(|error| cannot("read", path, &error))?);
    serde_json::from_reader(from).map_err(|error| refused(format!("'{file}' is no recording: {error}")))
}

fn wrong_operands<T>(args: &Args, meant: &str) -> Result<T, Stop> {
    let is_missing = args.operands.len() < meant.split(" and ").count();
    usage(if is_missing { format!("missing {meant}") } else { "too many arguments".to_owned() })
}

fn cannot(verb: &str, path: &Path, error: &std::io::Error) -> Stop {
    refused(format!("cannot {verb} '{}': {error}", path.display()))
}

fn refused(line: String) -> Stop {
    Failure::new(FailureKind::Other, line).into()
}
