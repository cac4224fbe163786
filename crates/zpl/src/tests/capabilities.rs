//! File capabilities, which go before contents or owners change.

use std::sync::Arc;

use units::ObjectId;

use super::basics::file;
use super::logged::prime;
use super::world::{World, run_with};
use super::xattrs::{DIRECTORY, SYSTEM, get, set};
use crate::*;

const NAME: &str = "security.capability";
const VALUE: &[u8] = &[1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const SYNC: WriteFlags = WriteFlags { append: false, sync: true, drop_setid: false };
const WITHOUT_RECORDS: ZfsOptions = ZfsOptions { log_xattrs: false, ..SYSTEM };

async fn is_capable(zfs: &Zfs, object: ObjectId) -> bool {
    match zfs.xattr(object, NAME.as_bytes()).await {
        Ok(value) => value == VALUE,
        Err(ZplError::NoAttribute) => false,
        Err(error) => panic!("{error}"),
    }
}

async fn contents(zfs: &Zfs, object: ObjectId) -> Vec<u8> {
    let mut bytes = vec![0; 16];
    let len = zfs.read(object, 0, &mut bytes).await.unwrap();
    bytes[..len].to_vec()
}

#[test]
fn capabilities_are_dropped_wherever_they_are_and_other_attributes_stay() {
    for (options, other) in [(SYSTEM, DIRECTORY), (DIRECTORY, SYSTEM)] {
        run_with(options, async |world: Arc<World>, zfs| {
            let object = file(&zfs, zfs.root(), "f").await;
            let before = zfs.attributes(object).await.unwrap();
            zfs.drop_capability(object).await.unwrap();
            assert_eq!(zfs.attributes(object).await.unwrap(), before, "there is nothing to drop");
            set(&zfs, object, "user.a", b"stays").await;
            zfs.drop_capability(object).await.unwrap();
            // Set again after it was noted that there are none; the second time in the other home.
            for options in [options, other] {
                zfs.set_options(options);
                set(&zfs, object, NAME, VALUE).await;
                assert!(is_capable(&zfs, object).await);
                zfs.drop_capability(object).await.unwrap();
                assert!(!is_capable(&zfs, object).await);
            }
            assert_eq!(get(&zfs, object, "user.a").await, b"stays");
            set(&zfs, object, NAME, VALUE).await;
            let zfs = world.remount(zfs).await;
            assert!(is_capable(&zfs, object).await);
            zfs.drop_capability(object).await.unwrap();
            let zfs = world.remount(zfs).await;
            assert!(!is_capable(&zfs, object).await);
            assert_eq!(get(&zfs, object, "user.a").await, b"stays");
        });
    }
}

#[test]
fn capabilities_of_an_immutable_file_stay_as_its_contents_do() {
    run_with(SYSTEM, async |_, zfs| {
        let object = file(&zfs, zfs.root(), "f").await;
        set(&zfs, object, NAME, VALUE).await;
        let set = SetAttributes { set_flags: flags::IMMUTABLE, ..SetAttributes::default() };
        zfs.set_attributes(object, set).await.unwrap();
        let refused = zfs.drop_capability(object).await;
        assert!(matches!(refused, Err(ZplError::NotPermitted(_))), "{refused:?}");
        assert!(is_capable(&zfs, object).await);
    });
}

#[test]
fn no_crash_brings_capabilities_back_beside_new_contents() {
    for options in [SYSTEM, DIRECTORY, WITHOUT_RECORDS] {
        // What follows the write: nothing; a commit of another file; a commit of the file.
        for step in 0..3 {
            run_with(options, async |world: Arc<World>, zfs| {
                let (object, other) =
                    (file(&zfs, zfs.root(), "f").await, file(&zfs, zfs.root(), "other").await);
                prime(&zfs).await;
                zfs.write(object, 0, b"old", SYNC).await.unwrap();
                set(&zfs, object, NAME, VALUE).await;
                world.sync(&zfs).await;
                zfs.drop_capability(object).await.unwrap();
                zfs.write(object, 0, b"new", WriteFlags { sync: step == 2, ..SYNC }).await.unwrap();
                if step == 1 {
                    zfs.fsync(other, false).await.unwrap();
                }
                let (zfs, _) = world.crash(zfs).await;
                let (is_new, is_capable) =
                    (contents(&zfs, object).await == b"new", is_capable(&zfs, object).await);
                assert!(!(is_new && is_capable), "step {step}: {options:?}");
                assert_eq!(is_new, step == 2, "step {step}: {options:?}");
            });
        }
    }
}
