//! Options: access times, durability, inheritance.

use std::sync::Arc;
use std::time::Duration;

use env::Env;

use super::basics::{CRED, contents, file};
use super::world::{World, run, run_with};
use crate::*;

const DAY: Duration = Duration::from_secs(25 * 60 * 60);

async fn read_one(zfs: &Zfs, object: units::ObjectId) -> Timestamp {
    zfs.read(object, 0, &mut [0; 1]).await.unwrap();
    zfs.attributes(object).await.unwrap().atime
}

#[test]
fn relative_access_times_follow_changes_and_days() {
    run(async |world: Arc<World>, zfs| {
        let object = file(&zfs, zfs.root(), "f").await;
        world.env.sleep(Duration::from_secs(1)).await;
        zfs.write(object, 0, b"x", WriteFlags::default()).await.unwrap();
        world.env.sleep(Duration::from_secs(1)).await;
        let first = read_one(&zfs, object).await;
        assert_eq!(first, world.env.wall_clock().into(), "older than the change");
        world.env.sleep(Duration::from_secs(1)).await;
        assert_eq!(read_one(&zfs, object).await, first);
        world.env.sleep(DAY).await;
        let second = read_one(&zfs, object).await;
        assert!(second > first, "older than a day");
        zfs.set_options(ZfsOptions { atime: AtimePolicy::Always, ..zfs.options() });
        world.env.sleep(Duration::from_secs(1)).await;
        let third = read_one(&zfs, object).await;
        assert!(third > second);
        let zfs = world.remount(zfs).await;
        assert_eq!(zfs.attributes(object).await.unwrap().atime, third, "stored by the sync");
        zfs.set_options(ZfsOptions { atime: AtimePolicy::Off, ..zfs.options() });
        world.env.sleep(DAY).await;
        assert_eq!(read_one(&zfs, object).await, third);
    });
}

#[test]
fn a_time_that_somebody_has_seen_is_not_used_again() {
    run(async |world: Arc<World>, zfs| {
        let object = file(&zfs, zfs.root(), "f").await;
        let step = Duration::from_millis(1);
        let write_after = async |pause: Duration| {
            world.env.sleep(pause).await;
            zfs.write(object, 0, b"x", WriteFlags::default()).await.unwrap();
            Timestamp::from(world.env.wall_clock())
        };
        let mtime = async || zfs.attributes(object).await.unwrap().mtime;
        // The first one makes the file longer.
        write_after(step).await;
        assert_eq!(write_after(step).await, mtime().await);
        let seen = mtime().await;
        let next = write_after(step).await;
        assert!(next > seen);
        write_after(step).await;
        assert_eq!(mtime().await, next, "nobody had looked, and no tick had passed");
        let next = write_after(step).await;
        assert_eq!(mtime().await, next, "somebody had");
        write_after(step).await;
        let last = write_after(step * 4).await;
        assert_eq!(mtime().await, last, "a tick had passed");
        world.sync(&zfs).await;
        let other = write_after(step).await;
        let zfs = world.remount(zfs).await;
        assert_eq!(zfs.attributes(object).await.unwrap().mtime, other, "another group has its own");
    });
}

#[test]
fn what_was_done_past_the_log_is_stable_after_an_fsync() {
    let options = ZfsOptions { sync: SyncPolicy::Disabled, ..ZfsOptions::default() };
    run_with(options, async |world: Arc<World>, zfs| {
        let object = file(&zfs, zfs.root(), "f").await;
        zfs.write(object, 0, b"kept", WriteFlags::default()).await.unwrap();
        zfs.set_options(ZfsOptions { sync: SyncPolicy::Standard, ..options });
        zfs.fsync(object, false).await.unwrap();
        let (zfs, _) = world.crash(zfs).await;
        assert_eq!(contents(&zfs, object).await, b"kept");
    });
}

#[test]
fn without_the_feature_extended_attributes_stay_out_of_the_log_and_are_stable_all_the_same() {
    let options = ZfsOptions { log_xattrs: false, ..ZfsOptions::default() };
    run_with(options, async |world: Arc<World>, zfs| {
        let object = file(&zfs, zfs.root(), "f").await;
        zfs.set_xattr(object, b"user.a", b"b", XattrMode::Set).await.unwrap();
        zfs.fsync(object, false).await.unwrap();
        let (zfs, report) = world.crash(zfs).await;
        assert_eq!(report.applied, 0);
        assert_eq!(zfs.xattr(object, b"user.a").await.unwrap(), b"b");
    });
}

#[test]
fn with_sync_disabled_an_fsync_waits_for_nothing() {
    let options = ZfsOptions { sync: SyncPolicy::Disabled, ..ZfsOptions::default() };
    run_with(options, async |_, zfs| {
        let object = file(&zfs, zfs.root(), "f").await;
        let synced = zfs.objset().txgs().synced_txg();
        zfs.write(object, 0, b"x", WriteFlags { sync: true, ..WriteFlags::default() }).await.unwrap();
        zfs.fsync(object, true).await.unwrap();
        zfs.sync().await.unwrap();
        assert_eq!(zfs.objset().txgs().synced_txg(), synced);
    });
}

#[test]
fn set_group_id_directories_pass_their_group_on() {
    run(async |_, zfs| {
        let dir = zfs.create(zfs.root(), b"d", NewNode::Directory, 0o777, CRED).await.unwrap().object;
        let set = SetAttributes { permissions: Some(0o2775), gid: Some(42), ..SetAttributes::default() };
        zfs.set_attributes(dir, set).await.unwrap();
        let f = zfs.create(dir, b"f", NewNode::File, 0o666, CRED).await.unwrap();
        let d = zfs.create(dir, b"d", NewNode::Directory, 0o777, CRED).await.unwrap();
        assert_eq!((f.gid, f.permissions), (42, 0o644));
        assert_eq!((d.gid, d.permissions), (42, 0o2755));
    });
}

#[test]
fn files_that_were_read_once_do_not_stay_in_memory() {
    const FILES: usize = 6000;
    run(async |world: Arc<World>, zfs| {
        let dir = zfs.create(zfs.root(), b"d", NewNode::Directory, 0o755, CRED).await.unwrap().object;
        let mut objects = Vec::new();
        for number in 0..FILES {
            objects.push(file(&zfs, dir, &format!("f{number}")).await);
        }
        let zfs = world.remount(zfs).await;
        // The block cache is almost empty, so the znode cache has its minimum: 16 in each of 64
        // shards.
        let most = 2 * (2 * 16 * 64);
        world.env.sleep(std::time::Duration::from_secs(1)).await;
        for &object in &objects {
            zfs.open_object(object).await.unwrap();
            zfs.read(object, 0, &mut [0; 1]).await.unwrap();
            zfs.close(object).await.unwrap();
        }
        let there = zfs.cache.count();
        assert!(there < most, "{there} of {FILES} are in memory");
        let zfs = world.remount(zfs).await;
        for &object in &objects {
            let of = zfs.attributes(object).await.unwrap();
            assert!(of.atime > of.mtime, "its access time was stored");
        }
    });
}
