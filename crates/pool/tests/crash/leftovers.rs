//! Files without a name that a power cut leaves in the delete queue.

use std::time::Duration;

use env::Env;
use sim::{DiskModel, Sim};
use vdev::PoolState;
use zpl::{Cred, NewNode, WriteFlags};

use crate::shape::{POOL, SINGLE, brisk};
use crate::space;
use crate::story::{Tell, run};

const SEED: u64 = 48_500;
/// The number of files that are to be freed.
const FILES: usize = 300;
/// The time of each request.
const DELAY: Duration = Duration::from_millis(5);

#[test]
fn a_file_system_is_used_while_files_without_a_name_are_freed() {
    let _tell = Tell;
    let sim = Sim::seed(SEED);
    SINGLE.add_disks(&sim, DiskModel::ssd());
    sim.stop_recording();
    let before = run(&sim, async {
        let pool = SINGLE.create(&sim, brisk()).await;
        let fs = pool.filesystem(POOL).await.expect("the root file system");
        pool.sync_now().await.expect("synced");
        let before = pool.room().allocated;
        for _ in 0..FILES {
            let made = fs.zfs.create_unnamed(fs.zfs.root(), 0o644, Cred::default()).await.expect("created");
            fs.zfs.write(made.object, 0, &[7; 20_000], WriteFlags::default()).await.expect("written");
        }
        pool.sync_now().await.expect("synced");
        before
    });
    let image = sim.power_cut(SEED);
    drop(sim);
    let sim = image.boot(SEED);
    run(&sim, async {
        sim.disk("/a").set_delay(DELAY);
        let pool = SINGLE.import(&sim, brisk(), false).await.expect("imported");
        let fs = pool.filesystem(POOL).await.expect("the root file system");
        let waiting = fs.zfs.count_unnamed().await.expect("readable");
        assert!(waiting > FILES / 2, "{waiting} files are still to be freed");
        let made = fs.zfs.create(fs.zfs.root(), b"file", NewNode::File, 0o644, Cred::default()).await;
        let file = made.expect("the file system is in use").object;
        let stable = WriteFlags { sync: true, ..WriteFlags::default() };
        fs.zfs.write(file, 0, b"hello", stable).await.expect("written");
        assert!(fs.zfs.count_unnamed().await.expect("readable") > 0, "files are freed beside a commit");
        while fs.zfs.count_unnamed().await.expect("readable") > 0 {
            sim.sleep(DELAY).await;
        }
        for _ in 0..4 {
            pool.sync_now().await.expect("synced");
        }
        let after = pool.room().allocated;
        assert!(after < before + (1 << 20), "{after} bytes are allocated, and {before} were before");
        space::check(&pool).await;
        drop(fs);
        pool.close(PoolState::Exported).await.expect("exported");
    });
}
