//! Space figures of all datasets, against the blocks that can be reached from each.
//!
//! A block that two files share counts for each of them: it is found as often as it is pointed to.

use std::collections::BTreeMap;
use std::sync::Arc;

use dmu::{Objset, Place, Reach, SpaceDelta};
use ondisk::dsl::{DslDatasetPhys, used};
use pool::Pool;
use units::{ObjectId, ObjsetId, Txg, VdevId, VdevOffset};

use super::ROOT;
use super::model::{Head, Model};

/// Where a block is, when it was born, and which of those that point to it is meant.
type Key = (VdevId, VdevOffset, Txg, usize);

/// What is charged for blocks.
#[derive(Clone, Default)]
struct Blocks(BTreeMap<Key, u64>);

impl Blocks {
    fn sum(&self) -> u64 {
        self.0.values().sum()
    }

    fn without(&self, other: &Self) -> Self {
        let mut left = self.clone();
        left.0.retain(|key, _| !other.0.contains_key(key));
        left
    }

    fn born_after(&self, txg: u64) -> Self {
        let mut left = self.clone();
        left.0.retain(|key, _| key.2.get() > txg);
        left
    }

    fn extend(&mut self, other: &Self) {
        self.0.extend(&other.0);
    }
}

/// A dataset as it lies on disk.
struct Seen {
    object: ObjectId,
    phys: DslDatasetPhys,
    blocks: Blocks,
}

async fn see(pool: &Arc<Pool>, object: ObjectId, name: &str) -> Seen {
    let phys = pool.dsl().dataset(object).await.unwrap();
    let all = Reach { from: Place::START, born_after: Txg::ZERO, limit: usize::MAX };
    let visited = Objset::visit(pool.zio(), ObjsetId::new(object.get()), &phys.bp, all).await;
    assert!(visited.lost.is_empty(), "{name}");
    let (mut blocks, mut space) = (Blocks::default(), SpaceDelta::default());
    for (_, bp) in visited.blocks {
        space.add(pool.zio(), &bp);
        if !bp.is_embedded() {
            let dva = bp.dva(0);
            let nth = (0..).find(|nth| !blocks.0.contains_key(&(dva.vdev, dva.offset, bp.birth(), *nth)));
            let key = (dva.vdev, dva.offset, bp.birth(), nth.expect("numbers do not end"));
            blocks.0.insert(key, pool.zio().charged_bytes(&bp));
        }
    }
    assert_eq!(phys.referenced_bytes.get() as i64, space.used, "{name} refers to");
    // What lies in a pointer takes no room, and is no block here.
    let told = [phys.compressed_bytes, phys.uncompressed_bytes].map(|bytes| bytes.get() as i64);
    let found = [space.compressed, space.uncompressed];
    assert!(told[0] >= found[0] && told[1] >= found[1], "{name}: {told:?}, of blocks {found:?}");
    Seen { object, phys, blocks }
}

pub async fn check(pool: &Arc<Pool>, model: &Model) {
    for (name, head) in &model.heads {
        let mut line = Vec::new();
        for snapshot in &head.snapshots {
            line.push(see(pool, snapshot.object, &format!("{name}@{}", snapshot.name)).await);
        }
        line.push(see(pool, head.object, name).await);
        let (origin, since) = match head.origin {
            None => (Blocks::default(), 0),
            Some(origin) => {
                let seen = see(pool, origin, &format!("origin of {name}")).await;
                (seen.blocks, seen.phys.creation_txg.get())
            }
        };
        check_line(pool, name, &origin, &line).await;
        check_dir(pool, name, head, since, &line).await;
    }
    check_children(pool, model).await;
}

/// What each dataset of a line has written, has alone, and would give back.
async fn check_line(pool: &Arc<Pool>, name: &str, origin: &Blocks, line: &[Seen]) {
    let dsl = pool.dsl();
    for (at, seen) in line.iter().enumerate() {
        let what = format!("{name}, dataset {at} of {}", line.len());
        let own = seen.blocks.born_after(seen.phys.prev_snapshot_txg.get());
        assert_eq!(dsl.written(&seen.phys).await.unwrap(), own.sum(), "{what}: written");
        let before = if at == 0 { origin } else { &line[at - 1].blocks };
        assert_eq!(seen.blocks.without(before).sum(), own.sum(), "{what}: what is new is younger");
        let alone = line.get(at + 1).map_or(own.clone(), |next| own.without(&next.blocks));
        assert_eq!(seen.phys.unique_bytes.get(), alone.sum(), "{what}: has alone");
        for older in &line[..at] {
            let written = dsl.written_since(&seen.phys, older.object).await.unwrap();
            assert_eq!(written, Some(seen.blocks.without(&older.blocks).sum()), "{what}: written@");
            if let Some(next) = line.get(at + 1) {
                let first = line.iter().position(|of| of.object == older.object).expect("it is in line");
                let mut all = Blocks::default();
                line[first..=at].iter().for_each(|of| all.extend(&of.blocks));
                let given = all.born_after(older.phys.prev_snapshot_txg.get()).without(&next.blocks);
                let told = dsl.reclaimable(older.object, seen.object).await.unwrap();
                assert_eq!(told, given.sum(), "{what}: destroyed with those from {first} on");
            }
        }
    }
}

/// What a directory says that its head, its snapshots and its reservation take.
async fn check_dir(pool: &Arc<Pool>, name: &str, head: &Head, since: u64, line: &[Seen]) {
    let dir = pool.dsl().resolve(name).await.unwrap().dir;
    let phys = pool.dsl().dir(dir).await.unwrap();
    let told = |which: usize| phys.used_breakdown[which].get();
    let mut all = Blocks::default();
    line.iter().for_each(|seen| all.extend(&seen.blocks));
    let own = all.born_after(since);
    let of_head = &line.last().expect("the head").blocks;
    let of_snapshots = own.without(of_head).sum();
    assert_eq!(told(used::SNAP), of_snapshots, "{name}: usedbysnapshots");
    assert_eq!(told(used::HEAD), own.sum() - of_snapshots, "{name}: usedbydataset");
    let unique = line.last().expect("the head").phys.unique_bytes.get();
    let reserved = head.reserved_bytes.saturating_sub(unique);
    assert_eq!(told(used::REFRESERVATION), reserved, "{name}: usedbyrefreservation");
    assert_eq!((0..used::COUNT).map(told).sum::<u64>(), phys.used_bytes.get(), "{name}: used");
}

/// What children use is a part of what their parents use; the pool's root has some that nobody sees.
async fn check_children(pool: &Arc<Pool>, model: &Model) {
    let mut used_below: BTreeMap<&str, u64> = BTreeMap::new();
    let mut told = BTreeMap::new();
    for name in model.heads.keys() {
        let dir = pool.dsl().resolve(name).await.unwrap().dir;
        let phys = pool.dsl().dir(dir).await.unwrap();
        told.insert(name.as_str(), phys.used_breakdown[used::CHILD].get());
        if let Some((parent, _)) = name.rsplit_once('/') {
            *used_below.entry(parent).or_default() += phys.used_bytes.get();
        }
    }
    for (name, told) in told.into_iter().filter(|(name, _)| *name != ROOT) {
        assert_eq!(told, used_below.get(name).copied().unwrap_or(0), "{name}: usedbychildren");
    }
}
