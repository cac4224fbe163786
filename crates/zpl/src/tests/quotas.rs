//! Quotas of users, groups and projects.

use std::sync::Arc;

use units::ObjectId;

use super::basics::{CRED, file};
use super::world::{SPACE, World, run};
use crate::*;

const USER_SPACE: QuotaKind = (QuotaOf::User, QuotaFor::Space);
const USER_OBJECTS: QuotaKind = (QuotaOf::User, QuotaFor::Objects);
const GROUP_SPACE: QuotaKind = (QuotaOf::Group, QuotaFor::Space);
const PROJECT_SPACE: QuotaKind = (QuotaOf::Project, QuotaFor::Space);
const PIECE: usize = 100_000;

fn by(uid: u32, gid: u32) -> Cred {
    Cred { uid, gid, ..Cred::default() }
}

async fn made(zfs: &Zfs, name: &str, cred: Cred) -> Result<ObjectId> {
    let made = zfs.create(zfs.root(), name.as_bytes(), NewNode::File, 0o644, cred).await;
    made.map(|attributes| attributes.object)
}

/// Writes pieces that do not compress until one is refused; how many were not.
async fn fill(world: &World, zfs: &Zfs, file: ObjectId) -> usize {
    for count in 0..100_usize {
        let noise: Vec<u8> = (0..PIECE as u32 / 4)
            .flat_map(|n| (n ^ (count as u32) << 20).wrapping_mul(2_654_435_761).to_le_bytes())
            .collect();
        match zfs.write(file, (count * PIECE) as u64, &noise, WriteFlags::default()).await {
            Ok(_) => world.sync(zfs).await,
            Err(ZplError::QuotaExceeded) => return count,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("nothing stopped it");
}

fn refused<T>(result: Result<T>) -> bool {
    matches!(result, Err(ZplError::QuotaExceeded))
}

#[test]
fn who_has_used_up_his_quota_writes_no_more() {
    run(async |world: Arc<World>, zfs| {
        zfs.set_quota(USER_SPACE, 7, 1_000_000).await.unwrap();
        let file = made(&zfs, "f", by(7, 70)).await.unwrap();
        let count = fill(&world, &zfs, file).await;
        assert!((9..=11).contains(&count), "{count} pieces of {PIECE}");
        assert!(refused(made(&zfs, "g", by(7, 70)).await), "nothing new is made");
        let others = made(&zfs, "h", by(8, 70)).await.unwrap();
        let give = SetAttributes { uid: Some(7), ..Default::default() };
        assert!(refused(zfs.set_attributes(others, give).await), "nobody gives him anything");
        zfs.set_attributes(others, SetAttributes { gid: Some(71), ..Default::default() }).await.unwrap();
        // What he has he may make smaller, rename and remove.
        zfs.set_attributes(file, SetAttributes { size: Some(10), ..Default::default() }).await.unwrap();
        world.sync(&zfs).await;
        zfs.write(file, 0, b"again", WriteFlags::default()).await.unwrap();
    });
}

#[test]
fn groups_projects_and_objects_are_limited_too() {
    run(async |world: Arc<World>, zfs| {
        zfs.set_quota(GROUP_SPACE, 70, 500_000).await.unwrap();
        let file = made(&zfs, "f", by(7, 70)).await.unwrap();
        assert!((4..=6).contains(&fill(&world, &zfs, file).await));
        zfs.set_quota(GROUP_SPACE, 70, 0).await.unwrap();
        zfs.write(file, 0, b"nothing is in its way", WriteFlags::default()).await.unwrap();

        zfs.set_quota(PROJECT_SPACE, 5, 300_000).await.unwrap();
        let of_project = made(&zfs, "p", by(9, 90)).await.unwrap();
        let join = SetAttributes { project: Some(5), ..Default::default() };
        zfs.set_attributes(of_project, join).await.unwrap();
        assert!((2..=4).contains(&fill(&world, &zfs, of_project).await));

        zfs.set_quota(USER_OBJECTS, 11, 3).await.unwrap();
        for number in 0..3 {
            made(&zfs, &format!("o{number}"), by(11, 90)).await.unwrap();
            world.sync(&zfs).await;
        }
        assert!(refused(made(&zfs, "o3", by(11, 90)).await));
        zfs.unlink(zfs.root(), b"o0").await.unwrap();
        world.sync(&zfs).await;
        made(&zfs, "o3", by(11, 90)).await.unwrap();
    });
}

#[test]
fn quotas_are_found_again() {
    run(async |world: Arc<World>, zfs| {
        for (number, kind) in QUOTA_KINDS.into_iter().enumerate() {
            zfs.set_quota(kind, 0x1f, 1000 + number as u64).await.unwrap();
            zfs.set_quota(kind, 3, 1).await.unwrap();
            zfs.set_quota(kind, 3, 0).await.unwrap();
        }
        let zfs = world.remount(zfs).await;
        for (number, kind) in QUOTA_KINDS.into_iter().enumerate() {
            assert_eq!(zfs.quotas_of(kind), [(0x1f, 1000 + number as u64)]);
            assert_eq!(zfs.quota(kind, 3), None);
        }
    });
}

#[test]
fn what_was_promised_is_replayed_whatever_quotas_are() {
    run(async |world: Arc<World>, zfs| {
        zfs.set_quota(USER_OBJECTS, 7, 1).await.unwrap();
        let stable = WriteFlags { sync: true, ..WriteFlags::default() };
        let first = made(&zfs, "first", by(8, 70)).await.unwrap();
        zfs.write(first, 0, b"the log begins", stable).await.unwrap();
        world.sync(&zfs).await;
        for number in 0..5 {
            let file = made(&zfs, &format!("f{number}"), by(7, 70)).await.unwrap();
            zfs.write(file, 0, b"promised", stable).await.unwrap();
        }
        let (zfs, report) = world.crash(zfs).await;
        assert!(report.applied >= 5, "{report:?}");
        for number in 0..5 {
            zfs.lookup(zfs.root(), format!("f{number}").as_bytes()).await.unwrap();
        }
        world.sync(&zfs).await;
        assert!(refused(made(&zfs, "f5", by(7, 70)).await));
    });
}

#[test]
fn a_directory_hands_its_project_on_and_takes_nothing_of_another() {
    run(async |world: Arc<World>, zfs| {
        let root = zfs.root();
        let dir = zfs.create(root, b"dir", NewNode::Directory, 0o755, by(7, 70)).await.unwrap().object;
        let join =
            SetAttributes { project: Some(5), set_flags: flags::PROJINHERIT, ..SetAttributes::default() };
        zfs.set_attributes(dir, join).await.unwrap();
        let below = zfs.create(dir, b"below", NewNode::Directory, 0o755, by(8, 80)).await.unwrap();
        let file = zfs.create(below.object, b"f", NewNode::File, 0o644, by(8, 80)).await.unwrap();
        for made in [&below, &file] {
            assert_eq!((made.project, made.flags & flags::PROJINHERIT), (5, flags::PROJINHERIT));
        }
        zfs.write(file.object, 0, &[1; 5000], WriteFlags::default()).await.unwrap();
        let other = made(&zfs, "other", by(8, 80)).await.unwrap();
        world.sync(&zfs).await;
        let used = zfs.used_by_all(PROJECT_SPACE).await.unwrap();
        assert_eq!(used.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [0, 5]);
        assert_eq!(used[1].1, zfs.used_by(PROJECT_SPACE, 5).await.unwrap());
        let objects = zfs.used_by_all((QuotaOf::Project, QuotaFor::Objects)).await.unwrap();
        assert!(objects.contains(&(5, 3)), "{objects:?}");

        let outside = Place { dir: root, name: b"other" };
        let inside = Place { dir, name: b"other" };
        let moved = zfs.rename(outside, inside, RenameMode::Replace).await;
        assert!(matches!(moved, Err(ZplError::OtherProject)), "{moved:?}");
        let linked = zfs.link(other, dir, b"linked").await;
        assert!(matches!(linked, Err(ZplError::OtherProject)), "{linked:?}");
        // Of the same project it may come in, and hands that on, too, from then on.
        zfs.set_attributes(other, SetAttributes { project: Some(5), ..Default::default() }).await.unwrap();
        zfs.rename(outside, inside, RenameMode::Replace).await.unwrap();
        assert_eq!(zfs.attributes(other).await.unwrap().flags & flags::PROJINHERIT, flags::PROJINHERIT);
        // And out, into a directory that has no project to hand on.
        zfs.rename(inside, outside, RenameMode::Replace).await.unwrap();
        world.sync(&zfs).await;
        let os = zfs.objset();
        assert_eq!(os.accounts().await.unwrap(), os.recount().await.unwrap());
    });
}

#[test]
fn a_projects_quotas_are_the_space_of_its_directories() {
    run(async |world: Arc<World>, zfs| {
        let dir = zfs.create(zfs.root(), b"d", NewNode::Directory, 0o755, CRED).await.unwrap().object;
        let whole = zfs.space_at(dir).await.unwrap();
        assert_eq!((whole.free_bytes, whole.free_objects), (SPACE.available_bytes, None));
        let (bytes, objects) = ((QuotaOf::Project, QuotaFor::Space), (QuotaOf::Project, QuotaFor::Objects));
        zfs.set_quota(bytes, 5, 1 << 20).await.unwrap();
        let set =
            SetAttributes { project: Some(5), set_flags: flags::PROJINHERIT, ..SetAttributes::default() };
        zfs.set_attributes(dir, set).await.unwrap();
        let made = file(&zfs, dir, "f").await;
        zfs.write(made, 0, &[1; 300_000], WriteFlags::default()).await.unwrap();
        world.sync(&zfs).await;
        let used = zfs.used_by(bytes, 5).await.unwrap();
        assert!(used > 0);
        let seen = zfs.space_at(dir).await.unwrap();
        assert_eq!((seen.bytes, seen.free_bytes), (1 << 20, (1 << 20) - used));
        assert_eq!(seen.free_objects, None, "no quota of objects");
        zfs.set_quota(objects, 5, 10).await.unwrap();
        let seen = zfs.space_at(dir).await.unwrap();
        assert_eq!((seen.objects, seen.free_objects), (10, Some(8)));
        assert_eq!(zfs.space_at(zfs.root()).await.unwrap(), whole, "elsewhere nothing has changed");
        let refused = |length| zfs.allocate_range(made, 0, length, Allocate::Reserve { keep_size: true });
        assert!(matches!(refused(1 << 20).await, Err(ZplError::NoSpace)));
        zfs.set_quota(bytes, 5, 1000).await.unwrap();
        assert_eq!(zfs.space_at(dir).await.unwrap().free_bytes, 0, "more is used than may be");
    });
}
