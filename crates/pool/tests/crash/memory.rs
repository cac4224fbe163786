//! What stays in memory of a world whose power was cut: nothing, though its pool was dirty.

use std::sync::Arc;

use sim::DiskModel;
use zpl::{Cred, NewNode, WriteFlags};

use crate::ground::Ground;
use crate::shape::SINGLE_TWO_LOGS;
use crate::story::{Tell, run};

const ASYNC: WriteFlags = WriteFlags { append: false, sync: false, drop_setid: false };

#[test]
fn a_pool_that_dies_dirty_is_let_go() {
    let _tell = Tell;
    let ground = Ground::new(&SINGLE_TWO_LOGS, 32_000, DiskModel::ssd());
    let sim = ground.boot();
    let env = Arc::downgrade(&sim.env());
    run(&sim, async {
        let (_, fs) = ground.open(&sim).await;
        let zfs = &fs.zfs;
        let file = zfs.create(zfs.root(), b"file", NewNode::File, 0o644, Cred::default()).await;
        let file = file.expect("create").object;
        zfs.write(file, 0, &[7; 300_000], ASYNC).await.expect("write");
        zfs.fsync(file, false).await.expect("fsync");
        zfs.write(file, 0, &[8; 5_000], ASYNC).await.expect("write");
    });
    drop(sim.power_cut(1));
    drop(sim);
    assert_eq!(env.strong_count(), 0, "holders of the world's environment");
}
