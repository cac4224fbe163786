//! Loses each type of metadata block and runs all code that reads it.
//!
//! ```text
//!   a pool with every type of object, its power cut
//!     └─► one block: a wrong checksum in all copies, or a permanent read error
//!           ├─► imported read-only: everything that is not below the block is unchanged
//!           └─► imported: files written and removed, snapshots, clones and file systems destroyed,
//!               a scrub, an export, an import, the same again
//! ```
//! Damage costs only what lies below it: the pool is never suspended and never stops, files that
//! are not below the block can be read, and the pool can be exported and imported again. Only some
//! blocks may prevent an import, see [`VictimBlock::may_forbid_import`]. By default, one block of
//! each type is lost; `SAWMILL_DAMAGE=all` loses each block in its turn.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use dmu::{Objset, Place, Reach};
use dsl::DatasetName;
use env::FaultOp;
use ondisk::{Blkptr, ObjectType};
use pool::{ImportSpec, Pool, Tuning};
use sim::{CrashImage, DiskModel, Sim};
use units::{ObjectId, ObjsetId, Txg, VdevOffset};
use vdev::PoolState;
use zio::Bookmark;
use zpl::{Cred, FilePlace, NewNode, WriteFlags, XattrMode, Zfs};

use crate::ground::quiet;
use crate::shape::{POOL, SINGLE};
use crate::story::{Tell, run, tell};

const SYNC: WriteFlags = WriteFlags { append: false, sync: true, drop_setid: false };
const PLAIN: WriteFlags = WriteFlags { append: false, sync: false, drop_setid: false };
/// Small records, so that a file of some megabytes has two levels of indirect blocks.
const RECORD_BYTES: u64 = 4096;
const BIG_BYTES: usize = 4_500_000;
const SMALL_BYTES: usize = 20_000;
/// The file systems that no step changes.
const WITNESSES: [&str; 2] = ["whirl/witness", "whirl/sub"];
/// The length of a gang header in bytes.
const HEADER_BYTES: u64 = 512;

/// How a block is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LossKind {
    Checksum,
    ReadError,
}

/// The type of a block: in the meta-objset or not, its object type, its level, and whether it is a
/// gang.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct VictimKind {
    pub of_mos: bool,
    pub object_type: u8,
    pub level: u8,
    pub gang: bool,
}

impl fmt::Debug for VictimKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = if self.of_mos { "pool" } else { "dataset" };
        let gang = if self.gang { ", gang" } else { "" };
        write!(f, "{of}: type {}, level {}{gang}", self.object_type, self.level)
    }
}

/// A block that is to be lost.
#[derive(Clone, Copy, Debug)]
pub struct VictimBlock {
    pub kind: VictimKind,
    pub bookmark: Bookmark,
    pub bp: Blkptr,
}

impl VictimBlock {
    /// Returns the byte ranges of its copies on the disk; for a gang, of its header.
    fn places(&self) -> Vec<Range<u64>> {
        let len = if self.bp.is_gang() { HEADER_BYTES } else { self.bp.psize().get() };
        let start = |offset: u64| VdevOffset::new(offset).on_leaf().expect("it lies on the disk").get();
        self.bp.dvas().map(|dva| start(dva.offset.get())..start(dva.offset.get()) + len).collect()
    }

    fn is_of_pool(&self, kinds: &[ObjectType]) -> bool {
        self.kind.of_mos && kinds.iter().any(|kind| kind.raw() == self.kind.object_type)
    }

    /// True if the block belongs to the dataset: to its objset, or to the objects of the dataset and
    /// its dir in the meta-objset.
    fn is_above(&self, dataset: &DatasetName) -> bool {
        match self.kind.of_mos {
            true => [dataset.dataset, dataset.dir].contains(&self.bookmark.object),
            false => self.bookmark.objset == dataset.objset(),
        }
    }

    /// True if the pool may refuse changes without the block: features that require it, and the
    /// space map logs. All three copies of the block are lost here.
    fn may_forbid_use(&self, kind: LossKind) -> bool {
        let more = [ObjectType::SPACE_MAP, ObjectType::OTN_ZAP_METADATA, ObjectType::OTN_UINT64_METADATA];
        // A root that becomes readable again brings its log back.
        let is_root = self.kind.object_type == ObjectType::OBJSET.raw();
        let may_come_back = is_root && kind == LossKind::ReadError;
        self.may_forbid_import() || self.is_of_pool(&more) || may_come_back
    }

    /// True if the pool cannot be opened at all without the block.
    fn may_forbid_import(&self) -> bool {
        let of = |kinds: &[ObjectType]| self.is_of_pool(kinds);
        let is_of_dnodes = of(&[ObjectType::OBJSET, ObjectType::DNODE]);
        let is_tree = of(&[
            ObjectType::OBJECT_DIRECTORY,
            ObjectType::PACKED_NVLIST,
            ObjectType::OBJECT_ARRAY,
            ObjectType::DSL_DIR,
            ObjectType::DSL_DIR_CHILD_MAP,
            ObjectType::DSL_DATASET,
            ObjectType::DSL_DS_SNAP_MAP,
            ObjectType::DSL_PROPS,
        ]);
        is_of_dnodes || is_tree
    }
}

fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    fastrand::Rng::with_seed(seed).fill(&mut bytes);
    bytes
}

async fn made(zfs: &Zfs, name: &str, bytes: &[u8], how: WriteFlags) -> ObjectId {
    let made = zfs.create(zfs.root(), name.as_bytes(), NewNode::File, 0o644, Cred::default()).await;
    let object = made.expect("created").object;
    zfs.write(object, 0, bytes, how).await.expect("written");
    object
}

/// Small steps in each txg, so that destroying a dataset takes several txgs.
pub fn tuning() -> Tuning {
    Tuning { freed_blocks: 60, livelist_entries: 40, ..quiet() }
}

/// Returns a pool with every type of object. The power is cut when a log has records to replay, a
/// destroyed file system is half freed, and a file without a name is in the delete queue.
pub fn image(seed: u64) -> CrashImage {
    let sim = Sim::seed(seed);
    SINGLE.add_disks(&sim, DiskModel::instant());
    sim.stop_recording();
    run(&sim, async {
        let pool = SINGLE.create_with(&sim, tuning(), &[("recordsize", RECORD_BYTES)]).await;
        for name in WITNESSES {
            pool.create_filesystem(name, Vec::new()).await.expect("created");
            let fs = pool.filesystem(name).await.expect("it opens");
            made(&fs.zfs, "witness", &noise(1, SMALL_BYTES), PLAIN).await;
        }
        for name in ["whirl/victim", "whirl/gone"] {
            pool.create_filesystem(name, Vec::new()).await.expect("created");
            let fs = pool.filesystem(name).await.expect("it opens");
            for number in 0..5 {
                made(&fs.zfs, &format!("file{number}"), &noise(number, 150_000), PLAIN).await;
            }
        }
        let fs = pool.filesystem(POOL).await.expect("it opens");
        let zfs = &fs.zfs;
        let big = made(zfs, "big", &noise(2, BIG_BYTES), PLAIN).await;
        let small = made(zfs, "small", &noise(3, SMALL_BYTES), PLAIN).await;
        for number in 0..90 {
            made(zfs, &format!("one of many files with a name of some length, {number}"), b"few", PLAIN)
                .await;
        }
        for number in 0..6 {
            let value = noise(number, 900);
            let name = format!("user.number{number}");
            zfs.set_xattr(small, name.as_bytes(), &value, XattrMode::Create).await.expect("set");
        }
        pool.sync_now().await.expect("synced");
        // Fragmented free space makes long space maps.
        pool.create_filesystem("whirl/holes", Vec::new()).await.expect("created");
        let holes = pool.filesystem("whirl/holes").await.expect("it opens");
        for number in 0..240 {
            made(&holes.zfs, &format!("{number}"), &noise(number, 4096), PLAIN).await;
        }
        pool.sync_now().await.expect("synced");
        for number in (0..240).step_by(2) {
            let name = format!("{number}");
            holes.zfs.unlink(holes.zfs.root(), name.as_bytes()).await.expect("unlinked");
            if number % 60 == 0 {
                pool.sync_now().await.expect("synced");
            }
        }
        pool.sync_now().await.expect("synced");
        pool.zio().set_longest_run(2048);
        made(zfs, "gang", &noise(4, 60_000), PLAIN).await;
        pool.sync_now().await.expect("synced");
        pool.zio().set_longest_run(u64::MAX);
        let copy = made(zfs, "copy", b"", PLAIN).await;
        let from = FilePlace { zfs, object: big, offset: 0 };
        zfs.clone_range(from, (copy, 0), 40 * RECORD_BYTES, PLAIN).await.expect("cloned");
        for snapshot in ["whirl@one", "whirl@two", "whirl@three"] {
            pool.snapshot(vec![snapshot.to_owned()], Vec::new()).await.expect("made");
            zfs.write(big, 8 * RECORD_BYTES, &noise(5, 300_000), PLAIN).await.expect("written");
            pool.sync_now().await.expect("synced");
        }
        pool.clone_snapshot("whirl@two".into(), "whirl/clone".into(), Vec::new()).await.expect("cloned");
        let clone = pool.filesystem("whirl/clone").await.expect("it opens");
        for number in 0..3 {
            made(&clone.zfs, &format!("own{number}"), &noise(6, 200_000), PLAIN).await;
            pool.sync_now().await.expect("synced");
        }
        pool.destroy_filesystem("whirl/gone").await.expect("destroyed");
        let ghost = made(zfs, "ghost", &noise(7, 30_000), PLAIN).await;
        zfs.open_object(ghost).await.expect("opened");
        zfs.unlink(zfs.root(), b"ghost").await.expect("unlinked");
        pool.sync_now().await.expect("synced");
        made(zfs, "late", &noise(8, 9000), SYNC).await;
    });
    sim.power_cut(seed)
}

/// Returns every block that an import reaches.
pub fn targets(image: &CrashImage) -> Vec<VictimBlock> {
    let sim = image.boot(1);
    sim.stop_recording();
    run(&sim, async {
        let how = ImportSpec { read_only: true, ..ImportSpec::default() };
        let pool = SINGLE.import_as(&sim, tuning(), how).await.expect("it imports");
        let mut roots = vec![(ObjsetId::MOS, pool.dsl().mos().root())];
        for head in pool.dsl().list(POOL).await.expect("it lists") {
            let snapshots = pool.dsl().snapshots(&head).await.expect("it lists");
            for dataset in snapshots.into_iter().chain([head]) {
                let phys = pool.dsl().dataset(dataset.dataset).await.expect("it reads");
                roots.push((dataset.objset(), phys.bp));
            }
        }
        let mut found = BTreeMap::new();
        for (id, root) in roots {
            let reach = Reach { from: Place::START, born_after: Txg::ZERO, limit: usize::MAX };
            let visited = Objset::visit(pool.zio(), id, &root, reach).await;
            assert!(visited.lost.is_empty(), "{:?}", visited.lost);
            for (bookmark, bp) in visited.blocks {
                let kind = VictimKind {
                    of_mos: id == ObjsetId::MOS,
                    object_type: bp.object_type().raw(),
                    level: bp.level().get(),
                    gang: bp.is_gang(),
                };
                let dva = bp.dva(0);
                found.entry((dva.vdev, dva.offset)).or_insert(VictimBlock { kind, bookmark, bp });
            }
        }
        found.into_values().collect()
    })
}

/// Creates a world in which the block is lost.
fn without(image: &CrashImage, target: &VictimBlock, way: LossKind) -> Sim {
    let sim = image.boot(1);
    sim.stop_recording();
    lose(&sim, target, way);
    sim
}

pub fn lose(sim: &Sim, target: &VictimBlock, way: LossKind) {
    let disk = sim.disk("/a");
    for place in target.places() {
        match way {
            LossKind::ReadError => disk.faults().fail_within(FaultOp::Read, place),
            LossKind::Checksum => {
                let bytes = disk.peek(place.start, (place.end - place.start) as usize);
                let bad: Vec<u8> = bytes.iter().map(|byte| !byte).collect();
                disk.rot(place.start, &bad);
            }
        }
    }
}

/// The counts of a lane.
#[derive(Debug, Default)]
struct DamageCounts {
    blocks: usize,
    kinds: BTreeSet<VictimKind>,
    /// The number of refused imports: read-only ones, and others.
    not_read: usize,
    not_used: usize,
    used: usize,
    leaked: usize,
    /// The number of pools in which some operation failed.
    limited: usize,
}

/// Checks that the unchanged file systems are as before.
async fn check_witnesses(pool: &Arc<Pool>, lost: &VictimBlock) {
    for name in WITNESSES {
        let dataset = pool.dsl().resolve(name).await;
        let is_below = dataset.as_ref().is_ok_and(|dataset| lost.is_above(dataset));
        // A block of the meta-objset may belong to any dataset.
        if is_below || lost.kind.of_mos && lost.may_forbid_import() {
            continue;
        }
        let fs = match pool.is_read_only() {
            true => pool.snapshot_filesystem(name).await,
            false => pool.filesystem(name).await,
        };
        let fs = fs.unwrap_or_else(|error| panic!("{name} opens: {error}"));
        let file = fs.zfs.lookup(fs.zfs.root(), b"witness").await.expect("it is there");
        let mut bytes = vec![0; SMALL_BYTES];
        fs.zfs.read(file.object, 0, &mut bytes).await.expect("it reads");
        assert_eq!(bytes, noise(1, SMALL_BYTES), "the witness in {name}");
    }
}

fn check_at_work(pool: &Pool, what: &str) {
    assert_eq!(pool.stopped(), None, "the pool has stopped after {what}");
    assert_eq!(pool.suspended(), None, "the pool is suspended, after {what}");
}

/// Runs all operations that read the pool's metadata. Returns whether all succeeded. Each operation
/// may fail, but must not affect others.
async fn work(pool: &Arc<Pool>) -> bool {
    let mut is_all = true;
    let mut note = |what: &str, done: Result<(), String>| {
        is_all &= done.is_ok();
        check_at_work(pool, what);
    };
    match pool.filesystem(POOL).await {
        Ok(fs) => {
            let zfs = &fs.zfs;
            let root = zfs.root();
            let new = zfs.create(root, b"new", NewNode::File, 0o644, Cred::default()).await;
            let written = match new {
                Ok(new) => zfs.write(new.object, 0, b"new bytes", SYNC).await.map(drop),
                Err(error) => Err(error),
            };
            note("a write", written.map_err(|e| e.to_string()));
            if let Ok(big) = zfs.lookup(root, b"big").await {
                let change = zfs.write(big.object, 30 * RECORD_BYTES, &noise(9, 5000), PLAIN).await;
                note("a change", change.map(drop).map_err(|e| e.to_string()));
            }
            let synced = pool.sync_now().await;
            note("a txg", synced.map_err(|e| e.to_string()));
            for name in ["big", "gang", "copy", "small", "late"] {
                let gone = zfs.unlink(root, name.as_bytes()).await;
                note(name, gone.map_err(|e| e.to_string()));
            }
            for number in 0..60 {
                let name = format!("one of many files with a name of some length, {number}");
                let gone = zfs.unlink(root, name.as_bytes()).await;
                note(&name, gone.map_err(|e| e.to_string()));
            }
        }
        Err(error) => note("opening", Err(error.to_string())),
    }
    let synced = pool.sync_now().await;
    note("removals", synced.map_err(|e| e.to_string()));
    for name in ["whirl/victim", "whirl/clone"] {
        let gone = pool.destroy_filesystem(name).await;
        note(name, gone.map_err(|e| e.to_string()));
    }
    for snapshot in ["whirl@one", "whirl@three", "whirl@two"] {
        let gone = pool.destroy_snapshots(vec![snapshot.to_owned()], false).await;
        note(snapshot, gone.map_err(|e| e.to_string()));
    }
    for _ in 0..12 {
        let synced = pool.sync_now().await;
        note("a txg that frees", synced.map_err(|e| e.to_string()));
    }
    let scrubbed = pool.scrub().await;
    note("a scrub", scrubbed.map_err(|e| e.to_string()));
    pool.env().sleep(Duration::from_secs(1)).await;
    let synced = pool.sync_now().await;
    note("the end of a scrub", synced.map_err(|e| e.to_string()));
    is_all
}

fn check_read_only(image: &CrashImage, target: &VictimBlock, way: LossKind, seen: &mut DamageCounts) {
    let sim = without(image, target, way);
    run(&sim, async {
        let how = ImportSpec { read_only: true, ..ImportSpec::default() };
        match SINGLE.import_as(&sim, tuning(), how).await {
            Ok(pool) => {
                check_witnesses(&pool, target).await;
                pool.close(PoolState::Exported).await.expect("it closes");
            }
            Err(error) => {
                assert!(target.may_forbid_import(), "cannot be imported to be read: {error:?}");
                seen.not_read += 1;
            }
        }
    });
}

fn check_in_use(image: &CrashImage, target: &VictimBlock, way: LossKind, seen: &mut DamageCounts) {
    let sim = without(image, target, way);
    run(&sim, async {
        let pool = match SINGLE.import(&sim, tuning(), false).await {
            Ok(pool) => pool,
            Err(error) => {
                assert!(target.may_forbid_use(way), "cannot be imported to be used: {error:?}");
                seen.not_used += 1;
                return;
            }
        };
        seen.used += 1;
        check_at_work(&pool, "the import");
        seen.limited += usize::from(!work(&pool).await);
        check_witnesses(&pool, target).await;
        check_at_work(&pool, "all");
        seen.leaked += usize::from(pool.dsl().leaked_bytes().await.is_ok_and(|bytes| bytes > 0));
        pool.close(PoolState::Exported).await.expect("it is exported");
        match SINGLE.import(&sim, tuning(), false).await {
            Ok(pool) => {
                check_witnesses(&pool, target).await;
                check_at_work(&pool, "the second import");
                pool.close(PoolState::Exported).await.expect("it is exported again");
            }
            Err(error) => assert!(target.may_forbid_use(way), "cannot be imported again: {error:?}"),
        }
    });
}

fn check(image: &CrashImage, target: &VictimBlock, way: LossKind, seen: &mut DamageCounts) {
    tell(format!("{way:?} of {:?}, {:?}", target.kind, target.bookmark));
    seen.blocks += 1;
    seen.kinds.insert(target.kind);
    check_read_only(image, target, way, seen);
    check_in_use(image, target, way, seen);
}

/// Returns one block of each type, or all.
fn drawn(all: Vec<VictimBlock>, seed: u64) -> Vec<VictimBlock> {
    if std::env::var("SAWMILL_DAMAGE").is_ok_and(|what| what == "all") {
        return all;
    }
    let mut by_kind: BTreeMap<VictimKind, Vec<VictimBlock>> = BTreeMap::new();
    all.into_iter().for_each(|target| by_kind.entry(target.kind).or_default().push(target));
    let mut dice = fastrand::Rng::with_seed(seed);
    by_kind.into_values().map(|kind| kind[dice.usize(..kind.len())]).collect()
}

fn lane(way: LossKind, seed: u64) {
    let _tell = Tell;
    oracle::told::to_the_test();
    let image = image(71_000);
    let mut seen = DamageCounts::default();
    let mut failed = Vec::new();
    for target in drawn(targets(&image), seed) {
        // All failures are reported together, because each type may fail for its own reason.
        let check = AssertUnwindSafe(|| check(&image, &target, way, &mut seen));
        if let Err(panic) = catch_unwind(check) {
            let text = panic.downcast_ref::<String>().cloned();
            failed.push((target.kind, target.bookmark, text.unwrap_or_else(|| "see above".to_owned())));
        }
    }
    println!("{way:?}: {seen:?}");
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(seen.kinds.len() >= 24, "kinds of blocks: {seen:?}");
    assert!(seen.used * 2 > seen.blocks, "most damage leaves a pool that can be used: {seen:?}");
    assert!(seen.leaked > 0, "nothing was leaked: {seen:?}");
    assert!(seen.not_read <= seen.not_used && seen.limited <= seen.used, "{seen:?}");
}

#[test]
fn damaged_metadata_cost_what_lies_below_them() {
    lane(LossKind::Checksum, 1);
}

#[test]
fn metadata_on_bad_places_cost_what_lies_below_them() {
    lane(LossKind::ReadError, 2);
}
