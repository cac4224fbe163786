//! `sawmill inspect`: what lies on disk, structure by structure, with every field explained.
//!
//! ```text
//!  inspect FILE                             labels, uberblocks
//!  inspect FILE zil                         what a log device holds, without its pool
//!  inspect POOL config | uberblock | spacemaps | datasets
//!  inspect POOL zil [DATASET]               intent logs, block by block and record by record
//!  inspect POOL object DATASET N [BLOCK]    a dnode; its names if it is a ZAP; a block of it
//!  inspect POOL block VDEV:OFFSET:SIZE      bytes as they lie there
//! ```
//! The dataset `mos` is the pool's own. Pools are opened for reading, those too that were not
//! exported; nothing is changed.

mod detached;
mod labels;
mod object;
mod report;
mod space;
mod zil;
use vdev::Address;

use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, Stop, usage};
use crate::visit::{Access, FORCE, SEARCH, Visit};
use control::{Failure, FailureKind};
use device::{Options, RealEnv};
use dmu::Objset;
use engine::refusal;
use env::{Env, OpenMode};
use ondisk::describe::Describe;
use pool::{Pool, PoolError};
use report::{Report, dump};
use std::path::Path;
use std::sync::Arc;
use units::{BlockId, ObjectId, VdevId, VdevOffset};

pub const COMMAND: Command = Command::new(
    Spec {
        name: "inspect",
        alias: None,
        about: "shows what lies on the devices of a pool, and explains it",
        flags: &[
            Flag::switch('a', "of labels: every uberblock whole"),
            FORCE,
            Flag::switch('j', "as JSON, for programs").or("json"),
            SEARCH,
        ],
        operands: "<file> [zil] | <pool> config | uberblock | spacemaps | datasets | zil [dataset] | object <dataset|mos> <number> [block] | block <vdev:offset:size>",
    },
    run,
);

/// The meta-objset's name here.
const MOS: &str = "mos";
/// A block is no longer than this.
const BLOCK_BYTES_MAX: u64 = 16 << 20;
/// Bytes of a block that text shows.
const SHOWN_BYTES: usize = 64 << 10;

fn run(session: &mut Session, args: &Args) -> Outcome {
    let words: Vec<&str> = args.operands.iter().map(String::as_str).collect();
    let what = match words.as_slice() {
        [] => return usage("missing file or pool"),
        [file] if file.contains('/') => (*file, What::Labels { all: args.has('a') }),
        [file, "zil"] if file.contains('/') => (*file, What::Log),
        [pool, rest @ ..] => {
            print(session, args, &of_pool(args, pool, rest)?)?;
            return Ok(0);
        }
    };
    inspect_device(session, args, what)
}

fn print(session: &mut Session, args: &Args, report: &Report) -> Result<(), Stop> {
    match args.has('j') {
        true => writeln!(session.out(), "{}", report.json())?,
        false => write!(session.out(), "{}", report.text())?,
    }
    Ok(())
}

fn inspect_device(session: &mut Session, args: &Args, (file, what): (&str, What)) -> Outcome {
    let (report, is_vdev) = of_device(Path::new(file), what)?;
    print(session, args, &report)?;
    match is_vdev {
        true => Ok(0),
        false => {
            Err(Failure::cannot(FailureKind::Invalid, "inspect", file, "nothing of a pool is on it").into())
        }
    }
}

/// What is to be shown of a device.
#[derive(Clone, Copy)]
enum What {
    Labels { all: bool },
    Log,
}

/// And whether there is anything of a pool on it.
fn of_device(path: &Path, what: What) -> Result<(Report, bool), Stop> {
    let env = RealEnv::new(Options::default());
    env.block_on(async {
        let device = env.open(path, OpenMode::ReadOnly).await.map_err(|error| {
            let path = path.display().to_string();
            Failure::cannot(FailureKind::Unavailable, "open", &path, &refusal::chain(&error))
        })?;
        Ok(match what {
            What::Labels { all } => labels::labels(&device, all).await,
            What::Log => detached::log(&device).await,
        })
    })
}

fn of_pool(args: &Args, name: &str, words: &[&str]) -> Result<Report, Stop> {
    let asked = Asked::parse(words)?;
    let visit = Visit::open(args, name, Access::Read)?;
    let found = visit.env().block_on(asked.find(visit.pool()));
    Ok(found.map_err(|error| refusal::pool("inspect", name, &error))?)
}

/// What is to be shown of a pool.
enum Asked<'a> {
    Config,
    Uberblock,
    SpaceMaps,
    Datasets,
    Logs(Option<&'a str>),
    Object(&'a str, ObjectId),
    ObjectBlock(&'a str, ObjectId, BlockId),
    Block(VdevId, VdevOffset, usize),
}

impl<'a> Asked<'a> {
    fn parse(words: &[&'a str]) -> Result<Self, Stop> {
        Ok(match words {
            ["config"] => Self::Config,
            ["uberblock"] => Self::Uberblock,
            ["spacemaps"] => Self::SpaceMaps,
            ["datasets"] => Self::Datasets,
            ["zil"] => Self::Logs(None),
            ["zil", dataset] => Self::Logs(Some(dataset)),
            ["object", dataset, object] => Self::Object(dataset, ObjectId::new(number(object)?)),
            ["object", dataset, object, block] => {
                Self::ObjectBlock(dataset, ObjectId::new(number(object)?), BlockId::new(number(block)?))
            }
            ["block", place] => {
                let parts: Vec<&str> = place.split(':').collect();
                let [vdev, offset, size] = parts.as_slice() else {
                    return usage("a block is VDEV:OFFSET:SIZE");
                };
                let size = number(size)?;
                if size == 0 || size > BLOCK_BYTES_MAX || !size.is_multiple_of(512) {
                    return usage("a block has 512 bytes to 16 MiB, in whole sectors");
                }
                let Ok(vdev) = u32::try_from(number(vdev)?) else { return usage("no such vdev") };
                Self::Block(VdevId::new(vdev), VdevOffset::new(number(offset)?), size as usize)
            }
            _ => return usage("what is to be shown?"),
        })
    }

    async fn find(&self, pool: &Arc<Pool>) -> Result<Report, PoolError> {
        match *self {
            Self::Config => config(pool).await,
            Self::Uberblock => Ok(uberblock(pool).await),
            Self::SpaceMaps => space::space_maps(pool).await,
            Self::Datasets => datasets(pool).await,
            Self::Logs(dataset) => zil::logs(pool, dataset).await,
            Self::Object(dataset, number) => object::object(&objset(pool, dataset).await?, number).await,
            Self::ObjectBlock(dataset, number, block) => {
                Ok(object::block(&objset(pool, dataset).await?, number, block).await?)
            }
            Self::Block(vdev, offset, size) => block(pool, vdev, offset, size).await,
        }
    }
}

/// Decimal, or hexadecimal after `0x`.
fn number(word: &str) -> Result<u64, Stop> {
    let parsed = match word.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => word.parse(),
    };
    parsed.or_else(|_| usage(format!("'{word}' is not a number")))
}

async fn objset(pool: &Arc<Pool>, dataset: &str) -> Result<Arc<Objset>, PoolError> {
    if dataset == MOS {
        return Ok(Arc::clone(pool.dsl().mos()));
    }
    let objset = pool.frozen_objset(dataset).await?;
    objset.ok_or_else(|| PoolError::NotFilesystem { name: dataset.to_owned() })
}

async fn config(pool: &Arc<Pool>) -> Result<Report, PoolError> {
    Ok(Report::of_nvlist(&pool.stored_config().await?))
}

async fn uberblock(pool: &Arc<Pool>) -> Report {
    match pool.vdevs().best_uberblock(None).await {
        Some(best) => Report::of_fields(&best.describe()),
        None => Report::default(),
    }
}

async fn datasets(pool: &Arc<Pool>) -> Result<Report, PoolError> {
    let mut report = Report::default();
    for head in pool.dsl().list(&pool.name()).await? {
        let snapshots = pool.dsl().snapshots(&head).await?;
        for dataset in std::iter::once(head).chain(snapshots) {
            let phys = pool.dsl().dataset(dataset.dataset).await?;
            let mut section = Report::default();
            section.value("objset", dataset.objset().get(), "its number: the dataset's object in the MOS");
            section.value("dir", dataset.dir.get(), "object of its dir in the MOS");
            section.section("dataset", "the dataset's record", Report::of_fields(&phys.describe()));
            report.section(dataset.name, "", section);
        }
    }
    Ok(report)
}

async fn block(pool: &Arc<Pool>, vdev: VdevId, at: VdevOffset, size: usize) -> Result<Report, PoolError> {
    let bytes = pool.vdevs().read(Address::now(vdev, at), size, &|_| true).await?;
    let mut report = Report::default();
    report.value("vdev", u64::from(vdev.get()), "top-level vdev");
    report.value("offset", at.get(), "in its allocatable space");
    let shown = bytes.get(..SHOWN_BYTES).unwrap_or(&bytes);
    report.value("bytes", format!("\n{}", dump(shown)), "as they lie there, unverified");
    Ok(report)
}
