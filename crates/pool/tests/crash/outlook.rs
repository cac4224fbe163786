//! What administration has made of a pool, in words: what two of them must have in common to be in the same state.

use std::sync::Arc;
use std::time::Duration;

use dsl::DatasetName;
use env::Env;
use metaslab::Class;
use ondisk::dsl::scan::state;
use pool::{Pool, find_pools};
use sim::Sim;
use vdev::PoolState;

use crate::shape::{POOL, Shape};

/// Where a pool's scrub is. One that goes on is as good as one that has come to its end meanwhile.
pub fn scrub_of(pool: &Pool) -> &'static str {
    match pool.scan() {
        None => "none",
        Some(scan) if scan.paused_at.is_some() => "paused",
        Some(scan) if scan.phys.state.get() == state::CANCELED => "canceled",
        Some(_) => "begun",
    }
}

/// The pool's vdevs, features and properties, and its datasets with theirs, and what was kept of them.
pub async fn look(pool: &Pool) -> Vec<String> {
    let room = pool.zio().with_allocator(|allocator| allocator.space(Class::Normal).capacity);
    let enabled = pool.dsl().features().await.expect("they are listed").len();
    let mut seen = vec![
        format!("{:?}, checkpoint: {}, {enabled} features", pool.comment(), pool.checkpoint().is_some()),
        format!("{} vdevs, {room:?}, scrub {}", pool.vdevs().tops().len(), scrub_of(pool)),
        format!("{:?}", pool.pool_props().await.expect("it has properties")),
        format!("autotrim {}, failmode {:?}", pool.autotrim(), pool.failmode()),
    ];
    for dataset in pool.dsl().list(POOL).await.expect("it lists") {
        let props = pool.dsl().props(&dataset).await.expect("it has properties");
        seen.push(format!("{}: {props:?}", dataset.name));
        let dir = pool.dsl().dir(dataset.dir).await.expect("it has numbers");
        if let Some(origin) = pool.dsl().origin_name(&dir, POOL).await.expect("it is found") {
            seen.push(format!("{} began as {origin}", dataset.name));
        }
        look_back(pool, &dataset, &mut seen).await;
    }
    seen
}

/// What was kept of a dataset: snapshots and bookmarks.
async fn look_back(pool: &Pool, dataset: &DatasetName, seen: &mut Vec<String>) {
    for snapshot in pool.dsl().snapshots(dataset).await.expect("they are listed") {
        let phys = pool.dsl().dataset(snapshot.dataset).await.expect("it has numbers");
        let holds = pool.holds(&snapshot.name).await.expect("they are listed").into_iter();
        let tags: Vec<String> = holds.map(|(tag, _)| tag).collect();
        let figures = (phys.referenced_bytes.get(), phys.unique_bytes.get(), phys.flags.get());
        seen.push(format!("{}: {figures:?}, held by {tags:?}", snapshot.name));
    }
    for mark in pool.bookmarks(&dataset.name).await.expect("they are listed") {
        seen.push(mark.name);
    }
}

/// What the labels of a pool say of it, if there are any.
pub async fn label_state(sim: &Sim, shape: &Shape) -> Option<PoolState> {
    let paths: Vec<_> = shape.disks().collect();
    find_pools(&sim.env(), &paths).await.first().map(|found| found.pool.state)
}

/// A scrub that was begun, and is paused or not, is brought to its end; it has found nothing.
pub async fn end_scrub(sim: &Sim, pool: &Arc<Pool>) {
    if scrub_of(pool) == "paused" {
        pool.scrub().await.expect("it goes on");
    }
    while let Some(scan) = pool.scan().filter(|scan| scan.phys.state.get() == state::SCANNING) {
        assert!(scan.paused_at.is_none(), "nobody paused it");
        sim.sleep(Duration::from_secs(1)).await;
    }
}
