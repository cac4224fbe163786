//! File systems of every version of the format, and upgrades.

use std::sync::Arc;

use ondisk::ObjectType;
use ondisk::znode::ZNODE_BYTES;

use super::basics::{CRED, contents, file, names};
use super::model::{Dice, Model};
use super::world::{World, run_of_version};
use crate::*;

const OLD: std::ops::Range<u64> = 1..ZPL_VERSION;

async fn bonus_type(zfs: &Zfs, object: units::ObjectId) -> ObjectType {
    zfs.objset().hold(object).await.unwrap().bonus_type()
}

#[test]
fn every_version_keeps_what_is_in_it_through_crashes_and_upgrades() {
    for version in 1..=ZPL_VERSION {
        for seed in 0..6 {
            run_of_version(version, ZfsOptions::default(), async |world: Arc<World>, zfs| {
                let (mut dice, mut zfs) = (Dice::new(seed * 10 + version), zfs);
                let mut model = Model::of_empty(&zfs).await;
                for _ in 0..150 {
                    model.step(&zfs, &mut dice).await;
                    match dice.below(40) {
                        0 => world.sync(&zfs).await,
                        1 => zfs = world.remount(zfs).await,
                        2 => {
                            zfs.sync().await.unwrap();
                            (zfs, _) = world.crash(zfs).await;
                            model.check(&zfs).await;
                        }
                        3 => zfs.upgrade((zfs.version() + 1).min(ZPL_VERSION)).await.unwrap(),
                        _ => {}
                    }
                }
                zfs.upgrade(ZPL_VERSION).await.unwrap();
                model.check(&zfs).await;
                zfs = world.remount(zfs).await;
                assert_eq!(zfs.version(), ZPL_VERSION);
                model.check(&zfs).await;
            });
        }
    }
}

#[test]
fn objects_and_names_have_the_form_of_the_version() {
    for version in 1..=ZPL_VERSION {
        let options = ZfsOptions { dnode_slots: 2, ..ZfsOptions::default() };
        run_of_version(version, options, async |_, zfs| {
            let object = file(&zfs, zfs.root(), "f").await;
            let dnode = zfs.objset().hold(object).await.unwrap();
            let (kind, bytes) = (dnode.bonus_type(), dnode.bonus().len());
            match version {
                ZPL_VERSION => assert_eq!(kind, ObjectType::SA),
                _ => assert_eq!((kind, bytes, dnode.slots()), (ObjectType::ZNODE, ZNODE_BYTES, 1)),
            }
            let root = dmu::zap::Zap::open(zfs.objset().hold(zfs.root()).await.unwrap()).await.unwrap();
            let word = root.lookup_u64(b"f").await.unwrap().unwrap();
            let of_kind = if version == 1 { 0 } else { 8 << 60 };
            assert_eq!(word, of_kind | object.get());
            let list = zfs.list(zfs.root(), 0, 10).await.unwrap();
            assert_eq!(list[2].kind, (version > 1).then_some(FileKind::File));
            assert_eq!(zfs.lookup(zfs.root(), b"f").await.unwrap().kind, FileKind::File);
        });
    }
}

#[test]
fn links_of_every_length_are_read_before_and_after_an_upgrade() {
    for version in OLD {
        run_of_version(version, ZfsOptions::default(), async |world: Arc<World>, zfs| {
            let lengths = [1, 55, 56, 57, 512, 513, 4095];
            for len in lengths {
                let (name, target) = (format!("{len:04}"), vec![b'x'; len]);
                let node = NewNode::Symlink(&target);
                zfs.create(zfs.root(), name.as_bytes(), node, 0o777, CRED).await.unwrap();
            }
            let check = async |zfs: &Zfs| {
                for (name, len) in names(zfs, zfs.root()).await.into_iter().skip(2).zip(lengths) {
                    let link = zfs.lookup(zfs.root(), name.as_bytes()).await.unwrap();
                    assert_eq!(zfs.readlink(link.object).await.unwrap(), vec![b'x'; len], "{version}: {len}");
                }
            };
            check(&zfs).await;
            let zfs = world.remount(zfs).await;
            check(&zfs).await;
            zfs.upgrade(ZPL_VERSION).await.unwrap();
            check(&zfs).await;
            let zfs = world.remount(zfs).await;
            check(&zfs).await;
        });
    }
}

/// A project is an attribute that old znodes have no place for.
#[test]
fn an_old_znode_that_gets_a_project_gets_system_attributes() {
    run_of_version(4, ZfsOptions::default(), async |world: Arc<World>, zfs| {
        let object = file(&zfs, zfs.root(), "f").await;
        zfs.write(object, 0, b"content", WriteFlags::default()).await.unwrap();
        zfs.set_xattr(object, b"user.x", b"y", XattrMode::Set).await.unwrap();
        let project = SetAttributes { project: Some(7), ..SetAttributes::default() };
        let refused = zfs.set_attributes(object, project).await;
        assert!(matches!(refused, Err(ZplError::Unsupported(_))), "{refused:?}");
        zfs.upgrade(5).await.unwrap();
        let before = zfs.attributes(object).await.unwrap();
        assert_eq!(bonus_type(&zfs, object).await, ObjectType::ZNODE);
        zfs.set_attributes(object, project).await.unwrap();
        assert_eq!(bonus_type(&zfs, object).await, ObjectType::SA);
        let zfs = world.remount(zfs).await;
        let after = zfs.attributes(object).await.unwrap();
        let flags = before.flags | crate::flags::PROJID;
        let (ctime, sectors) = (after.ctime, after.sectors);
        assert_eq!(after, Attributes { project: 7, flags, ctime, sectors, ..before });
        assert_eq!(contents(&zfs, object).await, b"content");
        assert_eq!(zfs.xattr(object, b"user.x").await.unwrap(), b"y");
        let objects = |of| zfs.used_by((of, QuotaFor::Objects), 7);
        // The attributes' directory and file belong to the project, too.
        assert_eq!(objects(QuotaOf::Project).await.unwrap(), 3);
    });
}

/// The mode of an old znode and its ACL say the same.
#[test]
fn a_new_mode_changes_the_acl_of_an_old_znode() {
    for version in OLD {
        run_of_version(version, ZfsOptions::default(), async |_, zfs| {
            let object = file(&zfs, zfs.root(), "f").await;
            for mode in [0o600, 0o077, 0o644] {
                let set = SetAttributes { permissions: Some(mode), ..SetAttributes::default() };
                zfs.set_attributes(object, set).await.unwrap();
                let bonus = zfs.objset().hold(object).await.unwrap().bonus();
                let acl = ondisk::znode::ZnodePhys::decode(&bonus).unwrap().acl;
                assert_eq!(acl.version.get(), u16::from(version >= 3));
                assert_eq!(acl.aces().unwrap().unwrap(), ondisk::acl::trivial(mode.into(), false));
            }
        });
    }
}

#[test]
fn what_is_logged_after_an_upgrade_is_replayed() {
    let options = ZfsOptions { log_xattrs: true, ..ZfsOptions::default() };
    run_of_version(4, options, async |world: Arc<World>, zfs| {
        let old = file(&zfs, zfs.root(), "old").await;
        // The first commit waits for the header of the log, which a txg writes.
        zfs.sync().await.unwrap();
        zfs.upgrade(5).await.unwrap();
        // Attributes of an old znode are files, which wait for their txg.
        zfs.set_xattr(old, b"user.x", b"y", XattrMode::Set).await.unwrap();
        world.sync(&zfs).await;
        let new = file(&zfs, zfs.root(), "new").await;
        zfs.set_xattr(new, b"user.x", b"y", XattrMode::Set).await.unwrap();
        zfs.sync().await.unwrap();
        let (zfs, report) = world.crash(zfs).await;
        assert_eq!(report.applied, 2, "{report:?}");
        for (name, kind) in [("old", ObjectType::ZNODE), ("new", ObjectType::SA)] {
            let object = zfs.lookup(zfs.root(), name.as_bytes()).await.unwrap().object;
            assert_eq!(zfs.xattr(object, b"user.x").await.unwrap(), b"y");
            assert_eq!(bonus_type(&zfs, object).await, kind, "{name}");
        }
    });
}

#[test]
fn no_version_is_older_than_before_and_old_ones_have_no_quotas() {
    run_of_version(3, ZfsOptions::default(), async |_, zfs| {
        let quota = async || zfs.set_quota((QuotaOf::User, QuotaFor::Space), 1, 1 << 20).await;
        assert!(matches!(quota().await, Err(ZplError::Unsupported(_))));
        for version in [2, 6] {
            assert!(matches!(zfs.upgrade(version).await, Err(ZplError::Invalid(_))), "{version}");
        }
        zfs.upgrade(4).await.unwrap();
        quota().await.unwrap();
    });
}
