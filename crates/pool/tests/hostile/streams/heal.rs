//! Streams that put damaged blocks of a snapshot right.

use std::sync::Arc;

use ondisk::send::DrrBody;
use pool::{Pool, PoolError};
use sim::Sim;
use stream::{ReadError, Reader, ReceiveError};
use units::BlockId;

use super::RECEIVED;
use super::attempt::{Attempt, in_time, kind};
use super::census::Census;
use super::quarry::PATH;
use super::trial::{boot, export, import, receive_again};
use super::{is_whole, sound};

/// The snapshot that is healed, and its damaged file.
const SNAPSHOT: &str = "whirl/own@1";
const FILE: &[u8] = b"long";
/// Blocks of the file that are damaged.
const DAMAGED: [u64; 3] = [0, 3, 7];
const ROT: [u8; 512] = [0x55; 512];

/// The places of the damaged blocks on the disk.
pub struct Healing {
    before: Census,
    places: Vec<u64>,
    object: u64,
}

impl Healing {
    pub fn new() -> Self {
        let sim = boot(0);
        sim.run_until(async {
            let pool = import(&sim).await;
            let before = Census::of(&pool).await;
            let fs = pool.snapshot_filesystem(SNAPSHOT).await.expect("it opens");
            let file = fs.zfs.lookup(fs.zfs.root(), FILE).await.expect("there").object;
            let objset = pool.frozen_objset(SNAPSHOT).await.expect("readable").expect("there");
            let dnode = objset.hold(file).await.expect("there");
            let mut places = Vec::new();
            for block in DAMAGED {
                let bp = dnode.synced_blkptr(BlockId::new(block)).await.expect("readable");
                assert!(!bp.is_hole() && !bp.is_embedded(), "the file has such a block");
                places.extend(bp.dvas().map(|dva| dva.offset.on_leaf().expect("on the disk").get()));
            }
            drop((fs, dnode, objset));
            export(&pool).await;
            Self { before, places, object: file.get() }
        })
    }

    /// Damages the file and heals it by a stream. Returns the outcome.
    pub fn try_one(&self, attempt: &Attempt, seed: u64) -> String {
        let sim = boot(seed);
        self.places.iter().for_each(|&at| sim.disk(PATH).rot(at, &ROT));
        let outcome = sim.run_until(in_time(&sim, "a heal", self.heal(&sim, attempt)));
        if is_whole(seed) {
            sim.run_until(in_time(&sim, "a scrub", self.scrub(&sim, outcome == RECEIVED)));
        }
        outcome
    }

    async fn heal(&self, sim: &Sim, attempt: &Attempt) -> String {
        let pool = import(sim).await;
        let healed = heal(&pool, &attempt.stream).await;
        assert_eq!(Census::of(&pool).await, self.before, "no pointer is changed");
        export(&pool).await;
        match healed {
            Ok(blocks) if blocks == DAMAGED.len() as u64 => RECEIVED.to_owned(),
            Ok(_) => "healed in part".to_owned(),
            Err(error) => kind(&error),
        }
    }

    /// Finds no damage but that of the file, and none where all of it was healed.
    async fn scrub(&self, sim: &Sim, is_healed: bool) {
        let pool = import(sim).await;
        receive_again(&pool).await;
        let scan = sound::scrub(sim, &pool).await;
        let damaged = pool.data_errors().await;
        assert!(damaged.iter().all(|block| block.object.get() == self.object), "{damaged:?}");
        assert!(damaged.is_empty() || !is_healed, "{damaged:?}, {scan:?}");
        export(&pool).await;
    }
}

async fn heal(pool: &Arc<Pool>, stream: &[u8]) -> Result<u64, PoolError> {
    let mut reader = Reader::new(stream);
    let first = reader.next_record().await.map_err(ReceiveError::from)?;
    match first.map(|read| read.record.body) {
        Some(DrrBody::Begin(begin)) => pool.heal_snapshot(&begin, SNAPSHOT, &mut reader).await,
        _ => Err(ReceiveError::from(ReadError::Truncated { offset: 0 }).into()),
    }
}
