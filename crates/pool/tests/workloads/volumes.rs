//! Volumes: what a new one is, what shrinking takes away, what is set aside for them. Random work on them is in `lives`.

use dsl::{DslError, PropValue};
use oracle::zdb::Zdb;
use pool::{PoolError, VolumeSpec};

use crate::dice::Dice;
use crate::lives::bytes::contents;
use crate::world::{Layout, World};

const STRIPE: Layout = Layout::new(&[&["a"], &["b"]], &[], 9);
const MIRROR: Layout = Layout::new(&[&["a", "b"]], &[&["l"]], 12);

/// The part of what `zdb` says that is about an object.
fn object<'a>(said: &'a str, kind: &str) -> &'a str {
    let line = said.lines().find(|line| line.ends_with(kind)).unwrap_or_else(|| panic!("no {kind}: {said}"));
    line.trim_start()
}

#[test]
fn a_new_volume_is_what_openzfs_makes() {
    let world = World::new(MIRROR);
    let pool = world.create();
    let spec = VolumeSpec { size_bytes: 1 << 30, block_bytes: 16 << 10 };
    world.run(pool.create_volume("whirl/v", spec, Vec::new())).unwrap();
    let spec = VolumeSpec { size_bytes: 1 << 30, block_bytes: 1000 };
    for bad in [VolumeSpec { size_bytes: 0, ..spec }, VolumeSpec { size_bytes: 1001, ..spec }] {
        assert!(world.run(pool.create_volume("whirl/bad", bad, Vec::new())).is_err());
    }
    world.export(&pool);
    world.check("a new volume");
    let said = Zdb::new(world.dir(), "whirl/v").run(&["-dddd"], &[]).unwrap();
    assert!(said.contains("[ZVOL]"), "{said}");
    // Object, levels, sizes of indirect and data blocks.
    let words: Vec<&str> = object(&said, "zvol object").split_whitespace().collect();
    assert_eq!(words[..4], ["1", "1", "128K", "16K"], "{said}");
    let words: Vec<&str> = object(&said, "zvol prop").split_whitespace().collect();
    assert_eq!(words[..4], ["2", "1", "128K", "512"], "{said}");
    assert!(said.contains("size = 1073741824"), "{said}");
}

#[test]
fn what_shrinking_took_away_does_not_come_back() {
    let world = World::new(STRIPE);
    let pool = world.create();
    let block = 4096;
    world.run(async {
        let spec = VolumeSpec { size_bytes: 100 * block, block_bytes: block as u32 };
        pool.create_volume("whirl/v", spec, Vec::new()).await.unwrap();
        let volume = pool.open_volume("whirl/v").await.unwrap();
        volume.write(0, &vec![7; 100 * block as usize], true).await.unwrap();
        // The log still has records that lead past the end.
        pool.resize_volume("whirl/v", 10 * block).await.unwrap();
        volume.write(9 * block, &[8; 4096], true).await.unwrap();
    });
    let cut = world.copy();
    let pool = cut.import();
    cut.run(async {
        pool.replay_logs().await.unwrap();
        pool.resize_volume("whirl/v", 50 * block).await.unwrap();
        let volume = pool.open_volume("whirl/v").await.unwrap();
        let bytes = contents(&volume).await;
        let (kept, new) = bytes.split_at(9 * block as usize);
        assert!(kept.iter().all(|&byte| byte == 7));
        assert!(new[..block as usize].iter().all(|&byte| byte == 8), "it was promised");
        assert!(new[block as usize..].iter().all(|&byte| byte == 0), "it was taken away");
    });
    cut.export(&pool);
    cut.check("after a crash");
}

#[test]
fn what_shrinking_took_away_takes_no_room() {
    let world = World::new(STRIPE);
    let pool = world.create();
    let block = 4096;
    let referenced = async || {
        let dataset = pool.dsl().resolve("whirl/v").await.unwrap().dataset;
        pool.dsl().dataset(dataset).await.unwrap().referenced_bytes.get()
    };
    world.run(async {
        let spec = VolumeSpec { size_bytes: 100 * block, block_bytes: block as u32 };
        pool.create_volume("whirl/v", spec, Vec::new()).await.unwrap();
        let volume = pool.open_volume("whirl/v").await.unwrap();
        let mut dice = Dice::new(6);
        let noise: Vec<u8> = (0..100 * block).map(|_| dice.word() as u8).collect();
        volume.write(0, &noise, false).await.unwrap();
        pool.sync_now().await.unwrap();
        let before = referenced().await;
        pool.resize_volume("whirl/v", 10 * block).await.unwrap();
        pool.sync_now().await.unwrap();
        let after = referenced().await;
        assert!((89 * block..=95 * block).contains(&(before - after)), "{before}, then {after}");
    });
    world.export(&pool);
    world.check("smaller");
}

#[test]
fn what_is_set_aside_for_a_volume_is_its_own() {
    let world = World::new(STRIPE);
    let pool = world.create();
    let mib = 1_u64 << 20;
    world.run(async {
        let spec = VolumeSpec { size_bytes: 64 * mib, block_bytes: 16 << 10 };
        let room = pool.volume_room(spec.size_bytes, spec.block_bytes);
        assert_eq!(room, 64 * mib + 2 * (7 + 5) * (128 << 10), "4096 blocks, 4 + 1 that point to them");
        let reserved = vec![("refreservation".to_owned(), PropValue::Number(room))];
        pool.create_volume("whirl/v", spec, reserved).await.unwrap();
        let usage = async || {
            let dataset = pool.dsl().resolve("whirl/v").await.unwrap();
            let dir = pool.dsl().dir(dataset.dir).await.unwrap();
            let part = dir.used_breakdown[ondisk::dsl::used::REFRESERVATION].get();
            (dir.used_bytes.get(), part)
        };
        let (used, unused) = usage().await;
        assert_eq!(used, room, "all of it counts");
        let volume = pool.open_volume("whirl/v").await.unwrap();
        let mut dice = Dice::new(5);
        let noise: Vec<u8> = (0..16 * mib).map(|_| dice.word() as u8).collect();
        volume.write(0, &noise, false).await.unwrap();
        pool.sync_now().await.unwrap();
        let (used, less) = usage().await;
        assert_eq!(used, room, "what is written was counted before");
        assert!(unused - less >= 16 * mib && unused - less < 17 * mib, "{unused} {less}");
        // A snapshot keeps what is written, and the volume keeps its claim to as much again.
        pool.snapshot(vec!["whirl/v@s".into()], Vec::new()).await.unwrap();
        let (used, again) = usage().await;
        assert!(again > less + 16 * mib && used >= room + 16 * mib, "{used} {again}");
        let all = vec![("refreservation".to_owned(), PropValue::Number(1 << 40))];
        let spec = VolumeSpec { size_bytes: 1 << 40, ..spec };
        let full = pool.create_volume("whirl/w", spec, all).await;
        assert!(matches!(full, Err(PoolError::Dsl(DslError::NoSpace { .. }))), "{full:?}");
        assert!(pool.dsl().resolve("whirl/w").await.is_err(), "nothing was made");
        pool.create_volume("whirl/sparse", spec, Vec::new()).await.unwrap();
    });
    world.export(&pool);
    world.check("at the end");
}
