//! Changes that are planned: seen by nobody before they are applied, and gone without a trace if they are not.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dmu::zap::Zap;
use dmu::{DmuError, DnodeSpec, Estimate, Plan};
use env::IoBuf;
use futures::FutureExt;
use ondisk::ObjectType;
use units::{BlockId, ObjectId};

use super::world::{World, file};

async fn plan(world: &World) -> Plan {
    world.objset.plan(Estimate::default()).await.unwrap()
}

fn zap_spec() -> DnodeSpec {
    DnodeSpec::new(ObjectType::DIRECTORY_CONTENTS, 0)
}

/// A file of two blocks, and a ZAP with one name, both on disk.
async fn two_objects(world: &World) -> (ObjectId, ObjectId) {
    let plan = plan(world).await;
    let file = world.objset.allocate(&plan, &file(4096)).await.unwrap();
    file.write(&plan, 0, &[1; 8192]).await.unwrap();
    let zap = Zap::format(world.objset.allocate(&plan, &zap_spec()).await.unwrap(), &plan, 5, 0, 0).await;
    let zap = zap.unwrap();
    zap.add_u64(&plan, b"old", 1).await.unwrap();
    let objects = (file.object(), zap.object());
    plan.apply().unwrap();
    world.sync().await;
    objects
}

async fn bytes(world: &World, object: ObjectId) -> Vec<u8> {
    let mut bytes = vec![0xee; 3 * 4096];
    world.objset.hold(object).await.unwrap().read(0, &mut bytes).await.unwrap();
    bytes
}

/// Everything that a plan can do, planned.
async fn plan_everything(world: &World, (file, zap): (ObjectId, ObjectId)) -> (Plan, ObjectId) {
    let plan = plan(world).await;
    let dnode = world.objset.hold(file).await.unwrap();
    dnode.write(&plan, 100, &[2; 50]).await.unwrap();
    dnode.write(&plan, 120, &[3; 5]).await.unwrap();
    dnode.free_range(&plan, 4096, 4096).await.unwrap();
    dnode.write_block(&plan, BlockId::new(2), Arc::new(IoBuf::copy_of(&[4; 4096]))).await.unwrap();
    dnode.set_bonus(&plan, ObjectType::SA, b"attributes").unwrap();
    dnode.set_spill(&plan, Some(b"more")).unwrap();
    let zap = Zap::hold(&world.objset, zap).await.unwrap();
    zap.remove(&plan, b"old").await.unwrap();
    zap.add_u64(&plan, b"new", 2).await.unwrap();
    // Too long for a micro ZAP.
    zap.add_u64(&plan, &[b'l'; 200], 3).await.unwrap();
    zap.update_u64(&plan, b"new", 4).await.unwrap();
    let born = world.objset.allocate(&plan, &super::file(512)).await.unwrap();
    born.set_block_bytes(&plan, 1024).await.unwrap();
    born.write(&plan, 1000, &[5; 24]).await.unwrap();
    (plan, born.object())
}

#[test]
fn a_plan_reads_what_it_has_written_and_nobody_else_does() {
    let world = World::new();
    world.env.block_on(async {
        let (file, zap) = two_objects(&world).await;
        let was = bytes(&world, file).await;
        let names = Zap::hold(&world.objset, zap).await.unwrap();
        let (plan, born) = plan_everything(&world, (file, zap)).await;
        assert_eq!(bytes(&world, file).await, was);
        assert_eq!(world.objset.hold(file).await.unwrap().bonus(), [0; 168]);
        assert!(matches!(world.objset.hold(born).await, Err(DmuError::NoSuchObject { .. })));
        assert!(!world.gate.open_is_dirty());
        // Who would look into the ZAP waits until its change is decided.
        let mut looking = Box::pin(names.all());
        assert!(looking.as_mut().now_or_never().is_none());
        let told = Arc::new(AtomicU64::new(0));
        let tell = Arc::clone(&told);
        plan.then(move |txg| tell.store(txg.get(), Ordering::Relaxed));
        let txg = plan.apply().unwrap();
        assert_eq!(told.load(Ordering::Relaxed), txg.get());

        let check = async |objset: &Arc<dmu::Objset>| {
            let dnode = objset.hold(file).await.unwrap();
            let mut now = vec![0xee; 3 * 4096];
            dnode.read(0, &mut now).await.unwrap();
            let mut expected = vec![1; 4096];
            expected[100..150].fill(2);
            expected[120..125].fill(3);
            expected.extend([0; 4096]);
            expected.extend([4; 4096]);
            assert!(now == expected);
            assert_eq!(dnode.bonus(), b"attributes");
            assert_eq!(dnode.spill().await.unwrap().unwrap()[..4], *b"more");
            let zap = Zap::hold(objset, zap).await.unwrap();
            let of = async |name: &[u8]| zap.lookup_u64(name).await.unwrap();
            assert_eq!(
                (of(b"old").await, of(b"new").await, of(&[b'l'; 200]).await),
                (None, Some(4), Some(3))
            );
            assert_eq!(zap.count().await.unwrap(), 2);
            let born = objset.hold(born).await.unwrap();
            let mut tail = [0xee; 1024];
            born.read(0, &mut tail).await.unwrap();
            assert_eq!((born.block_bytes(), tail[999], tail[1000]), (1024, 0, 5));
        };
        assert_eq!(looking.await.unwrap().len(), 2);
        check(&world.objset).await;
        world.sync().await;
        check(&world.reopened().await).await;
    });
}

#[test]
fn a_dropped_plan_leaves_no_trace() {
    let world = World::new();
    world.env.block_on(async {
        let (file, zap) = two_objects(&world).await;
        let (was, allocated) = (bytes(&world, file).await, world.allocated());
        let (plan, born) = plan_everything(&world, (file, zap)).await;
        world.objset.free_object(&plan, file).await.unwrap();
        drop(plan);
        assert!(!world.gate.open_is_dirty());
        assert_eq!(bytes(&world, file).await, was);
        let names = Zap::hold(&world.objset, zap).await.unwrap();
        assert_eq!(names.lookup_u64(b"old").await.unwrap(), Some(1));
        assert_eq!((names.lookup_u64(b"new").await.unwrap(), names.count().await.unwrap()), (None, 1));
        assert!(matches!(world.objset.hold(born).await, Err(DmuError::NoSuchObject { .. })));
        world.sync().await;
        assert_eq!(world.allocated(), allocated);
        // The ZAP can be changed, and the number is free again.
        let (again, number) = plan_everything(&world, (file, zap)).await;
        assert_eq!(number, born);
        again.apply().unwrap();
        world.sync().await;
        assert_eq!(Zap::hold(&world.reopened().await, zap).await.unwrap().count().await.unwrap(), 2);
    });
}

#[test]
fn a_plan_outlives_the_txgs_that_sync_meanwhile() {
    let world = World::new();
    world.env.block_on(async {
        let (file, zap) = two_objects(&world).await;
        let first = plan(&world).await;
        let dnode = world.objset.hold(file).await.unwrap();
        // What another block of the same object becomes meanwhile, on disk and in memory, stays.
        dnode.write(&first, 10, &[7; 10]).await.unwrap();
        let names = Zap::hold(&world.objset, zap).await.unwrap();
        names.add_u64(&first, b"planned", 9).await.unwrap();
        for byte in [8, 9] {
            let other = plan(&world).await;
            dnode.write(&other, 4096, &[byte; 4096]).await.unwrap();
            other.apply().unwrap();
            world.sync().await;
        }
        assert_eq!(first.apply().unwrap(), world.gate.open_txg());
        world.sync().await;
        let disk = world.reopened().await;
        let mut now = vec![0xee; 8192];
        disk.hold(file).await.unwrap().read(0, &mut now).await.unwrap();
        let mut expected = vec![1; 4096];
        expected[10..20].fill(7);
        expected.extend([9; 4096]);
        assert!(now == expected);
        assert_eq!(Zap::hold(&disk, zap).await.unwrap().lookup_u64(b"planned").await.unwrap(), Some(9));
    });
}

#[test]
fn a_plan_is_refused_whole_when_the_pool_has_stopped() {
    let world = World::new();
    world.env.block_on(async {
        let (file, zap) = two_objects(&world).await;
        let was = bytes(&world, file).await;
        let (plan, _) = plan_everything(&world, (file, zap)).await;
        world.gate.fail(world.gate.open_txg());
        assert!(matches!(plan.apply(), Err(DmuError::Suspended { .. })));
        assert_eq!(bytes(&world, file).await, was);
        assert_eq!(Zap::hold(&world.objset, zap).await.unwrap().count().await.unwrap(), 1);
    });
}
