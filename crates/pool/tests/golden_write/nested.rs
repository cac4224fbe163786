//! Pools of OpenZFS with a device being replaced, or a hot spare at work, are written to.

use std::collections::BTreeMap;
use std::sync::Arc;

use env::{Env, OpenMode};
use ondisk::l2arc::{HEADER_OFFSET, HeaderPhys};
use ondisk::label::label_verifier;
use pool::Pool;
use units::{LABEL_START_BYTES, Txg};
use vdev::{LeafLabels, NodeKind, VdevState};
use zpl::{Cred, NewNode, WriteFlags};

use crate::world::World;
use crate::{Touched, compare, second_work, work};

/// Writes a file that is stable through the log, and no txg.
async fn log_something(zfs: &zpl::Zfs, name: &str) {
    let made = zfs.create(zfs.root(), name.as_bytes(), NewNode::File, 0o644, Cred::default()).await;
    let object = made.unwrap().object;
    zfs.write(object, 0, &[0x77; 70_000], WriteFlags::default()).await.unwrap();
    zfs.fsync(object, false).await.unwrap();
}

/// Works on a pool as [`crate::worked_on`] does, with some of it in the log and some in later imports; `end` looks at the
/// pool before it is exported.
fn lived_in(name: &str, world: &World, end: impl Fn(&Arc<Pool>)) {
    let before = world.read_only(|pool| world.contents(pool, "whirl/fs"));
    let pool = world.import();
    let zfs = world.zfs(&pool, "whirl/fs");
    let touched: Touched = world.run(work(&zfs, &before));
    world.run(log_something(&zfs, "logged"));
    world.run(pool.sync_now()).unwrap();
    world.run(second_work(&zfs));
    for number in 0..4 {
        world.run(log_something(&zfs, &format!("logged {number}")));
        world.run(pool.sync_now()).unwrap();
    }
    drop(zfs);
    end(&pool);
    world.export(&pool);
    drop(pool);
    world.check(name);
    let after: BTreeMap<_, _> = world.read_only(|pool| world.contents(pool, "whirl/fs"));
    compare(&before, &after, &touched);
    assert_eq!(after.keys().filter(|path| path.starts_with("/logged")).count(), 5, "{name}");
}

fn kinds(pool: &Pool) -> Vec<NodeKind> {
    pool.vdevs().tops()[0].node().children().iter().map(vdev::Node::kind).collect()
}

fn labels(world: &World, image: &str) -> LeafLabels {
    let path = world.images().join(image);
    world.run(async {
        let device = world.env().open(&path, OpenMode::ReadOnly).await.unwrap();
        LeafLabels::read(&device).await
    })
}

/// The lines of `zdb -C`, without what differs from run to run.
fn configuration(world: &World) -> String {
    world.zdb("-C").lines().map(str::trim).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_replacement_goes_on_by_itself_and_the_new_device_is_alone_after_it() {
    let world = World::copy_of("g21-replacing");
    world.check("before");
    let old = labels(&world, "b.img").guid().unwrap();
    lived_in("g21-replacing", &world, |pool| {
        world.run(async {
            while kinds(pool).contains(&NodeKind::Replacing) {
                pool.sync_now().await.unwrap();
            }
        });
        assert_eq!(kinds(pool), [NodeKind::Leaf; 2]);
        let leaves = pool.vdevs().leaves();
        assert_eq!(leaves.len(), 4, "a, n, and two of the log");
        for leaf in &leaves {
            assert!(
                leaf.dtl().is_empty() && leaf.state().0 == VdevState::Online,
                "{}",
                leaf.path().display()
            );
            assert_eq!((leaf.config().resilver_txg, leaf.config().dtl_object), (0, 0));
        }
        assert!(pool.vdevs().leaf(old).is_err());
    });
    let said = configuration(&world);
    assert!(!said.contains("replacing") && !said.contains("b.img"), "{said}");
    assert!(said.contains("n.img") && !said.contains("DTL"), "{said}");
    // As OpenZFS leaves a device that was detached: names for people to read, and nothing to import.
    let wiped = labels(&world, "b.img");
    assert_eq!((wiped.txg(), wiped.uberblocks.len(), wiped.guid()), (Txg::ZERO, 0, Some(old)));
    assert_eq!(wiped.configs.iter().flatten().count(), 4);
    // And without both old devices, all there is is on the new one.
    std::fs::remove_file(world.images().join("a.img")).unwrap();
    std::fs::remove_file(world.images().join("b.img")).unwrap();
    world.read_only(|pool| assert!(world.contents(pool, "whirl/fs").len() > 20));
}

#[test]
fn a_pool_with_a_spare_at_work_is_worked_on() {
    let world = World::copy_of("g22-spare");
    world.check("before");
    let listed = |pool: &Arc<Pool>| (pool.spares(), pool.caches());
    let before = world.read_only(|pool| listed(pool));
    let names = |list: &[pool::Auxiliary]| -> Vec<_> {
        list.iter().map(|one| one.path.file_name().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&before.0), ["s1.img", "s2.img"]);
    assert_eq!(names(&before.1), ["k.img"]);
    let untouched = ["s2.img", "b.img"].map(|image| std::fs::read(world.images().join(image)).unwrap());
    // OpenZFS's header of the cache device is read as one, and the device is used.
    let header = || {
        let bytes = std::fs::read(world.images().join("k.img")).unwrap();
        let sector = bytes[LABEL_START_BYTES as usize..][..512].to_vec();
        assert!(vdev::label::verify_part(&sector, label_verifier(HEADER_OFFSET)));
        HeaderPhys::decode(&sector).unwrap()
    };
    let openzfs = header();
    lived_in("g22-spare", &world, |pool| {
        assert_eq!(kinds(pool), [NodeKind::Leaf, NodeKind::Spare, NodeKind::Leaf]);
        let leaves = pool.vdevs().leaves();
        let states: Vec<_> = leaves.iter().map(|leaf| leaf.state().0).collect();
        use VdevState::{Faulted, Online};
        assert_eq!(states, [Online, Faulted, Online, Online], "the spare does its work");
        assert!(leaves[1].dtl().contains(pool.txgs().synced_txg()), "what the faulted one misses is noted");
        assert!(leaves[2].config().is_spare && leaves[2].guid() == before.0[0].guid);
        assert_eq!(listed(pool), before);
    });
    assert_eq!(world.read_only(|pool| listed(pool)), before);
    let said = configuration(&world);
    for line in ["type: 'spare'", "is_spare: 1", "faulted: 1", "aux_state: 'external'"] {
        assert!(said.contains(line), "{line}: {said}");
    }
    for (image, bytes) in ["s2.img", "b.img"].iter().zip(untouched) {
        assert!(std::fs::read(world.images().join(image)).unwrap() == bytes, "{image} is not ours to write");
    }
    let ours = header();
    assert_eq!((ours.pool, ours.device, ours.start, ours.end), {
        (openzfs.pool, openzfs.device, openzfs.start, openzfs.end)
    });
    assert_eq!((openzfs.log_entries.get(), ours.log_entries.get()), (0, 7), "small ones are remembered here");
    // The spare's columns are right: another device may go.
    std::fs::remove_file(world.images().join("a.img")).unwrap();
    world.read_only(|pool| assert!(world.contents(pool, "whirl/fs").len() > 20));
}

#[test]
fn a_spare_that_is_detached_waits_again() {
    let world = World::copy_of("g22-spare");
    let pool = world.import();
    let spare = pool.vdevs().leaves()[2].guid();
    world.run(pool.detach(spare)).unwrap();
    assert_eq!(kinds(&pool), [NodeKind::Leaf; 3]);
    world.export(&pool);
    drop(pool);
    world.check("g22-spare");
    let label = labels(&world, "s1.img");
    let said = label.config(None).unwrap();
    assert_eq!(
        (label.guid(), said.get_u64("state"), said.get_u64("version")),
        (Some(spare), Some(3), Some(5000))
    );
    let spares = world.read_only(|pool| pool.spares());
    assert!(spares.len() == 2 && spares.iter().all(|spare| spare.is_there), "{spares:?}");
    assert!(!configuration(&world).contains("is_spare"), "none is at work");
}

#[test]
fn a_spare_whose_device_is_detached_is_a_device_of_the_pool() {
    let world = World::copy_of("g22-spare");
    let files = || world.read_only(|pool| world.contents(pool, "whirl/fs").len());
    let before = files();
    let pool = world.import();
    let leaves = pool.vdevs().leaves();
    let (old, spare) = (leaves[1].guid(), leaves[2].guid());
    world.run(pool.detach(old)).unwrap();
    assert_eq!(kinds(&pool), [NodeKind::Leaf; 3]);
    assert!(!pool.vdevs().leaf(spare).unwrap().config().is_spare);
    world.export(&pool);
    drop(pool);
    world.check("g22-spare");
    let spares = world.read_only(|pool| pool.spares());
    assert_eq!(spares.len(), 1, "{spares:?}");
    assert_ne!(spares[0].guid, spare, "the other waits on");
    let said = configuration(&world);
    assert!(!said.contains("is_spare") && !said.contains("type: 'spare'"), "{said}");
    assert!(said.contains(&format!("guid: {}", spare.get())), "{said}");
    std::fs::remove_file(world.images().join("a.img")).unwrap();
    assert!(before > 0 && files() == before, "{before} files before");
}

#[test]
fn a_draid_is_worked_on_and_keeps_its_spare_in_the_list() {
    let world = World::copy_of("g26-draid");
    world.check("before");
    let before = world.read_only(|pool| pool.spares());
    assert_eq!(before.len(), 1);
    let config = configuration(&world);
    lived_in("g26-draid", &world, |pool| {
        assert!(pool.vdevs().leaves().iter().all(|leaf| leaf.state().0 == VdevState::Online));
        assert_eq!(pool.spares(), before);
    });
    assert_eq!(world.read_only(|pool| pool.spares()), before);
    let said = configuration(&world);
    let of_draid = |line: &&str| line.starts_with("draid_") || line.starts_with("type: 'draid'");
    assert_eq!(config.lines().filter(of_draid).count(), 4);
    assert!(config.lines().filter(of_draid).eq(said.lines().filter(of_draid)), "{said}");
    // Any device may go: what was written has its parity.
    for image in ["a.img", "f.img"] {
        let aside = world.images().join(image).with_extension("aside");
        std::fs::rename(world.images().join(image), &aside).unwrap();
        world.read_only(|pool| assert!(world.contents(pool, "whirl/fs").len() > 20));
        std::fs::rename(&aside, world.images().join(image)).unwrap();
    }
}
