//! Crash images, imported in every way that an operator can ask for.
//!
//! ```text
//!   image ─► read-only (nothing is written), then plainly       what was promised is there
//!         ─► -m, -F, -FX: nothing is missing or damaged         what was promised is there
//!         ─► -T (the txg before the newest)                     an older state, and the logs are given up
//!   then: a file is written, the pool is exported, imported, and all space is somebody's
//! ```

use std::sync::Arc;

use env::FaultOp;
use pool::{ImportSpec, Pool, Rewind};
use sim::{CrashImage, Sim};
use units::Txg;
use vdev::PoolState;
use zpl::{Cred, NewNode, WriteFlags, Zfs};

use crate::model::Model;
use crate::promise::Promise;
use crate::shape::{POOL, Shape, brisk};
use crate::space;
use crate::story::{run, tell};

/// A way to import a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    ReadOnly,
    WithoutLogs,
    Recent,
    Any,
    /// As of the txg before the newest.
    Older,
}

pub const WAYS: [Way; 5] = [Way::ReadOnly, Way::WithoutLogs, Way::Recent, Way::Any, Way::Older];

const AFTERWARDS: &[u8] = b"written afterwards";

impl Way {
    /// `newest` is the txg that a plain import opens.
    fn spec(self, newest: Txg) -> ImportSpec {
        let plain = ImportSpec::default();
        match self {
            Self::ReadOnly => ImportSpec { read_only: true, ..plain },
            Self::WithoutLogs => ImportSpec { without_logs: true, ..plain },
            Self::Recent => ImportSpec { rewind: Rewind::Recent, ..plain },
            Self::Any => ImportSpec { rewind: Rewind::Any, ..plain },
            Self::Older => ImportSpec { rewind: Rewind::UpTo(newest.prev()), ..plain },
        }
    }
}

/// One image, and what was promised in it.
pub struct Crashed<'a> {
    pub image: &'a CrashImage,
    pub shape: &'static Shape,
    pub model: &'a Model,
    pub promise: &'a Promise,
    pub seed: u64,
    pub story: &'a str,
}

impl Crashed<'_> {
    /// Imports the image in one way, uses the pool, and imports it again plainly.
    pub fn check(&self, way: Way, by_zdb: bool) {
        tell(format!("{}: imported {way:?}", self.story));
        let newest = self.newest();
        let sim = self.image.boot(self.seed);
        match way {
            Way::ReadOnly => self.look(&sim, newest),
            _ => self.use_it(&sim, way, newest),
        }
        run(&sim, async {
            let pool = self.import(&sim, ImportSpec::default()).await;
            let fs = pool.filesystem(POOL).await.expect("the log replays");
            match way {
                Way::ReadOnly => self.model.check(&fs.zfs, self.promise).await,
                _ => assert!(is_kept(&fs.zfs).await, "what was written after the import is gone"),
            }
            drop(fs);
            space::check(&pool).await;
            pool.close(PoolState::Exported).await.expect("a pool closes");
        });
        if by_zdb {
            tell(format!("{}: imported {way:?}, zdb", self.story));
            space::judged_by_zdb(self.shape, &sim);
        }
    }

    async fn import(&self, sim: &Sim, how: ImportSpec) -> Arc<Pool> {
        self.shape.import_as(sim, brisk(), how).await.expect("every crash state imports")
    }

    fn newest(&self) -> Txg {
        let sim = self.image.boot(self.seed);
        run(&sim, async {
            let pool = self.import(&sim, ImportSpec { read_only: true, ..ImportSpec::default() }).await;
            let newest = pool.opened_txg();
            pool.close(PoolState::Exported).await.expect("a pool closes");
            newest
        })
    }

    /// An import for reading only reads everything and changes nothing.
    fn look(&self, sim: &Sim, newest: Txg) {
        run(sim, async {
            let pool = self.import(sim, Way::ReadOnly.spec(newest)).await;
            assert_eq!(pool.opened_txg(), newest);
            space::reachable(&pool).await.expect("all of it reads");
            pool.close(PoolState::Exported).await.expect("a pool closes");
        });
        for disk in self.shape.disks() {
            for op in [FaultOp::Write, FaultOp::Flush, FaultOp::Discard] {
                assert_eq!(sim.disk(&disk).faults().seen(op), 0, "{op:?} of {}", disk.display());
            }
        }
    }

    /// An import for writing, a file written with a promise, and an export.
    fn use_it(&self, sim: &Sim, way: Way, newest: Txg) {
        run(sim, async {
            let pool = self.import(sim, way.spec(newest)).await;
            assert_eq!(pool.opened_txg() == newest, way != Way::Older, "{} opened", pool.opened_txg());
            let fs = pool.filesystem(POOL).await.expect("the log replays");
            if way != Way::Older {
                self.model.check(&fs.zfs, self.promise).await;
            }
            write(&fs.zfs).await;
            drop(fs);
            space::check(&pool).await;
            pool.close(PoolState::Exported).await.expect("a pool closes");
        });
    }
}

async fn write(zfs: &Zfs) {
    let made = zfs.create(zfs.root(), AFTERWARDS, NewNode::File, 0o644, Cred::default()).await;
    let stable = WriteFlags { sync: true, ..WriteFlags::default() };
    zfs.write(made.expect("created").object, 0, AFTERWARDS, stable).await.expect("written");
}

async fn is_kept(zfs: &Zfs) -> bool {
    let Ok(found) = zfs.lookup(zfs.root(), AFTERWARDS).await else { return false };
    let mut bytes = vec![0; AFTERWARDS.len() + 1];
    let read = zfs.read(found.object, 0, &mut bytes).await.expect("it reads");
    bytes[..read] == *AFTERWARDS
}
