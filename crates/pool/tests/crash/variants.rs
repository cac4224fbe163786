//! Crash images, imported in every way that an operator can ask for.
//!
//! ```text
//!   image ─► read-only (no write), then plainly       all acknowledged writes are there
//!         ─► -m, -F, -FX (nothing is damaged)         all acknowledged writes are there
//!         ─► -T (the txg before the newest)           an older state without its logs
//!   then: a file is written, the pool is exported and imported, and no space is lost
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
pub enum ImportWay {
    ReadOnly,
    WithoutLogs,
    Recent,
    Any,
    /// The state of the txg before the newest.
    Older,
}

pub const WAYS: [ImportWay; 5] =
    [ImportWay::ReadOnly, ImportWay::WithoutLogs, ImportWay::Recent, ImportWay::Any, ImportWay::Older];

const AFTERWARDS: &[u8] = b"written afterwards";

impl ImportWay {
    /// Returns the options of the import. `newest` is the txg that a plain import opens.
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

/// One image, and the writes that were acknowledged before it.
pub struct CrashedImage<'a> {
    pub image: &'a CrashImage,
    pub shape: &'static Shape,
    pub model: &'a Model,
    pub promise: &'a Promise,
    pub seed: u64,
    pub story: &'a str,
}

impl CrashedImage<'_> {
    /// Imports the image in one way, uses the pool, and imports it again plainly.
    pub fn check(&self, way: ImportWay, by_zdb: bool) {
        tell(format!("{}: imported {way:?}", self.story));
        let newest = self.newest();
        let sim = self.image.boot(self.seed);
        match way {
            ImportWay::ReadOnly => self.look(&sim, newest),
            _ => self.use_it(&sim, way, newest),
        }
        run(&sim, async {
            let pool = self.import(&sim, ImportSpec::default()).await;
            let fs = pool.filesystem(POOL).await.expect("the log replays");
            match way {
                ImportWay::ReadOnly => self.model.check(&fs.zfs, self.promise).await,
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

    /// Imports the pool read-only and reads all blocks. The import changes nothing.
    fn look(&self, sim: &Sim, newest: Txg) {
        run(sim, async {
            let pool = self.import(sim, ImportWay::ReadOnly.spec(newest)).await;
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

    /// Imports the pool for writing, writes a file stably, and exports the pool.
    fn use_it(&self, sim: &Sim, way: ImportWay, newest: Txg) {
        run(sim, async {
            let pool = self.import(sim, way.spec(newest)).await;
            assert_eq!(pool.opened_txg() == newest, way != ImportWay::Older, "{} opened", pool.opened_txg());
            let fs = pool.filesystem(POOL).await.expect("the log replays");
            if way != ImportWay::Older {
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
