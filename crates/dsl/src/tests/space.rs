use dmu::SpaceDelta;
use ondisk::Blkptr;
use ondisk::dsl::used;
use proptest::prelude::*;

use super::world::World;
use crate::{DatasetName, Dsl, PoolSpace, PropValue};

#[derive(Clone, Debug)]
enum Op {
    Sync { dataset: usize, used: i64 },
    Limit { dataset: usize, name: &'static str, bytes: u64 },
    Mos { used: i64 },
}

fn op() -> impl Strategy<Value = Op> {
    let names = prop_oneof![Just("reservation"), Just("refreservation"), Just("quota"), Just("refquota")];
    prop_oneof![
        3 => (0..5_usize, -4000_i64..6000).prop_map(|(dataset, used)| Op::Sync { dataset, used }),
        2 => (0..5_usize, names, 0_u64..9000).prop_map(|(dataset, name, bytes)| Op::Limit { dataset, name, bytes }),
        1 => (-3000_i64..5000).prop_map(|used| Op::Mos { used }),
    ]
}

async fn apply(world: &World, datasets: &[DatasetName], op: Op) {
    let tx = world.tx();
    match op {
        Op::Sync { dataset, used } => {
            let referenced =
                world.dsl.dataset(datasets[dataset].dataset).await.unwrap().referenced_bytes.get();
            // A sync never frees more than there is.
            let used = used.max(-(referenced as i64));
            let delta = SpaceDelta { used, compressed: 0, uncompressed: 0 };
            world
                .dsl
                .apply_sync(&tx, datasets[dataset].dataset, Blkptr::default(), delta, Vec::new(), None)
                .await
                .unwrap();
        }
        Op::Limit { dataset, name, bytes } => {
            let value = PropValue::Number(bytes);
            world.dsl.set_prop(&tx, datasets[dataset].dir, name, &value).await.unwrap();
        }
        Op::Mos { used } => {
            world.dsl.add_mos_space(&tx, SpaceDelta { used, ..SpaceDelta::default() }).await.unwrap();
        }
    }
}

/// Checks a dataset and all below it, of which none has snapshots.
pub(super) async fn check(dsl: &Dsl, name: &str, dir: units::ObjectId) {
    check_children(dsl, name, dir).await;
    for dataset in dsl.list(name).await.unwrap() {
        let phys = dsl.dir(dataset.dir).await.unwrap();
        let head = dsl.loaded_dataset(dataset.dataset).await.unwrap();
        let unique = head.phys().unique_bytes.get();
        assert_eq!(phys.used_breakdown[used::HEAD].get(), unique, "{}", dataset.name);
        let unused = head.refreservation().saturating_sub(unique);
        assert_eq!(phys.used_breakdown[used::REFRESERVATION].get(), unused, "{}", dataset.name);
    }
}

/// Checks one dir against its children, and gives what it charges its parent: what it uses, and what it has reserved
/// beyond that.
pub(super) async fn check_children(dsl: &Dsl, name: &str, dir: units::ObjectId) -> (u64, u64) {
    let phys = dsl.dir(dir).await.unwrap();
    let heading = |index: usize| phys.used_breakdown[index].get();
    assert_eq!((0..used::COUNT).map(heading).sum::<u64>(), phys.used_bytes.get(), "{name}");
    let (mut child, mut reserved) = (0, 0);
    for (component, dir) in dsl.child_dirs(dir).await.unwrap() {
        let (used, unused) = Box::pin(check_children(dsl, &format!("{name}/{component}"), dir)).await;
        child += used;
        reserved += unused;
    }
    assert_eq!((heading(used::CHILD), heading(used::CHILD_RESERVATION)), (child, reserved), "{name}");
    (phys.used_bytes.get(), phys.reserved.get().saturating_sub(phys.used_bytes.get()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn space_adds_up_from_every_dataset_to_the_root(ops in proptest::collection::vec(op(), 1..60)) {
        let world = World::new();
        world.env.block_on(async {
            let mut datasets = vec![world.dsl.resolve("tank").await.unwrap()];
            for name in ["tank/a", "tank/a/b", "tank/a/b/c", "tank/d"] {
                datasets.push(world.create(name).await);
            }
            for op in ops {
                apply(&world, &datasets, op).await;
                check(&world.dsl, "tank", datasets[0].dir).await;
            }
            let dsl = world.reopened().await;
            check(&dsl, "tank", datasets[0].dir).await;
        });
    }
}

#[test]
fn a_dataset_may_use_what_quotas_above_it_and_the_pool_leave() {
    let world = World::new();
    world.env.block_on(async {
        let (a, b) = (world.create("tank/a").await, world.create("tank/a/b").await);
        let dsl = &world.dsl;
        let tx = world.tx();
        let pool = PoolSpace { usable_bytes: 10_000 };
        let free = async |of: &DatasetName| dsl.available(of.dataset, &pool).await.unwrap();
        assert_eq!(free(&b).await, 10_000);
        dsl.set_quota(&tx, a.dir, 5000).await.unwrap();
        assert_eq!((free(&a).await, free(&b).await), (5000, 5000));
        let delta = SpaceDelta { used: 5000, ..SpaceDelta::default() };
        dsl.apply_sync(&tx, b.dataset, Blkptr::default(), delta, Vec::new(), None).await.unwrap();
        assert_eq!((free(&a).await, free(&b).await), (0, 0));
        dsl.set_quota(&tx, a.dir, 0).await.unwrap();
        dsl.set_reservation(&tx, a.dir, 9950).await.unwrap();
        let root = dsl.resolve("tank").await.unwrap();
        // All but 50 bytes are a's, used or not.
        assert_eq!((free(&root).await, free(&b).await), (50, 5000));
        let refquota = PropValue::Number(4000);
        dsl.set_prop(&tx, b.dir, "refquota", &refquota).await.unwrap();
        assert_eq!((free(&a).await, free(&b).await), (5000, 0));
    });
}

#[test]
fn a_mos_that_frees_what_a_crash_left_uncounted_is_no_damage() {
    let world = World::new();
    world.env.block_on(async {
        let root = world.dsl.resolve("tank").await.unwrap();
        let used = async || world.dsl.special_dir("$MOS").await.unwrap().phys().used_bytes.get();
        let add = async |bytes: i64| {
            let delta = SpaceDelta { used: bytes, compressed: bytes, uncompressed: bytes };
            world.dsl.add_mos_space(&world.tx(), delta).await.unwrap();
        };
        add(5000).await;
        let before = used().await;
        add(-(before as i64) - 1).await;
        assert_eq!(used().await, 0);
        add(700).await;
        assert_eq!(used().await, 700);
        check_children(&world.dsl, "tank", root.dir).await;
    });
}
