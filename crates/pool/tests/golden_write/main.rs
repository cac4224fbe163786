//! Pools that OpenZFS made, imported for writing and worked on: `zdb` finds them sound, and what was
//! not touched, snapshots above all, stays what it was.

mod checkpoint;
mod contents;
mod lives;
mod nested;
mod received;
mod removal;
mod resumed;
#[path = "../streams/mod.rs"]
mod streams;
mod world;

use std::collections::BTreeMap;
use std::sync::Arc;

use dmu::zap::Zap;
use dmu::{Estimate, Objset, Place, Reach};
use ondisk::ObjectType;
use pool::{DedupFacts, Pool, PoolError, SharedSpace};
use units::{ObjectId, Txg, VdevId};
use zpl::{Cred, FileKind, FilePlace, NewNode, SetAttributes, WriteFlags, Zfs};

use crate::contents::File;
use crate::world::World;

/// Files with which the same is done in every dataset, by what happens to them.
#[derive(Default)]
struct Touched {
    removed: Vec<String>,
    /// By object, for a file may have several names.
    changed: Vec<ObjectId>,
}

/// Overwrites, cuts, punches and removes old files, and adds new ones.
async fn work(zfs: &Zfs, old: &BTreeMap<String, File>) -> Touched {
    let mut touched = Touched::default();
    let files = old.iter().filter(|(_, file)| file.kind == FileKind::File && file.size > 0);
    for (number, (path, file)) in files.enumerate() {
        let middle = file.size / 2;
        let size = |size| SetAttributes { size: Some(size), ..SetAttributes::default() };
        match number % 5 {
            0 => drop(zfs.write(file.object, middle, &[0xa5; 700], WriteFlags::default()).await.unwrap()),
            1 => drop(zfs.set_attributes(file.object, size(middle)).await.unwrap()),
            2 => drop(zfs.write(file.object, 0, &vec![0; 300_000], WriteFlags::default()).await.unwrap()),
            3 => {
                let (dir, name) = contents::place(zfs, path).await;
                zfs.unlink(dir, name.as_bytes()).await.unwrap();
                touched.removed.push(path.clone());
                continue;
            }
            _ => continue,
        }
        touched.changed.push(file.object);
    }
    let dir = zfs.create(zfs.root(), b"new dir", NewNode::Directory, 0o755, Cred::default()).await.unwrap();
    for number in 0..40_u32 {
        let name = format!("new {number}");
        let made = zfs.create(dir.object, name.as_bytes(), NewNode::File, 0o644, Cred::default());
        let object = made.await.unwrap().object;
        let data: Vec<u8> = (0..number * 999).flat_map(|i| (i ^ number << 9).to_le_bytes()).collect();
        zfs.write(object, u64::from(number) * 70, &data, WriteFlags::default()).await.unwrap();
    }
    touched
}

/// Removes half of what [`work`] made, so that blocks of several txgs go.
async fn second_work(zfs: &Zfs) {
    let dir: ObjectId = zfs.lookup(zfs.root(), b"new dir").await.unwrap().object;
    for number in (0..40).step_by(2) {
        zfs.unlink(dir, format!("new {number}").as_bytes()).await.unwrap();
    }
}

/// Imports a copy of a golden pool, works on these datasets, and has `zdb` judge it; what the
/// datasets in `kept` hold must not change.
fn worked_on(name: &str, datasets: &[&str], kept: &[&str]) {
    let world = World::copy_of(name);
    let before = world.read_only(|pool| {
        let all = datasets.iter().chain(kept);
        all.map(|of| ((*of).to_owned(), world.contents(pool, of))).collect::<BTreeMap<_, _>>()
    });
    world.check("before");
    let pool = world.import();
    let mut touched = BTreeMap::new();
    for name in datasets {
        let zfs = world.zfs(&pool, name);
        touched.insert(*name, world.run(work(&zfs, &before[*name])));
    }
    world.run(pool.sync_now()).unwrap();
    for name in datasets {
        world.run(second_work(&world.zfs(&pool, name)));
    }
    world.run(pool.sync_now()).unwrap();
    world.export(&pool);
    drop(pool);
    world.check("after");
    world.read_only(|pool| {
        for name in kept {
            assert_eq!(world.contents(pool, name), before[*name], "{name}");
        }
        for name in datasets {
            let after = world.contents(pool, name);
            compare(&before[*name], &after, &touched[name]);
            assert_eq!(after.keys().filter(|path| path.starts_with("/new dir/")).count(), 20, "{name}");
        }
    });
}

fn compare(before: &BTreeMap<String, File>, after: &BTreeMap<String, File>, touched: &Touched) {
    for (path, file) in before {
        if touched.removed.contains(path) {
            assert!(!after.contains_key(path), "{path} was removed");
        } else if touched.changed.contains(&file.object) {
            assert_ne!(after[path], *file, "{path} was changed");
        } else {
            let links = |file: &File| (file.kind, file.size, file.hash);
            assert_eq!(links(&after[path]), links(file), "{path}");
        }
    }
}

#[test]
fn a_pool_without_features_stays_sound() {
    worked_on("g01-single-nofeat", &["whirl", "whirl/fs"], &[]);
}

#[test]
fn a_pool_of_version_28_stays_sound() {
    // A file system of version 4 is among them.
    worked_on("g18-v28", &["whirl", "whirl/fs", "whirl/v4"], &["whirl/fs@s"]);
}

#[test]
fn blocks_of_snapshots_and_origins_stay_when_their_heads_and_clones_change() {
    worked_on(
        "g10-snapshots-clones",
        &["whirl/fs", "whirl/clone", "whirl/promoted", "whirl/parent/kid"],
        &["whirl/promoted@s1", "whirl/promoted@s2", "whirl/parent/kid@r", "whirl/parent@r"],
    );
}

#[test]
fn pools_with_the_features_of_openzfs_2_3_stay_sound() {
    worked_on("g02-single-default", &["whirl", "whirl/fs"], &[]);
    worked_on("g03-mirror-log", &["whirl/fs"], &[]);
    worked_on("g08-compress", &["whirl/lz4", "whirl/off", "whirl/gzip-9", "whirl/zstd"], &["whirl/zle"]);
    worked_on("g09-checksums", &["whirl/sha256", "whirl/skein", "whirl/blake3"], &["whirl/edonr"]);
    worked_on("g11-many", &["whirl/sa", "whirl/dir"], &[]);
}

#[test]
fn raidz_pools_of_openzfs_stay_sound() {
    worked_on("g05-raidz1", &["whirl/fs", "whirl/r8k", "whirl/r1m"], &[]);
    worked_on("g06-raidz2", &["whirl/fs", "whirl/r8k", "whirl/r1m"], &[]);
}

#[test]
fn a_raidz_that_was_widened_stays_sound() {
    worked_on("g25-expanded", &["whirl", "whirl/fs"], &[]);
}

#[test]
fn a_pool_with_a_removed_vdev_stays_sound() {
    worked_on("g23-removed", &["whirl", "whirl/fs"], &["whirl/fs@before"]);
}

/// All that is left on its removed vdev is a snapshot's, and no command destroys snapshots yet: so a block of it is
/// freed here though the snapshot has it.
#[test]
fn what_is_freed_of_a_removed_vdev_is_free_where_it_is_and_obsolete_where_it_was() {
    let world = World::copy_of("g23-removed");
    let told = || {
        let said = world.zdb("-mmmm");
        let (_, map) = said.split_once("obsolete space map object").expect("it has one");
        map.split("\n\n").next().unwrap_or_default().to_owned()
    };
    let bytes = |map: &str| {
        let hex = map.split("smp_alloc = 0x").nth(1).and_then(|rest| rest.split_whitespace().next());
        u64::from_str_radix(hex.expect("a space map"), 16).expect("a number")
    };
    let before = told();
    let pool = world.import();
    let freed = world.run(async {
        let dsl = pool.dsl();
        let heads = dsl.list("whirl").await.unwrap();
        let head = heads.iter().find(|of| of.name == "whirl/fs").unwrap();
        let snapshot = dsl.snapshots(head).await.unwrap().remove(0);
        let phys = dsl.dataset(snapshot.dataset).await.unwrap();
        let all = Reach { from: Place::START, born_after: Txg::ZERO, limit: usize::MAX };
        let seen = Objset::visit(pool.zio(), snapshot.objset(), &phys.bp, all).await;
        let is_there =
            |bp: &ondisk::Blkptr| bp.dva(0).vdev == VdevId::new(1) && bp.psize().get() == 128 << 10;
        let (_, bp) = *seen.blocks.iter().find(|(_, bp)| is_there(bp)).expect("a block of the removed vdev");
        let allocated =
            || pool.zio().with_allocator(|a| a.vdev_space(VdevId::new(0)).unwrap().allocated.get());
        let had = allocated();
        let tx = pool.txgs().join().unwrap();
        pool.zio().free(tx.txg(), &bp).await.unwrap();
        assert_eq!(had - allocated(), 128 << 10, "where it is now");
        assert!(pool.zio().free(tx.txg(), &bp).await.is_err(), "not twice");
        drop(tx);
        bp
    });
    world.run(pool.sync_now()).unwrap();
    world.export(&pool);
    drop(pool);
    let after = told();
    assert_eq!(bytes(&after), bytes(&before) + (128 << 10), "{after}");
    let start = freed.dva(0).offset.get();
    let range = format!("range: {start:010x}-{:010x}", start + (128 << 10));
    assert!(after.contains(&range) && !before.contains(&range), "{range}: {after}");
}

#[test]
fn pools_with_volumes_stay_sound() {
    worked_on("g12-zvol", &["whirl"], &[]);
}

#[test]
fn a_pool_with_deduplicated_blocks_is_worked_on() {
    worked_on("g20-special-vdev", &["whirl/small", "whirl/dedup", "whirl/verify"], &["whirl"]);
}

/// Three trees of the same contents go one after another; with the last one the table goes.
#[test]
fn deduplicated_blocks_go_with_their_last_reference() {
    let world = World::copy_of("g20-special-vdev");
    let (whole, table_bytes) = agrees_on_tables(&world);
    assert_eq!((whole.blocks.ratio_hundredths(), whole.table_bytes), (300, table_bytes));
    let allocated = |pool: &pool::Pool| pool.room().allocated;
    let (before, had_table) = world.read_only(|pool| (allocated(pool), has_table(&world, pool)));
    assert!(had_table);
    let mut freed = Vec::new();
    for tree in ["/1/", "/2/", "/3/"] {
        let pool = world.import();
        remove_files(&world, &pool, tree);
        world.export(&pool);
        drop(pool);
        world.check(tree);
        agrees_on_tables(&world);
        let (now, still) = world.read_only(|pool| (allocated(pool), has_table(&world, pool)));
        assert_eq!(still, tree != "/3/");
        freed.push(before.saturating_sub(now));
    }
    assert!(freed[2] > freed[1] + (400 << 10), "only with the last one: {freed:?}");
}

/// Files of the deduplicated tree below a directory, with what they hold.
fn files_below(world: &World, pool: &Arc<Pool>, dir: &str) -> Vec<(String, File)> {
    let all = world.contents(pool, "whirl/dedup").into_iter();
    let found: Vec<_> =
        all.filter(|(path, file)| path.starts_with(dir) && file.kind == FileKind::File).collect();
    assert!(found.len() > 3, "{dir}: {} files", found.len());
    found
}

fn remove_files(world: &World, pool: &Arc<Pool>, dir: &str) {
    let zfs = world.zfs(pool, "whirl/dedup");
    for (path, _) in files_below(world, pool, dir) {
        world.run(async {
            let (dir, name) = contents::place(&zfs, &path).await;
            zfs.unlink(dir, name.as_bytes()).await.unwrap();
        });
    }
}

/// A clone is one reference more in the table of deduplicated blocks, as if it had been written; the other table, of
/// blocks that were cloned, has none of it.
#[test]
fn files_with_deduplicated_blocks_are_cloned() {
    let world = World::copy_of("g20-special-vdev");
    let pool = world.import();
    let before = pool.room().allocated;
    let originals = files_below(&world, &pool, "/1/");
    // In the same file system, and in one that deduplicates nothing itself; that has blocks of a snapshot only, for it
    // would store them elsewhere.
    world.run(pool.snapshot(vec!["whirl/dedup@s".to_owned()], Vec::new())).unwrap();
    let kept = world.run(pool.snapshot_filesystem("whirl/dedup@s")).unwrap();
    let mut shared = 0;
    for (of, from) in
        [("whirl/dedup", world.zfs(&pool, "whirl/dedup")), ("whirl/small", Arc::clone(&kept.zfs))]
    {
        let to = world.zfs(&pool, of);
        world.run(async {
            let dir = to.create(to.root(), b"clones", NewNode::Directory, 0o755, Cred::default()).await;
            let dir = dir.unwrap().object;
            for (path, file) in &originals {
                let name = path.replace('/', " ");
                let made = to.create(dir, name.as_bytes(), NewNode::File, 0o644, Cred::default());
                let target = (made.await.unwrap().object, 0);
                let source = FilePlace { zfs: &from, object: file.object, offset: 0 };
                shared += to.clone_range(source, target, u64::MAX, WriteFlags::default()).await.unwrap();
            }
            pool.sync_now().await.unwrap();
        });
    }
    drop(kept);
    world.run(pool.destroy_snapshots(vec!["whirl/dedup@s".to_owned()], false)).unwrap();
    assert!(shared > 1600 << 10, "{shared} bytes were shared");
    assert_eq!(world.run(pool.facts()).cloned, Some(SharedSpace::default()));
    let grown = pool.room().allocated.saturating_sub(before);
    assert!(grown < shared / 2, "{grown} more are allocated, {shared} are shared");
    world.export(&pool);
    drop(pool);
    world.check("cloned");
    let (facts, _) = agrees_on_tables(&world);
    // Half of all that is deduplicated is in the other tree.
    assert_eq!(facts.blocks.ratio_hundredths(), 400, "{facts:?}");

    let held = |files: Vec<(String, File)>| -> Vec<_> {
        let mut held: Vec<_> = files.into_iter().map(|(_, file)| (file.size, file.hash)).collect();
        held.sort_unstable();
        held
    };
    let clones = |pool: &Arc<Pool>, of: &str| -> Vec<_> {
        let all = world.contents(pool, of).into_iter();
        held(all.filter(|(path, file)| path.starts_with("/clones/") && file.kind == FileKind::File).collect())
    };
    let pool = world.import();
    ["/1/", "/2/", "/3/"].iter().for_each(|tree| remove_files(&world, &pool, tree));
    world.export(&pool);
    drop(pool);
    world.check("only clones are left");
    world.read_only(|pool| {
        let expected = held(originals);
        assert_eq!(clones(pool, "whirl/dedup"), expected);
        assert_eq!(clones(pool, "whirl/small"), expected);
        assert!(has_table(&world, pool));
    });
    let pool = world.import();
    for of in ["whirl/dedup", "whirl/small"] {
        let zfs = world.zfs(&pool, of);
        world.run(async {
            let dir = zfs.lookup(zfs.root(), b"clones").await.unwrap().object;
            for entry in zfs.list(dir, 0, 1 << 20).await.unwrap() {
                if entry.kind == Some(FileKind::File) {
                    zfs.unlink(dir, &entry.name).await.unwrap();
                }
            }
        });
    }
    world.export(&pool);
    drop(pool);
    world.check("without clones");
    assert!(!world.read_only(|pool| has_table(&world, pool)));
}

/// What a pool tells of its tables when it is only read, and when it is not, is what `zdb` finds; which
/// knows how large those are that have entries.
fn agrees_on_tables(world: &World) -> (DedupFacts, u64) {
    let dedup = |pool: &pool::Pool| world.run(pool.facts()).dedup.expect("tables can be read");
    let said = world.zdb("-DD");
    let sizes = said.split(" dspace=").skip(1).map(|rest| rest.split(';').next().unwrap_or_default());
    let sizes: u64 = sizes.map(|bytes| bytes.parse::<u64>().expect("a number")).sum();
    let found = world.read_only(|pool| dedup(pool));
    assert!(found.table_bytes >= sizes, "{found:?}: {said}");
    let ratio = found.blocks.ratio_hundredths();
    assert!(said.contains(&format!("dedup = {}.{:02},", ratio / 100, ratio % 100)), "{found:?}: {said}");
    let pool = world.import();
    assert_eq!(dedup(&pool), found);
    world.export(&pool);
    (found, sizes)
}

fn has_table(world: &World, pool: &pool::Pool) -> bool {
    world.run(pool.dsl().directory().lookup_u64(b"DDT-sha256")).unwrap().is_some()
}

#[test]
fn a_table_whose_log_was_not_written_out_keeps_the_pool_from_being_changed() {
    let world = World::copy_of("g20-special-vdev");
    let pool = world.import();
    world.run(async {
        let mos = pool.dsl().mos();
        let directory = pool.dsl().directory().lookup_u64(b"DDT-sha256").await.unwrap().unwrap();
        let directory = Zap::hold(mos, ObjectId::new(directory)).await.unwrap();
        let log = directory.lookup_u64(b"DDT-log-sha256-0").await.unwrap().unwrap();
        let log = mos.hold(ObjectId::new(log)).await.unwrap();
        let mut bonus = log.bonus();
        bonus[9] = 2;
        let plan = mos.plan(Estimate::default()).await.unwrap();
        log.set_bonus(&plan, ObjectType::OTN_UINT64_METADATA, &bonus).unwrap();
        plan.apply().unwrap();
    });
    world.export(&pool);
    drop(pool);
    let before = world.bytes();
    match world.try_import(false) {
        Err(PoolError::UnsupportedFeatures { features, readable: true }) => {
            assert_eq!(features[0].guid, "deduplication log with entries");
        }
        other => panic!("{other:?}", other = other.map(|_| ())),
    }
    assert!(world.bytes() == before, "nothing was written");
    assert!(world.read_only(|pool| has_table(&world, pool)));
    let facts = world.read_only(|pool| world.run(pool.facts()));
    assert_eq!(facts.dedup, None, "what is in the log is not known");
    assert_eq!(facts.cloned, Some(SharedSpace::default()));
}
