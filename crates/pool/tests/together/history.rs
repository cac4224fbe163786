//! The history of a pool, read from the disks while records are added and overwrite the oldest.

use std::sync::Arc;
use std::time::Duration;

use env::Env;
use futures::future::join;
use ondisk::history::names;
use pool::Pool;
use sim::{DiskModel, DiskSpec, Sim, SimEnv};
use vdev::PoolState;

use crate::quiet;
use crate::shape::STRIPE;
use crate::story::{Tell, run, tell};

const SEED: u64 = 99_000;
/// The ring of a pool on two of these disks has eight blocks of 128 KiB.
const DISK_BYTES: u64 = 512 << 20;
/// Records that are added in one txg: more than the ring has room for.
const ADDED: u64 = 150;
const COMMAND_CHARS: usize = 8000;
/// Imports, after each of which no block is cached and the history is read once.
const IMPORTS: u64 = 40;
/// The history is read so much later after each import.
const LATER: Duration = Duration::from_micros(100);

/// Adds records with these numbers in one txg.
async fn add(pool: &Arc<Pool>, numbers: std::ops::Range<u64>) {
    for number in numbers {
        pool.log_history(&"x".repeat(COMMAND_CHARS), number).expect("the record is queued");
    }
    pool.sync_now().await.expect("the records are written");
}

/// Reads the numbers of the records.
async fn read(sim: &SimEnv, pool: &Pool, later: Duration) -> Vec<u64> {
    sim.sleep(later).await;
    let records = pool.dsl().history().await.expect("the history is read beside appends");
    let numbers: Vec<u64> = records[1..].iter().filter_map(|record| record.get_u64(names::WHO)).collect();
    let is_in_order = numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]);
    assert!(is_in_order, "records in their order, without a gap: {numbers:?}");
    numbers
}

#[test]
fn the_history_is_read_while_its_oldest_records_are_overwritten() {
    let _tell = Tell;
    let sim = Sim::seed(SEED);
    for path in STRIPE.disks() {
        sim.add_disk(path, DiskSpec::new(DISK_BYTES, DiskModel::ssd()));
    }
    sim.stop_recording();
    run(&sim, async {
        let pool = STRIPE.create(&sim, quiet()).await;
        add(&pool, 0..ADDED).await;
        pool.close(PoolState::Exported).await.expect("exported");
        let (mut before, mut overtaken, mut after) = (0, 0, 0);
        for import in 1..=IMPORTS {
            tell(format!("import {import}"));
            let pool = STRIPE.import(&sim, quiet(), false).await.expect("imported");
            let new = import * ADDED..(import + 1) * ADDED;
            let reading = read(&sim, &pool, LATER * import as u32);
            let ((), numbers) = join(add(&pool, new.clone()), reading).await;
            match numbers.last() {
                Some(&last) if last >= new.start => after += 1,
                Some(_) if numbers.len() as u64 > ADDED / 2 => before += 1,
                _ => overtaken += 1,
            }
            pool.close(PoolState::Exported).await.expect("exported");
        }
        let counts =
            format!("{before} reads before the records were added, {overtaken} overtaken, {after} after");
        println!("{counts}");
        assert!(overtaken > 0, "{counts}");
    });
}
