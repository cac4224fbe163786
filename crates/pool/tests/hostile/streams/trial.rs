//! One stream, received into a pool that is judged afterwards.

use std::sync::Arc;

use pool::{ImportSpec, Pool};
use sim::Sim;
use stream::Resume;
use units::ObjectId;
use vdev::PoolState;

use super::RECEIVED;
use super::attempt::{Attempt, in_time, kind};
use super::census::{Census, is_part_expected, is_within, parts};
use super::quarry::{PARTS, PATH, QUARRY};
use super::{is_whole, package, sound};
use crate::ours::POOL;
use crate::sends;
use crate::work::{send, tuning, walk, write};

/// Bytes of a volume that are read at once.
const READ_BYTES: usize = 64 << 10;
/// The dataset that a sound stream is received into in the end.
const AGAIN: &str = "whirl/again";

/// Who receives a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    Pool,
    Engine,
}

/// The receiver, and what was there before.
pub struct Trial {
    by: By,
    before: Census,
}

/// A world with the pool of the quarry.
pub fn boot(seed: u64) -> Sim {
    let sim = QUARRY.image.boot(seed);
    sim.stop_recording();
    sim
}

pub async fn import(sim: &Sim) -> Arc<Pool> {
    let spec = ImportSpec {
        paths: vec![PATH.into()],
        name: Some(POOL.into()),
        force: true,
        ..ImportSpec::default()
    };
    Pool::import(sim.env(), &spec, tuning()).await.expect("the pool is imported")
}

pub async fn export(pool: &Arc<Pool>) {
    assert_eq!(pool.stopped(), None, "the pool goes on");
    pool.close(PoolState::Exported).await.expect("the pool is exported");
}

/// Receives a sound stream.
pub async fn receive_again(pool: &Arc<Pool>) {
    let again = sends::receive(pool, &QUARRY.sound, &format!("{AGAIN}@1"), |_| {}).await;
    again.expect("a sound stream is received");
}

impl Trial {
    pub fn new(by: By) -> Self {
        let sim = boot(0);
        let before = sim.run_until(async {
            let pool = import(&sim).await;
            let census = Census::of(&pool).await;
            sound::check(&sim, &pool).await;
            export(&pool).await;
            census
        });
        Self { by, before }
    }

    /// Receives a stream and judges the pool. Returns the outcome of the receive.
    pub fn try_one(&self, attempt: &Attempt, seed: u64) -> String {
        let sim = boot(seed);
        let outcome = sim.run_until(in_time(&sim, "a receive", self.receive(&sim, attempt)));
        if !is_whole(seed) {
            return outcome;
        }
        sim.run_until(in_time(&sim, "the use of a pool", self.use_pool(&sim, attempt, seed)));
        sim.run_until(in_time(&sim, "a scrub", self.scrub(&sim, attempt, seed)));
        outcome
    }

    async fn receive(&self, sim: &Sim, attempt: &Attempt) -> String {
        if self.by == By::Engine {
            return match package::receive(sim, attempt).await {
                Ok(()) => RECEIVED.to_owned(),
                Err(failure) => format!("{:?}", failure.kind),
            };
        }
        let pool = import(sim).await;
        let (last, ended) = attempt.receive(&pool).await;
        let after = self.judge(&pool, attempt).await;
        let is_part = attempt.resumable || PARTS.contains(&attempt.head());
        match last {
            // A stream without a guid gives the snapshot the guid 1, because 0 means that there is no snapshot.
            Some(guid) => assert_eq!(after.guid_of(attempt.snapshot), Some(guid.max(1))),
            None if !is_part => assert_eq!(after, self.before, "a refused stream leaves nothing"),
            None => {}
        }
        export(&pool).await;
        match ended {
            Ok(()) if last.is_some() => RECEIVED.to_owned(),
            Ok(()) => "nothing to receive".to_owned(),
            Err(error) => kind(&error),
        }
    }

    /// Checks that nothing outside the target was changed, and that no part is left unasked.
    async fn judge(&self, pool: &Arc<Pool>, attempt: &Attempt) -> Census {
        let after = Census::of(pool).await;
        self.before.assert_same_outside(&after, attempt.head());
        for part in parts(pool).await {
            let expected = is_part_expected(&part, attempt.head(), attempt.resumable);
            assert!(expected, "{part} was received in part");
        }
        after
    }

    /// Uses what was received, and receives a sound stream.
    async fn use_pool(&self, sim: &Sim, attempt: &Attempt, seed: u64) {
        let pool = import(sim).await;
        let after = self.judge(&pool, attempt).await;
        for name in after.names().filter(|name| is_within(name, attempt.head())) {
            use_dataset(&pool, name).await;
        }
        for part in parts(&pool).await.iter().filter(|part| is_within(part, attempt.head())) {
            send_rest(&pool, part).await;
            if seed.is_multiple_of(2) {
                pool.abort_receive(part).await.expect("a part can be given up");
            }
        }
        receive_again(&pool).await;
        export(&pool).await;
    }

    /// Destroys what was received, or not, and scrubs the rest.
    async fn scrub(&self, sim: &Sim, attempt: &Attempt, seed: u64) {
        let pool = import(sim).await;
        let after = Census::of(&pool).await;
        assert!(after.guid_of(AGAIN).is_some(), "the sound stream is there");
        let is_new = self.before.guid_of(attempt.head()).is_none();
        if is_new && after.guid_of(attempt.head()).is_some() && seed.is_multiple_of(3) && self.by == By::Pool
        {
            let of_head = after.names().filter(|name| is_within(name, attempt.head()) && name.contains('@'));
            let snapshots = of_head.map(str::to_owned).collect();
            pool.destroy_snapshots(snapshots, false).await.expect("snapshots are destroyed");
            pool.destroy_filesystem(attempt.head()).await.expect("a dataset is destroyed");
        }
        sound::check(sim, &pool).await;
        export(&pool).await;
    }
}

/// Every error is as good as success.
async fn use_dataset(pool: &Arc<Pool>, name: &str) {
    send(pool, name, None).await;
    if let Ok(volume) = pool.volume(name).await {
        let mut bytes = vec![0; READ_BYTES];
        let _ = volume.read(0, &mut bytes).await;
        let _ = volume.read(volume.size_bytes().saturating_sub(READ_BYTES as u64), &mut bytes).await;
    }
    if name.contains('@') {
        if let Ok(fs) = pool.snapshot_filesystem(name).await {
            walk(&fs.zfs).await;
        }
    } else if let Ok(fs) = pool.filesystem(name).await {
        walk(&fs.zfs).await;
        write(&fs.zfs).await;
    }
}

/// Sends from the place up to which a part came, which is a place of the hostile stream.
async fn send_rest(pool: &Arc<Pool>, part: &str) {
    let head = pool.dsl().resolve(part).await.expect("there");
    let point = pool.resume_state(&head).await.expect("readable").expect("a note").point;
    let resume = Resume { object: ObjectId::new(point.object), offset: point.offset };
    send(pool, "whirl/own@1", Some(resume)).await;
}
