use dmu::SpaceDelta;
use ondisk::Blkptr;

use super::space::check;
use super::world::World;
use crate::{DatasetName, DslError, PoolSpace, PropValue};

const POOL: PoolSpace = PoolSpace { usable_bytes: 100_000 };

async fn fill(world: &World, dataset: &DatasetName, used: i64) {
    let delta = SpaceDelta { used, compressed: used / 2, uncompressed: 2 * used };
    world
        .dsl
        .apply_sync(&world.tx(), dataset.dataset, Blkptr::default(), delta, Vec::new(), None)
        .await
        .unwrap();
}

#[test]
fn space_moves_along_with_a_renamed_dataset() {
    let world = World::new();
    world.env.block_on(async {
        let root = world.dsl.resolve("tank").await.unwrap();
        let mut datasets = Vec::new();
        for name in ["tank/a", "tank/a/b", "tank/a/b/c", "tank/d", "tank/d/e"] {
            datasets.push(world.create(name).await);
        }
        for (dataset, used) in datasets.iter().zip([500, 700, 1100, 1300, 1700]) {
            fill(&world, dataset, used).await;
        }
        let (b, d) = (&datasets[1], &datasets[3]);
        world.dsl.set_reservation(&world.tx(), b.dir, 5000).await.unwrap();
        world.dsl.set_reservation(&world.tx(), d.dir, 4000).await.unwrap();
        let before = world.dsl.dir(root.dir).await.unwrap().used_bytes.get();

        let moved = world.dsl.rename_dataset(&world.tx(), "tank/a/b", "tank/d/e/f", &POOL).await.unwrap();
        assert_eq!((moved.dir, moved.dataset), (b.dir, b.dataset));
        check(&world.dsl, "tank", root.dir).await;
        // d now holds 3000 of its own, and b's reservation.
        assert_eq!(world.dsl.dir(d.dir).await.unwrap().used_bytes.get(), 8000);
        // Before: a with b's 5000 and 500 of its own, d's 4000.
        assert_eq!(before, 5500 + 4000);
        assert_eq!(world.dsl.dir(root.dir).await.unwrap().used_bytes.get(), 500 + 8000);

        let dsl = world.reopened().await;
        check(&dsl, "tank", root.dir).await;
        let names: Vec<String> = dsl.list("tank").await.unwrap().into_iter().map(|of| of.name).collect();
        assert_eq!(names, ["tank", "tank/a", "tank/d", "tank/d/e", "tank/d/e/f", "tank/d/e/f/c"]);
    });
}

#[test]
fn a_rename_that_makes_no_sense_changes_nothing() {
    let world = World::new();
    world.env.block_on(async {
        for name in ["tank/a", "tank/a/b", "tank/d"] {
            let dataset = world.create(name).await;
            fill(&world, &dataset, 1000).await;
        }
        let d = world.dsl.resolve("tank/d").await.unwrap();
        world.dsl.set_quota(&world.tx(), d.dir, 1500).await.unwrap();
        let refusal = async |name: &str, new_name: &str| {
            world.dsl.rename_dataset(&world.tx(), name, new_name, &POOL).await.unwrap_err()
        };
        assert!(matches!(refusal("tank", "tank/x").await, DslError::NoRename { .. }));
        assert!(matches!(refusal("tank/a", "other/a").await, DslError::NoRename { .. }));
        assert!(matches!(refusal("tank/a", "tank/a/b/c").await, DslError::NoRename { .. }));
        assert!(matches!(refusal("tank/a", "tank/d").await, DslError::Exists { .. }));
        assert!(matches!(refusal("tank/x", "tank/y").await, DslError::NoSuchDataset { .. }));
        assert!(matches!(refusal("tank/a", "tank/x/y").await, DslError::NoSuchDataset { .. }));
        assert!(matches!(refusal("tank/a", "tank/a b/").await, DslError::BadName { .. }));
        let too_long = format!("tank/{}", "n".repeat(249));
        assert!(matches!(refusal("tank/a", &too_long).await, DslError::BadName { .. }));
        // Its 2000 bytes are more than what the quota there leaves.
        assert!(matches!(refusal("tank/a", "tank/d/a").await, DslError::NoSpace { .. }));
        let names: Vec<String> =
            world.dsl.list("tank").await.unwrap().into_iter().map(|of| of.name).collect();
        assert_eq!(names, ["tank", "tank/a", "tank/a/b", "tank/d"]);
    });
}

#[test]
fn limits_are_kept_between_what_is_used_and_what_is_free() {
    let world = World::new();
    world.env.block_on(async {
        let a = world.create("tank/a").await;
        fill(&world, &a, 10_000).await;
        let may = async |prop, bytes| world.dsl.check_limit(&a, prop, Some(bytes), &POOL).await.is_ok();
        for prop in ["quota", "refquota"] {
            assert!(may(prop, 0).await && may(prop, 10_000).await && !may(prop, 9_999).await, "{prop}");
        }
        for prop in ["reservation", "refreservation"] {
            assert!(may(prop, 0).await && may(prop, 100_000).await && !may(prop, 100_001).await, "{prop}");
        }
        let quota = PropValue::Number(20_000);
        for prop in ["quota", "refquota"] {
            world.dsl.set_prop(&world.tx(), a.dir, prop, &quota).await.unwrap();
        }
        assert!(may("reservation", 20_000).await && !may("reservation", 20_001).await);
        assert!(may("refreservation", 20_000).await && !may("refreservation", 20_001).await);
    });
}
