//! Each operation once, and its errors.

use super::world::{World, run};
use crate::*;
use units::ObjectId;

pub(super) const CRED: Cred = Cred { uid: 1000, gid: 100, umask: 0o022 };

pub(super) async fn file(zfs: &Zfs, dir: ObjectId, name: &str) -> ObjectId {
    zfs.create(dir, name.as_bytes(), NewNode::File, 0o666, CRED).await.unwrap().object
}

pub(super) async fn contents(zfs: &Zfs, object: ObjectId) -> Vec<u8> {
    let size = zfs.attributes(object).await.unwrap().size as usize;
    let mut bytes = vec![0xee; size + 10];
    let read = zfs.read(object, 0, &mut bytes).await.unwrap();
    assert_eq!(read, size);
    bytes.truncate(read);
    bytes
}

pub(super) async fn names(zfs: &Zfs, dir: ObjectId) -> Vec<String> {
    let mut names: Vec<String> = zfs
        .list(dir, 0, usize::MAX >> 1)
        .await
        .unwrap()
        .into_iter()
        .map(|entry| String::from_utf8(entry.name).unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn what_is_created_is_found_with_its_attributes() {
    run(async |world: std::sync::Arc<World>, zfs| {
        let root = zfs.root();
        let dir = zfs.create(root, b"dir", NewNode::Directory, 0o777, CRED).await.unwrap();
        assert_eq!((dir.permissions, dir.links, dir.size, dir.kind), (0o755, 2, 2, FileKind::Directory));
        let made = zfs.create(dir.object, b"f", NewNode::File, 0o666, CRED).await.unwrap();
        assert_eq!((made.permissions, made.uid, made.gid, made.links, made.size), (0o644, 1000, 100, 1, 0));
        let device = DeviceNumber { major: 259, minor: 70000 };
        let made = zfs.create(root, b"blk", NewNode::BlockDevice(device), 0o600, CRED).await.unwrap();
        assert_eq!(made.device, device);
        let long = vec![b'x'; 3000];
        for (name, target) in [("short", b"../dir/f".as_slice()), ("long", &long)] {
            let made =
                zfs.create(root, name.as_bytes(), NewNode::Symlink(target), 0o777, CRED).await.unwrap();
            assert_eq!((made.size, made.permissions), (target.len() as u64, 0o777));
        }
        let zfs = world.remount(zfs).await;
        let found = zfs.lookup(root, b"dir").await.unwrap();
        assert_eq!(found.object, dir.object);
        assert_eq!((found.links, found.size), (2, 3));
        let f = zfs.lookup(found.object, b"f").await.unwrap();
        assert_eq!((f.permissions, f.uid), (0o644, 1000));
        assert_eq!(zfs.lookup(found.object, b"..").await.unwrap().object, root);
        assert_eq!(zfs.lookup(root, b"blk").await.unwrap().device, device);
        for (name, target) in [("short", b"../dir/f".as_slice()), ("long", &long)] {
            let link = zfs.lookup(root, name.as_bytes()).await.unwrap();
            assert_eq!(zfs.readlink(link.object).await.unwrap(), target);
        }
        assert_eq!(names(&zfs, root).await, [".", "..", "blk", "dir", "long", "short"]);
        assert_eq!(zfs.attributes(root).await.unwrap().links, 3);
        assert!(matches!(zfs.lookup(root, b"none").await, Err(ZplError::NotFound)));
        assert!(matches!(zfs.lookup(f.object, b"x").await, Err(ZplError::NotDirectory)));
        let again = zfs.create(root, b"dir", NewNode::File, 0, CRED).await;
        assert!(matches!(again, Err(ZplError::Exists)));
        let long_name = vec![b'n'; 256];
        let made = zfs.create(root, &long_name, NewNode::File, 0, CRED).await;
        assert!(matches!(made, Err(ZplError::NameTooLong)));
    });
}

#[test]
fn what_is_written_is_read_back() {
    run(async |world: std::sync::Arc<World>, zfs| {
        let object = file(&zfs, zfs.root(), "f").await;
        let plain = WriteFlags::default();
        zfs.write(object, 0, b"hello", plain).await.unwrap();
        assert_eq!(contents(&zfs, object).await, b"hello");
        assert_eq!(zfs.attributes(object).await.unwrap().block_bytes, 512);
        let mut expected = b"hello".to_vec();
        for (offset, len, fill) in [(3, 600, 1), (5000, 9000, 2), (130_000, 300_000, 3), (1_000_000, 7, 4)] {
            zfs.write(object, offset, &vec![fill; len], plain).await.unwrap();
            let end = offset as usize + len;
            expected.resize(expected.len().max(end), 0);
            expected[offset as usize..end].fill(fill);
            assert!(contents(&zfs, object).await == expected, "{offset} {len}");
        }
        assert_eq!(zfs.attributes(object).await.unwrap().block_bytes, 128 << 10);
        let at = zfs.write(object, 9, b"tail", WriteFlags { append: true, ..plain }).await.unwrap();
        assert_eq!(at, 1_000_007);
        expected.extend_from_slice(b"tail");
        let zfs = world.remount(zfs).await;
        assert!(contents(&zfs, object).await == expected);
        assert_eq!(zfs.seek(object, 1_000_011 - 1, SeekTo::Hole).await.unwrap(), 1_000_011);
        let past = zfs.write(object, i64::MAX as u64, b"x", plain).await;
        assert!(matches!(past, Err(ZplError::TooBig)));
        assert!(matches!(zfs.write(zfs.root(), 0, b"x", plain).await, Err(ZplError::IsDirectory)));
    });
}

#[test]
fn size_and_holes_change_as_asked() {
    run(async |world: std::sync::Arc<World>, zfs| {
        let object = file(&zfs, zfs.root(), "f").await;
        let mut expected = vec![7; 700_000];
        zfs.write(object, 0, &expected, WriteFlags::default()).await.unwrap();
        let resize = |size| SetAttributes { size: Some(size), ..SetAttributes::default() };
        for size in [500_001, 600_000, 100, 1_000_000] {
            assert_eq!(zfs.set_attributes(object, resize(size)).await.unwrap().size, size);
            expected.resize(size as usize, 0);
            assert!(contents(&zfs, object).await == expected, "{size}");
        }
        zfs.write(object, 0, &vec![9; 1_000_000], WriteFlags::default()).await.unwrap();
        expected.fill(9);
        zfs.allocate_range(object, 1000, 500_000, Allocate::PunchHole).await.unwrap();
        expected[1000..501_000].fill(0);
        zfs.allocate_range(object, 990_000, 100_000, Allocate::Zero { keep_size: false }).await.unwrap();
        expected.resize(1_090_000, 0);
        expected[990_000..].fill(0);
        zfs.allocate_range(object, 0, 2_000_000, Allocate::Reserve { keep_size: true }).await.unwrap();
        assert!(contents(&zfs, object).await == expected);
        zfs.allocate_range(object, 0, 2_000_000, Allocate::Reserve { keep_size: false }).await.unwrap();
        expected.resize(2_000_000, 0);
        let zfs = world.remount(zfs).await;
        assert!(contents(&zfs, object).await == expected);
        assert_eq!(zfs.seek(object, 0, SeekTo::Hole).await.unwrap(), 128 << 10);
        assert_eq!(zfs.seek(object, 128 << 10, SeekTo::Data).await.unwrap(), 384 << 10);
        assert!(matches!(zfs.seek(object, 1_500_000, SeekTo::Data).await, Err(ZplError::NoSuchOffset)));
        assert!(matches!(zfs.seek(object, 2_000_000, SeekTo::Hole).await, Err(ZplError::NoSuchOffset)));
    });
}

#[test]
fn attributes_change_and_drop_set_id_bits() {
    run(async |world: std::sync::Arc<World>, zfs| {
        let object = file(&zfs, zfs.root(), "f").await;
        let set = SetAttributes { permissions: Some(0o6755), ..SetAttributes::default() };
        assert_eq!(zfs.set_attributes(object, set).await.unwrap().permissions, 0o6755);
        let set = SetAttributes { uid: Some(5), ..SetAttributes::default() };
        let after = zfs.set_attributes(object, set).await.unwrap();
        assert_eq!((after.permissions, after.uid), (0o755, 5));
        // Five entries in its ACL: the attributes are laid out anew.
        let set = SetAttributes { permissions: Some(0o604), gid: Some(9), ..SetAttributes::default() };
        zfs.set_attributes(object, set).await.unwrap();
        let time = Timestamp { secs: -5, nanos: 123_456_789 };
        let set = SetAttributes { mtime: Some(SetTime::To(time)), ..SetAttributes::default() };
        zfs.set_attributes(object, set).await.unwrap();
        let set = SetAttributes { permissions: Some(0o4755), ..SetAttributes::default() };
        zfs.set_attributes(object, set).await.unwrap();
        zfs.write(object, 0, b"x", WriteFlags { drop_setid: true, ..WriteFlags::default() }).await.unwrap();
        let set = SetAttributes { mtime: Some(SetTime::To(time)), ..SetAttributes::default() };
        zfs.set_attributes(object, set).await.unwrap();
        let zfs = world.remount(zfs).await;
        let after = zfs.attributes(object).await.unwrap();
        assert_eq!((after.permissions, after.uid, after.gid, after.mtime), (0o755, 5, 9, time));
        let set = SetAttributes { size: Some(1), ..SetAttributes::default() };
        assert!(matches!(zfs.set_attributes(zfs.root(), set).await, Err(ZplError::IsDirectory)));
    });
}

#[test]
fn names_come_and_go() {
    run(async |world: std::sync::Arc<World>, zfs| {
        let root = zfs.root();
        let object = file(&zfs, root, "a").await;
        let dir = zfs.create(root, b"d", NewNode::Directory, 0o777, CRED).await.unwrap().object;
        assert_eq!(zfs.link(object, dir, b"b").await.unwrap().links, 2);
        assert!(matches!(zfs.link(dir, root, b"e").await, Err(ZplError::NotPermitted(_))));
        assert!(matches!(zfs.rmdir(root, b"d").await, Err(ZplError::NotEmpty)));
        assert!(matches!(zfs.unlink(root, b"d").await, Err(ZplError::IsDirectory)));
        assert!(matches!(zfs.rmdir(root, b"a").await, Err(ZplError::NotDirectory)));
        zfs.unlink(root, b"a").await.unwrap();
        let zfs = world.remount(zfs).await;
        assert_eq!(zfs.attributes(object).await.unwrap().links, 1);
        zfs.unlink(dir, b"b").await.unwrap();
        assert!(matches!(zfs.attributes(object).await, Err(ZplError::Stale { .. })));
        zfs.rmdir(root, b"d").await.unwrap();
        let zfs = world.remount(zfs).await;
        assert_eq!(names(&zfs, root).await, [".", ".."]);
        let after = zfs.attributes(root).await.unwrap();
        assert_eq!((after.links, after.size), (2, 2));
        assert!(matches!(zfs.attributes(object).await, Err(ZplError::Stale { .. })));
    });
}

#[test]
fn unlinked_open_files_live_until_the_last_close() {
    run(async |world: std::sync::Arc<World>, zfs| {
        let object = file(&zfs, zfs.root(), "f").await;
        zfs.open_object(object).await.unwrap();
        zfs.open_object(object).await.unwrap();
        zfs.write(object, 0, b"still here", WriteFlags::default()).await.unwrap();
        zfs.unlink(zfs.root(), b"f").await.unwrap();
        zfs.close(object).await.unwrap();
        assert_eq!(contents(&zfs, object).await, b"still here");
        assert_eq!(zfs.attributes(object).await.unwrap().links, 0);
        assert_eq!(zfs.queue.all().await.unwrap(), [object]);
        zfs.close(object).await.unwrap();
        assert!(matches!(zfs.attributes(object).await, Err(ZplError::Stale { .. })));
        assert_eq!(zfs.queue.all().await.unwrap(), []);
        let zfs = world.remount(zfs).await;
        assert!(matches!(zfs.attributes(object).await, Err(ZplError::Stale { .. })));
    });
}

#[test]
fn the_last_attributes_of_what_is_freed_are_reported() {
    run(async |_, zfs| {
        let freed = std::sync::Arc::new(parking_lot::Mutex::new(Vec::new()));
        let seen = std::sync::Arc::clone(&freed);
        zfs.on_freed(Box::new(move |last| seen.lock().push((last.object, last.links, last.size))));
        let (small, open) = (file(&zfs, zfs.root(), "small").await, file(&zfs, zfs.root(), "open").await);
        zfs.write(open, 0, b"12345", WriteFlags::default()).await.unwrap();
        zfs.link(small, zfs.root(), b"again").await.unwrap();
        zfs.open_object(open).await.unwrap();
        for name in ["small", "open"] {
            zfs.unlink(zfs.root(), name.as_bytes()).await.unwrap();
        }
        assert_eq!(*freed.lock(), [], "one has a name, and one is open");
        zfs.unlink(zfs.root(), b"again").await.unwrap();
        zfs.close(open).await.unwrap();
        assert_eq!(*freed.lock(), [(small, 0, 0), (open, 0, 5)]);
    });
}

#[test]
fn unlinked_open_files_are_freed_at_the_next_mount() {
    run(async |world: std::sync::Arc<World>, zfs| {
        let object = file(&zfs, zfs.root(), "f").await;
        zfs.open_object(object).await.unwrap();
        zfs.write(object, 0, &vec![1; 300_000], WriteFlags::default()).await.unwrap();
        zfs.unlink(zfs.root(), b"f").await.unwrap();
        world.sync(&zfs).await;
        let (zfs, _) = world.crash(zfs).await;
        assert!(matches!(zfs.attributes(object).await, Err(ZplError::Stale { .. })));
        assert_eq!(zfs.queue.all().await.unwrap(), []);
    });
}

#[test]
fn renames_move_replace_and_exchange() {
    run(async |world: std::sync::Arc<World>, zfs| {
        let root = zfs.root();
        let mut dirs = Vec::new();
        for name in ["d1", "d2"] {
            let made = zfs.create(root, name.as_bytes(), NewNode::Directory, 0o777, CRED).await.unwrap();
            dirs.push(made.object);
        }
        let [d1, d2] = dirs[..] else { unreachable!() };
        let (a, b) = (file(&zfs, d1, "a").await, file(&zfs, d2, "b").await);
        let at = |dir, name: &'static str| Place { dir, name: name.as_bytes() };
        let replace = RenameMode::Replace;
        zfs.rename(at(d1, "a"), at(d1, "a2"), replace).await.unwrap();
        let taken = zfs.rename(at(d1, "a2"), at(d2, "b"), RenameMode::NoReplace).await;
        assert!(matches!(taken, Err(ZplError::Exists)));
        zfs.rename(at(d1, "a2"), at(d2, "b"), RenameMode::Exchange).await.unwrap();
        assert_eq!(zfs.lookup(d1, b"a2").await.unwrap().object, b);
        assert_eq!(zfs.lookup(d2, b"b").await.unwrap().parent, d2);
        zfs.rename(at(d1, "a2"), at(d2, "b"), replace).await.unwrap();
        assert!(matches!(zfs.attributes(a).await, Err(ZplError::Stale { .. })), "a was replaced");
        assert_eq!(zfs.lookup(d2, b"b").await.unwrap().object, b);
        let sub = zfs.create(d1, b"sub", NewNode::Directory, 0o777, CRED).await.unwrap().object;
        zfs.rename(at(d1, "sub"), at(d2, "sub"), replace).await.unwrap();
        let links = [zfs.attributes(d1).await.unwrap().links, zfs.attributes(d2).await.unwrap().links];
        assert_eq!(links, [2, 3]);
        let into_itself = zfs.rename(at(root, "d2"), at(sub, "x"), replace).await;
        assert!(matches!(into_itself, Err(ZplError::Invalid(_))));
        let onto_parent = zfs.rename(at(d2, "b"), at(root, "d2"), replace).await;
        assert!(matches!(onto_parent, Err(ZplError::NotEmpty | ZplError::IsDirectory)));
        zfs.rename(at(root, "d1"), at(d2, "sub"), replace).await.unwrap();
        let zfs = world.remount(zfs).await;
        assert!(matches!(zfs.attributes(sub).await, Err(ZplError::Stale { .. })));
        assert_eq!(zfs.lookup(d2, b"sub").await.unwrap().object, d1);
        assert_eq!(zfs.attributes(root).await.unwrap().links, 3);
        assert_eq!(zfs.attributes(d2).await.unwrap().links, 3);
        assert_eq!(names(&zfs, root).await, [".", "..", "d2"]);
    });
}

#[test]
fn extended_attributes_fill_the_bonus_and_then_a_spill_block() {
    run(async |world: std::sync::Arc<World>, zfs| {
        let object = file(&zfs, zfs.root(), "f").await;
        let mode = XattrMode::Set;
        zfs.set_xattr(object, b"user.small", b"v1", mode).await.unwrap();
        let big: Vec<u8> = (0..20_000).map(|i| i as u8).collect();
        zfs.set_xattr(object, b"user.big", &big, mode).await.unwrap();
        zfs.set_xattr(object, b"user.empty", b"", mode).await.unwrap();
        let create = zfs.set_xattr(object, b"user.big", b"", XattrMode::Create).await;
        assert!(matches!(create, Err(ZplError::Exists)));
        let replace = zfs.set_xattr(object, b"user.none", b"", XattrMode::Replace).await;
        assert!(matches!(replace, Err(ZplError::NoAttribute)));
        let zfs = world.remount(zfs).await;
        assert_eq!(zfs.xattr(object, b"user.small").await.unwrap(), b"v1");
        assert!(zfs.xattr(object, b"user.big").await.unwrap() == big);
        let names = zfs.xattr_names(object).await.unwrap();
        assert_eq!(names, [b"user.small".to_vec(), b"user.big".to_vec(), b"user.empty".to_vec()]);
        zfs.remove_xattr(object, b"user.big").await.unwrap();
        assert!(matches!(zfs.remove_xattr(object, b"user.big").await, Err(ZplError::NoAttribute)));
        let zfs = world.remount(zfs).await;
        assert!(matches!(zfs.xattr(object, b"user.big").await, Err(ZplError::NoAttribute)));
        assert_eq!(zfs.xattr(object, b"user.empty").await.unwrap(), b"");
        let too_big = zfs.set_xattr(object, b"user.x", &vec![0; 70_000], mode).await;
        assert!(matches!(too_big, Err(ZplError::TooBig)));
    });
}

#[test]
fn listings_go_on_where_they_stopped() {
    run(async |_, zfs| {
        let root = zfs.root();
        for i in 0..300 {
            file(&zfs, root, &format!("file-{i}")).await;
        }
        let mut seen = Vec::new();
        let mut cookie = 0;
        loop {
            let part = zfs.list(root, cookie, 7).await.unwrap();
            let Some(last) = part.last() else { break };
            cookie = last.next;
            seen.extend(part.into_iter().map(|entry| String::from_utf8(entry.name).unwrap()));
            if seen.len() == 70 {
                zfs.unlink(root, b"file-5").await.unwrap_or_default();
                file(&zfs, root, "late").await;
            }
        }
        assert_eq!(&seen[..2], [".", ".."]);
        let lasting: Vec<String> = (0..300).filter(|i| *i != 5).map(|i| format!("file-{i}")).collect();
        for name in &lasting {
            assert_eq!(seen.iter().filter(|other| *other == name).count(), 1, "{name}");
        }
    });
}

#[test]
fn a_read_only_file_system_refuses_changes() {
    run(async |_, zfs| {
        let object = file(&zfs, zfs.root(), "f").await;
        zfs.set_options(ZfsOptions { read_only: true, ..zfs.options() });
        assert!(matches!(zfs.write(object, 0, b"x", WriteFlags::default()).await, Err(ZplError::ReadOnly)));
        assert!(matches!(zfs.unlink(zfs.root(), b"f").await, Err(ZplError::ReadOnly)));
        assert_eq!(contents(&zfs, object).await, b"");
    });
}
