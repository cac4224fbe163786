//! `zilstat`: what intent logs had to do, in OpenZFS's words (see the crate of that name).

use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, Stop, usage};
use control::{DatasetLogs, Failure, FailureKind, LogInfo, pool_of};
use engine::props::clock;
use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use zilstat::{DATASET_DEFAULT, EXTRA, FIELDS, Field, GLOBAL_DEFAULT, Subject, Table, find};

pub const COMMAND: Command = Command::new(
    Spec {
        name: "zilstat",
        alias: None,
        about: "shows what intent logs had to do: of all pools together, or dataset by dataset",
        flags: &[
            Flag::switch('a', "each dataset of all pools").or("all"),
            Flag::switch('v', "lists the fields that there are, and what they are").or("verbose"),
            Flag::value('p', "pool", "each dataset of this pool").or("pool"),
            Flag::value('d', "dataset[,dataset]...", "these datasets").or("dataset"),
            Flag::value('f', "field[,field]...", "these fields, see -v").or("columns"),
            Flag::value('s', "separator", "what stands between cells instead of two blanks").or("separator"),
            Flag::value(
                'i',
                "seconds",
                "again and again, what was done in so many seconds, by the second; else all since the import",
            )
            .or("interval"),
        ],
        operands: "",
    },
    run,
);

/// What stands for the pool and the objset of all together.
const GLOBAL: &str = "GLOBAL";

/// Whose logs are shown.
enum Whose {
    All,
    Each,
    OfPool(String),
    Datasets(Vec<String>),
}

fn run(session: &mut Session, args: &Args) -> Outcome {
    if let Some(word) = args.operands.first() {
        return usage(format!("unrecognized arguments: {word}"));
    }
    if args.has('v') {
        session.out().write_all(fields_told().as_bytes())?;
        return Ok(0);
    }
    let whose = whose(args)?;
    let seconds = args.value('i').map(seconds).transpose()?;
    let separator = args.value('s').unwrap_or("  ").to_owned();
    let table = Table { fields: fields(args, &whose)?, separator, seconds };
    let mut before = whose.logs(session)?;
    session.out().write_all(table.heading().as_bytes())?;
    let Some(seconds) = seconds else {
        show(session, &table, &before)?;
        return Ok(0);
    };
    loop {
        session.out().flush()?;
        std::thread::sleep(Duration::from_secs(seconds));
        let now = whose.logs(session)?;
        show(session, &table, &news(&now, &before))?;
        before = now;
    }
}

fn whose(args: &Args) -> Result<Whose, Stop> {
    if ['a', 'p', 'd'].iter().filter(|flag| args.has(**flag)).count() > 1 {
        return usage("only one of -a, -p and -d can be given");
    }
    let names = |names: &str| names.split(',').map(str::to_owned).collect();
    Ok(match (args.has('a'), args.value('p'), args.value('d')) {
        (true, ..) => Whose::Each,
        (_, Some(pool), _) => Whose::OfPool(pool.to_owned()),
        (.., Some(datasets)) => Whose::Datasets(names(datasets)),
        _ => Whose::All,
    })
}

fn seconds(word: &str) -> Result<u64, Stop> {
    match word.parse() {
        Ok(seconds @ 1..) => Ok(seconds),
        _ => usage(format!("invalid interval '{word}'")),
    }
}

fn fields(args: &Args, whose: &Whose) -> Result<Vec<&'static Field>, Stop> {
    let names: Vec<&str> = match (args.value('f'), whose) {
        (Some(names), _) => names.split(',').collect(),
        (None, Whose::All) => GLOBAL_DEFAULT.to_vec(),
        (None, _) => DATASET_DEFAULT.to_vec(),
    };
    let unknown: Vec<String> =
        names.iter().filter(|name| find(name).is_none()).map(|name| format!("'{name}'")).collect();
    if !unknown.is_empty() {
        let line = format!("Invalid column definition! -- [{}]", unknown.join(", "));
        return Err(Failure::new(FailureKind::Invalid, line).into());
    }
    Ok(names.into_iter().filter_map(find).collect())
}

/// `-v`.
fn fields_told() -> String {
    let mut text = String::from("Field definitions are as follows:\n");
    for field in FIELDS.iter().chain(&EXTRA) {
        _ = writeln!(text, "{:>11} : {}", field.name, field.meaning);
    }
    text + "\n"
}

impl Whose {
    fn logs(&self, session: &Session) -> Result<Vec<LogInfo>, Stop> {
        let pool = if let Self::OfPool(pool) = self { Some(pool.clone()) } else { None };
        let logs = session.ask(&DatasetLogs { pool })?;
        match self {
            Self::Each | Self::OfPool(_) => Ok(logs),
            Self::All => {
                let mut sum = LogInfo { dataset: GLOBAL.to_owned(), ..LogInfo::default() };
                logs.iter().for_each(|log| sum += log);
                Ok(vec![sum])
            }
            Self::Datasets(names) => names.iter().map(|name| named(session, &logs, name)).collect(),
        }
    }
}

/// The log of a dataset; one that has had nothing to do yet if the dataset is there.
fn named(session: &Session, logs: &[LogInfo], name: &str) -> Result<LogInfo, Stop> {
    if let Some(log) = logs.iter().find(|log| log.dataset == name) {
        return Ok(log.clone());
    }
    session.ask(&control::DatasetList {
        root: Some(name.to_owned()),
        depth: Some(0),
        ..Default::default()
    })?;
    Ok(LogInfo { dataset: name.to_owned(), ..LogInfo::default() })
}

/// What was done since: of a log that was not there, all.
fn news(now: &[LogInfo], before: &[LogInfo]) -> Vec<LogInfo> {
    let earlier = |log: &LogInfo| before.iter().find(|earlier| earlier.dataset == log.dataset);
    now.iter().map(|log| earlier(log).map_or_else(|| log.clone(), |earlier| log.since(earlier))).collect()
}

fn show(session: &mut Session, table: &Table, logs: &[LogInfo]) -> Result<(), Stop> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let time = clock(now);
    for log in logs {
        let is_global = log.dataset == GLOBAL;
        let objset = if is_global { GLOBAL.to_owned() } else { format!("{:#x}", log.objset) };
        let subject =
            Subject { time: &time, pool: pool_of(&log.dataset), dataset: &log.dataset, objset: &objset };
        session.out().write_all(table.row(&subject, log).as_bytes())?;
    }
    Ok(())
}
