//! Files without a name, and names that only other systems make.

use std::sync::Arc;

use super::basics::{CRED, contents, file, names};
use super::world::{World, run};
use ondisk::ObjectType;
use units::ObjectId;

use crate::dirent::Dirent;
use crate::*;

#[test]
fn a_file_without_a_name_goes_with_its_last_close_or_a_crash() {
    run(async |world: Arc<World>, zfs| {
        let made = zfs.create_unnamed(zfs.root(), 0o666, CRED).await.unwrap();
        assert_eq!((made.links, made.permissions, made.uid), (0, 0o644, 1000));
        zfs.write(made.object, 0, b"hello", WriteFlags::default()).await.unwrap();
        assert_eq!(contents(&zfs, made.object).await, b"hello");
        zfs.close(made.object).await.unwrap();
        assert!(zfs.attributes(made.object).await.is_err());
        let lost = zfs.create_unnamed(zfs.root(), 0o666, CRED).await.unwrap();
        world.sync(&zfs).await;
        let (zfs, _) = world.crash(zfs).await;
        assert!(zfs.attributes(lost.object).await.is_err(), "the delete queue freed it");
    });
}

#[test]
fn a_damaged_object_stays_in_the_delete_queue_and_the_others_are_freed() {
    run(async |world: Arc<World>, zfs| {
        let mut lost = Vec::new();
        for _ in 0..5 {
            lost.push(zfs.create_unnamed(zfs.root(), 0o666, CRED).await.unwrap().object);
        }
        let damaged = zfs.znode(lost[2]).await.unwrap();
        let plan = zfs.plan().await.unwrap();
        let garbage = vec![0xa5; damaged.dnode.bonus().len()];
        damaged.dnode.set_bonus(&plan, ObjectType::SA, &garbage).unwrap();
        plan.apply().unwrap();
        drop(damaged);
        world.sync(&zfs).await;
        let (zfs, _) = world.crash(zfs).await;
        assert_eq!(zfs.count_unnamed().await.unwrap(), 1);
        for object in lost {
            let error = zfs.attributes(object).await.expect_err("it has no name");
            assert_eq!(error.is_loss(), object == lost_one(&zfs).await, "{error:?}");
        }
        let file = file(&zfs, zfs.root(), "f").await;
        zfs.write(file, 0, b"hello", WriteFlags::default()).await.unwrap();
        let zfs = world.remount(zfs).await;
        assert_eq!(contents(&zfs, file).await, b"hello");
        assert_eq!(zfs.count_unnamed().await.unwrap(), 1);
    });
}

/// The one object in the delete queue.
async fn lost_one(zfs: &Zfs) -> ObjectId {
    zfs.queue.all().await.unwrap()[0]
}

#[test]
fn a_file_that_got_its_first_name_is_like_any_other() {
    run(async |world: Arc<World>, zfs| {
        let made = zfs.create_unnamed(zfs.root(), 0o666, CRED).await.unwrap();
        zfs.write(made.object, 0, b"hello", WriteFlags::default()).await.unwrap();
        assert_eq!(zfs.link(made.object, zfs.root(), b"f").await.unwrap().links, 1);
        zfs.close(made.object).await.unwrap();
        zfs.fsync(made.object, false).await.unwrap();
        zfs.write(made.object, 5, b", world", WriteFlags { sync: true, ..WriteFlags::default() })
            .await
            .unwrap();
        let (zfs, _) = world.crash(zfs).await;
        assert_eq!(contents(&zfs, made.object).await, b"hello, world");
        assert_eq!(names(&zfs, zfs.root()).await, [".", "..", "f"]);
        zfs.unlink(zfs.root(), b"f").await.unwrap();
        assert!(zfs.attributes(made.object).await.is_err());
    });
}

#[test]
fn a_file_that_lost_its_last_name_gets_no_other() {
    run(async |_: Arc<World>, zfs| {
        let object = file(&zfs, zfs.root(), "f").await;
        zfs.open_object(object).await.unwrap();
        zfs.unlink(zfs.root(), b"f").await.unwrap();
        assert!(matches!(zfs.link(object, zfs.root(), b"g").await, Err(ZplError::NotFound)));
        zfs.close(object).await.unwrap();
    });
}

/// Systems with the feature `longname` make names of up to 1023 bytes.
#[test]
fn a_longer_name_that_is_listed_is_found_and_can_be_removed() {
    run(async |world: Arc<World>, zfs| {
        let root = zfs.root();
        let object = file(&zfs, root, "f").await;
        let long = vec![b'l'; 1023];
        let plan = zfs.plan().await.unwrap();
        let dir = zfs.znode(root).await.unwrap();
        let entry = Dirent { object, kind: Some(FileKind::File) }.encode();
        dir.zap().unwrap().remove(&plan, b"f").await.unwrap();
        dir.zap().unwrap().add_u64(&plan, &long, entry).await.unwrap();
        plan.apply().unwrap();
        drop(dir);
        let zfs = world.remount(zfs).await;
        let listed = zfs.list(root, 0, 100).await.unwrap();
        assert!(listed.iter().any(|entry| entry.name == long));
        assert_eq!(zfs.lookup(root, &long).await.unwrap().object, object);
        for len in [256, 1022, 1024, 5000] {
            let found = zfs.lookup(root, &vec![b'l'; len]).await;
            assert!(matches!(found, Err(ZplError::NameTooLong)), "{len}");
        }
        let [from, to] = [&long[..], b"short"].map(|name| Place { dir: root, name });
        zfs.rename(from, to, RenameMode::Replace).await.unwrap();
        assert_eq!(names(&zfs, root).await, [".", "..", "short"]);
        let back = zfs.rename(to, from, RenameMode::Replace).await;
        assert!(matches!(back, Err(ZplError::NameTooLong)));
        zfs.sync().await.unwrap();
        let (zfs, _) = world.crash(zfs).await;
        assert_eq!(names(&zfs, root).await, [".", "..", "short"], "replayed");
    });
}
