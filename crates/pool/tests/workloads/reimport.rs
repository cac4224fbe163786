//! Imports that fail on real files with locks. The next import, and any other program, finds the
//! files unlocked.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use device::{Options, RealEnv};
use env::{BoxFuture, Device, DeviceError, Env, FaultOp, Faults, Faulty, OpenMode};
use pool::{ImportSpec, Pool, Tuning};
use vdev::open_once_free;

use crate::file::{make, noise};
use crate::world::{Layout, POOL, World};

/// The real environment, with devices that fail on demand.
struct FailingEnv {
    real: Arc<RealEnv>,
    faults: Faults,
}

impl Env for FailingEnv {
    fn now(&self) -> Duration {
        self.real.now()
    }

    fn wall_clock(&self) -> Duration {
        self.real.wall_clock()
    }

    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        self.real.sleep(span)
    }

    fn spawn(&self, name: &'static str, task: BoxFuture<'static, ()>) {
        self.real.spawn(name, task);
    }

    fn has_ready(&self) -> bool {
        self.real.has_ready()
    }

    fn random_u64(&self) -> u64 {
        self.real.random_u64()
    }

    fn open(&self, path: &Path, mode: OpenMode) -> BoxFuture<'static, Result<Arc<dyn Device>, DeviceError>> {
        let (opened, faults) = (self.real.open(path, mode), self.faults.clone());
        Box::pin(async move { Ok(Arc::new(Faulty::new(opened.await?, faults)) as Arc<dyn Device>) })
    }
}

#[test]
fn an_import_that_fails_lets_go_of_its_locks() {
    let world = World::new(Layout { device_mib: 64, ..Layout::new(&[&["a"], &["b"]], &[], 12) });
    let pool = world.create();
    let zfs = world.zfs(&pool, "whirl");
    world.run(make(&zfs, "file", &noise(3, 30_000)));
    world.run(zfs.sync()).expect("the log takes it");
    drop(zfs);
    // The image of a crash.
    let world = world.copy();
    let real = RealEnv::new(Options::default());
    let paths = ["a", "b"].map(|name| world.path(name)).to_vec();
    let spec = ImportSpec { paths: paths.clone(), name: Some(POOL.into()), ..ImportSpec::default() };
    let mut failed = 0;
    for nth in (1..200).step_by(9) {
        for op in [FaultOp::Read, FaultOp::Write] {
            let faults = Faults::none();
            faults.fail_range(op, nth, u64::MAX);
            let env = Arc::new(FailingEnv { real: Arc::clone(&real), faults: faults.clone() });
            match real.block_on(Pool::import(env, &spec, Tuning::default())) {
                Err(_) => failed += 1,
                Ok(pool) => real.block_on(pool.abandon()),
            }
            let env: Arc<dyn Env> = Arc::clone(&real) as Arc<dyn Env>;
            for path in &paths {
                let opened = real.block_on(open_once_free(&env, path, OpenMode::ReadWrite));
                assert!(opened.is_ok(), "{op:?} {nth}: {}", path.display());
            }
        }
    }
    assert!(failed > 10, "hardly an import has failed: {failed}");
    let pool = world.import();
    let zfs = world.zfs(&pool, "whirl");
    assert!(world.run(zfs.lookup(zfs.root(), b"file")).is_ok());
}
