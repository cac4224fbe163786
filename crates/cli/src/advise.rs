//! `sawmill advise log POOL`: what was measured of the intent log, and what follows for log devices.

use crate::args::{Args, Flag, Spec};
use crate::numbers::{positive, whole};
use crate::program::{Command, Kind, Program};
use crate::session::{Outcome, Session, Stop, usage};
use crate::view;
use advise::{Advice, LoadShape, Measured, Rating, Watch};
use bench::gain::{self, Outcome as Simulated, Play};
use control::{Failure, FailureKind, LogFacts, PoolLogFacts};
use pool::PoolError;
use serde::Serialize;
use sim::DiskModel;
use std::time::{Duration, Instant};

/// The commands.
pub const PROGRAM: Program = Program {
    name: "advise",
    about: "what to do, from what was measured",
    kind: Kind::Own,
    commands: &[LOG],
};

/// What log devices are rated for.
pub const TBW: Flag =
    Flag::long_value("tbw", "terabytes", "what a log device is rated to be written: tells how long it lives");
/// The same in another measure.
pub const PE_CYCLES: Flag =
    Flag::long_value("pe-cycles", "number", "the same, as how often each of its cells may be written");

const LOG: Command = Command::new(
    Spec {
        name: "log",
        alias: None,
        about: "tells how large a log device has to be, how long it lives, what it lies on and what it brings",
        flags: &[
            Flag::long_value(
                "for",
                "seconds",
                "watch for so long; else what was measured since the import counts",
            ),
            TBW,
            PE_CYCLES,
            Flag::long_value(
                "model",
                "nvram|ssd-plp|ssd|hdd-2007|none",
                "simulate logs of these kinds only, or none; else all of them",
            )
            .repeated(),
            Flag::long_value("seed", "number", "decides everything random in the simulation (1)"),
            Flag::long("json", "as JSON"),
        ],
        operands: "<pool>",
    },
    log,
);

/// While watching, the daemon is asked so often: it remembers the last 256 txgs.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Longer than any pool is watched: ten years.
const WATCH_MAX_SECS: f64 = 315_576_000.0;

/// All that is told.
#[derive(Serialize)]
pub struct Answer {
    /// Pool.
    pub pool: String,
    /// What follows from what was measured.
    #[serde(flatten)]
    pub advice: Advice,
    /// What logs would bring, as far as that was simulated.
    pub gain: Option<Gain>,
}

/// What logs of several kinds would bring, simulated.
#[derive(Serialize)]
pub struct Gain {
    /// Decides everything random.
    pub seed: u64,
    /// The load that is made again.
    pub load: LoadShape,
    /// With no log at all.
    pub without: Simulated,
    /// With a log of a kind.
    pub with: Vec<GainOf>,
}

/// What a log of a kind would bring.
#[derive(Serialize)]
pub struct GainOf {
    /// The kind's name.
    pub model: &'static str,
    /// What commits take then.
    pub outcome: Simulated,
    /// How many times shorter they are on the mean than without a log.
    pub factor: f64,
}

impl Gain {
    /// None without commits, or when no kind of log is asked for.
    fn of(
        measured: &Measured,
        models: &[(&'static str, DiskModel)],
        seed: u64,
    ) -> Result<Option<Self>, PoolError> {
        let Some(load) = LoadShape::of(measured).filter(|_| !models.is_empty()) else { return Ok(None) };
        let play = Play::of(&load);
        let without = gain::run(&play, None, seed)?;
        let with = models.iter().map(|&(model, disk)| {
            let outcome = gain::run(&play, Some(disk), seed)?;
            Ok(GainOf { model, outcome, factor: without.mean_us / outcome.mean_us.max(f64::MIN_POSITIVE) })
        });
        let with = with.collect::<Result<_, PoolError>>()?;
        Ok(Some(Self { seed, load, without, with }))
    }
}

fn log(session: &mut Session, args: &Args) -> Outcome {
    let [pool] = args.operands.as_slice() else {
        return usage(if args.operands.is_empty() {
            "missing pool name argument"
        } else {
            "too many arguments"
        });
    };
    let span = positive(args, "for", WATCH_MAX_SECS)?.map(Duration::from_secs_f64);
    let rating = rating(args)?;
    let (models, seed) = (models(args)?, whole(args, "seed")?.unwrap_or(1));
    let measured = match span {
        None => Measured::since_import(facts(session, pool)?),
        Some(span) => watch(session, pool, span)?,
    };
    let gain = Gain::of(&measured, &models, seed)
        .map_err(|error| refused(format!("the simulation failed: {error}")))?;
    let answer = Answer { pool: pool.clone(), advice: Advice::of(&measured, rating), gain };
    let text = match args.has_long("json") {
        true => serde_json::to_string(&answer).map_err(std::io::Error::from)? + "\n",
        false => view::advise::text(&answer),
    };
    session.out().write_all(text.as_bytes())?;
    Ok(0)
}

fn facts(session: &Session, pool: &str) -> Result<LogFacts, Stop> {
    session.ask(&PoolLogFacts { pool: pool.to_owned() })
}

fn watch(session: &Session, pool: &str, span: Duration) -> Result<Measured, Stop> {
    let mut watch = Watch::begin(facts(session, pool)?);
    let begun = Instant::now();
    loop {
        let left = span.saturating_sub(begun.elapsed());
        std::thread::sleep(left.min(LOOK_EVERY));
        let now = facts(session, pool)?;
        if !watch.look(now) {
            return Err(refused(format!("cannot watch '{pool}': it was imported anew")));
        }
        if left <= LOOK_EVERY {
            return Ok(watch.measured());
        }
    }
}

/// What was said of the rating of log devices.
pub fn rating(args: &Args) -> Result<Option<Rating>, Stop> {
    let most = f64::from(u32::MAX);
    match (positive(args, "tbw", most)?, positive(args, "pe-cycles", most)?) {
        (Some(_), Some(_)) => usage("--tbw and --pe-cycles exclude each other"),
        (Some(terabytes), None) => Ok(Some(Rating::TerabytesWritten(terabytes))),
        (None, Some(cycles)) => Ok(Some(Rating::ProgramEraseCycles(cycles))),
        (None, None) => Ok(None),
    }
}

fn refused(line: String) -> Stop {
    Failure::new(FailureKind::Other, line).into()
}

/// Kinds of logs that are asked for.
fn models(args: &Args) -> Result<Vec<(&'static str, DiskModel)>, Stop> {
    let mut words = args.long_values("model").peekable();
    if words.peek().is_none() {
        return Ok(DiskModel::NAMED.to_vec());
    }
    let mut models = Vec::new();
    for word in words.filter(|word| *word != "none") {
        match DiskModel::NAMED.iter().find(|(name, _)| *name == word) {
            Some(model) => models.push(*model),
            None => return usage(format!("bad model '{word}'")),
        }
    }
    Ok(models)
}
