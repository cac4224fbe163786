//! Quotas and reservations, as writers meet them.

use std::sync::Arc;

use dsl::PropValue;
use pool::{Pool, PoolError};
use zpl::{Cred, NewNode, WriteFlags, Zfs, ZplError};

use crate::dice::Dice;
use crate::world::{Layout, World};

const FILE_BYTES: usize = 500_000;
const LIMIT_BYTES: u64 = 20 << 20;

fn new_pool() -> (World, Arc<Pool>) {
    let world = World::new(Layout { device_mib: 256, ..Layout::new(&[&["a"]], &[], 12) });
    let pool = world.create();
    (world, pool)
}

async fn write(zfs: &Zfs, dice: &mut Dice, name: &str) -> Result<(), ZplError> {
    let made = zfs.create(zfs.root(), name.as_bytes(), NewNode::File, 0o644, Cred::default()).await?;
    let noise: Vec<u8> = (0..FILE_BYTES).map(|_| dice.word() as u8).collect();
    zfs.write(made.object, 0, &noise, WriteFlags::default()).await.map(drop)
}

/// Files until one is refused: how many were not, and why it was.
async fn fill(zfs: &Zfs, dice: &mut Dice, prefix: &str) -> (u64, ZplError) {
    for count in 0..1000 {
        if let Err(error) = write(zfs, dice, &format!("{prefix}{count}")).await {
            return (count, error);
        }
    }
    panic!("nothing is refused");
}

fn a_quota_ends_writes(prop: &str) {
    let (world, pool) = new_pool();
    world.create_filesystem(&pool, "whirl/limited", &[(prop, LIMIT_BYTES)]);
    let (root, zfs) = (world.zfs(&pool, "whirl"), world.zfs(&pool, "whirl/limited"));
    let mut dice = Dice::new(3);
    world.run(async {
        let (count, error) = fill(&zfs, &mut dice, "f").await;
        assert!(matches!(error, ZplError::QuotaExceeded), "{prop}: {error:?}");
        let bytes = count * FILE_BYTES as u64;
        assert!((LIMIT_BYTES / 10 * 8..=LIMIT_BYTES).contains(&bytes), "{prop}: {bytes} bytes");
        write(&root, &mut dice, "elsewhere").await.expect("others have room");
        // Who removes may, and has the room at once.
        zfs.unlink(zfs.root(), b"f0").await.unwrap();
        zfs.unlink(zfs.root(), b"f1").await.unwrap();
        write(&zfs, &mut dice, "again").await.unwrap();
        pool.set_prop("whirl/limited", prop, Some(PropValue::Number(2 * LIMIT_BYTES))).await.unwrap();
        write(&zfs, &mut dice, "raised").await.unwrap();
    });
    drop((root, zfs));
    world.export(&pool);
    world.check(prop);
}

#[test]
fn a_dataset_grows_to_its_quota_and_no_further() {
    a_quota_ends_writes("quota");
}

#[test]
fn a_dataset_grows_to_its_refquota_and_no_further() {
    a_quota_ends_writes("refquota");
}

#[test]
fn a_quota_holds_for_all_datasets_below() {
    let (world, pool) = new_pool();
    world.create_filesystem(&pool, "whirl/limited", &[("quota", LIMIT_BYTES)]);
    world.create_filesystem(&pool, "whirl/limited/a", &[]);
    world.create_filesystem(&pool, "whirl/limited/b", &[]);
    let (a, b) = (world.zfs(&pool, "whirl/limited/a"), world.zfs(&pool, "whirl/limited/b"));
    let mut dice = Dice::new(4);
    world.run(async {
        let (_, error) = fill(&a, &mut dice, "f").await;
        assert!(matches!(error, ZplError::QuotaExceeded), "{error:?}");
        let refused = write(&b, &mut dice, "f").await;
        assert!(matches!(refused, Err(ZplError::QuotaExceeded)), "{refused:?}");
    });
}

fn a_reservation_is_kept(prop: &str) {
    let (world, pool) = new_pool();
    world.create_filesystem(&pool, "whirl/reserved", &[(prop, LIMIT_BYTES)]);
    world.create_filesystem(&pool, "whirl/greedy", &[]);
    let (reserved, greedy) = (world.zfs(&pool, "whirl/reserved"), world.zfs(&pool, "whirl/greedy"));
    let mut dice = Dice::new(5);
    world.run(async {
        let (_, error) = fill(&greedy, &mut dice, "f").await;
        assert!(matches!(error, ZplError::NoSpace), "{prop}: {error:?}");
        let (count, error) = fill(&reserved, &mut dice, "f").await;
        assert!(matches!(error, ZplError::NoSpace), "{prop}: {error:?}");
        let bytes = count * FILE_BYTES as u64;
        assert!(bytes >= LIMIT_BYTES / 10 * 7, "{prop}: {bytes} bytes of {LIMIT_BYTES}");
    });
}

#[test]
fn what_is_reserved_is_there_when_the_rest_is_full() {
    a_reservation_is_kept("reservation");
}

#[test]
fn what_is_reserved_without_snapshots_is_there_when_the_rest_is_full() {
    a_reservation_is_kept("refreservation");
}

/// Returns the numeric values of properties that are set on the root file system, by name.
async fn set_on_root(pool: &Arc<Pool>, names: &[&str]) -> Vec<Option<u64>> {
    let root = pool.dsl().resolve("whirl").await.unwrap();
    let set = pool.dsl().props(&root).await.unwrap();
    let number = |name: &&str| set.iter().find(|prop| prop.name == *name)?.value.number();
    names.iter().map(number).collect()
}

#[test]
fn properties_are_set_together_or_not_at_all() {
    const NAMES: [&str; 4] = ["copies", "quota", "reservation", "atime"];
    let (world, pool) = new_pool();
    let numbers = |list: &[(&str, u64)]| {
        list.iter().map(|&(name, number)| (name.to_owned(), PropValue::Number(number))).collect::<Vec<_>>()
    };
    world.run(async {
        let before = set_on_root(&pool, &NAMES).await;
        for refused in [
            numbers(&[("copies", 2), ("quota", 1), ("atime", 0)]),
            numbers(&[("copies", 2), ("reservation", 1 << 50)]),
            numbers(&[("quota", 64 << 20), ("reservation", 65 << 20)]),
            numbers(&[("copies", 2), ("atime", 0), ("unheard-of", 1)]),
        ] {
            let done = pool.set_props("whirl", refused.clone()).await;
            assert!(matches!(done, Err(PoolError::Dsl(_))), "{refused:?}: {done:?}");
            assert_eq!(set_on_root(&pool, &NAMES).await, before, "{refused:?}");
        }
        let synced = pool.txgs().synced_txg().get();
        pool.set_props("whirl", numbers(&[("copies", 2), ("quota", 16 << 20), ("atime", 0)])).await.unwrap();
        assert_eq!(pool.txgs().synced_txg().get(), synced + 1, "one txg for all of them");
        let reserved = numbers(&[("reservation", 32 << 20)]);
        assert!(pool.set_props("whirl", reserved).await.is_err(), "more than the quota");
        // The new quota decides whether the new reservation fits.
        pool.set_props("whirl", numbers(&[("quota", 64 << 20), ("reservation", 32 << 20)])).await.unwrap();
        let numbers = [Some(2), Some(64 << 20), Some(32 << 20), Some(0)];
        assert_eq!(set_on_root(&pool, &NAMES).await, numbers);
    });
    world.export(&pool);
    world.check("set");
}
