//! Extended attributes in both homes, and POSIX ACLs.

use std::sync::Arc;

use env::Env;
use units::ObjectId;

use super::basics::{CRED, file};
use super::logged::prime;
use super::world::{World, run_with};
use crate::*;

pub(super) const SYSTEM: ZfsOptions = ZfsOptions {
    record_bytes: 128 << 10,
    atime: AtimePolicy::Relative,
    sync: SyncPolicy::Standard,
    log_bias: LogBias::Latency,
    immediate_write_bytes: IMMEDIATE_WRITE_BYTES,
    read_only: false,
    dnode_slots: 1,
    log_xattrs: true,
    clone_blocks: false,
    xattr: XattrPolicy::System,
    posix_acls: true,
    nfs4_acls: false,
};
pub(super) const DIRECTORY: ZfsOptions = ZfsOptions { xattr: XattrPolicy::Directory, ..SYSTEM };

pub(super) async fn set(zfs: &Zfs, object: ObjectId, name: &str, value: &[u8]) {
    zfs.set_xattr(object, name.as_bytes(), value, XattrMode::Set).await.unwrap();
}

pub(super) async fn get(zfs: &Zfs, object: ObjectId, name: &str) -> Vec<u8> {
    zfs.xattr(object, name.as_bytes()).await.unwrap()
}

async fn objects(world: &World, zfs: &Zfs) -> usize {
    world.sync(zfs).await;
    let (mut count, mut at) = (0, ObjectId::new(0));
    while let Some(object) = zfs.objset().next_object(at).await.unwrap() {
        (count, at) = (count + 1, object);
    }
    assert_eq!(zfs.objset().accounts().await.unwrap(), zfs.objset().recount().await.unwrap());
    count
}

#[test]
fn attributes_in_files_are_set_replaced_listed_and_go_with_their_object() {
    run_with(DIRECTORY, async |world: Arc<World>, zfs| {
        let object = file(&zfs, zfs.root(), "first").await;
        let before = objects(&world, &zfs).await;
        let big = vec![7; 60_000];
        set(&zfs, object, "user.small", b"v").await;
        set(&zfs, object, "user.with/slash", b"w").await;
        set(&zfs, object, "user.big", &big).await;
        set(&zfs, object, "user.small", b"shorter than before? no").await;
        set(&zfs, object, "user.small", b"yes").await;
        let found = zfs.set_xattr(object, b"user.big", b"", XattrMode::Create).await;
        assert!(matches!(found, Err(ZplError::Exists)));
        assert_eq!(objects(&world, &zfs).await, before + 4, "a directory and three files");
        let zfs = world.remount(zfs).await;
        let mut names = zfs.xattr_names(object).await.unwrap();
        names.sort();
        assert_eq!(names, [b"user.big".to_vec(), b"user.small".to_vec(), b"user.with/slash".to_vec()]);
        assert_eq!(get(&zfs, object, "user.big").await, big);
        assert_eq!(get(&zfs, object, "user.small").await, b"yes");
        zfs.remove_xattr(object, b"user.with/slash").await.unwrap();
        assert!(matches!(zfs.remove_xattr(object, b"user.none").await, Err(ZplError::NoAttribute)));
        assert!(matches!(zfs.xattr(object, b"user.with/slash").await, Err(ZplError::NoAttribute)));
        zfs.unlink(zfs.root(), b"first").await.unwrap();
        assert_eq!(objects(&world, &zfs).await, before - 1);
    });
}

#[test]
fn an_fsync_of_the_file_takes_its_attributes_along_wherever_they_are() {
    for options in [SYSTEM, DIRECTORY] {
        run_with(options, async |world: Arc<World>, zfs| {
            let object = file(&zfs, zfs.root(), "f").await;
            zfs.fsync(object, false).await.unwrap();
            set(&zfs, object, "user.a", b"one").await;
            set(&zfs, object, "user.big", &[9; 40_000]).await;
            set(&zfs, object, "user.a", b"two").await;
            set(&zfs, object, "user.gone", b"x").await;
            zfs.remove_xattr(object, b"user.gone").await.unwrap();
            zfs.fsync(object, false).await.unwrap();
            let (zfs, report) = world.crash(zfs).await;
            assert!(report.applied > 0);
            assert_eq!(get(&zfs, object, "user.a").await, b"two");
            assert_eq!(get(&zfs, object, "user.big").await, [9; 40_000]);
            assert_eq!(zfs.xattr_names(object).await.unwrap().len(), 2);
            objects(&world, &zfs).await;
        });
    }
}

#[test]
fn what_does_not_fit_a_system_attribute_becomes_a_file_and_comes_back() {
    run_with(SYSTEM, async |world: Arc<World>, zfs| {
        let object = file(&zfs, zfs.root(), "f").await;
        let before = objects(&world, &zfs).await;
        for i in 0..5 {
            set(&zfs, object, &format!("user.{i}"), &[i; 15_000]).await;
        }
        assert_eq!(objects(&world, &zfs).await, before + 2, "the fifth is more than 64 KiB together");
        set(&zfs, object, "user.0", &[8; 33_000]).await;
        assert_eq!(objects(&world, &zfs).await, before + 3);
        set(&zfs, object, "user.4", b"small").await;
        set(&zfs, object, "user.0", b"small").await;
        assert_eq!(objects(&world, &zfs).await, before + 1, "only the empty directory is left");
        let zfs = world.remount(zfs).await;
        assert_eq!(get(&zfs, object, "user.0").await, b"small");
        assert_eq!(get(&zfs, object, "user.3").await, [3; 15_000]);
        assert_eq!(zfs.xattr_names(object).await.unwrap().len(), 5);
    });
}

/// A small value, a value that is too long for a system attribute, and both again.
const VALUES: [&[u8]; 4] = [b"small", &[1; 40_000], b"other", &[2; 50_000]];

#[test]
fn an_attribute_that_changes_its_home_survives_a_crash_in_one_of_them() {
    for (moves, last) in VALUES.iter().enumerate().skip(1) {
        for synced in 0..=moves {
            run_with(SYSTEM, async |world: Arc<World>, zfs| {
                let object = file(&zfs, zfs.root(), "f").await;
                prime(&zfs).await;
                for (step, value) in VALUES.iter().enumerate().take(moves + 1) {
                    if step == synced {
                        world.sync(&zfs).await;
                    }
                    set(&zfs, object, "user.a", value).await;
                }
                zfs.fsync(object, false).await.unwrap();
                let (zfs, report) = world.crash(zfs).await;
                assert!(report.applied > 0, "it was logged");
                assert_eq!(get(&zfs, object, "user.a").await, *last, "{moves} moves, {synced} synced");
                assert_eq!(zfs.xattr_names(object).await.unwrap(), [b"user.a"]);
                zfs.remove_xattr(object, b"user.a").await.unwrap();
                zfs.fsync(object, false).await.unwrap();
                let (zfs, _) = world.crash(zfs).await;
                assert!(zfs.xattr_names(object).await.unwrap().is_empty(), "it stays removed");
            });
        }
    }
}

#[test]
fn an_attribute_that_changes_its_home_survives_a_commit_of_another_file() {
    for moves in 1..VALUES.len() {
        run_with(SYSTEM, async |world: Arc<World>, zfs| {
            let (object, other) = (file(&zfs, zfs.root(), "f").await, file(&zfs, zfs.root(), "other").await);
            prime(&zfs).await;
            set(&zfs, object, "user.a", VALUES[moves - 1]).await;
            world.sync(&zfs).await;
            // A record that only a commit of the file includes precedes the move, and another value
            // follows it.
            if VALUES[moves].len() > VALUES[0].len() {
                set(&zfs, object, "user.a", b"third").await;
            }
            set(&zfs, object, "user.a", VALUES[moves]).await;
            zfs.fsync(other, false).await.unwrap();
            let (zfs, _) = world.crash(zfs).await;
            assert_eq!(get(&zfs, object, "user.a").await, VALUES[moves], "the log has all of the move");
            set(&zfs, object, "user.b", b"more").await;
            zfs.fsync(object, false).await.unwrap();
            let (zfs, _) = world.crash(zfs).await;
            assert_eq!(get(&zfs, object, "user.a").await, VALUES[moves]);
        });
    }
}

/// Returns the length of a value with which the packed list of one attribute is `packed_bytes`
/// long, or the next possible length below.
fn value_for(packed_bytes: usize) -> usize {
    let packed = |len: usize| crate::xattr::packed_xattrs(&[(b"user.b", vec![0; len])]).unwrap().len();
    (0..=packed_bytes).rev().find(|&len| packed(len) <= packed_bytes).unwrap()
}

#[test]
fn a_list_of_attributes_is_as_long_as_its_length_can_say_and_no_longer() {
    run_with(SYSTEM, async |world: Arc<World>, zfs| {
        let first = vec![3; 32 << 10];
        let packed_first = crate::xattr::packed_xattrs(&[(b"user.a", first.clone())]).unwrap().len();
        let packed_none = crate::xattr::packed_xattrs(&[]).unwrap().len();
        let room = usize::from(u16::MAX) - (packed_first - packed_none);
        for (name, extra, in_file) in [("fits", 0, false), ("too-long", 1, true), ("longer", 4, true)] {
            let object = file(&zfs, zfs.root(), name).await;
            let before = objects(&world, &zfs).await;
            let second = vec![4; value_for(room) + extra];
            set(&zfs, object, "user.a", &first).await;
            set(&zfs, object, "user.b", &second).await;
            let found = objects(&world, &zfs).await;
            assert_eq!(found > before, in_file, "{name}");
            assert_eq!(get(&zfs, object, "user.a").await, first);
            assert_eq!(get(&zfs, object, "user.b").await, second);
        }
        let zfs = world.remount(zfs).await;
        for name in ["fits", "too-long", "longer"] {
            let object = zfs.lookup(zfs.root(), name.as_bytes()).await.unwrap().object;
            assert_eq!(get(&zfs, object, "user.a").await, first, "{name}");
        }
    });
}

/// Returns the number of objects that a user, a group and a project are charged for.
async fn charged(world: &World, zfs: &Zfs, id: u64) -> [u64; 3] {
    objects(world, zfs).await;
    let mut found = [0; 3];
    for (found, of) in found.iter_mut().zip([QuotaOf::User, QuotaOf::Group, QuotaOf::Project]) {
        *found = zfs.used_by((of, QuotaFor::Objects), id).await.unwrap();
    }
    found
}

#[test]
fn attributes_in_files_go_to_the_new_owner_of_their_object() {
    let changes = [
        SetAttributes { uid: Some(1234), ..SetAttributes::default() },
        SetAttributes { gid: Some(1234), ..SetAttributes::default() },
        SetAttributes { project: Some(1234), ..SetAttributes::default() },
    ];
    for (which, change) in changes.into_iter().enumerate() {
        for synced in [false, true] {
            run_with(DIRECTORY, async |world: Arc<World>, zfs| {
                let object = file(&zfs, zfs.root(), "f").await;
                set(&zfs, object, "user.a", &[1; 60_000]).await;
                set(&zfs, object, "user.b", b"small").await;
                prime(&zfs).await;
                let mut wanted = [0; 3];
                wanted[which] = 4;
                zfs.set_attributes(object, change).await.unwrap();
                let zfs = match synced {
                    true => world.remount(zfs).await,
                    false => {
                        zfs.fsync(object, false).await.unwrap();
                        world.crash(zfs).await.0
                    }
                };
                let found = charged(&world, &zfs, 1234).await;
                assert_eq!(found, wanted, "the object, its directory and two files ({which})");
                assert_eq!(get(&zfs, object, "user.a").await, [1; 60_000]);
                set(&zfs, object, "user.c", b"later").await;
                wanted[which] = if which == 2 { 4 } else { 5 };
                assert_eq!(charged(&world, &zfs, 1234).await[..2], wanted[..2], "what comes later, too");
            });
        }
    }
}

#[test]
fn many_attributes_in_files_go_to_a_new_owner() {
    run_with(DIRECTORY, async |world: Arc<World>, zfs| {
        let object = file(&zfs, zfs.root(), "f").await;
        for number in 0..600 {
            set(&zfs, object, &format!("user.{number}"), b"v").await;
        }
        let change =
            SetAttributes { uid: Some(7), gid: Some(8), project: Some(9), ..SetAttributes::default() };
        zfs.set_attributes(object, change).await.unwrap();
        for (id, which) in [(7, 0), (8, 1), (9, 2)] {
            assert_eq!(charged(&world, &zfs, id).await[which], 602);
        }
    });
}

#[test]
fn an_attribute_that_comes_or_goes_changes_the_time_of_its_object() {
    for options in [SYSTEM, DIRECTORY] {
        run_with(options, async |world: Arc<World>, zfs| {
            let object = file(&zfs, zfs.root(), "f").await;
            let later = async |before: Timestamp| {
                let now = zfs.attributes(object).await.unwrap();
                assert!(now.ctime > before, "{options:?}");
                world.env.sleep(std::time::Duration::from_millis(1)).await;
                now.ctime
            };
            world.env.sleep(std::time::Duration::from_millis(1)).await;
            let mut at = zfs.attributes(object).await.unwrap().ctime;
            for value in [b"first".as_slice(), b"second"] {
                world.env.sleep(std::time::Duration::from_millis(1)).await;
                set(&zfs, object, "user.a", value).await;
                at = later(at).await;
            }
            zfs.remove_xattr(object, b"user.a").await.unwrap();
            later(at).await;
        });
    }
}

#[test]
fn the_ctime_goes_forward_with_each_change_though_the_clock_is_behind() {
    run_with(SYSTEM, async |world: Arc<World>, zfs| {
        let object = file(&zfs, zfs.root(), "f").await;
        let ctime = async || zfs.attributes(object).await.unwrap().ctime;
        let change = async |set| {
            zfs.set_attributes(object, set).await.unwrap();
        };
        let kernel = async |ctime| change(SetAttributes { ctime: Some(ctime), ..Default::default() }).await;
        let mut last = Timestamp::from(world.env.wall_clock() + std::time::Duration::from_millis(15));
        kernel(last).await;
        for round in 0..20 {
            match round % 5 {
                0 => set(&zfs, object, "user.a", &[round]).await,
                1 => drop(zfs.write(object, 0, &[round], WriteFlags::default()).await.unwrap()),
                2 => change(SetAttributes { permissions: Some(round.into()), ..Default::default() }).await,
                3 => change(SetAttributes { size: Some(round.into()), ..Default::default() }).await,
                _ => drop(zfs.link(object, zfs.root(), &[b'l', round]).await.unwrap()),
            }
            let now = ctime().await;
            assert!(now > last, "{round}: {now:?} after {last:?}");
            last = now;
        }
        assert!(Timestamp::from(world.env.wall_clock()) < last, "the clock is behind");
        kernel(world.env.wall_clock().into()).await;
        assert_eq!(ctime().await, last, "the clock of a kernel is behind, too");
        kernel(last.next()).await;
        assert_eq!(ctime().await, last.next());
    });
}

#[test]
fn without_extended_attributes_none_can_be_set() {
    run_with(ZfsOptions { xattr: XattrPolicy::Off, ..SYSTEM }, async |_, zfs| {
        let object = file(&zfs, zfs.root(), "f").await;
        let set = zfs.set_xattr(object, b"user.a", b"b", XattrMode::Set).await;
        assert!(matches!(set, Err(ZplError::Unsupported(_))));
    });
}

const ACCESS: &str = "system.posix_acl_access";
pub(super) const DEFAULT: &str = "system.posix_acl_default";

/// Owner, user 1000, owning group, mask, others.
pub(super) fn acl(rights: [u16; 5]) -> Vec<u8> {
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for ((tag, id), rights) in [(1, !0), (2, 1000_u32), (4, !0), (16, !0), (32, !0)].into_iter().zip(rights) {
        bytes.extend((u64::from(id) << 32 | u64::from(rights) << 16 | tag).to_le_bytes());
    }
    bytes
}

fn minimal(rights: [u16; 3]) -> Vec<u8> {
    let full = acl([rights[0], 0, rights[1], 0, rights[2]]);
    [&full[..12], &full[20..28], &full[36..]].concat()
}

async fn permissions(zfs: &Zfs, object: ObjectId) -> u32 {
    zfs.attributes(object).await.unwrap().permissions
}

#[test]
fn an_access_acl_and_the_mode_say_the_same() {
    for options in [SYSTEM, DIRECTORY] {
        run_with(options, async |_, zfs| {
            let object = file(&zfs, zfs.root(), "f").await;
            set(&zfs, object, ACCESS, &acl([6, 7, 4, 6, 0])).await;
            assert_eq!(permissions(&zfs, object).await, 0o660);
            let chmod = SetAttributes { permissions: Some(0o4751), ..SetAttributes::default() };
            assert_eq!(zfs.set_attributes(object, chmod).await.unwrap().permissions, 0o4751);
            assert_eq!(get(&zfs, object, ACCESS).await, acl([7, 7, 4, 5, 1]));
            set(&zfs, object, ACCESS, &minimal([6, 4, 4])).await;
            assert_eq!(permissions(&zfs, object).await, 0o4644);
            assert!(matches!(zfs.xattr(object, ACCESS.as_bytes()).await, Err(ZplError::NoAttribute)));
            let bad = zfs.set_xattr(object, ACCESS.as_bytes(), b"nonsense", XattrMode::Set).await;
            assert!(matches!(bad, Err(ZplError::Invalid(_))));
            let of_file = zfs.set_xattr(object, DEFAULT.as_bytes(), &acl([7; 5]), XattrMode::Set).await;
            assert!(matches!(of_file, Err(ZplError::AccessDenied)));
        });
    }
}

#[test]
fn an_access_acl_by_somebody_outside_the_group_clears_set_group_id() {
    for options in [SYSTEM, DIRECTORY] {
        run_with(options, async |_, zfs| {
            let object = file(&zfs, zfs.root(), "f").await;
            let dir = zfs.create(zfs.root(), b"d", NewNode::Directory, 0o777, CRED).await.unwrap().object;
            let special = SetAttributes { permissions: Some(0o6755), ..SetAttributes::default() };
            for (object, value) in
                [(object, acl([7, 7, 5, 5, 5])), (object, minimal([7, 5, 5])), (dir, acl([7, 7, 5, 5, 5]))]
            {
                zfs.set_attributes(object, special).await.unwrap();
                set(&zfs, object, ACCESS, &value).await;
                assert_eq!(permissions(&zfs, object).await, 0o6755, "by a member of the group");
                zfs.set_acl_without_setgid(object, ACCESS.as_bytes(), &value).await.unwrap();
                assert_eq!(permissions(&zfs, object).await, 0o4755);
            }
            zfs.set_attributes(dir, special).await.unwrap();
            zfs.set_acl_without_setgid(dir, DEFAULT.as_bytes(), &acl([7; 5])).await.unwrap();
            assert_eq!(permissions(&zfs, dir).await, 0o6755, "a default ACL leaves the mode alone");
            let other = zfs.set_acl_without_setgid(object, b"user.a", b"v").await;
            assert!(matches!(other, Err(ZplError::Invalid(_))));
        });
    }
}

#[test]
fn default_acls_are_handed_on_in_place_of_the_umask_and_survive_a_crash() {
    for options in [SYSTEM, DIRECTORY, ZfsOptions { log_xattrs: false, ..SYSTEM }] {
        run_with(options, async |world: Arc<World>, zfs| {
            let cred = Cred { umask: 0o077, ..CRED };
            zfs.sync().await.unwrap();
            let dir = zfs.create(zfs.root(), b"d", NewNode::Directory, 0o755, CRED).await.unwrap().object;
            set(&zfs, dir, DEFAULT, &acl([7, 7, 5, 7, 0])).await;
            assert_eq!(permissions(&zfs, dir).await, 0o755, "the default is for others");
            let f = zfs.create(dir, b"f", NewNode::File, 0o664, cred).await.unwrap();
            let sub = zfs.create(dir, b"sub", NewNode::Directory, 0o777, cred).await.unwrap();
            assert_eq!((f.permissions, sub.permissions), (0o660, 0o770));
            zfs.fsync(f.object, false).await.unwrap();
            let (zfs, _) = world.crash(zfs).await;
            assert_eq!(get(&zfs, f.object, ACCESS).await, acl([6, 7, 5, 6, 0]));
            assert!(matches!(zfs.xattr(f.object, DEFAULT.as_bytes()).await, Err(ZplError::NoAttribute)));
            assert_eq!(get(&zfs, sub.object, ACCESS).await, acl([7, 7, 5, 7, 0]));
            assert_eq!(get(&zfs, sub.object, DEFAULT).await, acl([7, 7, 5, 7, 0]));
            assert_eq!(permissions(&zfs, f.object).await, 0o660);
            set(&zfs, dir, DEFAULT, &minimal([7, 5, 5])).await;
            let g = zfs.create(dir, b"g", NewNode::File, 0o666, cred).await.unwrap();
            assert_eq!(g.permissions, 0o644);
            assert!(zfs.xattr_names(g.object).await.unwrap().is_empty());
        });
    }
}
