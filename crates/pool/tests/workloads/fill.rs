//! A full pool says so, goes on, and can be emptied again.

use std::sync::Arc;

use dsl::{DslError, PropValue};
use pool::{Pool, PoolError};
use units::ObjectId;
use zpl::{Cred, NewNode, SetAttributes, WriteFlags, Zfs, ZplError};

use crate::dice::Dice;
use crate::world::{Layout, World};

/// What may be taken once everything is deleted, beyond what was at the start: directories and
/// tables do not shrink, nor does the meta-objset.
const KEPT_BYTES_MAX: u64 = 2 << 20;

/// Files of `len` bytes until there is no room.
async fn fill(zfs: &Zfs, dice: &mut Dice, prefix: &str, len: usize) -> Vec<String> {
    let mut names = Vec::new();
    loop {
        let name = format!("{prefix}{}", names.len());
        match write(zfs, dice, &name, len).await {
            Ok(()) => names.push(name),
            Err(ZplError::NoSpace) => break,
            Err(other) => panic!("{name}: {other:?}"),
        }
        assert!(names.len() < 100_000, "it is never full");
    }
    // The last may have got its name, but no data.
    if zfs.lookup(zfs.root(), format!("{prefix}{}", names.len()).as_bytes()).await.is_ok() {
        names.push(format!("{prefix}{}", names.len()));
    }
    names
}

async fn write(zfs: &Zfs, dice: &mut Dice, name: &str, len: usize) -> Result<(), ZplError> {
    let made = zfs.create(zfs.root(), name.as_bytes(), NewNode::File, 0o644, Cred::default()).await?;
    let noise: Vec<u8> = (0..len).map(|_| dice.word() as u8).collect();
    zfs.write(made.object, 0, &noise, WriteFlags::default()).await.map(drop)
}

/// Nothing more goes in, whatever it is; what is there can be read.
async fn is_full(zfs: &Zfs, file: ObjectId, len: usize) {
    let refused = zfs.write(file, len as u64, &vec![1; 1 << 20], WriteFlags::default()).await;
    assert!(matches!(refused, Err(ZplError::NoSpace)), "{refused:?}");
    assert_eq!(zfs.read(file, 0, &mut vec![0; len]).await.unwrap(), len);
}

fn allocated(world: &World, pool: &Arc<Pool>) -> u64 {
    // What was freed rests for two txgs more.
    for _ in 0..4 {
        world.run(pool.sync_now()).unwrap();
    }
    pool.room().allocated
}

fn fill_and_empty(layout: Layout) {
    const LARGE: usize = 1_000_000;
    let world = World::new(layout);
    let mut pool = world.create();
    let zfs = world.zfs(&pool, "whirl");
    let start = allocated(&world, &pool);
    let mut dice = Dice::new(7);
    let mut names = Vec::new();
    world.run(async {
        names.extend(fill(&zfs, &mut dice, "large", LARGE).await);
        assert!(names.len() > 20, "only {} files fit", names.len());
        let first = zfs.lookup(zfs.root(), b"large0").await.unwrap().object;
        is_full(&zfs, first, LARGE).await;
        names.extend(fill(&zfs, &mut dice, "middle", 20_000).await);
        names.extend(fill(&zfs, &mut dice, "small", 10).await);
    });
    assert!(pool.suspended().is_none());
    drop(zfs);
    world.export(&pool);
    let full = world.copy().check_aside("full");
    pool = world.import();
    let zfs = world.zfs(&pool, "whirl");
    world.run(async {
        // A full pool takes what makes it emptier.
        let first = zfs.lookup(zfs.root(), b"large0").await.unwrap().object;
        zfs.set_attributes(first, SetAttributes { size: Some(0), ..Default::default() }).await.unwrap();
        for name in &names {
            zfs.unlink(zfs.root(), name.as_bytes()).await.unwrap_or_else(|e| panic!("{name}: {e:?}"));
        }
    });
    let end = allocated(&world, &pool);
    assert!(end <= start + KEPT_BYTES_MAX, "{start} bytes at first, {end} when emptied");
    world.run(async {
        let again = fill(&zfs, &mut dice, "again", LARGE).await;
        assert!(again.len() + 3 > names.iter().filter(|name| name.starts_with("large")).count());
    });
    drop(zfs);
    world.export(&pool);
    world.check("filled again");
    full.wait();
}

/// Makes something over and over, each with another number, until there is no room; says how often it was made.
async fn make_all(what: &str, mut make: impl AsyncFnMut(usize) -> Result<(), PoolError>) -> usize {
    for number in 0..20_000 {
        match make(number).await {
            Ok(()) => {}
            Err(PoolError::Dsl(DslError::NoSpace { .. })) => return number,
            Err(other) => panic!("{what} {number}: {other:?}"),
        }
    }
    panic!("it is never full of {what}");
}

/// Each snapshot's list of what died since has a line for each older one: they fill the pool, whatever datasets hold.
#[test]
fn a_pool_full_of_snapshots_can_be_emptied() {
    let world = World::new(Layout { device_mib: 64, ..Layout::new(&[&["a"]], &[], 12) });
    let pool = world.create();
    let zfs = world.zfs(&pool, "whirl");
    let start = allocated(&world, &pool);
    world.run(async {
        let file =
            zfs.create(zfs.root(), b"file", NewNode::File, 0o644, Cred::default()).await.unwrap().object;
        let snapshots = make_all("snapshots", async |number| {
            match zfs.write(file, 0, &number.to_le_bytes(), WriteFlags::default()).await {
                // Writers have to leave more than snapshots.
                Ok(_) | Err(ZplError::NoSpace) => {}
                Err(other) => panic!("file {number}: {other:?}"),
            }
            pool.snapshot(vec![format!("whirl@s{number}")], Vec::new()).await
        });
        let snapshots = snapshots.await;
        assert!(snapshots > 100, "only {snapshots} snapshots fit");
        let of = || "whirl@s0".to_owned();
        let name = |kind: &str, number| format!("whirl{kind}{number}");
        let made = async |number| pool.create_filesystem(&name("/fs", number), Vec::new()).await;
        let filesystems = make_all("file systems", made).await;
        let made = async |number| pool.clone_snapshot(of(), name("/clone", number), Vec::new()).await;
        let clones = make_all("clones", made).await;
        let bookmarks =
            make_all("bookmarks", async |number| pool.bookmark(of(), name("#mark", number)).await).await;
        let holds = make_all("holds", async |number| pool.hold(format!("t{number}"), vec![of()]).await).await;
        let props = make_all("properties", async |number| {
            let text = Some(PropValue::Text("text".repeat(200)));
            pool.set_prop("whirl", &format!("org.example:p{number}"), text).await
        });
        let props = props.await;
        assert!(pool.suspended().is_none());
        // What limits, and what frees, is still done.
        pool.set_prop("whirl", "quota", Some(PropValue::Number(1 << 30))).await.unwrap();
        for number in 0..props {
            pool.set_prop("whirl", &format!("org.example:p{number}"), None).await.unwrap();
        }
        for number in 0..holds {
            pool.release(format!("t{number}"), vec![of()]).await.unwrap();
        }
        for number in 0..bookmarks {
            pool.destroy_bookmark(name("#mark", number)).await.unwrap();
        }
        for (kind, count) in [("/clone", clones), ("/fs", filesystems)] {
            for number in 0..count {
                pool.destroy_filesystem(&name(kind, number)).await.unwrap();
            }
        }
        let names = (0..snapshots).map(|number| name("@s", number)).collect();
        pool.destroy_snapshots(names, false).await.unwrap();
        zfs.unlink(zfs.root(), b"file").await.unwrap();
        pool.snapshot(vec!["whirl@again".into()], Vec::new()).await.unwrap();
        pool.destroy_snapshots(vec!["whirl@again".into()], false).await.unwrap();
    });
    let end = allocated(&world, &pool);
    assert!(end <= start + KEPT_BYTES_MAX, "{start} bytes at first, {end} when emptied");
    drop(zfs);
    world.export(&pool);
    world.check("full of snapshots, and emptied");
}

#[test]
fn a_full_pool_can_be_emptied_and_filled_again() {
    fill_and_empty(Layout { device_mib: 64, ..Layout::new(&[&["a"]], &[], 12) });
}

#[test]
fn a_full_pool_with_a_log_can_be_emptied_and_filled_again() {
    fill_and_empty(Layout { device_mib: 64, ..Layout::new(&[&["a"]], &[&["l"]], 9) });
}

/// Parity, padding and sectors that hold nothing: what is charged is not what is taken.
#[test]
fn a_full_raidz1_can_be_emptied_and_filled_again() {
    let devices = Layout::new(&[&["a", "b", "c", "d"]], &[], 12);
    fill_and_empty(Layout { device_mib: 64, parity: 1, ..devices });
}

#[test]
fn a_full_raidz2_of_small_sectors_can_be_emptied_and_filled_again() {
    let devices = Layout::new(&[&["a", "b", "c", "d", "e"]], &[], 9);
    fill_and_empty(Layout { device_mib: 64, parity: 2, ..devices });
}

#[test]
fn a_full_raidz3_with_a_log_can_be_emptied_and_filled_again() {
    let devices = Layout::new(&[&["a", "b", "c", "d", "e"]], &[&["l"]], 12);
    fill_and_empty(Layout { device_mib: 64, parity: 3, ..devices });
}

#[test]
fn a_full_draid_can_be_emptied_and_filled_again() {
    let devices = Layout::new(&[&["a", "b", "c", "d", "e"]], &[], 12);
    fill_and_empty(Layout { device_mib: 64, parity: 1, columns: 3, ..devices });
}

/// A block of 512 bytes takes four sectors of 4 KiB, thrice: 96 times its size.
#[test]
fn a_raidz3_is_not_overrun_by_small_records_with_copies() {
    let devices = Layout::new(&[&["a", "b", "c", "d", "e"]], &[], 12);
    overrun(Layout { device_mib: 64, parity: 3, ..devices });
}

#[test]
fn a_file_written_again_and_again_needs_its_room_twice_at_most() {
    let world = World::new(Layout { device_mib: 64, ..Layout::new(&[&["a"]], &[], 9) });
    let pool = world.create();
    let zfs = world.zfs(&pool, "whirl");
    let mut dice = Dice::new(3);
    world.run(async {
        let made = zfs.create(zfs.root(), b"file", NewNode::File, 0o644, Cred::default()).await.unwrap();
        for _ in 0..16 {
            let noise: Vec<u8> = (0..8 << 20).map(|_| dice.word() as u8).collect();
            zfs.write(made.object, 0, &noise, WriteFlags::default()).await.unwrap();
        }
    });
    drop(zfs);
    world.export(&pool);
}

/// Each block of 512 bytes takes three sectors of 4 KiB: 24 times its size.
#[test]
fn a_pool_is_not_overrun_by_small_records_with_copies() {
    overrun(Layout { device_mib: 64, ..Layout::new(&[&["a"]], &[], 12) });
}

fn overrun(layout: Layout) {
    let world = World::new(layout);
    let pool = world.create();
    world.create_filesystem(&pool, "whirl/worst", &[("recordsize", 512), ("copies", 3), ("compression", 2)]);
    let zfs = world.zfs(&pool, "whirl/worst");
    let mut dice = Dice::new(5);
    let fitted = world.run(async {
        let made = zfs.create(zfs.root(), b"file", NewNode::File, 0o644, Cred::default()).await.unwrap();
        let mut fitted = 0;
        loop {
            let noise: Vec<u8> = (0..400_000).map(|_| dice.word() as u8).collect();
            match zfs.write(made.object, fitted, &noise, WriteFlags::default()).await {
                Ok(_) => fitted += noise.len() as u64,
                Err(ZplError::NoSpace) => break fitted,
                Err(other) => panic!("{other:?}"),
            }
        }
    });
    assert!(fitted > 0);
    assert!(pool.suspended().is_none());
    drop(zfs);
    world.export(&pool);
    world.check("overrun");
}

/// Nobody has to wait and try again: the txg that lets the blocks go, and those for which they rest, are
/// waited for before a write is refused. Here no txg syncs by itself.
#[test]
fn room_that_was_given_up_is_there_for_the_next_write() {
    const LARGE: usize = 1_000_000;
    let world = World::new(Layout { device_mib: 64, ..Layout::new(&[&["a"]], &[], 12) });
    let pool = world.create();
    let zfs = world.zfs(&pool, "whirl");
    let mut dice = Dice::new(9);
    world.run(async {
        let names = fill(&zfs, &mut dice, "f", LARGE).await;
        for (round, pair) in names.chunks_exact(2).enumerate().take(4) {
            // So that little is left.
            fill(&zfs, &mut dice, &format!("small{round}-"), 10_000).await;
            pool.sync_now().await.unwrap();
            zfs.unlink(zfs.root(), pair[0].as_bytes()).await.unwrap();
            let cut = zfs.lookup(zfs.root(), pair[1].as_bytes()).await.unwrap().object;
            zfs.set_attributes(cut, SetAttributes { size: Some(0), ..Default::default() }).await.unwrap();
            write(&zfs, &mut dice, &format!("again{round}"), LARGE).await.unwrap();
        }
        // Without anything to wait for, the answer comes at once.
        fill(&zfs, &mut dice, "rest", LARGE).await;
        pool.sync_now().await.unwrap();
        let before = pool.txgs().open_txg();
        assert!(matches!(write(&zfs, &mut dice, "more", LARGE).await, Err(ZplError::NoSpace)));
        assert!(pool.txgs().open_txg().get() <= before.get() + 3, "{before} {}", pool.txgs().open_txg());
    });
}
