//! `sawmill rescue`: copies files out of a pool that no import accepts.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use control::{DatasetCreate, Failure, FailureKind, Mounts};
use device::{Options, RealEnv};
use engine::refusal;
use engine::spec::{self, DraidNumbers};
use env::Env;
use rescue::{
    DraidHint, LayoutHint, REPORT_PATH, Rescue, RescueError, RescueSearch, RescueSelection, RescueSummary,
    RescueWatch, ScanProgress, StateSurvey,
};

use crate::args::{Args, Flag, Spec};
use crate::cp::Progress;
use crate::program::Command;
use crate::session::{Outcome, Session, Stop, usage};

pub const COMMAND: Command = Command::new(
    Spec {
        name: "rescue",
        alias: None,
        about: "copies the readable files out of a pool that cannot be imported",
        flags: &[
            Flag::switch('l', "list the states of the pool, and the datasets of the newest state").or("list"),
            Flag::long_value("to", "dir", "copy into this directory; continues a rescue that was stopped"),
            Flag::long_value(
                "to-dataset",
                "dataset",
                "copy into the mount point of this dataset, which is created if it does not exist",
            ),
            Flag::long_value("txg", "txg", "use the state of this transaction group instead of the newest"),
            Flag::long_value(
                "only",
                "dataset",
                "copy only this dataset or snapshot, and everything below it",
            )
            .repeated(),
            Flag::long("no-snapshots", "no snapshots"),
            Flag::long("scan", "search the devices for roots by content, even if there are uberblocks"),
            Flag::long_value(
                "pool",
                "pool",
                "name or guid of the pool, if the devices belong to several pools",
            ),
            Flag::long_value("raidz", "parity", "without labels: the devices are a raidz of this parity"),
            Flag::long_value("draid", "layout", "without labels: the devices are a draid, as 'draid2:4d:1s'"),
            Flag::long_value(
                "children",
                "devices",
                "without labels: the order of the devices; '-' is a missing device",
            ),
            Flag::long_value("ashift", "ashift", "without labels: base-2 logarithm of the sector size"),
        ],
        operands: "<device> ...",
    },
    run,
);

/// The exit code if a part is lost.
const EXIT_DAMAGED: u8 = 1;

fn run(session: &mut Session, args: &Args) -> Outcome {
    if args.operands.is_empty() {
        return usage("missing device");
    }
    let mut search = search(args)?;
    let target = target(session, args)?;
    if target.is_none() && !args.has('l') {
        return usage("one of --to, --to-dataset and --list is needed");
    }
    if let (Some(target), None) = (&target, search.txg) {
        search.txg = Rescue::begun_txg(target).map_err(|error| failed(&error))?;
    }
    let options = Options::from_process_environment();
    let env = RealEnv::new(options.map_err(|e| Failure::new(FailureKind::Invalid, e.to_string()))?);
    if args.has('l') {
        list(session, &env, &search)?;
    }
    match target {
        Some(target) => copy(session, &env, &search, &selection(args), &target),
        None => Ok(0),
    }
}

/// The directory that the files are copied into, if any.
fn target(session: &Session, args: &Args) -> Result<Option<PathBuf>, Stop> {
    match (long(args, "to"), long(args, "to-dataset")) {
        (Some(_), Some(_)) => usage("--to and --to-dataset exclude each other"),
        (Some(dir), None) => Ok(Some(dir.into())),
        (None, Some(dataset)) => mount_point(session, dataset).map(Some),
        (None, None) => Ok(None),
    }
}

/// The mount point of a file system of an imported pool. The file system and its parents are
/// created if they do not exist.
fn mount_point(session: &Session, name: &str) -> Result<PathBuf, Stop> {
    session.ask(&DatasetCreate { name: name.to_owned(), parents: true, ..DatasetCreate::default() })?;
    let mount = session.ask(&Mounts {})?.into_iter().find(|mount| mount.dataset == name);
    let not_mounted = || {
        Failure::new(FailureKind::Invalid, format!("cannot rescue to '{name}': filesystem is not mounted"))
    };
    Ok(mount.ok_or_else(not_mounted)?.mountpoint.into())
}

fn search(args: &Args) -> Result<RescueSearch, Stop> {
    let children = long(args, "children").unwrap_or_default().split(',').filter(|word| !word.is_empty());
    let child = |word: &str| if word == "-" { None } else { Some(PathBuf::from(word)) };
    let children: Vec<_> = children.map(child).collect();
    let count = if children.is_empty() { args.operands.len() } else { children.len() };
    let hint = LayoutHint {
        raidz: number(args, "raidz", 1..=3)?.and_then(|parity| u8::try_from(parity).ok()),
        draid: long(args, "draid").map(|word| draid(word, count)).transpose()?,
        children,
        ashift: number(args, "ashift", 9..=16)?.and_then(|shift| u8::try_from(shift).ok()),
        pool: long(args, "pool").map(str::to_owned),
    };
    let mut devices: Vec<PathBuf> = args.operands.iter().map(PathBuf::from).collect();
    devices.extend(
        hint.children
            .iter()
            .flatten()
            .filter(|child| !args.operands.iter().any(|o| Path::new(o) == *child))
            .cloned(),
    );
    Ok(RescueSearch { devices, hint, txg: number(args, "txg", 1..=u64::MAX)?, scan: args.has_long("scan") })
}

/// Returns the last value of the option `--name`.
fn long<'a>(args: &'a Args, name: &str) -> Option<&'a str> {
    args.long_values(name).last()
}

fn number(args: &Args, name: &str, range: std::ops::RangeInclusive<u64>) -> Result<Option<u64>, Stop> {
    let Some(word) = long(args, name) else { return Ok(None) };
    match word.parse() {
        Ok(number) if range.contains(&number) => Ok(Some(number)),
        _ => usage(format!("invalid value '{word}' of '{name}'")),
    }
}

fn draid(word: &str, children: usize) -> Result<DraidHint, Stop> {
    match spec::parse_draid(word, children) {
        Some(numbers) => {
            let DraidNumbers { parity, data, spares } = numbers?;
            Ok(DraidHint { parity, data, spares })
        }
        None => usage(format!("invalid value '{word}' of 'draid'")),
    }
}

fn selection(args: &Args) -> RescueSelection {
    RescueSelection {
        only: args.long_values("only").map(str::to_owned).collect(),
        without_snapshots: args.has_long("no-snapshots"),
    }
}

fn failed(error: &RescueError) -> Failure {
    Failure::new(FailureKind::Other, format!("cannot rescue: {}", refusal::chain(error)))
}

fn list(session: &mut Session, env: &Arc<RealEnv>, search: &RescueSearch) -> Result<(), Stop> {
    let shared: Arc<dyn Env> = env.clone();
    let bar = Bar::default();
    let surveys = env.block_on(search.survey(&shared, &bar)).map_err(|error| failed(&error))?;
    bar.done();
    writeln!(
        session.out(),
        "{:>12}  {:<20}  {:>9}  {:>10}  {:>10}",
        "TXG",
        "WRITTEN",
        "DATASETS",
        "OBJECTS",
        "LOST"
    )?;
    for survey in &surveys {
        writeln!(session.out(), "{}", line_of(survey))?;
    }
    Ok(())
}

fn line_of(survey: &StateSurvey) -> String {
    let written = survey.state.written_secs.and_then(|secs| i64::try_from(secs).ok());
    let written = written.and_then(|secs| jiff::Timestamp::from_second(secs).ok());
    let written =
        written.map_or_else(|| "-".to_owned(), |time| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    let head = format!("{:>12}  {written:<20}", survey.state.txg);
    match &survey.unreadable {
        Some(why) => format!("{head}  unreadable: {why}"),
        None => {
            let datasets = format!("{}/{}", survey.readable_datasets, survey.datasets);
            format!("{head}  {datasets:>9}  {:>10}  {:>10}", survey.objects, survey.lost_objects)
        }
    }
}

fn copy(
    session: &mut Session,
    env: &Arc<RealEnv>,
    search: &RescueSearch,
    selection: &RescueSelection,
    target: &Path,
) -> Outcome {
    let shared: Arc<dyn Env> = env.clone();
    let bar = Bar::default();
    let summary = env.block_on(async {
        let root = search.open(&shared, &bar).await?;
        bar.begin_anew();
        eprintln!("pool '{}', state of txg {}", root.name(), root.state().txg);
        Rescue::begin(&root, target, &bar)?.run(selection).await
    });
    bar.done();
    let summary = summary.map_err(|error| failed(&error))?;
    write!(session.out(), "{}", text_of(&summary))?;
    if summary.is_whole() {
        return Ok(0);
    }
    writeln!(session.out(), "what is lost: {}", target.join(REPORT_PATH).display())?;
    Ok(EXIT_DAMAGED)
}

fn text_of(summary: &RescueSummary) -> String {
    let lines = [
        ("datasets and snapshots", summary.datasets),
        ("  that cannot be read", summary.lost_datasets),
        ("directories", summary.directories),
        ("  with lost names", summary.damaged_directories),
        ("files", summary.files),
        ("  with lost bytes", summary.damaged_files),
        ("  in lost+found", summary.nameless_files),
        ("files that cannot be read", summary.lost_files),
        ("bytes", summary.bytes),
        ("  that are lost", summary.lost_bytes),
    ];
    lines.iter().map(|(what, count)| format!("{what:<28}{count:>16}\n")).collect()
}

/// A progress bar on standard error, for a scan and then for the copy.
#[derive(Default)]
struct Bar {
    progress: Progress,
    expected: Cell<u64>,
}

impl Bar {
    fn begin_anew(&self) {
        self.expected.set(0);
        self.progress.begin_anew();
    }

    fn more(&self, bytes: u64) {
        self.expected.set(self.expected.get().saturating_add(bytes));
        self.progress.expect(self.expected.get());
    }

    fn done(&self) {
        self.progress.finish();
    }
}

impl ScanProgress for Bar {
    fn expect(&self, bytes: u64) {
        self.more(bytes);
    }

    fn add(&self, bytes: u64) {
        self.progress.add(bytes);
    }
}

impl RescueWatch for Bar {
    fn expect(&self, bytes: u64) {
        self.more(bytes);
    }

    fn add(&self, bytes: u64) {
        self.progress.add(bytes);
    }

    fn begin(&self, dataset: &str) {
        self.progress.note(dataset);
    }
}
