//! A long run of all that a server has to bear at once, with one daemon that is killed beneath it
//! again and again.
//!
//! ```text
//!  pgbench ─► PostgreSQL ─► tank/data ─┬─ tank/data@N ─ zfs send -i ─► zfs receive ─► copies/data
//!  fio, which verifies ───► tank/files ┤
//!  zfs snapshot -r, zfs destroy -r ────┤       scrubs; devices offline, failing, lost, slow
//!                                      ▼                         ▼
//!                                    tank: mirror a b, log mirror c d
//!                                      │
//!            ┌─ restart ◄─ kill -9 of the daemon, at the end of each round
//!            └─► everything that was acknowledged is compared ─► the next round
//! ```
//! A cycle has two halves. The first half has short rounds, whose lengths come from the seed. The
//! second half is one long round, in which no daemon is killed and the daemon's resident memory and
//! open descriptors must stay flat ([`gauge`] has the bounds). Each round ends with a kill.
//!
//! The judge compares after each kill:
//! - each transaction that a client saw committed is there, and no money is lost ([`database`])
//! - each file that was synced has the same bytes ([`verified`])
//! - each snapshot that was taken is there, and each one that was destroyed is not ([`retention`])
//!
//! At the end, a server on the copy has what was committed before its last snapshot, a scrub finds
//! no error, and `zdb` finds both pools whole. How often everything happened has floors
//! ([`progress`]).
//!
//! `SAWMILL_SOAK_SECONDS` makes a longer run, `SAWMILL_SOAK_SEED` another one: `cargo xtask soak
//! 7200 7`. The seed decides the lengths of rounds, the order of the devices' faults and the data
//! of fio. Threads and clients run freely.

mod database;
mod drill;
mod gauge;
mod progress;
mod replication;
mod retention;
// A storm's commands: each has a limit of time and is repeated while its data set is busy.
#[path = "../../storm/run.rs"]
#[allow(dead_code, reason = "a storm uses all of it")]
mod run;
mod verified;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use oracle::lane::number;
use oracle::zdb::Zdb;

use crate::mounted::{POOL, World};
use crate::postgres::Server;
use database::Database;
use drill::Drill;
use gauge::Gauge;
use progress::SoakProgress;
use replication::{COPIES, Replication};
use retention::Retention;
use run::{Round, StormCounts};
use verified::VerifiedFiles;

const SECONDS_DEFAULT: u64 = 45;
const PROGRAMS: &[&str] = &["setpriv", "ps", "fio", "bash", "sync", "sha256sum"];
const VDEVS: &str = "mirror a b log mirror c d";
/// The files are sparse, so that this is a limit and not the space that they need.
const DISK_MIB: u64 = 4096;
/// The budget of the daemon's caches: small, so that they are full early in a long round.
const MEMORY_MIB: u64 = 96;
/// How long a cycle of short rounds and a long round is at least.
const CYCLE_SECONDS: u64 = 2400;
const SHORT_MIN: Duration = Duration::from_secs(3);
const SHORT_MORE_MAX: Duration = Duration::from_secs(40);
/// How long programs pause at a time before they look whether the round is over.
const POLL: Duration = Duration::from_millis(50);

#[test]
fn a_soak_loses_nothing_and_the_daemon_does_not_grow() {
    let seed = number("SAWMILL_SOAK_SEED", 1);
    let time = Duration::from_secs(number("SAWMILL_SOAK_SECONDS", SECONDS_DEFAULT));
    let Some(mut soak) = Soak::new(seed) else { return };
    println!("soak of {} s with seed {seed}", time.as_secs());
    soak.run(time);
    soak.finish();
}

struct Soak {
    seed: u64,
    rng: Rng,
    database: Database,
    verified: VerifiedFiles,
    retention: Retention,
    replication: Replication,
    drill: Drill,
    gauge: Gauge,
    progress: SoakProgress,
    counts: StormCounts,
}

impl Soak {
    fn new(seed: u64) -> Option<Self> {
        if !crate::are_there(PROGRAMS) {
            return None;
        }
        let server = Server::within(|| World::with_memory(VDEVS, DISK_MIB, MEMORY_MIB))?;
        server.world.link("zinject");
        server.world.zfs("create -o recordsize=16K tank/files");
        replication::create_pool(&server.world, DISK_MIB);
        Some(Self {
            seed,
            rng: Rng::with_seed(seed),
            database: Database::new(server),
            verified: VerifiedFiles::new(seed),
            retention: Retention::default(),
            replication: Replication::default(),
            drill: Drill::new(seed),
            gauge: Gauge::new(),
            progress: SoakProgress::default(),
            counts: StormCounts::default(),
        })
    }

    fn run(&mut self, time: Duration) {
        let begun = Instant::now();
        let cycles = (time.as_secs() / CYCLE_SECONDS).max(1) as u32;
        let half = time / cycles / 2;
        let short_more = SHORT_MORE_MAX.min(half / 4);
        for _ in 0..cycles {
            let cycle = Instant::now();
            while cycle.elapsed() < half {
                let time = SHORT_MIN + short_more.mul_f64(self.rng.f64());
                self.round(time);
            }
            self.round(half);
            self.gauge.judge(half);
        }
        self.progress.check(begun.elapsed());
    }

    /// Runs all programs until the time is over, kills the daemon, and judges what is there then.
    fn round(&mut self, time: Duration) {
        let Self { database, verified, retention, replication, drill, gauge, progress, counts, .. } = self;
        let (database, progress, counts) = (&*database, &*progress, &*counts);
        let round = &Round { world: &database.server.world, killed: AtomicBool::new(false), counts };
        gauge.begin(round.world);
        thread::scope(|scope| {
            let _end = RoundEnd(&round.killed);
            let workers = [
                scope.spawn(move || verified.work(round, progress)),
                scope.spawn(move || retention.work(round, progress)),
                scope.spawn(move || replication.work(round, progress)),
                scope.spawn(move || drill.work(round, progress)),
            ];
            database.work(round, time, progress, || {
                let has_failed = workers.iter().any(|worker| worker.is_finished());
                assert!(!has_failed, "a program has failed, see above");
                gauge.look(round.world, progress);
            });
        });
        progress.kills.fetch_add(1, Ordering::Relaxed);
        self.judge();
    }

    /// Brings everything back, and compares it with what was acknowledged.
    fn judge(&self) {
        let world = &self.database.server.world;
        let copies = format!("status {COPIES}");
        for status in [world.restart_degraded(), world.zpool(&copies)] {
            assert!(status.contains("errors: No known data errors"), "{status}");
        }
        drill::bring_back(world);
        self.database.bring_back(&self.progress);
        self.verified.judge(world);
        self.retention.judge(world);
    }

    /// Judges the copy and both pools, and prints a summary.
    fn finish(self) {
        let Self { seed, mut database, mut replication, gauge, progress, counts, .. } = self;
        let copy = database.server.world.root().join("copy");
        database.judge_copy(copy, |world| {
            let round = Round { world, killed: AtomicBool::new(false), counts: &counts };
            replication.step(&round, &progress);
        });
        let world = &database.server.world;
        let round = Round { world, killed: AtomicBool::new(false), counts: &counts };
        // The last fault may have been injected into the daemon that came after the last kill.
        round.may("zinject", "-c all");
        // No scrub begins while a device is brought up to date.
        drill::wait_until_whole(&round);
        world.zpool(&format!("scrub -w {POOL}"));
        let status = world.zpool(&format!("status {POOL}"));
        assert!(status.contains(" with 0 errors"), "{status}");
        world.zpool(&format!("export {COPIES}"));
        Zdb::new(&replication::disks(world), COPIES).check().unwrap_or_else(|damage| panic!("{damage}"));
        world.finish();
        println!("seed {seed}: {progress}");
        println!("{counts:?}; {}", gauge.summary());
    }
}

/// Ends a round also when the main thread panics, because the other threads would never end.
struct RoundEnd<'a>(&'a AtomicBool);

impl Drop for RoundEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Sleeps, or less when the round is over.
fn pause(round: &Round<'_>, time: Duration) {
    let begun = Instant::now();
    while !round.is_over() && begun.elapsed() < time {
        thread::sleep(POLL);
    }
}
