//! What is told of devices that fail, and of what is done to a pool.

use std::sync::Arc;
use std::time::Duration;

use env::{Env, FaultOp};
use events::{EventRing, Seen, names};
use ondisk::NvList;
use pool::{Absence, Pool, Tuning};
use sim::{DiskModel, Sim};
use vdev::{Fault, Injection, PoolState, Requests, VdevState};

use crate::attached::promise;
use crate::shape::{LOG, MIRROR, MIRRORED_LOG, POOL, SINGLE, Shape, brisk};
use crate::story::{Tell, run};

const LIMIT: Duration = Duration::from_secs(1);

fn tuning(ring: &Arc<EventRing>) -> Tuning {
    let events = Arc::clone(ring);
    Tuning { deadman: LIMIT, log_deadman: LIMIT, retry_after: 1000 * LIMIT, events, ..brisk() }
}

async fn made(sim: &Sim, shape: &Shape, ring: &Arc<EventRing>) -> Arc<Pool> {
    shape.add_disks(sim, DiskModel::ssd());
    let pool = shape.create(sim, tuning(ring)).await;
    pool.sync_now().await.expect("sync");
    pool
}

fn told(ring: &EventRing) -> Vec<NvList> {
    ring.after(Seen::default()).events
}

/// The classes without what all have, histories and configurations left out.
fn classes(ring: &EventRing) -> Vec<String> {
    let class = |event: NvList| event.get_str(names::CLASS).unwrap_or_default().replace(".fs.zfs", "");
    let all = told(ring).into_iter().map(class);
    all.filter(|class| !matches!(class.as_str(), "sysevent.history_event" | "sysevent.config_sync")).collect()
}

fn the_one(ring: &EventRing, class: &str) -> NvList {
    let mut of_class: Vec<_> =
        told(ring).into_iter().filter(|event| event.get_str(names::CLASS) == Some(class)).collect();
    assert_eq!(of_class.len(), 1, "{class}: {:?}", classes(ring));
    of_class.remove(0)
}

#[test]
fn what_befalls_a_device_is_told_as_openzfs_tells_it() {
    let _tell = Tell;
    let sim = Sim::seed(81_000);
    run(&sim, async {
        let ring = Arc::new(EventRing::of_run(1));
        let pool = made(&sim, &MIRROR, &ring).await;
        let fs = pool.filesystem(POOL).await.expect("the root file system opens");
        assert_eq!(classes(&ring), ["sysevent.pool_create"]);
        ring.clear();
        sim.disk("/b").faults().fail_all(FaultOp::Write);
        promise(&sim, &fs.zfs, 0).await;
        pool.sync_now().await.expect("one side is enough");
        // Several requests may be under way when the first fails, and those that fail after the
        // device is given up are reported after that.
        let mut failure = classes(&ring);
        failure.dedup();
        assert_eq!(failure[..2], ["ereport.io", "resource.statechange"]);
        assert!(failure[2..].iter().all(|class| class == "ereport.io"), "{failure:?}");
        let leaf = pool.vdevs().leaves().remove(1);
        let io =
            told(&ring).into_iter().find(|event| event.get_nvlist("detector").is_some()).expect("a report");
        assert_eq!(io.get_str(names::VDEV_PATH), Some("/b"));
        assert_eq!(io.get_u64(names::VDEV_GUID), Some(leaf.guid().get()));
        assert_eq!((io.get_str(names::POOL), io.get_str(names::POOL_FAILMODE)), (Some(POOL), Some("wait")));
        assert_eq!(io.get_str(names::PARENT_TYPE), Some("mirror"));
        assert_eq!((io.get_u64(names::VDEV_WRITE_ERRORS), io.get_u32(names::ZIO_TYPE)), (Some(1), Some(2)));
        assert_eq!(io.get(names::ZIO_ERR), Some(&ondisk::NvValue::I32(5)));
        let detector = io.get_nvlist("detector").expect("every report has one");
        assert_eq!(detector.get_u64("vdev"), Some(leaf.guid().get()));
        let change = the_one(&ring, "resource.fs.zfs.statechange");
        assert_eq!(
            (change.get_u64(names::VDEV_STATE), change.get_u64(names::VDEV_LASTSTATE)),
            (Some(5), Some(7))
        );

        ring.clear();
        sim.disk("/b").faults().heal();
        pool.clear(&|_| true).await.expect("it works again");
        sim.sleep(20 * LIMIT).await;
        let back = ["sysevent.vdev_clear", "resource.statechange", "sysevent.resilver_start"];
        assert_eq!(classes(&ring)[..3], back);
        assert_eq!(classes(&ring)[3..], ["sysevent.resilver_finish"]);
        drop(fs);
        ring.clear();
        pool.close(PoolState::Exported).await.expect("it is exported");
        assert_eq!(classes(&ring), ["sysevent.pool_export"]);
        assert_eq!(the_one(&ring, "sysevent.fs.zfs.pool_export").get_u64(names::POOL_STATE), Some(1));
        sim.disk("/b").faults().disappear();
        let pool = MIRROR.import(&sim, tuning(&ring), false).await.expect("one side is enough");
        let import = ["sysevent.pool_export", "ereport.vdev.corrupt_data", "sysevent.pool_import"];
        assert_eq!(classes(&ring), import);
        let absent = the_one(&ring, "ereport.fs.zfs.vdev.corrupt_data");
        assert_eq!(absent.get(names::POOL_CONTEXT), Some(&ondisk::NvValue::I32(2)));
        pool.leave().await.expect("a pool is left");
        assert_eq!(classes(&ring), import, "who leaves a pool tells nobody");
    });
}

#[test]
fn what_is_done_to_a_device_is_told() {
    let _tell = Tell;
    let sim = Sim::seed(81_100);
    run(&sim, async {
        let ring = Arc::new(EventRing::of_run(1));
        let pool = made(&sim, &MIRROR, &ring).await;
        let leaf = pool.vdevs().leaves().remove(0).guid();
        ring.clear();
        pool.take_offline(leaf, Absence::Offline, false).await.expect("one side may go");
        assert_eq!(classes(&ring), ["resource.statechange"]);
        let gone = the_one(&ring, "resource.fs.zfs.statechange");
        assert_eq!(
            (gone.get_u64(names::VDEV_STATE), gone.get_u64(names::VDEV_LASTSTATE)),
            (Some(2), Some(7))
        );
        pool.bring_online(leaf).await.expect("it comes back");
        sim.sleep(20 * LIMIT).await;
        let online = ["resource.statechange", "sysevent.resilver_start"];
        assert_eq!(classes(&ring)[1..3], online);
        assert!(classes(&ring).contains(&"sysevent.vdev_online".to_owned()));
        ring.clear();
        pool.scrub().await.expect("it begins");
        sim.sleep(20 * LIMIT).await;
        assert_eq!(classes(&ring), ["sysevent.scrub_start", "sysevent.scrub_finish"]);
        ring.clear();
        pool.change_guid(None).await.expect("a new guid");
        assert_eq!(classes(&ring), ["sysevent.pool_reguid"]);
        let history = the_one(&ring, "sysevent.fs.zfs.history_event");
        assert_eq!(history.get_str("history_internal_name"), Some("guid change"));
        the_one(&ring, "sysevent.fs.zfs.config_sync");
    });
}

#[test]
fn a_device_that_does_not_answer_is_told_of() {
    let _tell = Tell;
    let sim = Sim::seed(81_200);
    run(&sim, async {
        let ring = Arc::new(EventRing::of_run(1));
        let pool = made(&sim, &LOG, &ring).await;
        let fs = pool.filesystem(POOL).await.expect("the root file system opens");
        promise(&sim, &fs.zfs, 0).await;
        ring.clear();
        sim.disk("/l").hang_from(1);
        promise(&sim, &fs.zfs, 1).await;
        assert_eq!(classes(&ring)[0], "ereport.deadman");
        let hung = the_one(&ring, "ereport.fs.zfs.deadman");
        assert_eq!(hung.get_str(names::VDEV_PATH), Some("/l"));
        assert!(hung.get_u64(names::ZIO_DELTA) > Some(1_000_000_000), "{hung:?}");
        let change = the_one(&ring, "resource.fs.zfs.statechange");
        assert_eq!(change.get_u64(names::VDEV_STATE), Some(4));
    });
}

#[test]
fn a_pool_that_is_suspended_is_told_of_and_a_device_that_fails_all_the_time_rarely() {
    let _tell = Tell;
    let sim = Sim::seed(81_300);
    run(&sim, async {
        let ring = Arc::new(EventRing::of_run(1));
        let pool = made(&sim, &SINGLE, &ring).await;
        ring.clear();
        sim.disk("/a").faults().fail_all(FaultOp::Write);
        let changed = Arc::clone(&pool);
        let change = async move { _ = changed.set_comment(Some("never stable".to_owned())).await };
        sim.spawn("change", Box::pin(change));
        sim.sleep(LIMIT / 2).await;
        let reports = classes(&ring).iter().filter(|class| *class == "ereport.io").count();
        assert!((1..=20).contains(&reports), "{:?}", classes(&ring));
        sim.sleep(30 * LIMIT).await;
        assert!(pool.suspended().is_some());
        the_one(&ring, "ereport.fs.zfs.io_failure");
        pool.abandon().await;
    });
}

#[test]
fn clients_see_nothing_of_a_side_of_a_mirrored_log_that_fails_on_order() {
    let _tell = Tell;
    let sim = Sim::seed(81_400);
    run(&sim, async {
        let ring = Arc::new(EventRing::of_run(1));
        let pool = made(&sim, &MIRRORED_LOG, &ring).await;
        let fs = pool.filesystem(POOL).await.expect("the root file system opens");
        promise(&sim, &fs.zfs, 0).await;
        ring.clear();
        let side = pool.vdevs().leaves().into_iter().find(|leaf| leaf.path().ends_with("l")).expect("a log");
        let order = Injection::new(Fault::Failed, Requests::Write, u32::MAX, false);
        side.inject(&order);
        let begun = sim.now();
        for number in 1..20 {
            promise(&sim, &fs.zfs, number).await;
        }
        assert!(sim.now() - begun < LIMIT, "nobody waits for it");
        assert_eq!((side.state().0, pool.suspended()), (VdevState::Faulted, None));
        assert_eq!(the_one(&ring, "ereport.fs.zfs.io").get_str(names::VDEV_PATH), Some("/l"));
        the_one(&ring, "resource.fs.zfs.statechange");
        assert!(order.counts().1 > 0);
        side.stop_injecting(&order);
        pool.clear(&|_| true).await.expect("it works again");
        sim.sleep(20 * LIMIT).await;
        assert_eq!((side.state().0, side.is_stale()), (VdevState::Online, false));
    });
}
