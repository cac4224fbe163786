//! A new pool; datasets made, found, listed and destroyed.

use dmu::SpaceDelta;
use ondisk::dsl::{DslDeadlistPhys, dataset_flags, dir_flags};
use ondisk::{Blkptr, BlkptrParts, Dva, ObjectType};
use units::{Asize, Lsize, ObjectId, Psize, Txg, VdevId, VdevOffset};

use super::world::{NOW, World, birth};
use crate::features::{ASYNC_DESTROY, DIRECTORY, EXTENSIBLE_DATASET, ZILSAXATTR};
use crate::{DslError, PropValue};

#[test]
fn a_new_pool_has_what_every_pool_begins_with() {
    let world = World::new();
    world.env.block_on(async {
        let dsl = world.reopened().await;
        let mut names: Vec<_> = dsl
            .directory()
            .all()
            .await
            .unwrap()
            .iter()
            .map(|e| String::from_utf8(e.name.clone()).unwrap())
            .collect();
        names.sort_unstable();
        let expected = [
            "creation_version",
            "deflate",
            "empty_bpobj",
            "feature_descriptions",
            "feature_enabled_txg",
            "features_for_read",
            "features_for_write",
            "free_bpobj",
            "org.illumos:checksum_salt",
            "root_dataset",
            "sync_bplist",
        ];
        assert_eq!(names, expected);
        assert_eq!(dsl.directory().object(), DIRECTORY);
        assert_eq!(dsl.directory().lookup_u64(b"creation_version").await.unwrap(), Some(5000));

        let root = dsl.resolve("tank").await.unwrap();
        let mut special: Vec<_> =
            dsl.child_dirs(root.dir).await.unwrap().into_iter().map(|(n, _)| n).collect();
        special.sort_unstable();
        assert_eq!(special, ["$FREE", "$MOS", "$ORIGIN"]);
        assert!(dsl.children(&root).await.unwrap().is_empty());

        let dir = dsl.dir(root.dir).await.unwrap();
        let head = dsl.dataset(root.dataset).await.unwrap();
        assert_eq!((dir.flags.get(), dir.parent.get()), (dir_flags::USED_BREAKDOWN, 0));
        assert_eq!((head.creation_txg.get(), head.prev_snapshot_txg.get()), (1, 1));
        assert_eq!(head.flags.get(), dataset_flags::UNIQUE_ACCURATE);
        assert_eq!((head.guid.get(), head.fsid_guid.get()), (birth(3).guid, birth(3).fsid >> 8));
        assert!(head.bp.is_hole());

        let origin = dsl.resolve("tank/$ORIGIN@$ORIGIN").await.unwrap();
        assert_eq!(origin.dataset.get(), head.prev_snapshot.get());
        assert_eq!(dir.origin.get(), origin.dataset.get());
        let origin = dsl.dataset(origin.dataset).await.unwrap();
        // Its own head, and the root's.
        assert_eq!((origin.children.get(), origin.creation_txg.get()), (2, 1));
        let origin_head = dsl.dataset(ObjectId::new(origin.next_snapshot.get())).await.unwrap();
        assert_eq!(origin_head.children.get(), 0);
    });
}

#[test]
fn datasets_are_found_by_name_and_listed_parents_first() {
    let world = World::new();
    world.env.block_on(async {
        for name in ["tank/b", "tank/a", "tank/a/y", "tank/a/x", "tank/c"] {
            world.create(name).await;
        }
        let dsl = world.reopened().await;
        let listed: Vec<_> = dsl.list("tank").await.unwrap().into_iter().map(|found| found.name).collect();
        assert_eq!(listed, ["tank", "tank/a", "tank/a/x", "tank/a/y", "tank/b", "tank/c"]);
        let found = dsl.resolve("tank/a/x").await.unwrap();
        assert_eq!(dsl.dir(found.dir).await.unwrap().head_dataset.get(), found.dataset.get());
        for missing in ["tank/d", "tank/a/z", "tank/$MOS", "tank/a@snap", "tank/", "tank/ä"] {
            let result = dsl.resolve(missing).await;
            assert!(matches!(result, Err(DslError::NoSuchDataset { .. })), "{missing}: {result:?}");
        }
    });
}

#[test]
fn a_dataset_is_made_once_and_below_a_parent_that_exists() {
    let world = World::new();
    world.env.block_on(async {
        world.create("tank/a").await;
        let tx = world.tx();
        let again = world.dsl.create_dataset(&tx, "tank/a", birth(9)).await;
        assert!(matches!(again, Err(DslError::Exists { .. })));
        let orphan = world.dsl.create_dataset(&tx, "tank/b/c", birth(9)).await;
        assert!(matches!(orphan, Err(DslError::NoSuchDataset { .. })));
        let bad = world.dsl.create_dataset(&tx, "tank/a?", birth(9)).await;
        assert!(matches!(bad, Err(DslError::BadName { .. })));
    });
}

#[test]
fn a_destroyed_dataset_leaves_nothing_in_the_mos() {
    let world = World::new();
    world.env.block_on(async {
        world.create("tank/stays").await;
        let before = world.objects().await;
        let counts = world.dsl.features().await.unwrap();
        let doomed = world.create("tank/stays/doomed").await;
        let tx = world.tx();
        for (name, bytes) in [("reservation", 5 << 20), ("refreservation", 3 << 20), ("quota", 9 << 20)] {
            world.dsl.set_prop(&tx, doomed.dir, name, &PropValue::Number(bytes)).await.unwrap();
        }
        world.dsl.activate_feature(&tx, doomed.dataset, &ZILSAXATTR).await.unwrap();
        let delta = dmu::SpaceDelta { used: 1 << 20, compressed: 1000, uncompressed: 2000 };
        let root = ondisk::Blkptr::default();
        world.dsl.apply_sync(&tx, doomed.dataset, root, delta, Vec::new(), None).await.unwrap();
        drop(tx);
        assert!(world.objects().await.len() > before.len());

        let doomed = world.dsl.resolve("tank/stays/doomed").await.unwrap();
        world.dsl.remove_dataset(&world.tx(), &doomed, NOW).await.unwrap();
        assert_eq!(world.objects().await, before);
        assert_eq!(world.dsl.features().await.unwrap(), counts);
        let root = world.dsl.resolve("tank").await.unwrap();
        assert_eq!(world.dsl.dir(root.dir).await.unwrap().used_bytes.get(), 0);
        assert!(world.dsl.resolve("tank/stays/doomed").await.is_err());
        world.create("tank/stays/doomed").await;
    });
}

#[test]
fn a_dataset_with_children_and_the_root_cannot_be_destroyed() {
    let world = World::new();
    world.env.block_on(async {
        let parent = world.create("tank/a").await;
        world.create("tank/a/b").await;
        let tx = world.tx();
        let result = world.dsl.remove_dataset(&tx, &parent, NOW).await;
        assert!(matches!(result, Err(DslError::HasChildren { .. })), "{result:?}");
        let root = world.dsl.resolve("tank").await.unwrap();
        let result = world.dsl.remove_dataset(&tx, &root, NOW).await;
        assert!(matches!(result, Err(DslError::InUse { .. })), "{result:?}");
        let origin = world.dsl.resolve("tank/$ORIGIN@$ORIGIN").await.unwrap();
        let result = world.dsl.remove_dataset(&tx, &origin, NOW).await;
        assert!(matches!(result, Err(DslError::InUse { .. })), "{result:?}");
    });
}

/// A block of 8 sectors before and 2 after compression.
fn block(birth: u64) -> Blkptr {
    let place = |sector: u64| Dva {
        vdev: VdevId::new(0),
        offset: VdevOffset::new(sector * 512),
        asize: Asize::new(1024),
        gang: false,
    };
    BlkptrParts {
        dvas: [place(birth * 8), Dva::EMPTY, Dva::EMPTY],
        lsize: Lsize::new(4096),
        psize: Psize::new(1024),
        object_type: ObjectType::PLAIN_FILE_CONTENTS,
        birth: Txg::new(birth),
        physical_birth: Txg::new(birth),
        ..BlkptrParts::default()
    }
    .to_blkptr()
}

#[test]
fn a_block_that_a_snapshot_has_goes_on_the_deadlist() {
    let world = World::new();
    world.env.block_on(async {
        let dataset = world.create("tank/a").await;
        let (old, new) = (block(1), block(4));
        let tx = world.tx();
        let both = SpaceDelta { used: 2048, compressed: 2048, uncompressed: 8192 };
        world.dsl.apply_sync(&tx, dataset.dataset, Blkptr::default(), both, vec![], None).await.unwrap();
        let killed = vec![old, new];
        let freed =
            world.dsl.apply_sync(&tx, dataset.dataset, Blkptr::default(), both.negated(), killed, None).await;
        assert_eq!(freed.unwrap(), [new]);

        let dsl = world.reopened().await;
        let phys = dsl.dataset(dataset.dataset).await.unwrap();
        // The origin snapshot has the old one: it was not this dataset's alone, and stays used.
        assert_eq!((phys.referenced_bytes.get(), phys.unique_bytes.get()), (0, 1024));
        assert_eq!(dsl.dir(dataset.dir).await.unwrap().used_bytes.get(), 1024);
        let deadlist = ObjectId::new(phys.deadlist.get());
        let header = dsl.mos().hold(deadlist).await.unwrap().bonus();
        let header = DslDeadlistPhys::decode(&header).unwrap();
        assert_eq!(
            (header.used.get(), header.compressed.get(), header.uncompressed.get()),
            (1024, 1024, 4096)
        );
        let list = dsl.zap(deadlist.get()).await.unwrap().lookup_u64(b"0").await.unwrap().unwrap();
        let held = dsl.bpobj_entries(ObjectId::new(list)).await.unwrap();
        assert!(held.len() == 1 && held[0].is_same_block(&old), "{held:?}");
    });
}

#[test]
fn a_dataset_that_uses_a_feature_says_so_once() {
    let world = World::new();
    world.env.block_on(async {
        let dataset = world.create("tank/a").await.dataset;
        for _ in 0..2 {
            world.dsl.activate_feature(&world.tx(), dataset, &ZILSAXATTR).await.unwrap();
        }
        let dsl = world.reopened().await;
        let dnode = dsl.mos().hold(dataset).await.unwrap();
        assert_eq!(dnode.object_type(), ObjectType::OTN_ZAP_METADATA);
        assert_eq!(dsl.dataset_fields(&dnode).await.unwrap(), [ZILSAXATTR.guid]);
        assert_eq!(dsl.feature_count(&ZILSAXATTR).await.unwrap(), Some(1));
        assert_eq!(dsl.feature_count(&EXTENSIBLE_DATASET).await.unwrap(), Some(1));
        assert_eq!(dsl.dataset(dataset).await.unwrap().flags.get(), dataset_flags::UNIQUE_ACCURATE);
    });
}

#[test]
fn destroyed_datasets_are_freed_in_order_and_leave_nothing() {
    let world = World::new();
    world.env.block_on(async {
        let before = world.objects().await;
        let space = SpaceDelta { used: 3072, compressed: 2048, uncompressed: 8192 };
        for birth in [7, 9] {
            let dataset = world.create(&format!("tank/{birth}")).await;
            let root = block(birth);
            world.dsl.apply_sync(&world.tx(), dataset.dataset, root, space, vec![], None).await.unwrap();
            world.dsl.remove_dataset(&world.tx(), &dataset, NOW).await.unwrap();
        }
        let freeing = async |dsl: &crate::Dsl| dsl.freeing_bytes().await.unwrap();
        assert_eq!(freeing(&world.dsl).await, 2 * 3072);

        let half = SpaceDelta { used: 1024, ..SpaceDelta::default() };
        let next = Some(dmu::Remains { object: 8, block: 3 });
        world.dsl.note_freed(&world.tx(), half, next).await.unwrap();
        let dsl = world.reopened().await;
        assert_eq!(freeing(&dsl).await, 2 * 3072 - 1024);
        let destroyed = dsl.next_destroyed().await.unwrap().unwrap();
        assert_eq!((destroyed.root, destroyed.born_after, destroyed.from), (block(7), Txg::new(1), next));
        world.dsl.note_freed(&world.tx(), SpaceDelta { used: 2048, ..space }, None).await.unwrap();
        let destroyed = world.dsl.next_destroyed().await.unwrap().unwrap();
        assert_eq!((destroyed.root, destroyed.from), (block(9), None));
        // Whatever the sums say, nothing is left over in the end: what was not found is leaked.
        world.dsl.note_freed(&world.tx(), half, None).await.unwrap();
        assert!(!world.dsl.has_destroyed().await.unwrap());
        assert_eq!(freeing(&world.dsl).await, 0);
        assert_eq!(world.dsl.leaked_bytes().await.unwrap(), 2 * 3072 - 1024 - 2048 - 1024);
        assert_eq!(world.dsl.feature_count(&ASYNC_DESTROY).await.unwrap(), Some(0));
        let of_leak_dir = 3;
        assert_eq!(world.objects().await.len(), before.len() + of_leak_dir);
    });
}
