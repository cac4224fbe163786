//! Intent logs as OpenZFS reads them, and at every stage of their replay.

use zpl::{Allocate, Cred, NewNode, Place, RenameMode, SetAttributes, WriteFlags, XattrMode, Zfs};

use crate::world::{Layout, World};

const WITH_LOG: Layout = Layout { device_mib: 64, ..Layout::new(&[&["a"]], &[&["l"]], 12) };
/// Without one, long writes are logged in place.
const WITHOUT_LOG: Layout = Layout { device_mib: 128, ..Layout::new(&[&["a"]], &[], 12) };

/// One of each operation that is logged, and five writes.
async fn one_of_each(zfs: &Zfs) {
    let root = zfs.root();
    let make =
        async |name: &[u8], node| zfs.create(root, name, node, 0o644, Cred::default()).await.unwrap().object;
    let file = make(b"file", NewNode::File).await;
    make(b"directory", NewNode::Directory).await;
    make(b"symlink", NewNode::Symlink(b"to somewhere")).await;
    for (at, len) in [(0, 100), (100, 5_000), (200_000, 70_000), (50, 1), (1 << 20, 200_000)] {
        zfs.write(file, at, &vec![7; len], WriteFlags::default()).await.unwrap();
    }
    zfs.link(file, root, b"second").await.unwrap();
    let place = |name| Place { dir: root, name };
    zfs.rename(place(b"second"), place(b"third"), RenameMode::NoReplace).await.unwrap();
    zfs.rename(place(b"third"), place(b"symlink"), RenameMode::Exchange).await.unwrap();
    zfs.unlink(root, b"third").await.unwrap();
    zfs.rmdir(root, b"directory").await.unwrap();
    zfs.set_attributes(file, SetAttributes { permissions: Some(0o600), ..Default::default() }).await.unwrap();
    zfs.allocate_range(file, 0, 50, Allocate::PunchHole).await.unwrap();
    zfs.set_xattr(file, b"user.a", b"value", XattrMode::Set).await.unwrap();
}

/// A pool whose log holds [`one_of_each`], as a power cut leaves it.
fn crashed(layout: Layout) -> World {
    let world = World::new(layout);
    let pool = world.create();
    let zfs = world.zfs(&pool, "whirl");
    world.run(async {
        pool.sync_now().await.unwrap();
        one_of_each(&zfs).await;
        zfs.sync().await.unwrap();
    });
    world.copy()
}

async fn check_contents(zfs: &Zfs) {
    let file = zfs.lookup(zfs.root(), b"file").await.unwrap();
    assert_eq!((file.size, file.links, file.permissions), ((1 << 20) + 200_000, 2, 0o600));
    assert_eq!(zfs.lookup(zfs.root(), b"symlink").await.unwrap().object, file.object);
    let mut start = [0; 60];
    zfs.read(file.object, 0, &mut start).await.unwrap();
    assert_eq!((&start[..50], &start[50..]), (&[0; 50][..], &[7; 10][..]));
    assert_eq!(zfs.xattr(file.object, b"user.a").await.unwrap(), b"value");
    for gone in [&b"second"[..], b"third", b"directory"] {
        assert!(zfs.lookup(zfs.root(), gone).await.is_err());
    }
}

#[test]
fn zdb_shows_every_record_that_was_committed() {
    let records = crashed(WITH_LOG).check("crashed");
    let count = |kind| records.get(kind).copied().unwrap_or(0);
    let once = [
        "TX_CREATE",
        "TX_MKDIR",
        "TX_SYMLINK",
        "TX_LINK",
        "TX_RENAME",
        "TX_RENAME_EXCHANGE",
        "TX_REMOVE",
        "TX_RMDIR",
        "TX_SETATTR",
        "TX_TRUNCATE",
        "TX_SETSAXATTR",
    ];
    for kind in once {
        assert_eq!(count(kind), 1, "{kind} in {records:?}");
    }
    // Long ones are cut where a log block or a record of the file ends.
    assert!(count("TX_WRITE") >= 5, "{records:?}");
}

#[test]
fn zdb_shows_the_blocks_that_records_of_long_writes_name() {
    let world = crashed(WITHOUT_LOG);
    let said = world.zdb().run(&["-iiii"], &[]).unwrap();
    let records = world.check("crashed");
    let named = said.lines().filter(|line| line.starts_with("\t\t\thas blkptr")).count();
    // 70,000 and 200,000 bytes over two records of the file each.
    assert_eq!(named, 4, "{said}");
    assert!(records["TX_WRITE"] >= 7, "{records:?}");
}

#[test]
fn a_claimed_log_waits_through_crashes_and_exports() {
    claimed_log_waits(WITH_LOG);
}

#[test]
fn a_claimed_log_with_blocks_of_its_files_waits_through_crashes_and_exports() {
    claimed_log_waits(WITHOUT_LOG);
}

fn claimed_log_waits(layout: Layout) {
    let world = crashed(layout);
    // Claimed, never used, and the power goes again.
    drop(world.import());
    let again = world.copy();
    let before = again.copy().check_aside("claimed");
    let pool = again.import();
    again.export(&pool);
    let after = again.copy().check_aside("claimed twice, exported");
    let pool = again.import();
    let zfs = again.zfs(&pool, "whirl");
    again.run(async {
        check_contents(&zfs).await;
        pool.sync_now().await.unwrap();
    });
    let replayed = again.copy();
    let not_exported = replayed.copy().check_aside("replayed, not exported");
    let pool = replayed.import();
    let zfs = replayed.zfs(&pool, "whirl");
    replayed.run(check_contents(&zfs));
    drop(zfs);
    replayed.export(&pool);
    assert!(replayed.check("exported").is_empty());
    assert_eq!(before.wait(), after.wait());
    not_exported.wait();
}

#[test]
fn a_dataset_with_a_log_can_be_destroyed_unreplayed() {
    let world = World::new(WITH_LOG);
    let pool = world.create();
    world.create_filesystem(&pool, "whirl/gone", &[]);
    let zfs = world.zfs(&pool, "whirl/gone");
    world.run(async {
        one_of_each(&zfs).await;
        zfs.sync().await.unwrap();
    });
    let world = world.copy();
    let pool = world.import();
    world.run(pool.destroy_filesystem("whirl/gone")).unwrap();
    world.export(&pool);
    assert!(world.check("destroyed").is_empty());
}
