//! Raidz pools block by block: our parity is OpenZFS's, and so is what datasets are charged.

use dmu::{Objset, Place, Reach};
use pool::Pool;
use units::{ObjsetId, Txg};

use crate::world::World;

/// Scrubs all blocks of an objset; gives what a dataset is charged for them.
async fn scrub(pool: &Pool, id: ObjsetId, root: &ondisk::Blkptr) -> u64 {
    let all = Reach { from: Place::START, born_after: Txg::ZERO, limit: usize::MAX };
    let seen = Objset::visit(pool.zio(), id, root, all).await;
    assert!(seen.lost.is_empty() && seen.next.is_none(), "{:?}", seen.lost);
    let mut charged = 0;
    for (bookmark, bp) in &seen.blocks {
        let found = pool.zio().scrub(bp, bookmark).await.expect("sound");
        assert_eq!(found.bad_copies, 0, "{bookmark}: a column is not what we compute");
        charged += pool.zio().charged_bytes(bp);
    }
    assert!(seen.blocks.len() > 10, "{} blocks", seen.blocks.len());
    charged
}

#[test]
fn every_column_of_every_block_is_what_we_compute_and_charges_are_those_of_openzfs() {
    for name in ["g05-raidz1", "g06-raidz2", "g25-expanded", "g26-draid"] {
        let world = World::golden(name);
        let pool = world.import(true).expect("sound");
        world.env.block_on(async {
            let dsl = pool.dsl();
            scrub(&pool, ObjsetId::MOS, &dsl.mos().root()).await;
            for dataset in dsl.list("whirl").await.expect("readable") {
                let phys = dsl.dataset(dataset.dataset).await.expect("readable");
                if phys.unique_bytes.get() > 100 << 10 {
                    let charged = scrub(&pool, dataset.objset(), &phys.bp).await;
                    assert_eq!(charged, phys.referenced_bytes.get(), "{}", dataset.name);
                }
            }
        });
    }
}
