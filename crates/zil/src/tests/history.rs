//! Long random histories. A failure names its seed; `for_seed` runs it alone.

use units::VdevId;

use super::world::World;

/// xorshift64.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Weather {
    Fair,
    /// Operations fail, devices die and come back.
    Foul,
}

struct History {
    world: World,
    dice: Dice,
    weather: Weather,
    commits: Vec<usize>,
    cancelled: Vec<usize>,
    next_tag: u64,
}

impl History {
    fn new(seed: u64, weather: Weather) -> Self {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        // From a log that never fills up to one that nearly always is.
        let log = [600, 60, 8][dice.roll(3) as usize];
        let main = [600, 30][dice.roll(2) as usize];
        let world = World::new(&[log, log, main]);
        world.inner().lanes = 1 + dice.roll(3) as usize;
        Self { world, dice, weather, commits: Vec::new(), cancelled: Vec::new(), next_tag: 1 }
    }

    fn step(&mut self) {
        self.world.others.are_ready(self.dice.roll(2) == 0);
        match self.dice.roll(20) {
            0..=3 => drop(self.assign()),
            4..=8 => self.assign_and_commit(),
            9..=15 => self.complete_one(),
            16..=17 => drop(self.world.try_sync()),
            18 => self.cancel_one(),
            _ if self.weather == Weather::Foul => self.misfortune(),
            _ => self.world.settle(),
        }
        self.world.check_promises();
        if self.weather == Weather::Fair {
            self.world.check_space();
        }
    }

    fn assign(&mut self) -> Option<u64> {
        let tag = self.next_tag;
        self.next_tag += 1;
        if self.dice.roll(3) == 0 {
            self.world.name(tag);
            return None;
        }
        let object = 1 + self.dice.roll(4);
        let length = [10, 900, 5000, 140_000][self.dice.roll(20).min(3) as usize];
        self.world.write(tag, object, length);
        Some(object)
    }

    fn assign_and_commit(&mut self) {
        let object = self.assign();
        let commit = self.world.commit(object);
        self.commits.push(commit);
        self.world.tasks.run();
    }

    fn complete_one(&mut self) {
        let pending = self.world.inner().pending();
        if !pending.is_empty() {
            let chosen = pending[self.dice.roll(pending.len() as u64) as usize];
            self.world.complete(chosen);
        }
    }

    fn cancel_one(&mut self) {
        if !self.commits.is_empty() {
            let commit = self.commits.remove(self.dice.roll(self.commits.len() as u64) as usize);
            self.world.tasks.cancel(commit);
            self.cancelled.push(commit);
        }
    }

    fn misfortune(&mut self) {
        let vdev = VdevId::new(self.dice.roll(3) as u32);
        let mut inner = self.world.inner();
        match self.dice.roll(3) {
            0 => {
                inner.dead.insert(vdev);
            }
            1 => {
                inner.dead.clear();
                drop(inner);
                (0..3).for_each(|vdev| self.world.log.handle().trust(VdevId::new(vdev)));
            }
            _ => {
                let pending = inner.pending();
                let doomed = pending.get(self.dice.roll(4) as usize).copied();
                inner.fail.extend(doomed);
            }
        }
    }

    fn end(mut self) {
        self.world.settle();
        for &commit in &self.commits {
            assert!(self.world.tasks.is_done(commit), "commit {commit} hangs");
        }
        self.world.check_promises();
        // A device that fails while a txg syncs can leak a block until the next one has.
        for _ in 0..4 {
            self.world.try_sync();
            self.world.settle();
        }
        self.world.check_promises();
        self.world.check_space();
        let held = self.world.log.handle().blocks().len();
        assert_eq!(held, self.world.store.owned().len());
    }
}

fn for_seed(seed: u64, weather: Weather) {
    let mut history = History::new(seed, weather);
    for _ in 0..60 {
        history.step();
    }
    history.end();
}

/// More seeds than by default: `SAWMILL_SEEDS=5000 cargo test -p sawmill-zil history`.
fn for_seeds(weather: Weather) {
    let seeds = std::env::var("SAWMILL_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(60);
    for seed in 0..seeds {
        let run = std::panic::catch_unwind(|| for_seed(seed, weather));
        assert!(run.is_ok(), "seed {seed} failed");
    }
}

#[test]
fn random_histories_keep_their_promises_and_leak_nothing() {
    for_seeds(Weather::Fair);
}

#[test]
fn random_histories_with_failures_keep_their_promises() {
    for_seeds(Weather::Foul);
}
