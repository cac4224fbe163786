//! Operations on behalf of users, and what flags refuse everybody.

use std::time::Duration;

use env::Env;
use futures::future::join;

use super::basics::{CRED, contents, file};
use super::world::{run, run_seeded};
use crate::*;

const STICKY: u32 = 0o1777;

fn user() -> Asker {
    Asker::User(User::new(CRED.uid, CRED.gid, Vec::new()))
}

#[test]
fn a_name_in_a_sticky_directory_is_judged_by_what_it_stands_for() {
    for seed in 0..40 {
        run_seeded(seed, ZfsOptions::default(), async |_, zfs| {
            let root = Cred { uid: 0, gid: 0, umask: 0 };
            let dir = zfs.create(zfs.root(), b"d", NewNode::Directory, STICKY, root).await.unwrap().object;
            file(&zfs, dir, "x").await;
            let roots = zfs.create(dir, b"y", NewNode::File, 0o600, root).await.unwrap().object;
            let his = zfs.asked_by(user());
            let (from, to) = (Place { dir, name: b"y" }, Place { dir, name: b"x" });
            let (moved, removed) =
                join(zfs.rename(from, to, RenameMode::Replace), his.unlink(dir, b"x")).await;
            moved.unwrap();
            assert!(matches!(removed, Ok(()) | Err(ZplError::NotPermitted(_))), "{removed:?}");
            assert_eq!(zfs.lookup(dir, b"x").await.unwrap().object, roots, "root's file was removed");
        });
    }
}

#[test]
fn only_a_user_is_judged_and_by_every_handle_of_his() {
    run(async |_, zfs| {
        let root = Cred { uid: 0, gid: 0, umask: 0 };
        let object = zfs.create(zfs.root(), b"f", NewNode::File, 0o600, root).await.unwrap().object;
        let kernel = zfs.asked_by(Asker::Kernel);
        kernel.write(object, 0, b"x", WriteFlags::default()).await.unwrap();
        let his = zfs.asked_by(user());
        let written = his.write(object, 0, b"y", WriteFlags::default()).await;
        assert!(matches!(written, Err(ZplError::AccessDenied)), "{written:?}");
        assert!(his.check_access(object, Want::READ).await.is_err());
        let made = his.create(zfs.root(), b"g", NewNode::File, 0o600, CRED).await;
        assert!(matches!(made, Err(ZplError::AccessDenied)), "{made:?}");
        let set = SetAttributes { permissions: Some(0o666), ..SetAttributes::default() };
        kernel.set_attributes(object, set).await.unwrap();
        his.write(object, 0, b"y", WriteFlags::default()).await.unwrap();
    });
}

#[test]
fn a_kernel_that_keeps_what_is_written_keeps_the_times_of_files_too() {
    run(async |world, zfs| {
        let object = file(&zfs, zfs.root(), "f").await;
        zfs.write(object, 0, b"before", WriteFlags::default()).await.unwrap();
        let before = zfs.attributes(object).await.unwrap();
        world.env.sleep(Duration::from_secs(1)).await;
        let cache = zfs.asked_by(Asker::Cache);
        // Both within the file and beyond its end.
        cache.write(object, 0, b"within", WriteFlags::default()).await.unwrap();
        cache.write(object, 6, b" and behind", WriteFlags::default()).await.unwrap();
        cache.allocate_range(object, 0, 100, Allocate::Reserve { keep_size: false }).await.unwrap();
        let after = cache.attributes(object).await.unwrap();
        assert_eq!((after.size, after.mtime, after.ctime), (100, before.mtime, before.ctime));
        let [mtime, ctime] = [5, 6].map(|secs| Timestamp { secs, nanos: 7 });
        let set =
            SetAttributes { mtime: Some(SetTime::To(mtime)), ctime: Some(ctime), ..SetAttributes::default() };
        let set = cache.set_attributes(object, set).await.unwrap();
        assert_eq!((set.mtime, set.ctime), (mtime, ctime));
    });
}

#[test]
fn pages_of_what_is_append_only_come_with_what_stood_there_before() {
    run(async |_, zfs| {
        let object = file(&zfs, zfs.root(), "f").await;
        zfs.write(object, 0, b"log", WriteFlags::default()).await.unwrap();
        let flag = SetAttributes { set_flags: flags::APPENDONLY, ..SetAttributes::default() };
        zfs.set_attributes(object, flag).await.unwrap();
        let cache = zfs.asked_by(Asker::Cache);
        cache.write(object, 0, b"logbook", WriteFlags::default()).await.unwrap();
        cache.write(object, 3, b"book", WriteFlags::default()).await.unwrap();
        cache.write(object, 3, b"books", WriteFlags::default()).await.unwrap();
        let present = Timestamp { secs: 8, nanos: 0 };
        let to = |ctime| SetAttributes {
            mtime: Some(SetTime::To(present)),
            ctime: Some(ctime),
            ..SetAttributes::default()
        };
        cache.set_attributes(object, to(present)).await.unwrap();
        for refused in [
            cache.write(object, 0, b"lag", WriteFlags::default()).await.map(drop),
            cache.write(object, 0, b"logbroken", WriteFlags::default()).await.map(drop),
            zfs.write(object, 0, b"logbooks.", WriteFlags::default()).await.map(drop),
            cache.set_attributes(object, to(Timestamp { secs: 9, nanos: 0 })).await.map(drop),
        ] {
            assert!(matches!(refused, Err(ZplError::NotPermitted(_))), "{refused:?}");
        }
        assert_eq!(contents(&zfs, object).await, b"logbooks");
    });
}

#[test]
fn what_is_append_only_takes_more_bytes_and_nothing_else() {
    run(async |_, zfs| {
        let root = zfs.root();
        let object = file(&zfs, root, "f").await;
        zfs.write(object, 0, b"log", WriteFlags::default()).await.unwrap();
        let flag = SetAttributes { set_flags: flags::APPENDONLY, ..SetAttributes::default() };
        zfs.set_attributes(object, flag).await.unwrap();
        let append = WriteFlags { append: true, ..WriteFlags::default() };
        zfs.write(object, 0, b"more", append).await.unwrap();
        let (from, to) = (Place { dir: root, name: b"f" }, Place { dir: root, name: b"g" });
        let cut = SetAttributes { size: Some(0), ..SetAttributes::default() };
        let chmod = SetAttributes { permissions: Some(0o600), ..SetAttributes::default() };
        for refused in [
            zfs.unlink(root, b"f").await,
            zfs.rename(from, to, RenameMode::Replace).await,
            zfs.link(object, root, b"g").await.map(drop),
            zfs.set_attributes(object, cut).await.map(drop),
            zfs.set_attributes(object, chmod).await.map(drop),
            zfs.write(object, 0, b"x", WriteFlags::default()).await.map(drop),
        ] {
            assert!(matches!(refused, Err(ZplError::NotPermitted(_))), "{refused:?}");
        }
        let unflag = SetAttributes { clear_flags: flags::APPENDONLY, ..SetAttributes::default() };
        zfs.set_attributes(object, unflag).await.unwrap();
        zfs.unlink(root, b"f").await.unwrap();
    });
}
