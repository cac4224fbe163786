//! Streams that are received while the power goes, or reads fail.
//!
//! ```text
//!  whirl/from@1 ── sent ──► whirl/new@1       whirl/from@2 ── what is new ──► whirl/old@2, where whirl/old@1 is
//!                     │ recorded: images
//!                     ▼
//!          nothing of it, or a part with a note of how far it is, or all of it
//! ```
//! Whatever is left, the rest is sent, from where the note says, and then all of it is there.

use std::cell::Cell;
use std::sync::Arc;

use env::FaultOp;
use futures::future::join;
use ondisk::send::{DrrBody, DrrWrite};
use pool::{Pool, PoolError, ReceiveOrder, ReceiveRefusal, Sealed};
use sim::{CrashImage, DiskModel, Sim};
use stream::{Reader, Resume};
use units::ObjectId;
use vdev::PoolState;
use zpl::{Cred, NewNode, WriteFlags, Zfs};

use crate::ground::{PROBED, quiet};
use crate::shape::{MIRROR, SINGLE, Shape};
use crate::space;
use crate::story::{Tell, drawn, run, tell};
use crate::streams::{WHOLE_FORM, receive, sent};

/// Images of a stream that are imported.
const IMAGES: usize = 60;
/// One in so many images is judged by `zdb`.
const ZDB_ONE_IN: usize = 20;
/// Reads that fail in a row: more than copies of any block.
const READS: u64 = 12;

/// A stream, and what is made of it.
#[derive(Clone, Copy, Debug)]
struct Way {
    name: &'static str,
    from: Option<&'static str>,
    head: &'static str,
    snapshot: &'static str,
}

const FULL: Way = Way { name: "whirl/from@1", from: None, head: "whirl/new", snapshot: "whirl/new@1" };
const FIRST: Way = Way { head: "whirl/old", snapshot: "whirl/old@1", ..FULL };
const SECOND: Way =
    Way { name: "whirl/from@2", from: Some("whirl/from@1"), head: "whirl/old", snapshot: "whirl/old@2" };

/// What comes of a stream that breaks off is kept.
fn kept(order: &mut ReceiveOrder) {
    order.resumable = true;
}

async fn write(zfs: &Zfs, name: &str, len: usize, seed: u64) {
    let made = match zfs.lookup(zfs.root(), name.as_bytes()).await {
        Ok(found) => found.object,
        Err(_) => {
            let made = zfs.create(zfs.root(), name.as_bytes(), NewNode::File, 0o644, Cred::default());
            made.await.expect("created").object
        }
    };
    let mut noise = vec![0; len];
    fastrand::Rng::with_seed(seed).fill(&mut noise);
    zfs.write(made, 0, &noise, WriteFlags::default()).await.expect("written");
}

/// A file system with two snapshots, and another with the first of them.
async fn prepare(pool: &Arc<Pool>) {
    pool.create_filesystem("whirl/from", Vec::new()).await.expect("created");
    let fs = pool.filesystem("whirl/from").await.expect("it opens");
    for number in 0..12_usize {
        write(&fs.zfs, &format!("f{number}"), 1 << (8 + number), number as u64).await;
    }
    pool.snapshot(vec!["whirl/from@1".into()], Vec::new()).await.expect("made");
    for number in (0..12_usize).step_by(2) {
        write(&fs.zfs, &format!("f{number}"), 1 << (7 + number), 99).await;
        write(&fs.zfs, &format!("g{number}"), 1 << (7 + number), 100 + number as u64).await;
    }
    fs.zfs.unlink(fs.zfs.root(), b"f5").await.expect("there");
    pool.snapshot(vec!["whirl/from@2".into()], Vec::new()).await.expect("made");
    drop(fs);
    let stream = sent(pool, FIRST.name, None, WHOLE_FORM, None).await;
    receive(pool, &stream, FIRST.snapshot, kept).await.expect("whole");
}

/// What a snapshot says when it is sent, but for its name and how its blocks are stored.
async fn said(pool: &Arc<Pool>, name: &str, from: Option<&str>) -> Vec<(DrrBody, Vec<u8>)> {
    let stream = sent(pool, name, from, WHOLE_FORM, None).await;
    let (mut reader, mut said) = (Reader::new(stream.as_slice()), Vec::new());
    while let Some(record) = reader.next_record().await.expect("a sound stream") {
        match record.record.body {
            DrrBody::Begin(_) | DrrBody::End(_) => {}
            DrrBody::Write(write) => {
                let plain = DrrWrite { checksum: 0, flags: 0, key: Default::default(), ..write };
                said.push((DrrBody::Write(plain), record.payload.to_vec()));
            }
            other => said.push((other, record.payload.to_vec())),
        }
    }
    said
}

/// How much of a stream is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Nothing,
    Part,
    All,
}

/// Says what is there, sends the rest, and finds all of it.
async fn go_on(pool: &Arc<Pool>, way: &Way) -> Left {
    let all = match pool.dsl().resolve(way.snapshot).await {
        Ok(_) => Left::All,
        Err(_) => Left::Nothing,
    };
    let head = pool.dsl().resolve(way.head).await.ok();
    let state = match &head {
        Some(head) => pool.resume_state(head).await.expect("readable"),
        None => None,
    };
    if let (Some(_), None) = (&head, &state) {
        assert_eq!(pool.sealed(way.head).await.expect("readable"), None, "half of it, and no note");
    }
    let left = if state.is_some() { Left::Part } else { all };
    assert!(state.is_none() || all == Left::Nothing, "a part of what is there");
    if way.from.is_some() {
        assert_eq!(
            said(pool, FIRST.snapshot, None).await,
            said(pool, FIRST.name, None).await,
            "what was there"
        );
    }
    match state {
        _ if left == Left::All => {}
        Some(state) => {
            let point = Resume { object: ObjectId::new(state.point.object), offset: state.point.offset };
            let rest = sent(pool, way.name, way.from, WHOLE_FORM, Some(point)).await;
            receive(pool, &rest, way.snapshot, kept).await.expect("the rest");
        }
        None => {
            let whole = sent(pool, way.name, way.from, WHOLE_FORM, None).await;
            receive(pool, &whole, way.snapshot, kept).await.expect("all of it");
        }
    }
    let before = way.from.map(|_| FIRST.snapshot);
    assert_eq!(said(pool, way.snapshot, None).await, said(pool, way.name, None).await);
    assert_eq!(said(pool, way.snapshot, before).await, said(pool, way.name, way.from).await);
    assert_eq!(pool.sealed(way.head).await.expect("readable"), None::<Sealed>);
    left
}

/// What a power cut left.
async fn judge(pool: Arc<Pool>, way: &Way, image: &CrashImage) -> Left {
    let left = go_on(&pool, way).await;
    assert!(left == Left::All || !image.is_after("received"), "it was there");
    while pool.facts().await.freeing_bytes != Some(0) {
        pool.sync_now().await.expect("txgs turn");
    }
    check(&pool).await;
    pool.close(PoolState::Exported).await.expect("it closes");
    left
}

/// All space is somebody's, once no log has any.
async fn check(pool: &Arc<Pool>) {
    close_all(pool).await;
    space::check(pool).await;
}

async fn close_all(pool: &Arc<Pool>) {
    for dataset in pool.dsl().list("whirl").await.expect("it lists") {
        drop(pool.filesystem(&dataset.name).await.expect("its log is whole"));
        pool.close_filesystem(&dataset.name).await.expect("it closes");
    }
}

fn power_cuts(shape: &'static Shape, seed: u64, way: Way) {
    let sim = Sim::seed(seed);
    shape.add_disks(&sim, DiskModel::ssd());
    sim.stop_recording();
    run(&sim, async {
        let pool = shape.create(&sim, quiet()).await;
        prepare(&pool).await;
        let stream = sent(&pool, way.name, way.from, WHOLE_FORM, None).await;
        pool.sync_now().await.expect("txgs turn");
        sim.start_recording();
        let is_over = Cell::new(false);
        let turning = async {
            while !is_over.get() {
                pool.sync_now().await.expect("txgs turn");
            }
        };
        let receiving = async {
            receive(&pool, &stream, way.snapshot, kept).await.expect("nothing is in its way");
            sim.mark("received");
            is_over.set(true);
        };
        join(receiving, turning).await;
    });
    let recording = sim.recording();
    let mut seen = [0; 3];
    for (number, image) in drawn(&recording, IMAGES).enumerate() {
        tell(format!("seed {seed}, \"{}\", {way:?}, {}", shape.name, image.story()));
        let sim = image.boot(seed);
        sim.stop_recording();
        let with_zdb = number % ZDB_ONE_IN == ZDB_ONE_IN / 2;
        if with_zdb {
            space::judged_by_zdb(shape, &sim);
        }
        let left = run(&sim, async {
            let pool = shape.import(&sim, quiet(), false).await.expect("every crash state imports");
            judge(pool, &way, &image).await
        });
        if with_zdb {
            space::judged_by_zdb(shape, &sim);
        }
        seen[left as usize] += 1;
    }
    println!("\"{}\", {}: {seen:?}", shape.name, way.snapshot);
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}: nothing, a part and all of it were seen");
}

#[test]
fn a_power_cut_amid_a_receive_leaves_a_part_that_can_be_gone_on_with_or_nothing() {
    let _tell = Tell;
    power_cuts(&SINGLE, 93_000, FULL);
    power_cuts(&MIRROR, 93_001, SECOND);
}

#[test]
fn a_receive_whose_reads_fail_leaves_what_can_be_gone_on_with() {
    let _tell = Tell;
    let sim = Sim::seed(93_100);
    SINGLE.add_disks(&sim, DiskModel::instant());
    sim.stop_recording();
    let stream = run(&sim, async {
        let pool = SINGLE.create(&sim, quiet()).await;
        prepare(&pool).await;
        let stream = sent(&pool, SECOND.name, SECOND.from, WHOLE_FORM, None).await;
        pool.close(PoolState::Exported).await.expect("it closes");
        stream
    });
    let image = sim.power_cut(1);
    let (mut failed, mut parts) = (0, 0);
    for nth in (1..).step_by(5) {
        tell(format!("read {nth}"));
        let sim = image.boot(nth);
        sim.stop_recording();
        let met = run(&sim, async {
            let pool = SINGLE.import(&sim, quiet(), false).await.expect("a sound pool imports");
            pool.zio().set_cache_limit(0);
            let disk = sim.disk("/a");
            let before = disk.faults().seen(FaultOp::Read);
            disk.faults().spare(PROBED);
            disk.faults().fail_range(FaultOp::Read, nth, READS);
            let done = receive(&pool, &stream, SECOND.snapshot, kept).await;
            disk.faults().heal();
            let met = disk.faults().seen(FaultOp::Read) - before >= nth;
            let refused = matches!(done, Err(PoolError::Receive(ReceiveRefusal::Modified)));
            assert!(!refused, "nobody has changed it");
            failed += usize::from(done.is_err());
            if pool.stopped().is_none() {
                let left = go_on(&pool, &SECOND).await;
                assert_eq!(left == Left::All, done.is_ok(), "{done:?}");
                parts += usize::from(left == Left::Part);
                close_all(&pool).await;
                space::check_but_leaks(&pool).await;
                pool.close(PoolState::Exported).await.expect("it closes");
                return met;
            }
            met
        });
        let sim = sim.power_cut(nth).boot(nth);
        sim.stop_recording();
        run(&sim, async {
            let pool = SINGLE.import(&sim, quiet(), false).await.expect("it imports again");
            go_on(&pool, &SECOND).await;
            pool.close(PoolState::Exported).await.expect("it closes");
        });
        if !met {
            break;
        }
    }
    println!("{failed} receives failed, {parts} of them left a part");
    assert!(failed > 3 && parts > 0, "{failed} failed, {parts} left a part");
}
