//! The receive of streams that hold several snapshots, which is the engine's work.

use std::sync::Arc;

use control::{DatasetReceive, Failure, PoolExport, PoolImport, Service};
use engine::{Engine, Ground, OnTheSpot, Options};
use futures::io::Cursor;
use sim::{Sim, SimHost};

use super::attempt::Attempt;
use super::quarry::PATH;
use crate::ours::POOL;
use crate::work::tuning;

const MEMORY_BYTES: u64 = 64 << 20;

fn engine(host: &SimHost) -> Engine {
    let (env, machine, runner) = (host.env(), host.machine(), Arc::new(OnTheSpot));
    let ground = Ground { env, machine, front: None, runner };
    let options =
        Options { cache: None, cache_files: None, memory_bytes: MEMORY_BYTES, tuning: tuning(), pid: 1 };
    Engine::new(ground, options)
}

/// Imports the pool, receives a package as `zfs receive` does, and exports the pool.
pub async fn receive(sim: &Sim, attempt: &Attempt) -> Result<(), Failure> {
    let host = SimHost::new(sim);
    let engine = engine(&host);
    let attempt = attempt.clone();
    let work = async move {
        let (pool, search) = (POOL.to_owned(), vec![PATH.to_owned()]);
        let import = PoolImport { pool, search, force: true, no_mount: true, ..PoolImport::default() };
        engine.pool_import(import).await.expect("the pool is imported");
        let receive = DatasetReceive {
            target: attempt.snapshot.to_owned(),
            force: attempt.force,
            resumable: attempt.resumable,
            no_mount: true,
            ..DatasetReceive::default()
        };
        let received = engine.dataset_receive(receive, Box::pin(Cursor::new(attempt.stream))).await;
        let export = PoolExport { pool: POOL.to_owned(), ..PoolExport::default() };
        engine.pool_export(export).await.expect("the pool is exported");
        received.map(drop)
    };
    let received = host.run(work).await.expect("the host lives");
    host.die();
    received
}
