//! Changes of datasets and pools, each with every read that it makes failing in its turn.
//!
//! A few reads in a row fail, as many as a block of the meta-objset has copies: that block is as good as damaged, and the
//! change cannot be made. Then nothing of it is there, at once or after the pool has stopped and been imported again.

use std::sync::Arc;

use dsl::PropValue;
use env::{BoxFuture, FaultOp};
use pool::{Pool, PoolError};
use sim::{DiskModel, Sim};
use vdev::PoolState;

use crate::ground::{Ground, quiet};
use crate::shape::{POOL, SINGLE};
use crate::story::{run, tell};

/// Reads that fail in a row: more than copies of any block, and few enough that what comes next is read.
const READS: u64 = 12;

type Change = fn(Arc<Pool>) -> BoxFuture<'static, Result<(), PoolError>>;

/// The pool's datasets with their properties, and its own.
async fn look(pool: &Pool) -> Vec<String> {
    let mut seen = vec![format!("{:?}, checkpoint: {}", pool.comment(), pool.checkpoint().is_some())];
    for dataset in pool.dsl().list(POOL).await.expect("it lists") {
        let props = pool.dsl().props(&dataset).await.expect("it has properties");
        seen.push(format!("{}: {props:?}", dataset.name));
    }
    seen
}

/// How the changes of a lane went.
#[derive(Debug, Default)]
struct Seen {
    done: usize,
    refused: usize,
    stopped: usize,
}

struct Trial<'a> {
    ground: &'a Ground,
    change: Change,
    nth: u64,
}

impl Trial<'_> {
    async fn import(sim: &Sim) -> Arc<Pool> {
        let pool = SINGLE.import(sim, quiet(), false).await.expect("a sound pool imports");
        pool.zio().set_cache_limit(0);
        pool
    }

    /// What was there before the change and is there after it, and whether that read so often that one failed.
    fn run(&self, after: &[String], seen: &mut Seen) -> bool {
        let sim = self.ground.boot();
        let (before, done, is_stopped, met) = run(&sim, async {
            let pool = Self::import(&sim).await;
            let before = look(&pool).await;
            let disk = sim.disk("/a");
            let reads = disk.faults().seen(FaultOp::Read);
            disk.faults().fail_range(FaultOp::Read, self.nth, READS);
            let done = (self.change)(Arc::clone(&pool)).await;
            disk.faults().heal();
            let met = disk.faults().seen(FaultOp::Read) - reads >= self.nth;
            let is_stopped = pool.stopped().is_some();
            if !is_stopped {
                let now = look(&pool).await;
                assert_eq!(now, if done.is_ok() { after } else { &before }, "read {}: {done:?}", self.nth);
                pool.set_comment(Some("goes on".into())).await.expect("the pool goes on");
                pool.close(PoolState::Exported).await.expect("a pool closes");
            }
            (before, done, is_stopped, met)
        });
        match (&done, is_stopped) {
            (Ok(()), _) => seen.done += 1,
            (Err(_), false) => seen.refused += 1,
            (Err(_), true) => seen.stopped += 1,
        }
        assert!(done.is_err() || !is_stopped, "read {}: done, and the pool has stopped", self.nth);
        if is_stopped {
            let sim = sim.power_cut(self.nth).boot(1);
            run(&sim, async {
                let pool = Self::import(&sim).await;
                assert_eq!(look(&pool).await, before, "read {}: after the next import", self.nth);
                pool.close(PoolState::Exported).await.expect("a pool closes");
            });
        }
        met
    }
}

fn every_read_fails(changes: &[(&str, Change)]) {
    let ground = Ground::new(&SINGLE, 5, DiskModel::instant()).with(|pool| {
        Box::pin(async move { pool.create_filesystem("whirl/old", Vec::new()).await.expect("created") })
    });
    for (name, change) in changes {
        let sim = ground.boot();
        let after = run(&sim, async {
            let pool = Trial::import(&sim).await;
            change(Arc::clone(&pool)).await.expect("nothing is in its way");
            let after = look(&pool).await;
            pool.close(PoolState::Exported).await.expect("a pool closes");
            after
        });
        let mut seen = Seen::default();
        let mut nth = 1;
        while (Trial { ground: &ground, change: *change, nth }).run(&after, &mut seen) {
            tell(format!("{name}, read {nth}"));
            nth += 1;
        }
        println!("{name}: {seen:?}");
        assert!(seen.refused + seen.stopped > 0, "{name}: no read of it failed");
    }
}

#[test]
fn a_task_that_cannot_be_done_whole_is_not_done() {
    every_read_fails(&[
        ("create", |pool| {
            Box::pin(async move {
                let props = vec![("compression".to_owned(), PropValue::Number(15))];
                pool.create_filesystem("whirl/new", props).await
            })
        }),
        ("set", |pool| {
            Box::pin(async move { pool.set_prop(POOL, "atime", Some(PropValue::Number(0))).await })
        }),
        ("checkpoint", |pool| Box::pin(async move { pool.make_checkpoint().await })),
        ("rename", |pool| Box::pin(async move { pool.rename_dataset("whirl/old", "whirl/other").await })),
        ("destroy", |pool| Box::pin(async move { pool.destroy_filesystem("whirl/old").await })),
        ("comment", |pool| Box::pin(async move { pool.set_comment(Some("a remark".into())).await })),
    ]);
}
