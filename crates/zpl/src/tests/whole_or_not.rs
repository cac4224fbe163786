//! Every operation with a read error at each of its reads, and dropped at each of its awaits: it has happened whole,
//! or not at all, for whoever looks at once and for whoever reads the disk after the next sync.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use env::{BoxFuture, FaultOp};
use futures::poll;
use units::ObjectId;

use super::basics::{CRED, file};
use super::world::{World, run_with};
use super::xattrs::{DEFAULT, acl};
use crate::*;

/// Files of this many bytes have three blocks.
const BIG_BYTES: usize = 300_000;
/// Entries of a directory that is a fat ZAP of some leaves.
const MANY: usize = 400;
/// Blocks that are kept while somebody looks.
const KEPT_BYTES: u64 = 16 << 20;

/// What the operations are done to.
#[derive(Clone, Copy)]
struct Tree {
    root: ObjectId,
    /// A directory of few entries: `a` to `h`, one block.
    few: ObjectId,
    /// One of many: `00000` and on.
    many: ObjectId,
    /// `few/a`, of three blocks.
    big: ObjectId,
    /// `few/b`, of 100 bytes, with a further name, `few/c`.
    twice: ObjectId,
    /// `few/d`, of 100 bytes.
    small: ObjectId,
    /// `few/e`, with extended attributes in a hidden directory.
    rich: ObjectId,
    /// An empty directory with a default ACL.
    strict: ObjectId,
}

async fn grow(world: &Arc<World>, zfs: &Arc<Zfs>) -> Tree {
    let root = zfs.root();
    let few = zfs.create(root, b"few", NewNode::Directory, 0o755, CRED).await.unwrap().object;
    let many = zfs.create(root, b"many", NewNode::Directory, 0o755, CRED).await.unwrap().object;
    let big = file(zfs, few, "a").await;
    zfs.write(big, 0, &noise(BIG_BYTES), WriteFlags::default()).await.unwrap();
    let twice = file(zfs, few, "b").await;
    zfs.write(twice, 0, &[2; 100], WriteFlags::default()).await.unwrap();
    zfs.link(twice, few, b"c").await.unwrap();
    let small = file(zfs, few, "d").await;
    zfs.write(small, 0, &[4; 100], WriteFlags::default()).await.unwrap();
    let rich = file(zfs, few, "e").await;
    zfs.set_xattr(rich, b"user.long", &noise(40_000), XattrMode::Set).await.unwrap();
    zfs.set_xattr(rich, b"user.short", b"value", XattrMode::Set).await.unwrap();
    zfs.create(few, b"f", NewNode::Directory, 0o700, CRED).await.unwrap();
    zfs.create(few, b"g", NewNode::Symlink(b"a"), 0o777, CRED).await.unwrap();
    file(zfs, few, "h").await;
    for number in 0..MANY {
        let name = format!("{number:05} and what makes the name longer than a micro ZAP takes");
        file(zfs, many, &name).await;
    }
    let strict = zfs.create(root, b"strict", NewNode::Directory, 0o755, CRED).await.unwrap().object;
    zfs.set_xattr(strict, DEFAULT.as_bytes(), &acl([7, 5, 5, 7, 0]), XattrMode::Set).await.unwrap();
    world.sync(zfs).await;
    Tree { root, few, many, big, twice, small, rich, strict }
}

fn noise(len: usize) -> Vec<u8> {
    let mut word = 88_172_645_463_325_252_u64;
    let next = std::iter::repeat_with(|| {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        word as u8
    });
    next.take(len).collect()
}

/// All that can be seen of a file system, by path; with or without what the clock has to do with.
async fn look(zfs: &Zfs, timeless: bool) -> BTreeMap<String, String> {
    let mut seen = BTreeMap::new();
    let mut dirs = vec![(String::new(), zfs.root())];
    while let Some((path, dir)) = dirs.pop() {
        for entry in zfs.list(dir, 0, usize::MAX >> 1).await.unwrap() {
            let name = String::from_utf8_lossy(&entry.name).into_owned();
            if name == "." || name == ".." {
                continue;
            }
            let path = format!("{path}/{name}");
            let of = zfs.lookup(dir, &entry.name).await.unwrap();
            assert_eq!(of.object, entry.object);
            seen.insert(path.clone(), describe(zfs, &of, timeless).await);
            if of.kind == FileKind::Directory {
                dirs.push((path, of.object));
            }
        }
        let of = zfs.attributes(dir).await.unwrap();
        seen.insert(format!("{path}/"), describe(zfs, &of, timeless).await);
    }
    seen
}

async fn describe(zfs: &Zfs, of: &Attributes, timeless: bool) -> String {
    let contents = match of.kind {
        FileKind::File => {
            let mut bytes = vec![0; of.size as usize];
            zfs.read(of.object, 0, &mut bytes).await.unwrap();
            sum(&bytes)
        }
        FileKind::Symlink => sum(&zfs.readlink(of.object).await.unwrap()),
        _ => 0,
    };
    let mut xattrs = BTreeMap::new();
    for name in zfs.xattr_names(of.object).await.unwrap() {
        let value = zfs.xattr(of.object, &name).await.unwrap();
        xattrs.insert(String::from_utf8(name).unwrap(), sum(&value));
    }
    let Attributes { kind, permissions, uid, gid, size, links, device, flags, project, .. } = of;
    let times = if timeless { None } else { Some((of.object, of.generation, of.mtime, of.ctime, of.crtime)) };
    format!(
        "{kind:?} {permissions:o} {uid} {gid} {size} {links} {device:?} {flags:x} {project} \
         {contents:x} {xattrs:?} {times:?}"
    )
}

/// A sum of some bytes.
fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(bytes.len() as u64, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// How many objects there are on disk, with a name or without.
async fn objects(world: &World, zfs: &Zfs) -> usize {
    world.sync(zfs).await;
    let (mut count, mut at) = (0, ObjectId::new(0));
    while let Some(next) = zfs.objset().next_object(at).await.unwrap() {
        (count, at) = (count + 1, next);
    }
    count
}

type Operation = for<'a> fn(&'a Zfs, Tree) -> BoxFuture<'a, Result<()>>;

/// How often each operation was made to fail, and was dropped.
#[derive(Default)]
struct Tried {
    failed: usize,
    dropped: usize,
}

fn options() -> ZfsOptions {
    ZfsOptions { atime: AtimePolicy::Off, posix_acls: true, ..ZfsOptions::default() }
}

/// Does the operation undisturbed: what that leaves.
fn undisturbed(work: Operation) -> (BTreeMap<String, String>, usize) {
    let mut after = None;
    run_with(options(), async |world, zfs| {
        let tree = grow(&world, &zfs).await;
        let zfs = world.remount(zfs).await;
        work(&zfs, tree).await.expect("nothing is in its way");
        let zfs = world.remount(zfs).await;
        after = Some((look(&zfs, true).await, objects(&world, &zfs).await));
    });
    after.expect("it ran")
}

/// Whether what is there now is what was there before; else it must be what is there after.
async fn is_undone(
    (zfs, what): (&Zfs, &str),
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
) -> bool {
    let now = look(zfs, false).await;
    if now == *before {
        return true;
    }
    let now = look(zfs, true).await;
    for (path, shown) in &now {
        assert_eq!(Some(shown), after.get(path), "{what}: {path} is as it was neither before nor after");
    }
    assert_eq!(now.len(), after.len(), "{what}: something is missing");
    false
}

/// What comes between an operation and its end.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    /// One of its reads fails, and all after it.
    ReadFails,
    /// It is dropped at an await that does not go on at once.
    Dropped,
}

impl Trouble {
    /// Does `work` with its `nth` trouble; what it came to, if it was not dropped.
    async fn meet(
        self,
        world: &World,
        work: impl Future<Output = Result<()>>,
        nth: usize,
    ) -> Option<Result<()>> {
        match self {
            Self::ReadFails => {
                let disk = world.env.disk("disk");
                disk.faults().fail_range(FaultOp::Read, nth as u64, u64::MAX);
                let done = work.await;
                disk.faults().heal();
                Some(done)
            }
            Self::Dropped => until_await(world, work, nth).await,
        }
    }

    /// Has an operation meet its first trouble, then its second, and so on, until it is done all the same. How many
    /// that were.
    fn everywhere(self, name: &str, work: Operation, after: &(BTreeMap<String, String>, usize)) -> usize {
        let mut met = 0;
        run_with(options(), async |world, zfs| {
            let tree = grow(&world, &zfs).await;
            let mut zfs = world.remount(zfs).await;
            let objects_before = objects(&world, &zfs).await;
            loop {
                let before = look(&zfs, false).await;
                zfs = world.remount(zfs).await;
                let what = format!("{name}, {self:?} {}", met + 1);
                world.keep_blocks(0);
                let done = self.meet(&world, work(&zfs, tree), met + 1).await;
                world.keep_blocks(KEPT_BYTES);
                let undone = is_undone((&zfs, &what), &before, &after.0).await;
                if let Some(done) = done {
                    assert_eq!(undone, done.is_err(), "{what}: {done:?}");
                }
                zfs = world.remount(zfs).await;
                assert_eq!(
                    is_undone((&zfs, &what), &before, &after.0).await,
                    undone,
                    "{what}: read from disk"
                );
                let expected = if undone { objects_before } else { after.1 };
                assert_eq!(objects(&world, &zfs).await, expected, "{what}: objects");
                if !undone {
                    return;
                }
                met += 1;
            }
        });
        met
    }
}

/// Polls `work` until it waits for the `nth` time, and drops it then; what it came to, if it ended before.
async fn until_await<T>(world: &World, work: impl Future<Output = T>, nth: usize) -> Option<T> {
    let mut work = pin!(work);
    for _ in 0..nth {
        if let Poll::Ready(done) = poll!(work.as_mut()) {
            return Some(done);
        }
        env::Env::sleep(&*world.env, std::time::Duration::from_millis(20)).await;
    }
    None
}

fn check(operations: &[(&str, Operation)]) {
    let mut tried = Tried::default();
    for (name, work) in operations {
        let after = undisturbed(*work);
        let failed = Trouble::ReadFails.everywhere(name, *work, &after);
        let dropped = Trouble::Dropped.everywhere(name, *work, &after);
        assert!(failed > 0 && dropped > 0, "{name} reads nothing");
        println!("{name}: {failed} reads failed, dropped at {dropped} awaits");
        tried.failed += failed;
        tried.dropped += dropped;
    }
    println!("{} operations: {} read errors, {} drops", operations.len(), tried.failed, tried.dropped);
}

macro_rules! operation {
    ($name:literal, |$zfs:ident, $tree:ident| $work:expr) => {{
        let work: Operation = |$zfs, $tree| Box::pin(async move { $work.await.map(drop) });
        ($name, work)
    }};
}

#[test]
fn things_come_whole_or_not() {
    const LONG: &[u8] = b"a name that is longer than what fits an entry of a micro ZAP, which then turns fat";
    check(&[
        operation!("a file", |zfs, of| zfs.create(of.few, b"new", NewNode::File, 0o644, CRED)),
        operation!("a file with a long name", |zfs, of| zfs.create(of.few, LONG, NewNode::File, 0o644, CRED)),
        operation!("a file among many", |zfs, of| zfs.create(of.many, b"new", NewNode::File, 0o644, CRED)),
        operation!("a directory", |zfs, of| zfs.create(of.few, b"new", NewNode::Directory, 0o755, CRED)),
        operation!("a long link", |zfs, of| {
            zfs.create(of.root, b"new", NewNode::Symlink(&[b'x'; 2000]), 0o777, CRED)
        }),
        operation!("a file with an inherited ACL", |zfs, of| {
            zfs.create(of.strict, b"new", NewNode::File, 0o666, CRED)
        }),
        operation!("a directory with inherited ACLs", |zfs, of| {
            zfs.create(of.strict, b"new", NewNode::Directory, 0o777, CRED)
        }),
        operation!("a pipe", |zfs, of| zfs.create(of.few, b"new", NewNode::Fifo, 0o600, CRED)),
        operation!("a further name", |zfs, of| zfs.link(of.big, of.many, b"new")),
    ]);
}

#[test]
fn things_go_whole_or_not() {
    check(&[
        operation!("a name of two", |zfs, of| zfs.unlink(of.few, b"b")),
        operation!("a small file", |zfs, of| zfs.unlink(of.few, b"d")),
        operation!("a file of some blocks", |zfs, of| zfs.unlink(of.few, b"a")),
        operation!("a file with a hidden directory", |zfs, of| zfs.unlink(of.few, b"e")),
        operation!("a directory", |zfs, of| zfs.rmdir(of.few, b"f")),
    ]);
}

#[test]
fn names_change_whole_or_not() {
    fn place(dir: ObjectId, name: &'static [u8]) -> Place<'static> {
        Place { dir, name }
    }
    check(&[
        operation!("within a directory", |zfs, of| {
            zfs.rename(place(of.few, b"a"), place(of.few, b"z"), RenameMode::NoReplace)
        }),
        operation!("to another", |zfs, of| {
            zfs.rename(place(of.few, b"a"), place(of.many, b"z"), RenameMode::Replace)
        }),
        operation!("of a directory", |zfs, of| {
            zfs.rename(place(of.few, b"f"), place(of.root, b"f"), RenameMode::Replace)
        }),
        operation!("over a file", |zfs, of| {
            zfs.rename(place(of.few, b"a"), place(of.few, b"d"), RenameMode::Replace)
        }),
        operation!("over a file with a hidden directory", |zfs, of| {
            zfs.rename(place(of.few, b"a"), place(of.few, b"e"), RenameMode::Replace)
        }),
        operation!("exchanged", |zfs, of| {
            zfs.rename(place(of.few, b"a"), place(of.few, b"f"), RenameMode::Exchange)
        }),
        operation!("leaving a whiteout", |zfs, of| {
            zfs.rename_leaving_whiteout(place(of.few, b"a"), place(of.root, b"a"), CRED)
        }),
        operation!("leaving a whiteout in the same directory", |zfs, of| {
            zfs.rename_leaving_whiteout(place(of.few, b"a"), place(of.few, b"d"), CRED)
        }),
    ]);
}

#[test]
fn contents_and_attributes_change_whole_or_not() {
    check(&[
        operation!("a write within two blocks", |zfs, of| {
            zfs.write(of.big, 130_000, &[9; 3000], WriteFlags::default())
        }),
        operation!("an append", |zfs, of| {
            zfs.write(of.big, 0, &[9; 100], WriteFlags { append: true, ..WriteFlags::default() })
        }),
        operation!("a block that grows", |zfs, of| zfs.write(
            of.small,
            90,
            &[9; 5000],
            WriteFlags::default()
        )),
        operation!("a shorter file", |zfs, of| {
            zfs.set_attributes(of.big, SetAttributes { size: Some(140_000), ..SetAttributes::default() })
        }),
        operation!("a longer file", |zfs, of| {
            zfs.set_attributes(of.small, SetAttributes { size: Some(140_000), ..SetAttributes::default() })
        }),
        operation!("a hole", |zfs, of| zfs.allocate_range(of.big, 1000, 200_000, Allocate::PunchHole)),
        operation!("a mode", |zfs, of| {
            zfs.set_attributes(
                of.twice,
                SetAttributes { permissions: Some(0o600), ..SetAttributes::default() },
            )
        }),
        operation!("an owner", |zfs, of| {
            zfs.set_attributes(of.twice, SetAttributes { uid: Some(7), ..SetAttributes::default() })
        }),
        operation!("a project", |zfs, of| {
            zfs.set_attributes(of.twice, SetAttributes { project: Some(7), ..SetAttributes::default() })
        }),
        operation!("an extended attribute", |zfs, of| {
            zfs.set_xattr(of.small, b"user.new", &[7; 500], XattrMode::Create)
        }),
        operation!("a long one, the first in a file", |zfs, of| {
            zfs.set_xattr(of.small, b"user.new", &[7; 50_000], XattrMode::Create)
        }),
        operation!("a long one beside others", |zfs, of| {
            zfs.set_xattr(of.rich, b"user.new", &[7; 50_000], XattrMode::Create)
        }),
        operation!("a long one in place of another", |zfs, of| {
            zfs.set_xattr(of.rich, b"user.long", &[7; 60_000], XattrMode::Replace)
        }),
        operation!("one that goes", |zfs, of| zfs.remove_xattr(of.rich, b"user.short")),
    ]);
}

/// A rename in two halves, which an error or a drop in between parts: what the lane is there to find.
#[test]
#[should_panic(expected = "is as it was neither before nor after")]
fn a_planted_half_change_is_found() {
    let halves: Operation = |zfs, of| {
        Box::pin(async move {
            zfs.link(of.big, of.many, b"z").await?;
            zfs.unlink(of.few, b"a").await
        })
    };
    check(&[("a rename in two halves", halves)]);
}
