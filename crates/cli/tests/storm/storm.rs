//! The rounds of a storm: eight programs run, the daemon is killed, and everything is checked.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use oracle::lane::number;

use crate::judge;
use crate::mounted::{POOL, World};
use crate::observer::Observer;
use crate::operator::Operator;
use crate::owner::FamilyOwner;
use crate::run::{Round, StormCounts};

const DISK_MIB: u64 = 1024;
const SECONDS_DEFAULT: u64 = 60;
const OWNERS: u64 = 6;
const ROUND_MIN_MS: u64 = 2_500;
const ROUND_MORE_MS: u64 = 5_000;
/// The delay of each request to the data disk, and the number of parallel requests.
const SLOW: &str = "4:8";
/// The number of commands and file steps that a round must have on average. Fewer would prove
/// little.
const COMMANDS_MIN: u64 = 8;
const FILES_MIN: u64 = 16;

/// Runs storms on one pool for as long as the environment asks for.
pub fn run(vdevs: &str) {
    let limit = Duration::from_secs(number("SAWMILL_STORM_SECONDS", SECONDS_DEFAULT));
    let seed = number("SAWMILL_STORM_SEED", 1);
    let Some(world) = World::new(vdevs, DISK_MIB) else { return };
    let sawmill = world.link("sawmill");
    let (mut owners, counts) = (owners(&world, seed), StormCounts::default());
    let (mut operator, mut observer) = (Operator::new(seed), Observer::new(seed));
    let (mut rng, begun, mut rounds) = (fastrand::Rng::with_seed(seed), Instant::now(), 0);
    while begun.elapsed() < limit {
        rounds += 1;
        slow_down(&world, &sawmill);
        let round = Round { world: &world, killed: AtomicBool::new(false), counts: &counts };
        let time = Duration::from_millis(ROUND_MIN_MS + rng.u64(..ROUND_MORE_MS));
        storm(&round, time, &mut owners, &mut operator, &mut observer);
        bring_back(&world);
        for owner in &mut owners {
            judge::settle(owner, &world).unwrap_or_else(|lost| panic!("seed {seed}, round {rounds}: {lost}"));
        }
    }
    println!("{rounds} rounds, {counts:?}");
    assert!(counts.commands.load(Ordering::Relaxed) >= rounds * COMMANDS_MIN, "{rounds} rounds, {counts:?}");
    assert!(counts.files.load(Ordering::Relaxed) >= rounds * FILES_MIN, "{rounds} rounds, {counts:?}");
    world.finish();
}

fn owners(world: &World, seed: u64) -> Vec<FamilyOwner> {
    let owners: Vec<FamilyOwner> = (0..OWNERS).map(|number| FamilyOwner::new(number, seed)).collect();
    owners.iter().for_each(|owner| world.zfs(&format!("create {}", owner.top())));
    owners
}

/// Makes the disk slow again, because the daemon loses injected faults when it ends.
fn slow_down(world: &World, sawmill: &Path) {
    let disk = world.disks().join("a");
    let mut command = crate::mounted::bounded(sawmill);
    command.args(["zinject", "-d"]).arg(disk).args(["-D", SLOW, POOL]).env("SAWMILL_RUN", world.run_dir());
    let output = command.output().expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn storm(
    round: &Round<'_>,
    time: Duration,
    owners: &mut [FamilyOwner],
    operator: &mut Operator,
    observer: &mut Observer,
) {
    // A command that came just after the kill would start the next daemon, and change a pool that
    // has lost what was not stable, which the model of its owner still has.
    let mut forbidden = None;
    thread::scope(|scope| {
        for owner in owners {
            scope.spawn(move || owner.work(round));
        }
        scope.spawn(move || operator.work(round));
        scope.spawn(move || observer.work(round));
        thread::sleep(time);
        forbidden = Some(round.world.forbid_starts());
        round.killed.store(true, Ordering::SeqCst);
        round.world.kill_daemon();
    });
    drop(forbidden);
}

/// Brings the mirror and the log back: half of the mirror may be offline, and the log may be
/// removed.
fn bring_back(world: &World) {
    world.restart_degraded();
    world.zpool(&format!("online {POOL} {}/b", world.disks().display()));
}
