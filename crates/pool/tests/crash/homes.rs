//! Which log vdev blocks go to.

use sim::{DiskModel, DiskSpec, Sim};
use units::VdevId;
use vdev::PoolState;
use zpl::{Cred, NewNode, WriteFlags};

use crate::shape::{DISK_BYTES, POOL, TWO_LOGS, brisk};
use crate::story::{Tell, run, tell};

const SYNC: WriteFlags = WriteFlags { append: false, sync: true, drop_setid: false };

/// Blocks that the two logs got, `/l` and `/m` being such disks, of so many small commits.
fn blocks(seed: u64, l: DiskModel, m: DiskModel, commits: u64) -> [u64; 2] {
    let sim = Sim::seed(seed);
    for (path, model) in [("/a", DiskModel::ssd()), ("/b", DiskModel::ssd()), ("/l", l), ("/m", m)] {
        sim.add_disk(path, DiskSpec::new(DISK_BYTES, model));
    }
    let mut homes = [0; 2];
    run(&sim, async {
        let pool = TWO_LOGS.create(&sim, brisk()).await;
        let fs = pool.filesystem(POOL).await.expect("it opens");
        let file = fs.zfs.create(fs.zfs.root(), b"file", NewNode::File, 0o644, Cred::default()).await;
        let file = file.expect("create").object;
        for at in 0..commits {
            fs.zfs.write(file, at % 64 * 512, &[7; 512], SYNC).await.expect("write");
        }
        let stats = fs.log.as_ref().expect("a log").stats();
        homes = [1, 2].map(|vdev| stats.homes.get(&VdevId::new(vdev)).map_or(0, |home| home.blocks));
        drop(fs);
        pool.close(PoolState::Exported).await.expect("a pool closes");
    });
    homes
}

#[test]
fn a_slow_log_gets_few_blocks() {
    let _tell = Tell;
    tell("a fast log and one that turns".into());
    let [fast, slow] = blocks(31_000, DiskModel::nvram(), DiskModel::sata_2007(), 1000);
    assert!(slow >= 1, "it is tried");
    assert!(fast > 20 * slow, "{fast} blocks to the fast one, {slow} to the other");
}

#[test]
fn logs_of_the_same_speed_share() {
    let _tell = Tell;
    tell("two equal logs".into());
    let [l, m] = blocks(31_001, DiskModel::ssd(), DiskModel::ssd(), 1000);
    assert!(l * 4 > m && m * 4 > l, "{l} and {m} blocks");
}
