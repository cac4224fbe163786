//! Readers while a txg's sync goes over the meta-objset again and again, and the blocks whose frees
//! such a sync defers.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::{Either, select, try_join_all};
use ondisk::mos::directory::SYNC_BPOBJ;
use pool::{Pool, PoolError};
use sim::{DiskModel, Sim};
use units::{Txg, VdevId, VdevOffset};
use vdev::PoolState;
use zpl::{Cred, NewNode, WriteFlags};

use crate::ground::quiet;
use crate::shape::{MIRROR, POOL, SINGLE, Shape};
use crate::story::{Tell, run, tell};

const DATASETS: usize = 16;

async fn make(pool: &std::sync::Arc<Pool>, number: usize) -> Result<(), PoolError> {
    let name = format!("{POOL}/set{number}");
    pool.create_filesystem(&name, Vec::new()).await?;
    let zfs = pool.filesystem(&name).await?.zfs.clone();
    let file = zfs.create(zfs.root(), b"file", NewNode::File, 0o600, Cred::default()).await?.object;
    zfs.write(file, 0, b"written", WriteFlags { sync: true, ..WriteFlags::default() }).await?;
    Ok(())
}

/// Nothing is found in the cache, so that each reader goes by the tree.
fn read_while_syncing(shape: &'static Shape, seed: u64) {
    let _tell = Tell;
    tell(format!("seed {seed}, shape \"{}\"", shape.name));
    let sim = Sim::seed(seed);
    shape.add_disks(&sim, DiskModel::ssd());
    run(&sim, async {
        let pool = shape.create(&sim, quiet()).await;
        pool.zio().set_cache_limit(0);
        let making = Box::pin(try_join_all((0..DATASETS).map(|number| make(&pool, number))));
        let looking = Box::pin(async {
            loop {
                let found = pool.dsl().list(POOL).await.expect("every dataset is read");
                for dataset in found {
                    pool.dsl().props(&dataset).await.expect("properties are read");
                }
                sim.env().sleep(Duration::from_micros(10)).await;
            }
        });
        match select(making, looking).await {
            Either::Left((made, _)) => made.expect("datasets are made"),
            Either::Right(((), _)) => unreachable!("it looks without end"),
        };
        assert_eq!(pool.dsl().list(POOL).await.expect("read").len(), DATASETS + 1);
        assert!(!pool.zio().has_lost() && !pool.zio().has_damaged());
        assert!(pool.vdevs().leaves().iter().all(|leaf| leaf.stats().snapshot().checksum_errors == 0));
        pool.close(PoolState::Exported).await.expect("a pool closes");
    });
}

#[test]
fn datasets_made_while_groups_are_synced_are_read_rightly() {
    (35_000..35_002).for_each(|seed| read_while_syncing(&SINGLE, seed));
    read_while_syncing(&MIRROR, 35_100);
}

/// The blocks on the list of deferred frees: where they are, and when they were born.
async fn deferred(pool: &Pool) -> BTreeSet<(VdevId, VdevOffset, Txg)> {
    let list = pool.dsl().directory_object(SYNC_BPOBJ).await.expect("it is there");
    let entries = pool.dsl().bpobj_entries(list).await.expect("it reads");
    entries.iter().map(|bp| (bp.dva(0).vdev, bp.dva(0).offset, bp.birth())).collect()
}

#[test]
fn what_a_group_defers_is_freed_by_the_next() {
    let _tell = Tell;
    tell("deferred frees".into());
    let sim = Sim::seed(35_200);
    SINGLE.add_disks(&sim, DiskModel::instant());
    run(&sim, async {
        let pool = SINGLE.create(&sim, quiet()).await;
        let (mut before, mut count) = (BTreeSet::new(), 0);
        for round in 0..12 {
            // Each second group changes a remark in the meta-objset only. Such a group allocates nothing before
            // its first pass has ended, so its second pass changes objects that the first pass did not change.
            match round % 2 {
                0 => pool.create_filesystem(&format!("{POOL}/set{round}"), Vec::new()).await,
                _ => pool.set_comment(Some(format!("round {round}"))).await,
            }
            .expect("there is room");
            let now = deferred(&pool).await;
            assert!(now.is_disjoint(&before), "round {round}: the group before has deferred these, too");
            count += now.len();
            before = now;
        }
        assert!(count > 0, "no group has deferred anything");
        pool.close(PoolState::Exported).await.expect("a pool closes");
    });
}
