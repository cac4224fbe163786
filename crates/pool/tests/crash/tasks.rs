//! Changes of datasets and pools, each with every read that it makes failing in its turn.
//!
//! A few reads in a row fail, as many as a block of the meta-objset has copies: that block is as good as damaged, and the
//! change cannot be made. Then nothing of it is there, at once or after the pool has stopped and been imported again.

use std::sync::Arc;

use dsl::PropValue;
use env::{BoxFuture, FaultOp};
use pool::{Pool, PoolError, VolumeSpec};
use sim::{DiskModel, DiskSpec, Sim};
use vdev::PoolState;

use crate::ground::{Ground, PROBED, quiet};
use crate::outlook::{end_scrub, label_state, look};
use crate::shape::{DISK_BYTES, GROWN, POOL, SINGLE};
use crate::story::{run, tell};

/// Reads that fail in a row: more than copies of any block, and few enough that what comes next is read.
const READS: u64 = 12;

type Do = fn(Arc<Pool>) -> BoxFuture<'static, Result<(), PoolError>>;

/// What is done to a pool while a disk's reads fail.
struct Change {
    name: &'static str,
    /// Whose reads fail: the pool's, or one that is to join it.
    disk: &'static str,
    /// What was done just before.
    before: Option<Do>,
    act: Do,
    /// There is no open pool after it.
    closes: bool,
}

impl Change {
    const fn new(name: &'static str, act: Do) -> Self {
        Self { name, disk: "/a", before: None, act, closes: false }
    }
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
    change: &'a Change,
    nth: u64,
}

impl Trial<'_> {
    /// A world with the pool, and with disks that may join it.
    fn boot(ground: &Ground) -> Sim {
        let sim = ground.boot();
        for path in GROWN.disks().skip(1) {
            sim.add_disk(path, DiskSpec::new(DISK_BYTES, DiskModel::instant()));
        }
        sim
    }

    /// The pool, which has all vdevs that it had when it was left.
    async fn import(sim: &Sim) -> Arc<Pool> {
        let pool = GROWN.import(sim, quiet(), false).await.expect("a sound pool imports");
        pool.zio().set_cache_limit(0);
        pool
    }

    /// Does it with none of its reads failing, and says what is there then.
    fn unhindered(ground: &Ground, change: &Change) -> Vec<String> {
        let sim = Self::boot(ground);
        run(&sim, async {
            let pool = Self::import(&sim).await;
            if let Some(before) = change.before {
                before(Arc::clone(&pool)).await.expect("nothing is in its way");
            }
            (change.act)(Arc::clone(&pool)).await.expect("nothing is in its way");
            let pool = if change.closes { Self::import(&sim).await } else { pool };
            let after = look(&pool).await;
            pool.close(PoolState::Exported).await.expect("a pool closes");
            after
        })
    }

    /// What was there before the change and is there after it, and whether that read so often that one failed.
    fn run(&self, after: &[String], seen: &mut Seen) -> bool {
        let sim = Self::boot(self.ground);
        let (before, done, is_stopped, met) = run(&sim, async {
            let pool = Self::import(&sim).await;
            if let Some(before) = self.change.before {
                before(Arc::clone(&pool)).await.expect("nothing is in its way");
            }
            let before = look(&pool).await;
            let disk = sim.disk(self.change.disk);
            let reads = disk.faults().seen(FaultOp::Read);
            disk.faults().spare(PROBED);
            disk.faults().fail_range(FaultOp::Read, self.nth, READS);
            let done = (self.change.act)(Arc::clone(&pool)).await;
            disk.faults().heal();
            let met = disk.faults().seen(FaultOp::Read) - reads >= self.nth;
            let is_stopped = pool.stopped().is_some();
            if !is_stopped {
                let now = if done.is_ok() { after } else { &before };
                self.goes_on(&sim, pool, now, done.is_ok()).await;
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
                assert_eq!(label_state(&sim, &GROWN).await, Some(PoolState::Active), "read {}", self.nth);
                let pool = Self::import(&sim).await;
                assert_eq!(look(&pool).await, before, "read {}: after the next import", self.nth);
                pool.close(PoolState::Exported).await.expect("a pool closes");
            });
        }
        met
    }

    /// It is as expected, can be worked with, and is the same after an export.
    async fn goes_on(&self, sim: &Sim, pool: Arc<Pool>, expected: &[String], is_done: bool) {
        let pool = if self.change.closes && is_done {
            assert_eq!(label_state(sim, &GROWN).await, Some(PoolState::Exported), "read {}", self.nth);
            Self::import(sim).await
        } else {
            pool
        };
        assert_eq!(look(&pool).await, expected, "read {}, done: {is_done}", self.nth);
        end_scrub(sim, &pool).await;
        pool.set_comment(Some("goes on".into())).await.expect("the pool goes on");
        assert_eq!(label_state(sim, &GROWN).await, Some(PoolState::Active), "read {}", self.nth);
        pool.close(PoolState::Exported).await.expect("a pool closes");
        assert_eq!(label_state(sim, &GROWN).await, Some(PoolState::Exported), "read {}", self.nth);
    }
}

fn ground() -> Ground {
    Ground::new(&SINGLE, 5, DiskModel::instant()).with(|pool| {
        Box::pin(async move { pool.create_filesystem("whirl/old", Vec::new()).await.expect("created") })
    })
}

fn every_read_fails(ground: &Ground, changes: &[Change]) {
    for change in changes {
        let after = Trial::unhindered(ground, change);
        let mut seen = Seen::default();
        let mut nth = 1;
        while (Trial { ground, change, nth }).run(&after, &mut seen) {
            tell(format!("{}, read {nth} of {}", change.name, change.disk));
            nth += 1;
        }
        println!("{}, reads of {}: {seen:?}", change.name, change.disk);
        assert!(seen.refused + seen.stopped > 0, "{}: no read of it failed", change.name);
    }
}

#[test]
fn a_task_that_cannot_be_done_whole_is_not_done() {
    every_read_fails(
        &ground(),
        &[
            Change::new("create", |pool| {
                Box::pin(async move {
                    let props = vec![("compression".to_owned(), PropValue::Number(15))];
                    pool.create_filesystem("whirl/new", props).await
                })
            }),
            Change::new("set", |pool| {
                Box::pin(async move { pool.set_prop(POOL, "atime", Some(PropValue::Number(0))).await })
            }),
            Change::new("checkpoint", |pool| Box::pin(async move { pool.make_checkpoint().await })),
            Change::new("rename", |pool| {
                Box::pin(async move { pool.rename_dataset("whirl/old", "whirl/other").await })
            }),
            Change::new("destroy", |pool| {
                Box::pin(async move { pool.destroy_filesystem("whirl/old").await })
            }),
            Change::new("pool property", |pool| {
                Box::pin(async move { pool.set_pool_prop("autotrim", Some(PropValue::Number(1))).await })
            }),
            Change::new("feature", |pool| {
                Box::pin(async move { pool.enable_feature(&dsl::features::HEAD_ERRLOG).await })
            }),
            Change::new("comment", |pool| {
                Box::pin(async move { pool.set_comment(Some("a remark".into())).await })
            }),
        ],
    );
}

/// A snapshot of the dataset that is there, and another with a clone of the first.
fn ground_with_snapshots() -> Ground {
    ground().with(|pool| {
        Box::pin(async move {
            pool.snapshot(vec!["whirl/old@a".to_owned()], Vec::new()).await.expect("made");
            pool.clone_snapshot("whirl/old@a".to_owned(), "whirl/clone".to_owned(), Vec::new())
                .await
                .expect("made");
            pool.snapshot(vec!["whirl/old@b".to_owned(), "whirl/clone@c".to_owned()], Vec::new())
                .await
                .expect("made");
            pool.hold("tag".to_owned(), vec!["whirl/old@b".to_owned()]).await.expect("held");
        })
    })
}

#[test]
fn snapshots_and_clones_that_cannot_be_changed_whole_are_as_they_were() {
    every_read_fails(
        &ground_with_snapshots(),
        &[
            Change::new("snapshot", |pool| {
                Box::pin(async move {
                    pool.snapshot(vec!["whirl/old@d".to_owned(), "whirl/clone@d".to_owned()], Vec::new())
                        .await
                })
            }),
            Change::new("destroy a snapshot", |pool| {
                Box::pin(async move { pool.destroy_snapshots(vec!["whirl/clone@c".to_owned()], false).await })
            }),
            Change::new("clone", |pool| {
                Box::pin(async move {
                    pool.clone_snapshot("whirl/old@b".to_owned(), "whirl/other".to_owned(), Vec::new()).await
                })
            }),
            Change::new("promote", |pool| {
                Box::pin(async move { pool.promote("whirl/clone".to_owned()).await })
            }),
            Change::new("roll back", |pool| {
                Box::pin(async move { pool.rollback("whirl/old".to_owned(), "whirl/old@b".to_owned()).await })
            }),
            Change::new("rename a snapshot", |pool| {
                Box::pin(async move {
                    pool.rename_snapshots(vec![("whirl/old@b".to_owned(), "whirl/old@d".to_owned())]).await
                })
            }),
            Change::new("hold", |pool| {
                Box::pin(async move { pool.hold("tag".to_owned(), vec!["whirl/old@a".to_owned()]).await })
            }),
            Change::new("release", |pool| {
                Box::pin(async move { pool.release("tag".to_owned(), vec!["whirl/old@b".to_owned()]).await })
            }),
            Change::new("redact", |pool| {
                Box::pin(async move {
                    let by = vec!["whirl/clone@c".to_owned()];
                    pool.redact("whirl/old@a".to_owned(), "whirl/old#r".to_owned(), by).await
                })
            }),
            Change::new("bookmark", |pool| {
                Box::pin(
                    async move { pool.bookmark("whirl/old@b".to_owned(), "whirl/old#b".to_owned()).await },
                )
            }),
            Change {
                before: Some(|pool| {
                    Box::pin(async move {
                        pool.bookmark("whirl/old@b".to_owned(), "whirl/old#b".to_owned()).await
                    })
                }),
                ..Change::new("destroy a bookmark", |pool| {
                    Box::pin(async move { pool.destroy_bookmark("whirl/old#b".to_owned()).await })
                })
            },
            Change::new("destroy a range once nothing keeps it", |pool| {
                Box::pin(async move {
                    let all = ["whirl/old@a", "whirl/old@b"].map(str::to_owned).to_vec();
                    pool.destroy_snapshots(all, true).await
                })
            }),
            Change::new("limit", |pool| {
                Box::pin(
                    async move { pool.set_prop(POOL, "snapshot_limit", Some(PropValue::Number(9))).await },
                )
            }),
            Change::new("allow", |pool| {
                Box::pin(async move {
                    let names = ["snapshot", "mount"].map(str::to_owned).into();
                    pool.allow("whirl/old".to_owned(), [("ul$7".to_owned(), names)].into()).await
                })
            }),
        ],
    );
}

#[test]
fn volumes_that_cannot_be_changed_whole_are_as_they_were() {
    let with_volume = ground().with(|pool| {
        Box::pin(async move {
            let spec = VolumeSpec { size_bytes: 64 * 8192, block_bytes: 8192 };
            pool.create_volume("whirl/v", spec, Vec::new()).await.expect("made");
            let volume = pool.open_volume("whirl/v").await.expect("it opens");
            volume.write(0, &[7; 64 * 8192], true).await.expect("written");
        })
    });
    every_read_fails(
        &with_volume,
        &[
            Change::new("create a volume", |pool| {
                Box::pin(async move {
                    let spec = VolumeSpec { size_bytes: 1 << 20, block_bytes: 4096 };
                    pool.create_volume("whirl/new", spec, Vec::new()).await
                })
            }),
            Change::new("make it larger", |pool| {
                Box::pin(async move { pool.resize_volume("whirl/v", 100 * 8192).await })
            }),
            Change::new("make it smaller", |pool| {
                Box::pin(async move { pool.resize_volume("whirl/v", 10 * 8192).await })
            }),
            Change::new("destroy it", |pool| {
                Box::pin(async move { pool.destroy_filesystem("whirl/v").await })
            }),
        ],
    );
}

#[test]
fn vdevs_that_cannot_be_added_whole_are_not_added() {
    let add: Do = |pool| Box::pin(async move { pool.add(GROWN.vdevs_from(1), false).await });
    let of = |disk| Change { disk, ..Change::new("add", add) };
    every_read_fails(&ground(), &[of("/a"), of("/b"), of("/l")]);
}

#[test]
fn a_pool_that_cannot_be_exported_whole_stays_open() {
    let export: Do = |pool| Box::pin(async move { pool.close(PoolState::Exported).await });
    let scrub: Do = |pool| Box::pin(async move { pool.scrub().await });
    every_read_fails(
        &ground(),
        &[
            Change { closes: true, ..Change::new("export", export) },
            Change { closes: true, before: Some(scrub), ..Change::new("export amid a scrub", export) },
        ],
    );
}

#[test]
fn a_scrub_that_cannot_be_told_to_is_as_it_was() {
    let scrub: Do = |pool| Box::pin(async move { pool.scrub().await });
    let pause: Do = |pool| Box::pin(async move { pool.pause_scrub().await });
    let cancel: Do = |pool| Box::pin(async move { pool.cancel_scrub().await });
    every_read_fails(
        &ground(),
        &[
            Change::new("scrub", scrub),
            Change { before: Some(scrub), ..Change::new("pause", pause) },
            Change { before: Some(scrub), ..Change::new("cancel", cancel) },
        ],
    );
    let paused = ground().with(|pool| {
        Box::pin(async move {
            pool.scrub().await.expect("begun");
            pool.pause_scrub().await.expect("paused");
        })
    });
    every_read_fails(&paused, &[Change::new("go on", scrub), Change::new("cancel what is paused", cancel)]);
}
