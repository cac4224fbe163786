//! Whether every allocated sector belongs to somebody, every block to one only, and every object too.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use dmu::{Objset, ObjsetContext, ObjsetProps};
use dsl::Bpobj;
use metaslab::Class;
use ondisk::{Blkptr, Dva};
use oracle::needs::Need;
use oracle::zdb::{Zdb, ZdbError};
use pool::Pool;
use sim::Sim;
use tempfile::TempDir;
use units::Txg;
use vdev::Run;

use crate::owned;
use crate::shape::{DISK_BYTES, POOL, Shape};

/// Closes the file systems and adds up. With their logs gone and all freed that waited for it, what is allocated is
/// what can be reached from the roots.
pub async fn check(pool: &Arc<Pool>) {
    let (allocated, reachable) = added_up(pool).await;
    assert_eq!(allocated, reachable, "allocated, and reachable from the roots");
}

/// As [`check`], after reads have failed: the space below a lost block stays allocated, and the pool
/// reports the block.
#[allow(dead_code, reason = "some lanes have no reads that fail")]
pub async fn check_but_leaks(pool: &Arc<Pool>) {
    let (allocated, reachable) = added_up(pool).await;
    assert!(allocated >= reachable, "{reachable} bytes are reachable, {allocated} allocated");
    let is_named = !pool.data_errors().await.is_empty();
    assert!(allocated == reachable || is_named, "{} bytes are nobody's", allocated - reachable);
}

/// Returns the bytes that are allocated, and the bytes that are reachable from the roots.
async fn added_up(pool: &Arc<Pool>) -> (u64, u64) {
    for dataset in pool.dsl().list(&pool.name()).await.expect("it lists") {
        pool.close_filesystem(&dataset.name).await.expect("a file system closes");
    }
    pool.sync_now().await.expect("sync");
    while pool.dsl().has_destroyed().await.expect("it reads") {
        pool.sync_now().await.expect("sync");
    }
    let (blocks, allocated) = between_groups(pool).await;
    let (mut places, mut known, mut saved_bytes) = (BTreeMap::new(), BTreeMap::new(), 0);
    for bp in &blocks {
        // Files may share it.
        if bp.dvas().next().is_some_and(|dva| {
            known
                .insert((dva.vdev, dva.offset), bp.physical_birth())
                .is_some_and(|born| born == bp.physical_birth())
        }) {
            saved_bytes += pool.zio().charged_bytes(bp);
            continue;
        }
        for place in bp.dvas().flat_map(|dva| places_of(pool, dva)) {
            let before = places.insert((place.vdev, place.offset), place.len);
            assert!(before.is_none(), "{place:?} belongs to two blocks");
        }
    }
    let shared = pool.facts().await.cloned.expect("the tables read");
    assert_eq!(
        shared.saved_bytes, saved_bytes,
        "what further references would take, and what there are of them"
    );
    let ends = places.iter().zip(places.iter().skip(1));
    for ((&(vdev, offset), len), (&(next_vdev, next), _)) in ends {
        assert!(vdev != next_vdev || offset.get() + len <= next.get(), "blocks overlap at {vdev} {next}");
    }
    let [normal, log] = allocated;
    assert_eq!(log, 0, "bytes of a log vdev that no log holds");
    (normal, places.values().sum())
}

/// Where a copy of a block takes room: where it is, and if its vdev is being removed, where it was copied by now.
fn places_of(pool: &Pool, dva: Dva) -> Vec<Run> {
    let run = Run { vdev: dva.vdev, offset: dva.offset, len: dva.asize.get() };
    let located = pool.vdevs().locate(run).expect("what is on removed vdevs is mapped").pieces;
    let copied = |run: &Run| pool.vdevs().copied(*run).expect("what was copied is mapped").pieces;
    let copies: Vec<Run> = located.iter().flat_map(copied).collect();
    [located, copies].concat()
}

/// All blocks there are, and what is allocated of normal vdevs and logs; both as one txg left them,
/// for a resilver may go on and have the next one written.
async fn between_groups(pool: &Pool) -> (Vec<Blkptr>, [u64; 2]) {
    let gate = pool.txgs();
    for _ in 0..1000 {
        let txg = gate.synced_txg();
        let is_between = || gate.synced_txg() == txg && gate.open_txg() == txg.next();
        if is_between() {
            let mut blocks = reachable(pool).await.expect("all of it reads");
            blocks.extend(waiting(pool).await.expect("the list reads"));
            let allocated = [Class::Normal, Class::Log]
                .map(|class| pool.zio().with_allocator(|allocator| allocator.space(class).allocated.get()));
            if is_between() {
                return (blocks, allocated);
            }
        }
        pool.env().sleep(Duration::from_millis(3)).await;
    }
    panic!("groups leave no time between them");
}

/// All blocks that can be read; no object of theirs is nobody's.
pub async fn reachable(pool: &Pool) -> Result<Vec<Blkptr>, Box<dyn Error>> {
    let dsl = pool.dsl();
    let mut blocks = dsl.mos().all_blocks().await?;
    let mut datasets = dsl.list(&pool.name()).await?;
    for head in datasets.clone() {
        datasets.extend(dsl.snapshots(&head).await?);
    }
    for dataset in datasets {
        let phys = dsl.dataset(dataset.dataset).await?;
        let context = ObjsetContext {
            id: dataset.objset(),
            zio: Arc::clone(pool.zio()),
            gate: Arc::clone(pool.txgs()),
            props: ObjsetProps::dataset_default(),
        };
        let objset = Objset::open(context, phys.bp).await?;
        let may_have_log = pool.is_read_only() || dataset.is_snapshot();
        assert!(may_have_log || objset.zil_header().log.is_hole(), "a closed log leaves no header");
        owned::check(&objset).await?;
        // What is older is the snapshot's before it, too.
        let since = Txg::new(phys.prev_snapshot_txg.get());
        blocks.extend(objset.all_blocks().await?.into_iter().filter(|bp| bp.birth() > since));
    }
    Ok(blocks)
}

/// Blocks that wait to be freed: nobody reads them any more, and their pointers have lost their checksums.
async fn waiting(pool: &Pool) -> Result<Vec<Blkptr>, Box<dyn Error>> {
    let dsl = pool.dsl();
    let list = Bpobj::open(dsl.mos(), dsl.directory_object("sync_bplist").await?).await?;
    let mut blocks = Vec::new();
    list.for_each(&mut |bps| blocks.extend_from_slice(bps)).await?;
    Ok(blocks)
}

/// Has `zdb` judge what is on the disks of a world now.
pub fn judged_by_zdb(shape: &Shape, sim: &Sim) {
    by_zdb(shape, |path, offset, len| sim.disk(path).peek(offset, len));
}

/// Has `zdb` judge the pool whose disks hold that.
pub fn by_zdb(shape: &Shape, peek: impl Fn(&Path, u64, usize) -> Vec<u8>) {
    match check_by_zdb(shape, peek) {
        Err(ZdbError::Missing(error)) => Need::Zdb.is_missing(&error.to_string()),
        judged => judged.unwrap_or_else(|error| panic!("{error}")),
    }
}

/// Puts a pool's disks into files and has `zdb` read all blocks, account for all space, and find the name of every
/// object.
pub fn check_by_zdb(shape: &Shape, peek: impl Fn(&Path, u64, usize) -> Vec<u8>) -> Result<(), ZdbError> {
    const STEP: usize = 256 << 10;
    let dir = TempDir::new().expect("a directory for images");
    for path in shape.disks() {
        let name = path.file_name().expect("a disk's path has a name");
        let file = File::create(dir.path().join(name)).expect("a new file");
        file.set_len(DISK_BYTES).expect("a sparse file");
        for offset in (0..DISK_BYTES).step_by(STEP) {
            let bytes = peek(&path, offset, STEP);
            if bytes.iter().any(|&byte| byte != 0) {
                file.write_all_at(&bytes, offset).expect("a file is written");
            }
        }
    }
    Zdb::new(dir.path(), POOL).check_owned()
}
