//! Writers at work while something is done to their pool, who know what was acknowledged and how long it took.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use env::Env;
use futures::future::join_all;
use parking_lot::Mutex;
use sim::Sim;
use zpl::{Cred, NewNode, WriteFlags, Zfs};

pub const SYNC: WriteFlags = WriteFlags { append: false, sync: true, drop_setid: false };
pub const WRITERS: u64 = 32;
const WRITE_BYTES: usize = 3_000;

/// The name of a writer's file.
pub fn file(writer: u64) -> Vec<u8> {
    format!("file{writer}").into_bytes()
}

/// What it holds in its version.
pub fn contents(writer: u64, version: u64) -> Vec<u8> {
    let head = [writer.to_le_bytes(), version.to_le_bytes()].concat();
    head.into_iter().cycle().take(WRITE_BYTES).collect()
}

/// Writers, each of whom knows which of its versions were acknowledged, and how long each took.
#[derive(Default)]
pub struct Writers {
    stop: AtomicBool,
    latencies: Mutex<Vec<Duration>>,
}

impl Writers {
    async fn write(&self, sim: &Sim, zfs: &Zfs, writer: u64) {
        let made = zfs.create(zfs.root(), &file(writer), NewNode::File, 0o644, Cred::default()).await;
        let file = match made {
            Ok(made) => made.object,
            Err(_) => zfs.lookup(zfs.root(), &file(writer)).await.expect("it is there").object,
        };
        for version in 1.. {
            if self.stop.load(SeqCst) {
                return;
            }
            let began = sim.now();
            zfs.write(file, 0, &contents(writer, version), SYNC).await.expect("write");
            self.latencies.lock().push(sim.now() - began);
            sim.mark(format!("{writer}:{version}"));
        }
    }

    async fn write_all(&self, sim: &Sim, zfs: &Zfs) {
        join_all((0..WRITERS).map(|writer| self.write(sim, zfs, writer))).await;
    }

    /// The longest but one in a hundred, of those since this was last asked for it.
    pub fn p99(&self) -> Duration {
        let mut latencies = std::mem::take(&mut *self.latencies.lock());
        latencies.sort();
        latencies[latencies.len() * 99 / 100]
    }
}

/// Lets writers work while `work` is done to the pool, and a little longer.
pub async fn under_load(sim: &Sim, zfs: &Zfs, work: impl Future<Output = ()>) -> Writers {
    let writers = Writers::default();
    let done = async {
        sim.sleep(Duration::from_millis(20)).await;
        work.await;
        sim.sleep(Duration::from_millis(20)).await;
        writers.stop.store(true, SeqCst);
    };
    futures::join!(writers.write_all(sim, zfs), done);
    writers
}

/// The newest acknowledged version of each writer, of these marks.
pub fn promised<'a>(labels: impl Iterator<Item = &'a str>) -> BTreeMap<u64, u64> {
    let parse = |label: &str| {
        let (writer, version) = label.split_once(':')?;
        Some((writer.parse::<u64>().ok()?, version.parse::<u64>().ok()?))
    };
    let mut newest = BTreeMap::new();
    for (writer, version) in labels.filter_map(parse) {
        let known: &mut u64 = newest.entry(writer).or_default();
        *known = version.max(*known);
    }
    newest
}

/// Every file has what was acknowledged of it, or what was written later.
pub async fn check_files(zfs: &Zfs, promised: &BTreeMap<u64, u64>) {
    for (&writer, &version) in promised {
        let file = zfs.lookup(zfs.root(), &file(writer)).await.expect("it was promised").object;
        let mut found = vec![0; WRITE_BYTES];
        zfs.read(file, 0, &mut found).await.expect("read");
        let is = u64::from_le_bytes(found[8..16].try_into().expect("eight bytes"));
        assert!(is >= version, "writer {writer} was promised version {version} and finds {is}");
        assert_eq!(found, contents(writer, is));
    }
}

/// The same of a world that goes on.
pub fn promised_in(sim: &Sim) -> BTreeMap<u64, u64> {
    let marks = sim.marks();
    promised(marks.iter().map(|mark| mark.label.as_str()))
}
