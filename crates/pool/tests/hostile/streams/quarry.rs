//! Sound streams, and a pool that each of them can be received into.
//!
//! ```text
//!  golden streams ─┐                           whirl/fs@1, whirl/two@1 @2, whirl/part (the part of a stream)
//!                  ├─ thinned ─► sources ─► into the same pool, from its image
//!  whirl/own@1 @2 ─┘ sent                      whirl/copy@1, whirl/rest (the part of a stream), whirl/old
//! ```
//! A thinned stream lacks most data of large files: a hole is as good as the data, and the lane
//! receives more streams in the same time.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use dsl::PropValue;
use ondisk::ObjectType;
use ondisk::send::{DrrBody, ResumeState};
use oracle::golden;
use pool::Pool;
use sim::CrashImage;
use stream::{Form, Resume};
use units::ObjectId;
use vdev::PoolState;
use zpl::WriteFlags;

use super::record::{SentRecord, records, sealed};
use crate::ours;
use crate::sends::{WHOLE_FORM, receive, sent};

pub const PATH: &str = "/a";
/// Bytes of a file or volume that a thinned stream has.
const FILE_BYTES_MAX: usize = 150 << 10;
/// Heads that are parts of streams.
pub const PARTS: [&str; 2] = ["whirl/part", "whirl/rest"];
/// Names of full streams of `whirl/own@1`.
const HEALERS: [&str; 2] = ["own", "own in pieces"];
/// A file system without snapshots, which a full stream may replace by force.
pub const OLD: &str = "whirl/old@1";

/// A stream, and the snapshot that it is received as.
#[derive(Clone)]
pub struct Source {
    pub name: &'static str,
    pub records: Vec<SentRecord>,
    pub snapshot: &'static str,
    /// The snapshot that the new dataset is a clone of.
    pub origin: Option<&'static str>,
}

/// See the module.
pub struct Quarry {
    pub image: CrashImage,
    /// Streams of one snapshot each.
    pub sources: Vec<Source>,
    /// Streams of several. `snapshot` is the target of `zfs receive`.
    pub packages: Vec<Source>,
    /// Streams of `whirl/own@1`.
    pub healers: Vec<Source>,
    /// A small sound stream.
    pub sound: Vec<u8>,
}

/// The quarry of all tests of this program.
pub static QUARRY: LazyLock<Quarry> = LazyLock::new(Quarry::new);

fn golden_stream(name: &str) -> Vec<u8> {
    std::fs::read(golden::path("g30-streams").join(format!("{name}.zstream"))).expect("a golden stream")
}

/// The same stream without most data of large files and volumes.
fn thinned(stream: &[u8]) -> Vec<SentRecord> {
    let mut bytes_of: BTreeMap<u64, usize> = BTreeMap::new();
    let mut records = records(stream);
    records.retain(|record| match record.decoded().map(|record| record.body) {
        Some(DrrBody::Write(write)) if is_data(write.object_type.get()) => {
            let bytes = bytes_of.entry(write.object.get()).or_default();
            *bytes += record.payload.len();
            *bytes <= FILE_BYTES_MAX
        }
        Some(DrrBody::Begin(_)) => {
            bytes_of.clear();
            true
        }
        _ => true,
    });
    records
}

fn is_data(raw: u32) -> bool {
    [ObjectType::PLAIN_FILE_CONTENTS, ObjectType::ZVOL].iter().any(|kind| u32::from(kind.raw()) == raw)
}

/// The stream from `fs@2` to `fs@3`, which is the second in a compound stream.
fn second_step() -> Vec<SentRecord> {
    let all = thinned(&golden_stream("incr-all"));
    let is_begin = |record: &SentRecord| matches!(record.decoded().map(|r| r.body), Some(DrrBody::Begin(_)));
    let from = (0..all.len()).filter(|&at| is_begin(&all[at])).nth(2).expect("two streams behind the list");
    all[from..all.len() - 1].to_vec()
}

impl Quarry {
    fn new() -> Self {
        let sim = ours::world(&[PATH]);
        let (sources, sound) = sim.run_until(async {
            let pool = ours::create(&sim, &[PATH]).await;
            let mut sources = receive_golden(&pool).await;
            let sound = send_own(&pool, &mut sources).await;
            for name in ["whirl/old", "whirl/in"] {
                pool.create_filesystem(name, Vec::new()).await.expect("created");
            }
            pool.close(PoolState::Exported).await.expect("exported");
            (sources, sound)
        });
        let package = |name, snapshot| {
            let records = thinned(&golden_stream(name));
            Source { name, records, snapshot, origin: None }
        };
        let packages = vec![
            package("incr-all", "whirl/fs"),
            package("props", "whirl/in/props"),
            package("holds", "whirl/in/holds@other"),
            package("repl", "whirl/in/tree"),
        ];
        let healers = sources.iter().filter(|source| HEALERS.contains(&source.name)).cloned().collect();
        Self { image: sim.power_cut(0), sources, packages, healers, sound }
    }
}

/// Gives the pool what the golden streams start from.
async fn receive_golden(pool: &Arc<Pool>) -> Vec<Source> {
    let source = |name, snapshot| {
        let records = thinned(&golden_stream(name));
        Source { name, records, snapshot, origin: None }
    };
    let sources = vec![
        source("full", "whirl/new@1"),
        source("full-cLe", "whirl/new@1"),
        source("incr", "whirl/fs@2"),
        Source { name: "next", records: second_step(), snapshot: "whirl/two@3", origin: None },
        Source { origin: Some("whirl/two@2"), ..source("clone", "whirl/clone@c") },
        source("vol", "whirl/vol@r"),
        source("redacted", "whirl/new@3"),
        source("resumed", "whirl/part@1"),
    ];
    let (full, incr) = (sealed(&sources[0].records), sealed(&sources[2].records));
    for (stream, snapshot) in [(&full, "whirl/fs@1"), (&full, "whirl/two@1"), (&incr, "whirl/two@2")] {
        receive(pool, stream, snapshot, |_| {}).await.expect("a thinned stream is sound");
    }
    // The part that the golden stream continues.
    begin_part(pool, &golden_stream("full")[..700_000], "whirl/part").await;
    sources
}

async fn begin_part(pool: &Arc<Pool>, stream: &[u8], head: &str) -> ResumeState {
    let cut = receive(pool, stream, &format!("{head}@1"), |order| order.resumable = true).await;
    cut.expect_err("the stream is cut");
    let head = pool.dsl().resolve(head).await.expect("kept");
    pool.resume_state(&head).await.expect("readable").expect("a part")
}

/// Sends a file system of this pool in each way. Returns a sound stream.
async fn send_own(pool: &Arc<Pool>, sources: &mut Vec<Source>) -> Vec<u8> {
    let props = [("recordsize", 4096), ("dnodesize", 1024)];
    let props = props.map(|(name, value)| (name.to_owned(), PropValue::Number(value)));
    pool.create_filesystem("whirl/own", props.into()).await.expect("created");
    let fs = pool.filesystem("whirl/own").await.expect("it opens");
    ours::fill(&fs.zfs).await;
    pool.snapshot(vec!["whirl/own@1".into()], Vec::new()).await.expect("made");
    let long = fs.zfs.lookup(fs.zfs.root(), b"long").await.expect("there").object;
    fs.zfs.write(long, 5000, &[3; 20_000], WriteFlags::default()).await.expect("written");
    fs.zfs.unlink(fs.zfs.root(), b"small").await.expect("removed");
    pool.snapshot(vec!["whirl/own@2".into()], Vec::new()).await.expect("made");
    drop(fs);
    let full = sent(pool, "whirl/own@1", None, WHOLE_FORM, None).await;
    receive(pool, &full, "whirl/copy@1", |_| {}).await.expect("received");
    let part = begin_part(pool, &full[..full.len() / 2], "whirl/rest").await.point;
    let resume = Resume { object: ObjectId::new(part.object), offset: part.offset };
    let mut source = |name, stream: &[u8], snapshot| {
        sources.push(Source { name, records: thinned(stream), snapshot, origin: None });
    };
    source(HEALERS[0], &full, "whirl/new@1");
    let pieces = sent(pool, "whirl/own@1", None, Form::default(), None).await;
    source(HEALERS[1], &pieces, "whirl/new@1");
    let from = Some("whirl/own@1");
    source("own incremental", &sent(pool, "whirl/own@2", from, WHOLE_FORM, None).await, "whirl/copy@2");
    source("own resumed", &sent(pool, "whirl/own@1", None, WHOLE_FORM, Some(resume)).await, "whirl/rest@1");
    full
}
