//! `sawmill bench slog`.

use std::time::Duration;

use bench::Refusal;
use bench::slog::{CLASSIC_COLUMNS, Devices, Ground, Hardware, Load, Logs, Plan, Processors, Report};

use indicatif::{ProgressBar, ProgressStyle};

use super::words::Words;
use super::{JSON, LOG, MAIN, SPAN, environment, outcome};
use crate::args::{Flag, Spec};
use crate::disk_model::Model;
use crate::program::Command;

pub(super) const SLOG: Command = Command::new(
    Spec {
        name: "slog",
        alias: None,
        about: "measures what separate logs bring, as a table: logs by data disks",
        flags: &[
            MAIN,
            LOG,
            Flag::long_value(
                "fast",
                "file",
                "one log device that is much faster than the others: the last row",
            ),
            Flag::long_value(
                "simulate",
                "disk[,fast]",
                "in place of devices, these models on a virtual clock: hdd-2007, ssd, ssd-plp, nvram, or a file of 'bench device --json'",
            ),
            Flag::long_value("seed", "number", "decides everything random in the simulation (1)"),
            Flag::long_value(
                "processors",
                "number",
                "of the simulated machine (4, as in 2007, or as where the first model was measured)",
            ),
            Flag::long_value(
                "write-us",
                "microseconds",
                "for which a write occupies one of them (15, or what was measured with the first model)",
            ),
            Flag::long_value("threads", "number", "how many write at once (32)"),
            Flag::long_value("size", "size", "bytes of each write (8k)"),
            SPAN,
            Flag::long_value("ramp", "seconds", "write for so long before measuring a cell begins (1)"),
            Flag::long_value("seconds", "number", "for how long each cell is measured (10, simulated 2)"),
            Flag::long_list(
                "disks",
                "number",
                "columns: how many data disks (1 2 4 8 16 32, as far as there are)",
            ),
            Flag::long_value("flushes", "yes|no|both", "whether caches are flushed; a table for each (both)"),
            JSON,
            Flag::long("csv", "as comma-separated values"),
            Flag::long("html", "as a page with charts, which needs no network"),
        ],
        operands: "",
    },
    |_, args| outcome(args, run),
);

fn run(words: &Words<'_>) -> Result<u8, Refusal> {
    let ground = ground(words)?;
    let (rows, columns) = match &ground {
        Ground::Simulated(_) => (Logs::CLASSIC.to_vec(), CLASSIC_COLUMNS.to_vec()),
        Ground::Real(devices) => (devices.rows(), devices.columns()),
    };
    let load = Load {
        threads: words.number("threads", 32)?,
        size_bytes: words.bytes("size", 8 << 10)? as usize,
        span_bytes: words.bytes("span", 400 << 20)?,
        ramp: Duration::from_secs(words.number("ramp", 1)? as u64),
        time: Duration::from_secs(words.number("seconds", default_seconds(&ground))? as u64),
    };
    let plan = Plan { load, columns: asked_columns(words, columns)?, rows, flushes: flushes(words)?, ground };
    if plan.load.threads == 0 || plan.load.size_bytes == 0 || plan.load.time.is_zero() {
        return Err(Refusal::Usage("--threads, --size and --seconds above 0".into()));
    }
    let form = form(words)?;
    let bar = bar(plan.cells());
    let report = bench::slog::run(&plan, &|| bar.inc(1))?;
    bar.finish_and_clear();
    println!("{}", form(&report).trim_end());
    Ok(0)
}

/// How long each cell is measured. A simulated second takes this machine a part of a second or several, and there are many
/// cells.
fn default_seconds(ground: &Ground) -> usize {
    match ground {
        Ground::Simulated(_) => 2,
        Ground::Real(_) => 10,
    }
}

/// Shows on a terminal how many cells were measured, and how long the others may take.
fn bar(cells: usize) -> ProgressBar {
    let bar = ProgressBar::new(cells as u64);
    if let Ok(style) = ProgressStyle::with_template("{wide_bar} {pos} of {len} cells, about {eta} left") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_secs(1));
    bar
}

/// How a report is printed.
type Form = fn(&Report) -> String;

fn form(words: &Words<'_>) -> Result<Form, Refusal> {
    let asked: Vec<&str> = ["json", "csv", "html"].into_iter().filter(|form| words.has(form)).collect();
    match asked.as_slice() {
        [] => Ok(Report::text),
        ["json"] => Ok(|report| serde_json::to_string(report).expect("a report is plain data")),
        ["csv"] => Ok(Report::csv),
        ["html"] => Ok(Report::html),
        _ => Err(Refusal::Usage("--json, --csv and --html exclude each other".into())),
    }
}

/// On what: models, or the devices that were named.
fn ground(words: &Words<'_>) -> Result<Ground, Refusal> {
    let main = words.paths("main");
    match (words.one("simulate"), main.is_empty()) {
        (None, true) => Err(Refusal::Usage("--main FILE or --simulate DISK is needed".into())),
        (Some(_), false) => Err(Refusal::Usage("either --main or --simulate".into())),
        (Some(models), true) => Ok(Ground::Simulated(Box::new(hardware(words, models)?))),
        (None, false) => Ok(Ground::Real(Devices {
            env: environment()?,
            main,
            log: words.paths("log"),
            fast: words.paths("fast").into_iter().next(),
            cache: daemon::memory::default_bytes(),
        })),
    }
}

fn hardware(words: &Words<'_>, models: &str) -> Result<Hardware, Refusal> {
    let (disk_name, fast_name) = models.split_once(',').unwrap_or((models, "nvram"));
    let (disk, fast) = (Model::find(disk_name, "simulate")?, Model::find(fast_name, "simulate")?);
    let mut machine = disk.machine.unwrap_or(Processors::CLASSIC);
    machine.count = words.number("processors", machine.count)?;
    if words.one("write-us").is_some() {
        machine.per_write = Duration::from_micros(words.number("write-us", 0)? as u64);
        machine.lone_write = machine.per_write;
    }
    Ok(Hardware {
        disk_name: disk_name.to_owned(),
        disk: disk.disk,
        fast_name: fast_name.to_owned(),
        fast: fast.disk,
        processors: machine,
        seed: words.number("seed", 1)? as u64,
    })
}

fn asked_columns(words: &Words<'_>, there_are: Vec<usize>) -> Result<Vec<usize>, Refusal> {
    let asked = words.numbers("disks")?;
    let most = there_are.last().copied().unwrap_or(0);
    match asked.iter().find(|&&disks| disks == 0 || disks > most) {
        Some(bad) => Err(Refusal::Usage(format!("bad number '{bad}' for --disks: 1 to {most}"))),
        None if asked.is_empty() => Ok(there_are),
        None => Ok(asked),
    }
}

fn flushes(words: &Words<'_>) -> Result<Vec<bool>, Refusal> {
    match words.one("flushes") {
        Some("yes") => Ok(vec![true]),
        Some("no") => Ok(vec![false]),
        None | Some("both") => Ok(vec![true, false]),
        Some(other) => Err(Refusal::Usage(format!("bad value '{other}' for --flushes"))),
    }
}
