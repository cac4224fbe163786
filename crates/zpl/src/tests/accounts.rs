//! Space and objects by owner.

use std::sync::Arc;

use ondisk::objset::{GROUPUSED_OBJECT, PROJECTUSED_OBJECT, USERUSED_OBJECT};

use super::basics::file;
use super::model::{Dice, Model};
use super::world::{World, run, run_with};
use crate::*;

async fn check(zfs: &Zfs) {
    let os = zfs.objset();
    assert_eq!(os.accounts().await.unwrap(), os.recount().await.unwrap());
}

#[test]
fn accounts_equal_a_recount_over_all_objects() {
    for seed in 0..8 {
        let options =
            ZfsOptions { record_bytes: 4096, dnode_slots: 1 + seed as u8 % 3, ..Default::default() };
        run_with(options, async |world: Arc<World>, zfs| {
            let mut dice = Dice::new(seed);
            let mut zfs = zfs;
            let mut model = Model::of_empty(&zfs).await;
            for _ in 0..150 {
                model.step(&zfs, &mut dice).await;
                match dice.below(20) {
                    0 => {
                        world.sync(&zfs).await;
                        check(&zfs).await;
                    }
                    1 => zfs = world.remount(zfs).await,
                    2 => {
                        (zfs, _) = {
                            zfs.sync().await.unwrap();
                            world.crash(zfs).await
                        }
                    }
                    _ => {}
                }
            }
            world.sync(&zfs).await;
            check(&zfs).await;
            assert!(!zfs.objset().accounts().await.unwrap().is_empty());
        });
    }
}

#[test]
fn space_moves_with_its_owner_and_goes_with_the_file() {
    run(async |world: Arc<World>, zfs| {
        let object = file(&zfs, zfs.root(), "f").await;
        let data: Vec<u8> =
            (0..100_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        zfs.write(object, 0, &data, WriteFlags::default()).await.unwrap();
        world.sync(&zfs).await;
        let entry = async |account, name: &str| zfs.objset().account_entry(account, name).await.unwrap();
        let used = entry(USERUSED_OBJECT, "3e8").await;
        assert!(used > 400_000, "{used}");
        assert_eq!(entry(USERUSED_OBJECT, "obj-3e8").await, 1);
        assert_eq!(entry(GROUPUSED_OBJECT, "64").await, used);
        assert!(entry(PROJECTUSED_OBJECT, "0").await >= used);
        zfs.set_attributes(object, SetAttributes { uid: Some(7), ..Default::default() }).await.unwrap();
        world.sync(&zfs).await;
        assert_eq!(entry(USERUSED_OBJECT, "3e8").await, 0);
        assert_eq!(entry(USERUSED_OBJECT, "7").await, used);
        assert_eq!(entry(GROUPUSED_OBJECT, "obj-64").await, 1);
        zfs.unlink(zfs.root(), b"f").await.unwrap();
        world.sync(&zfs).await;
        assert_eq!(entry(USERUSED_OBJECT, "7").await, 0);
        let all = zfs.objset().account(USERUSED_OBJECT).await.unwrap();
        assert!(all.iter().all(|(name, _)| name == "0" || name == "obj-0"), "{all:?}");
    });
}
