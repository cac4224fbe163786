//! File systems that are opened for reading again and again, while the same names are created and
//! destroyed.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use env::{BoxFuture, Env};
use futures::future::{join, join_all};
use pool::{Pool, PoolError};
use sim::{DiskModel, Sim, SimEnv};
use vdev::PoolState;
use zpl::{Cred, NewNode, WriteFlags};

use crate::shape::{STRIPE, brisk};
use crate::space;
use crate::story::{Tell, run, tell};

const NAME: &str = "whirl/brief";
const SEEDS: std::ops::Range<u64> = 98_000..98_008;
/// How often the file system is created and destroyed.
const LIVES: usize = 25;
const READERS: u64 = 3;
const FILE_BYTES: usize = 100_000;

/// Creates the file system, fills it, and destroys it, again and again. A reader may have the file
/// system open at each moment.
async fn live_and_die(sim: &SimEnv, pool: &Arc<Pool>) {
    for number in 0..LIVES {
        pool.create_filesystem(NAME, Vec::new()).await.expect("created");
        let fs = pool.filesystem(NAME).await.expect("opened");
        let file = fs.zfs.create(fs.zfs.root(), b"file", NewNode::File, 0o644, Cred::default()).await;
        let file = file.expect("created").object;
        let bytes = vec![number as u8; FILE_BYTES];
        fs.zfs.write(file, 0, &bytes, WriteFlags::default()).await.expect("written");
        drop(fs);
        sim.sleep(Duration::from_millis(number as u64 % 5)).await;
        pool.destroy_filesystem(NAME).await.expect("a reader does not prevent it");
    }
}

/// Opens the file system again and again, and reads a file if there is one. Returns how often the
/// file system was open, and how often it did not exist.
async fn visit(sim: Arc<SimEnv>, pool: Arc<Pool>, is_done: Arc<AtomicBool>) -> (u64, u64) {
    let (mut open, mut absent) = (0, 0);
    while !is_done.load(Relaxed) {
        match pool.keep_open(NAME).await {
            Ok(fs) => {
                open += 1;
                if let Ok(file) = fs.zfs.lookup(fs.zfs.root(), b"file").await {
                    let mut bytes = vec![0; FILE_BYTES];
                    let read = fs.zfs.read(file.object, 0, &mut bytes).await.expect("it stays open");
                    let first = bytes[0];
                    assert!(bytes[..read].iter().all(|&byte| byte == first), "bytes of one file");
                }
            }
            Err(PoolError::Dsl(dsl::DslError::NoSuchDataset { .. })) => absent += 1,
            Err(error) => panic!("{error:?}"),
        }
        sim.sleep(Duration::from_micros(200)).await;
    }
    (open, absent)
}

#[test]
fn a_file_system_is_destroyed_beside_readers_and_nobody_keeps_what_is_gone() {
    let _tell = Tell;
    let (mut open, mut absent) = (0, 0);
    for seed in SEEDS {
        tell(format!("seed {seed}"));
        let sim = Sim::seed(seed);
        STRIPE.add_disks(&sim, DiskModel::ssd());
        sim.stop_recording();
        run(&sim, async {
            let pool = STRIPE.create(&sim, brisk()).await;
            let is_done = Arc::new(AtomicBool::new(false));
            let readers = (0..READERS).map(|_| -> BoxFuture<'static, _> {
                Box::pin(visit(sim.clone(), Arc::clone(&pool), Arc::clone(&is_done)))
            });
            let writing = async {
                live_and_die(&sim, &pool).await;
                is_done.store(true, Relaxed);
            };
            let ((), counts) = join(writing, join_all(readers)).await;
            for (of_one, missing) in counts {
                open += of_one;
                absent += missing;
            }
            pool.sync_now().await.expect("the pool goes on");
            assert_eq!((pool.suspended(), pool.stopped()), (None, None));
            space::check(&pool).await;
            pool.close(PoolState::Exported).await.expect("nobody has a file system open");
        });
    }
    assert!(open > 100 && absent > 20, "{open} times open, {absent} times absent");
}
