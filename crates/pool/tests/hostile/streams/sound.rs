//! Whether a pool is sound: every block reads, and every allocated sector belongs to one block.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dmu::{Objset, Place, Reach};
use dsl::Bpobj;
use env::Env;
use metaslab::Class;
use ondisk::Blkptr;
use ondisk::dsl::ScanPhys;
use ondisk::dsl::scan::state;
use pool::Pool;
use sim::Sim;
use units::{ObjsetId, Txg};

use crate::ours::POOL;

/// Scrubs the pool, which was just imported and has no open file system.
pub async fn check(sim: &Sim, pool: &Arc<Pool>) {
    while pool.dsl().has_destroyed().await.expect("readable") {
        pool.sync_now().await.expect("txgs turn");
    }
    let scan = scrub(sim, pool).await;
    let damaged = pool.data_errors().await;
    assert!(scan.errors.get() == 0 && damaged.is_empty(), "{scan:?}, {damaged:?}");
    for _ in 0..3 {
        pool.sync_now().await.expect("txgs turn");
    }
    let mut blocks = reachable(pool).await;
    blocks.extend(waiting(pool).await);
    let mut places = BTreeMap::new();
    for dva in blocks.iter().flat_map(Blkptr::dvas) {
        let before = places.insert((dva.vdev, dva.offset), dva.asize.get());
        assert!(before.is_none(), "{dva:?} belongs to two blocks");
    }
    let allocated = pool.zio().with_allocator(|allocator| allocator.space(Class::Normal).allocated.get());
    assert_eq!(allocated, places.values().sum::<u64>(), "bytes allocated, and reachable");
}

/// Scrubs the pool to the end.
pub async fn scrub(sim: &Sim, pool: &Arc<Pool>) -> ScanPhys {
    pool.scrub().await.expect("a scrub begins");
    loop {
        sim.sleep(Duration::from_millis(200)).await;
        let scan = pool.scan().expect("there is a scrub").phys;
        if scan.state.get() != state::SCANNING {
            assert_eq!(scan.state.get(), state::FINISHED);
            return scan;
        }
    }
}

/// Every block that the roots lead to.
async fn reachable(pool: &Arc<Pool>) -> Vec<Blkptr> {
    let dsl = pool.dsl();
    let mut blocks = below(pool, dsl.mos().id(), &dsl.mos().root(), Txg::ZERO).await;
    let mut datasets = dsl.list(POOL).await.expect("listed");
    for head in datasets.clone() {
        datasets.extend(dsl.snapshots(&head).await.expect("listed"));
        datasets.extend(dsl.receiving_below(&head).await.expect("readable"));
    }
    for dataset in datasets {
        let phys = dsl.dataset(dataset.dataset).await.expect("readable");
        let since = Txg::new(phys.prev_snapshot_txg.get());
        blocks.extend(below(pool, dataset.objset(), &phys.bp, since).await);
    }
    blocks
}

/// The blocks of an objset that are younger than its snapshots.
async fn below(pool: &Pool, objset: ObjsetId, root: &Blkptr, born_after: Txg) -> Vec<Blkptr> {
    let reach = Reach { from: Place::START, born_after, limit: usize::MAX };
    let seen = Objset::visit(pool.zio(), objset, root, reach).await;
    assert!(seen.lost.is_empty(), "objset {objset}: {:?}", seen.lost);
    seen.blocks.into_iter().map(|(_, bp)| bp).collect()
}

/// Blocks that are freed with the next txg.
async fn waiting(pool: &Pool) -> Vec<Blkptr> {
    let dsl = pool.dsl();
    let object = dsl.directory_object("sync_bplist").await.expect("readable");
    let list = Bpobj::open(dsl.mos(), object).await.expect("readable");
    let mut blocks = Vec::new();
    list.for_each(&mut |bps| blocks.extend_from_slice(bps)).await.expect("readable");
    blocks
}
