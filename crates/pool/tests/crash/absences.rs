//! Commits while a device fails: no write is acknowledged before the pool has recorded which device
//! lacks it. Also tests devices with several names.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use env::{Env, FaultOp};
use pool::{AbsenceWatch, ImportSpec, Pool};
use sim::{DiskModel, DiskSpec, Sim};
use vdev::PoolState;
use zpl::{Cred, NewNode, WriteFlags};

use crate::ground::{Ground, quiet};
use crate::shape::{DISK_BYTES, MIRROR, MIRRORED_LOG, POOL, Shape};
use crate::story::run;

/// The time that a slow system needs to write a small file.
const SLOW: Duration = Duration::from_millis(200);

/// Makes the record after some time, or never.
struct SlowRecorder {
    env: Arc<dyn Env>,
    pool: Weak<Pool>,
    takes: Option<Duration>,
    is_recorded: Arc<AtomicBool>,
    calls: Arc<AtomicUsize>,
}

impl AbsenceWatch for SlowRecorder {
    fn changed(&self) {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let Some(takes) = self.takes else { return };
        let (env, pool, is_recorded) =
            (Arc::clone(&self.env), self.pool.clone(), Arc::clone(&self.is_recorded));
        let record = async move {
            env.sleep(takes).await;
            is_recorded.store(true, Ordering::SeqCst);
            pool.upgrade().into_iter().for_each(|pool| pool.absences_recorded());
        };
        self.env.spawn("record", Box::pin(record));
    }
}

/// A disk fails while files are written, each stable before the next. Returns the longest time of a
/// write, and whether the failure was recorded before a write without the disk was acknowledged.
fn longest(shape: &'static Shape, victim: &str, takes: Option<Duration>) -> (Duration, bool) {
    let ground = Ground::new(shape, 11, DiskModel::ssd());
    let sim = ground.boot();
    run(&sim, async {
        let (pool, fs) = ground.open(&sim).await;
        let (is_recorded, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        pool.watch_absences(Box::new(SlowRecorder {
            env: sim.env(),
            pool: Arc::downgrade(&pool),
            takes,
            is_recorded: Arc::clone(&is_recorded),
            calls: Arc::clone(&calls),
        }));
        let file = fs.zfs.create(fs.zfs.root(), b"new", NewNode::File, 0o644, Cred::default()).await;
        let (file, stable) =
            (file.expect("created").object, WriteFlags { sync: true, ..WriteFlags::default() });
        fs.zfs.write(file, 0, b"whole", stable).await.expect("written");
        assert_eq!(calls.load(Ordering::SeqCst), 0, "nobody lacks anything yet");
        sim.disk(victim).faults().fail_all(FaultOp::Write);
        let (mut longest, mut is_in_time) = (Duration::ZERO, true);
        for number in 0..8 {
            let begun = sim.env().now();
            fs.zfs.write(file, number * 4096, b"half", stable).await.expect("the other has it");
            longest = longest.max(sim.env().now().saturating_sub(begun));
            let lacks = pool.left().behind.len() == 1;
            is_in_time &= !lacks || is_recorded.load(Ordering::SeqCst);
        }
        assert_eq!(pool.left().behind.len(), 1, "{victim} has failed");
        assert_eq!(calls.load(Ordering::SeqCst), 1, "it is said once");
        (longest, is_in_time)
    })
}

#[test]
fn nothing_is_acknowledged_before_it_is_recorded_which_leaf_lacks_it() {
    for (shape, victim) in [(&MIRROR, "/b"), (&MIRRORED_LOG, "/l")] {
        let (took, is_in_time) = longest(shape, victim, Some(SLOW));
        assert!(is_in_time && took >= SLOW, "{}: {took:?}", shape.name);
        // A record that cannot be made does not stop the writers.
        let (took, _) = longest(shape, victim, None);
        assert!(took >= Duration::from_secs(1) && took < Duration::from_secs(2), "{}: {took:?}", shape.name);
    }
}

/// Creates a second name for a device.
fn with_two_names(sim: &Sim, own: &Path, other: &Path) {
    const PIECE: usize = 1 << 20;
    let (from, to) = (sim.disk(own), sim.add_disk(other, DiskSpec::new(DISK_BYTES, DiskModel::instant())));
    for at in (0..DISK_BYTES).step_by(PIECE) {
        let piece = from.peek(at, PIECE);
        if piece.iter().any(|byte| *byte != 0) {
            to.rot(at, &piece);
        }
    }
}

#[test]
fn a_device_keeps_the_name_that_its_label_has_unless_it_is_looked_for_elsewhere() {
    let sim = Sim::seed(3);
    let own = Path::new("/dev/disk/by-id/ata-1");
    sim.add_disk(own, DiskSpec::new(DISK_BYTES, DiskModel::instant()));
    run(&sim, async {
        let vdev = vdev::NewVdev { paths: vec![own.to_owned()], create_txg: 4, ..vdev::NewVdev::default() };
        let spec = pool::PoolSpec {
            name: POOL.into(),
            stored_name: None,
            vdevs: vec![vdev],
            root_props: Vec::new(),
            comment: None,
            force: false,
        };
        let made = Pool::create(sim.env(), spec, quiet()).await.expect("made");
        made.close(PoolState::Exported).await.expect("closed");
    });
    let other = Path::new("/dev/loop0");
    with_two_names(&sim, own, other);
    for (own_paths, expected) in [(true, own), (false, other)] {
        let spec = ImportSpec { paths: vec![other.to_owned()], own_paths, ..ImportSpec::default() };
        run(&sim, async {
            let pool = Pool::import(sim.env(), &ImportSpec { read_only: true, ..spec }, quiet()).await;
            let pool = pool.expect("imported");
            let paths: Vec<PathBuf> = pool.vdevs().leaves().iter().map(|leaf| leaf.path()).collect();
            assert_eq!(paths, [expected]);
            assert!(pool.other_copies().is_empty(), "they are one device");
            pool.close(PoolState::Exported).await.expect("closed");
        });
    }
}
