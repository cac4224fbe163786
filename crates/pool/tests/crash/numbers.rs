//! Logs whose records have numbers as they come after long use, or from somebody who means harm.

use ondisk::zil::{ChainForm, ZIL_CHAIN_BYTES, ZilChain};
use ondisk::{Blkptr, ByteOrder, ChecksumKind, ZioEck};
use pool::{ImportSpec, Pool};
use sim::Sim;
use zil::WalkedBlock;

use crate::replay::{check, close, cut_off};
use crate::shape::{LOG, POOL, brisk};
use crate::story::{Tell, run, tell};

/// Files whose log has no more records than there are numbers behind the first that is tried.
const FILES: u64 = 4;

/// The written blocks of the log of the pool's root, as a reader finds them.
async fn log_blocks(sim: &Sim) -> Vec<Blkptr> {
    let (paths, name) = (LOG.disks().collect(), Some(POOL.into()));
    let spec = ImportSpec { paths, name, read_only: true, ..ImportSpec::default() };
    let pool = Pool::import(sim.env(), &spec, brisk()).await.expect("it can be read");
    let logs = pool.logs().await.expect("they can be read");
    let mut walk = logs.first().expect("there is one").walk();
    let mut blocks = Vec::new();
    while let Some(block) = walk.next().await.expect("it is sound") {
        blocks.extend(Some(block).filter(WalkedBlock::is_written).map(|block| block.bp));
    }
    blocks
}

/// Numbers the records of the pool's log anew, and seals its blocks again; how many there are.
fn renumber(sim: &Sim, blocks: &[Blkptr], number: impl Fn(u64) -> u64) -> u64 {
    let mut records = 0;
    for bp in blocks {
        let at = bp.dva(0).offset.on_leaf().expect("on the disk").get();
        let mut block = sim.disk("/l").peek(at, bp.psize().get() as usize);
        let used = ZilChain::read(ChainForm::Slim, &block).expect("a log block").used.get() as usize;
        let mut from = ZIL_CHAIN_BYTES;
        while from < used {
            block[from + 24..from + 32].copy_from_slice(&number(records).to_le_bytes());
            records += 1;
            from += u64::from_le_bytes(block[from + 8..from + 16].try_into().expect("8 bytes")) as usize;
        }
        block.truncate(used.next_multiple_of(4096));
        ZioEck::seeded(bp.checksum()).put_in(ByteOrder::Little, &mut block[..ZIL_CHAIN_BYTES]);
        let sum = codec::checksum_of(ByteOrder::Little, ChecksumKind::Zilog2, &block, None);
        ZioEck::seeded(sum.expect("known")).put_in(ByteOrder::Little, &mut block[..ZIL_CHAIN_BYTES]);
        sim.disk("/l").rot(at, &block);
    }
    records
}

/// A pool cut off with a log whose records are numbered so.
fn numbered(seed: u64, number: impl Fn(u64) -> u64) -> Sim {
    let image = cut_off(seed, &[POOL], FILES).power_cut(1);
    let reader = image.boot(1);
    let blocks = run(&reader, log_blocks(&reader));
    let sim = image.boot(seed);
    let records = renumber(&sim, &blocks, number);
    assert!((4..=11).contains(&records), "{records} records");
    sim
}

#[test]
fn a_log_that_has_seen_any_number_of_records_is_replayed_and_resumed() {
    let _tell = Tell;
    for first in [1, 100_000_000_000, u64::MAX - 10] {
        tell(format!("the log begins with record {first}"));
        let sim = numbered(31_000, |nth| first + nth);
        let sim = run(&sim, async {
            let pool = LOG.import(&sim, brisk(), false).await.expect("the log is claimed");
            check(&pool.filesystem(POOL).await.expect("it is replayed").zfs, FILES).await;
            pool.sync_now().await.expect("groups go on");
            sim.power_cut(2).boot(31_001)
        });
        run(&sim, async {
            let pool = LOG.import(&sim, brisk(), false).await.expect("what is left is claimed");
            check(&pool.filesystem(POOL).await.expect("it is replayed").zfs, FILES).await;
            close(pool).await;
        });
    }
}

#[test]
fn a_log_whose_record_numbers_do_not_rise_is_an_error_and_stays() {
    let _tell = Tell;
    for (what, number) in [
        ("all the same", (|_| 7) as fn(u64) -> u64),
        ("falling", |nth| 100 - nth),
        ("around the end", |nth| (u64::MAX - 1).wrapping_add(nth)),
    ] {
        tell(format!("record numbers are {what}"));
        let sim = numbered(31_100, number);
        run(&sim, async {
            let pool = LOG.import(&sim, brisk(), false).await.expect("the log is claimed");
            for _ in 0..2 {
                let refused = pool.filesystem(POOL).await.map(drop).expect_err("nobody wrote such a log");
                assert!(format!("{refused:?}").contains("BadRecord"), "{refused:?}");
                pool.sync_now().await.expect("groups go on");
            }
            assert_eq!(pool.logs().await.expect("they can be read").len(), 1, "it is kept");
        });
    }
}
