//! Many tasks at once, interleaved as the seed draws it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use env::Env;
use futures::channel::oneshot;
use futures::future::join_all;
use units::ObjectId;

use super::basics::{CRED, contents, file};
use super::model::Dice;
use super::world::{World, run_seeded};
use crate::*;

/// Runs futures as tasks of the world, in whatever order it likes.
async fn all<F>(world: &World, clients: impl IntoIterator<Item = F>)
where
    F: Future<Output = ()> + Send + 'static,
{
    let done = clients.into_iter().map(|client| {
        let (sender, receiver) = oneshot::channel();
        let task = async move {
            client.await;
            let _ = sender.send(());
        };
        world.env.spawn("client", Box::pin(task));
        receiver
    });
    for one in join_all(done).await {
        one.expect("a client ends");
    }
}

/// Walks the tree and compares every count with what is there: links, sizes, parents, types;
/// and no object is out of reach.
async fn check_tree(zfs: &Zfs) {
    let mut links: BTreeMap<ObjectId, u32> = BTreeMap::new();
    let mut seen = BTreeSet::from([zfs.root()]);
    let mut todo = vec![zfs.root()];
    while let Some(dir) = todo.pop() {
        let mut subdirs = 0;
        let list = zfs.list(dir, 0, 1 << 20).await.unwrap();
        for entry in &list[2..] {
            let of = zfs.lookup(dir, &entry.name).await.unwrap();
            assert_eq!((Some(of.kind), of.object), (entry.kind, entry.object));
            *links.entry(of.object).or_default() += 1;
            if of.kind == FileKind::Directory {
                subdirs += 1;
                assert!(seen.insert(of.object), "directory {} has two names", of.object);
                assert_eq!(of.parent, dir);
                todo.push(of.object);
            }
            seen.insert(of.object);
        }
        let of = zfs.attributes(dir).await.unwrap();
        assert_eq!((of.size, of.links), (list.len() as u64, subdirs + 2), "directory {dir}");
    }
    for (&object, &count) in &links {
        let of = zfs.attributes(object).await.unwrap();
        assert!(of.kind == FileKind::Directory || of.links == count, "links of {object}");
    }
    let mut at = ObjectId::new(0);
    while let Some(next) = zfs.objset().next_object(at).await.unwrap() {
        at = next;
        let Ok(dnode) = zfs.objset().hold(at).await else { continue };
        let is_node = dnode.bonus_type() == ondisk::ObjectType::SA;
        assert!(!is_node || seen.contains(&at), "object {at} is out of reach");
    }
}

#[test]
fn writers_of_neighbouring_bytes_lose_nothing() {
    for seed in 0..30 {
        run_seeded(seed, ZfsOptions::default(), async |world: Arc<World>, zfs| {
            let object = file(&zfs, zfs.root(), "f").await;
            // Within one block, over several blocks, and beyond the end.
            let slots: u64 = 24;
            let slot_bytes = 20_000;
            zfs.write(object, 0, &vec![0; 300_000], WriteFlags::default()).await.unwrap();
            let writers = (0..slots).map(|slot| {
                let (zfs, world) = (Arc::clone(&zfs), Arc::clone(&world));
                async move {
                    let mut dice = Dice::new(seed * 1000 + slot);
                    for round in 1..6 {
                        let bytes = vec![(slot * 7 + round) as u8; slot_bytes];
                        let how = WriteFlags { sync: dice.below(4) == 0, ..WriteFlags::default() };
                        zfs.write(object, slot * slot_bytes as u64, &bytes, how).await.unwrap();
                        if dice.below(3) == 0 {
                            world.sync(&zfs).await;
                        }
                    }
                }
            });
            all(&world, writers).await;
            let expected: Vec<u8> =
                (0..slots).flat_map(|slot| vec![(slot * 7 + 5) as u8; slot_bytes]).collect();
            assert!(contents(&zfs, object).await == expected);
            zfs.fsync(object, false).await.unwrap();
            let (zfs, _) = world.crash(zfs).await;
            assert!(contents(&zfs, object).await == expected, "after a crash");
        });
    }
}

#[test]
fn overlapping_writes_are_never_mixed() {
    for seed in 0..20 {
        run_seeded(seed, ZfsOptions::default(), async |world: Arc<World>, zfs| {
            let object = file(&zfs, zfs.root(), "f").await;
            let len = 400_000;
            zfs.write(object, 0, &vec![0; len], WriteFlags::default()).await.unwrap();
            let clients = (1..16u8).map(|task| {
                let zfs = Arc::clone(&zfs);
                async move {
                    if task % 2 == 0 {
                        zfs.write(object, 0, &vec![task; len], WriteFlags::default()).await.unwrap();
                    } else {
                        let bytes = contents(&zfs, object).await;
                        assert!(bytes.iter().all(|&byte| byte == bytes[0]), "a mixture was read");
                    }
                }
            });
            all(&world, clients).await;
        });
    }
}

#[test]
fn a_directory_never_becomes_its_own_descendant() {
    for seed in 0..40 {
        run_seeded(seed, ZfsOptions::default(), async |world: Arc<World>, zfs| {
            let mut dirs = vec![zfs.root()];
            for i in 0..6 {
                let parent = dirs[i / 2];
                let name = format!("d{i}");
                let made =
                    zfs.create(parent, name.as_bytes(), NewNode::Directory, 0o777, CRED).await.unwrap();
                dirs.push(made.object);
            }
            let movers = (0..6).map(|task| {
                let (zfs, dirs) = (Arc::clone(&zfs), dirs.clone());
                async move {
                    let mut dice = Dice::new(seed * 100 + task);
                    for _ in 0..30 {
                        let mut dir = || dirs[dice.below(dirs.len() as u64) as usize];
                        let (from, to) = (dir(), dir());
                        let (old, new) = (format!("d{}", dice.below(6)), format!("d{}", dice.below(6)));
                        let mode =
                            if dice.below(2) == 0 { RenameMode::Replace } else { RenameMode::Exchange };
                        let from = Place { dir: from, name: old.as_bytes() };
                        let to = Place { dir: to, name: new.as_bytes() };
                        // Most make no sense; none may do harm.
                        let _ = zfs.rename(from, to, mode).await;
                    }
                }
            });
            all(&world, movers).await;
            check_tree(&zfs).await;
            zfs.sync().await.unwrap();
            let (zfs, _) = world.crash(zfs).await;
            check_tree(&zfs).await;
        });
    }
}

#[test]
fn many_tasks_leave_a_sound_tree_and_so_does_their_log() {
    for seed in 0..25 {
        run_seeded(seed, ZfsOptions::default(), async |world: Arc<World>, zfs| {
            let root = zfs.root();
            let sub = zfs.create(root, b"sub", NewNode::Directory, 0o777, CRED).await.unwrap().object;
            let tasks = (0..8).map(|task| {
                let zfs = Arc::clone(&zfs);
                async move {
                    let mut dice = Dice::new(seed * 100 + task);
                    for _ in 0..40 {
                        let dir = if dice.below(2) == 0 { root } else { sub };
                        let name = format!("n{}", dice.below(5)).into_bytes();
                        one_of_many(&zfs, &mut dice, dir, &name).await;
                    }
                }
            });
            all(&world, tasks).await;
            check_tree(&zfs).await;
            zfs.sync().await.unwrap();
            let listed = zfs.list(root, 0, 1000).await.unwrap();
            let (zfs, _) = world.crash(zfs).await;
            check_tree(&zfs).await;
            assert_eq!(zfs.list(root, 0, 1000).await.unwrap(), listed);
        });
    }
}

#[test]
fn a_crash_at_any_time_leaves_a_sound_tree() {
    let mut replayed = 0;
    for seed in 0..120 {
        let replayed = &mut replayed;
        run_seeded(seed, ZfsOptions::default(), async |world: Arc<World>, zfs| {
            let root = zfs.root();
            let sub = zfs.create(root, b"sub", NewNode::Directory, 0o777, CRED).await.unwrap().object;
            for task in 0..6 {
                let zfs = Arc::clone(&zfs);
                let client = async move {
                    let mut dice = Dice::new(seed * 100 + task);
                    loop {
                        let dir = if dice.below(2) == 0 { root } else { sub };
                        let name = format!("n{}", dice.below(5)).into_bytes();
                        one_of_many(&zfs, &mut dice, dir, &name).await;
                    }
                };
                world.env.spawn("client", Box::pin(client));
            }
            let mut dice = Dice::new(seed);
            let mut zfs = zfs;
            for _ in 0..3 {
                world.env.sleep(Duration::from_micros(dice.below(4_000))).await;
                let report;
                (zfs, report) = world.crash(zfs).await;
                *replayed += report.applied;
                check_tree(&zfs).await;
            }
        });
    }
    assert!(replayed > 500, "only {replayed} records were replayed");
}

const DEVICE: DeviceNumber = DeviceNumber { major: 1, minor: 3 };

async fn one_of_many(zfs: &Zfs, dice: &mut Dice, dir: ObjectId, name: &[u8]) {
    let found = zfs.lookup(dir, name).await.ok();
    let done = match (dice.below(10), found) {
        (0 | 1, _) => {
            let nodes = [
                NewNode::File,
                NewNode::File,
                NewNode::Symlink(b"x"),
                NewNode::Fifo,
                NewNode::CharDevice(DEVICE),
            ];
            let node = nodes[dice.below(5) as usize];
            zfs.create(dir, name, node, 0o644, CRED).await.map(drop)
        }
        (8, Some(of)) => {
            let value = vec![3; dice.below(900) as usize];
            zfs.set_xattr(of.object, b"user.x", &value, XattrMode::Set).await
        }
        (2, _) => zfs.unlink(dir, name).await,
        (3, Some(of)) => zfs.link(of.object, dir, format!("l{}", dice.below(5)).as_bytes()).await.map(drop),
        (4, Some(of)) if zfs.open_object(of.object).await.is_ok() => {
            let how = WriteFlags { append: true, sync: dice.below(2) == 0, drop_setid: false };
            let written = match of.kind {
                FileKind::File => zfs.write(of.object, 0, &[7; 700], how).await.map(drop),
                _ => Ok(()),
            };
            zfs.close(of.object).await.unwrap();
            written
        }
        (5, Some(of)) => zfs.fsync(of.object, true).await,
        (6, Some(of)) => {
            let set = SetAttributes { permissions: Some(0o600), ..SetAttributes::default() };
            zfs.set_attributes(of.object, set).await.map(drop)
        }
        _ => {
            let to = format!("n{}", dice.below(5));
            let to = Place { dir: zfs.root(), name: to.as_bytes() };
            zfs.rename(Place { dir, name }, to, RenameMode::Replace).await
        }
    };
    match done {
        Ok(())
        | Err(
            ZplError::Exists
            | ZplError::NotFound
            | ZplError::Stale { .. }
            | ZplError::IsDirectory
            | ZplError::NotDirectory
            | ZplError::NotEmpty
            | ZplError::NotPermitted(_),
        ) => {}
        Err(error) => panic!("{error}"),
    }
}
