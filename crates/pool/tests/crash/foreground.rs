//! What work in the background costs those who commit meanwhile: writers on modelled disks, alone and beside it.
//!
//! The disks of the pool are SSDs, its logs such with power-loss protection. Writers ask for what a busy server asks for, and
//! do not wait for each other: what a commit takes is the devices' time, and what the pool makes of it. The processors' time is none
//! here; `scripts/bench-devices` measures that.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use env::{BoxFuture, Env};
use futures::future::join_all;
use ondisk::dsl::scan::{ScanPhys, state};
use parking_lot::Mutex;
use pool::sweep::{Kind, Order, State};
use pool::{Pool, Tuning};
use sim::{DiskModel, DiskSpec, Sim};
use zpl::{Cred, NewNode, WriteFlags, Zfs};

use crate::attached::{at, guid, whole};
use crate::shape::{DISK_BYTES, MIRROR, POOL, STRIPE_AND_LOG, STRIPE_OF_THREE, Shape, TWO_LOGS, brisk};
use crate::story::{Tell, number, run, tell};
use crate::writers::SYNC;

/// Worlds whose commits are looked at together, by default.
const RUNS: u64 = 2;
/// Of so many worlds, whose commits are looked at together, p99 tells a tenth more from a matter of chance.
const RUNS_ENOUGH: u64 = 12;
/// Fewer commits have no p99 worth the name.
const COMMITS_MIN: usize = 1_000;
/// What there is to go over.
const FILES: u64 = 40;
const FILE_BYTES: usize = 400_000;
const NEW: &str = "/new";
/// How long writers are alone, and the work goes on at least: it begins anew where it can.
const SPAN: Duration = Duration::from_millis(600);
/// Writers, the bytes of a write, and the time from one write's end to the next.
const WRITERS: u64 = 16;
const WRITE_BYTES: usize = 8_192;
const PAUSE: Duration = Duration::from_millis(4);
/// Of each writer's file.
const BLOCKS: u64 = 16;

/// Something that takes a while, and leaves all so that it can be done again.
struct Work {
    name: &'static str,
    shapes: [&'static Shape; 2],
    act: for<'a> fn(&'a Sim, &'a Arc<Pool>) -> BoxFuture<'a, ()>,
    can_repeat: bool,
}

async fn until(sim: &Sim, is_over: impl Fn() -> bool) {
    while !is_over() {
        sim.sleep(Duration::from_millis(5)).await;
    }
}

async fn sweep(sim: &Sim, pool: &Arc<Pool>, kind: Kind) {
    let leaves: Vec<_> = pool.vdevs().leaves().iter().map(|leaf| leaf.guid()).collect();
    let start = Order::Start { rate: 0, secure: false };
    assert_eq!(pool.sweep(kind, start, &leaves).await.expect("it is stable"), []);
    let is_swept = |leaf: &_| pool.sweep_report(leaf, kind).record.state == State::Complete;
    until(sim, || pool.vdevs().leaves().iter().all(is_swept)).await;
}

const LOGGED_MIRRORS: [&Shape; 2] = [&TWO_LOGS, &MIRROR];

const WORKS: [Work; 5] = [
    Work {
        name: "scrub",
        shapes: LOGGED_MIRRORS,
        act: |sim, pool| {
            Box::pin(async move {
                pool.scrub().await.expect("it begins");
                let is_over = |phys: &ScanPhys| phys.state.get() != state::SCANNING;
                until(sim, || pool.scan().is_some_and(|scan| is_over(&scan.phys))).await;
            })
        },
        can_repeat: true,
    },
    Work {
        name: "resilver",
        shapes: LOGGED_MIRRORS,
        act: |sim, pool| {
            Box::pin(async move {
                pool.attach(guid(pool, "/a"), &at(NEW)).await.expect("a mirror grows");
                whole(sim, pool).await;
                pool.detach(guid(pool, NEW)).await.expect("it shrinks");
            })
        },
        can_repeat: true,
    },
    Work {
        name: "removal",
        shapes: [&STRIPE_AND_LOG, &STRIPE_OF_THREE],
        act: |sim, pool| {
            Box::pin(async move {
                pool.evacuate(units::VdevId::new(1)).await.expect("a vdev can go");
                until(sim, || pool.vdevs().tops().iter().all(|top| top.config().leaving.is_none())).await;
            })
        },
        can_repeat: false,
    },
    Work {
        name: "initialize",
        shapes: LOGGED_MIRRORS,
        act: |sim, pool| Box::pin(sweep(sim, pool, Kind::Initialize)),
        can_repeat: true,
    },
    Work {
        name: "trim",
        shapes: LOGGED_MIRRORS,
        act: |sim, pool| Box::pin(sweep(sim, pool, Kind::Trim)),
        can_repeat: true,
    },
];

async fn make(zfs: &Zfs, name: String, bytes: &[u8]) -> units::ObjectId {
    let made = zfs.create(zfs.root(), name.as_bytes(), NewNode::File, 0o644, Cred::default()).await;
    let file = made.expect("made").object;
    zfs.write(file, 0, bytes, WriteFlags::default()).await.expect("written");
    file
}

async fn fill(zfs: &Zfs) {
    for number in 0..FILES {
        let bytes: Vec<u8> = (0..FILE_BYTES as u64).map(|at| (at * at * 31 + at * number) as u8).collect();
        make(zfs, format!("filling{number}"), &bytes).await;
    }
}

/// Writers, and what their commits took of late.
struct Foreground {
    files: Vec<units::ObjectId>,
    is_over: AtomicBool,
    took: Mutex<Vec<Duration>>,
}

impl Foreground {
    async fn new(zfs: &Zfs) -> Self {
        let (mut files, bytes) = (Vec::new(), vec![7; WRITE_BYTES * BLOCKS as usize]);
        for writer in 0..WRITERS {
            files.push(make(zfs, format!("written{writer}"), &bytes).await);
        }
        Self { files, is_over: AtomicBool::new(false), took: Mutex::default() }
    }

    async fn write(&self, sim: &Sim, zfs: &Zfs, writer: u64) {
        let file = self.files[writer as usize];
        sim.sleep(PAUSE * writer as u32 / WRITERS as u32).await;
        for count in 0.. {
            if self.is_over.load(SeqCst) {
                return;
            }
            let block = (count * 7 + writer) % BLOCKS;
            let (began, bytes) = (sim.now(), [count as u8; WRITE_BYTES]);
            zfs.write(file, block * WRITE_BYTES as u64, &bytes, SYNC).await.expect("written");
            self.took.lock().push(sim.now() - began);
            sim.sleep(PAUSE).await;
        }
    }

    async fn write_all(&self, sim: &Sim, zfs: &Zfs) {
        join_all((0..WRITERS).map(|writer| self.write(sim, zfs, writer))).await;
    }

    fn take(&self) -> Vec<Duration> {
        std::mem::take(&mut *self.took.lock())
    }
}

/// What commits took, alone and beside the work.
fn commits(work: &Work, shape: &Shape, seed: u64) -> [Vec<Duration>; 2] {
    let sim = Sim::seed(seed);
    for disk in shape.disks() {
        let is_log = ["/l", "/m"].iter().any(|log| disk.as_os_str() == *log);
        let model = if is_log { DiskModel::ssd_with_plp() } else { DiskModel::ssd() };
        sim.add_disk(disk, DiskSpec::new(DISK_BYTES, model));
    }
    sim.add_disk(PathBuf::from(NEW), DiskSpec::new(DISK_BYTES, DiskModel::ssd()));
    run(&sim, async {
        let tuning = Tuning { txg_timeout: Duration::from_millis(250), ..brisk() };
        let pool = shape.create_with(&sim, tuning, &[("compression", 2), ("recordsize", 8_192)]).await;
        let fs = pool.filesystem(POOL).await.expect("it opens");
        fill(&fs.zfs).await;
        let foreground = Foreground::new(&fs.zfs).await;
        pool.sync_now().await.expect("txgs turn");
        let administer = async {
            sim.sleep(SPAN / 10).await;
            foreground.take();
            sim.sleep(SPAN).await;
            let alone = foreground.take();
            let began = sim.now();
            loop {
                (work.act)(&sim, &pool).await;
                if !work.can_repeat || sim.now() - began > SPAN {
                    break;
                }
            }
            let beside = foreground.take();
            foreground.is_over.store(true, SeqCst);
            [alone, beside]
        };
        futures::join!(administer, foreground.write_all(&sim, &fs.zfs)).0
    })
}

/// The time that all but one in a hundred took at most, and the middle one.
fn quantiles(took: &mut [Duration]) -> [Duration; 2] {
    took.sort();
    [took[took.len() / 2], took[took.len() * 99 / 100]]
}

#[test]
fn commits_hardly_wait_for_work_in_the_background() {
    let _tell = Tell;
    let runs = number("SAWMILL_CRASH_RUNS").unwrap_or(RUNS);
    // In tenths.
    let allowed = if runs < RUNS_ENOUGH { 15 } else { 11 };
    let mut over = Vec::new();
    for (number, work) in (0..).zip(&WORKS) {
        for (shape, first) in work.shapes.iter().zip([48_000 + number * 100, 48_050 + number * 100]) {
            tell(format!("{}, seeds from {first} on", work.name));
            let mut took = [Vec::new(), Vec::new()];
            for seed in first..first + runs {
                let of_one = commits(work, shape, seed);
                took.iter_mut().zip(of_one).for_each(|(all, some)| all.extend(some));
            }
            let [alone, beside] = took.each_mut().map(|took| quantiles(took));
            println!(
                "{} on {}: p50 and p99 of {} commits {alone:?} alone, of {} {beside:?} beside",
                work.name,
                shape.name,
                took[0].len(),
                took[1].len(),
            );
            if took[1].len() >= COMMITS_MIN && beside[1] * 10 > alone[1] * allowed {
                over.push((work.name, shape.name, alone[1], beside[1]));
            }
        }
    }
    assert!(over.is_empty(), "{over:?}");
}
