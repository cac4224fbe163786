//! Rounds over one pool: write, kill, look.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use oracle::lane::number;
use oracle::zdb::Zdb;
use tempfile::TempDir;

use crate::appends::Appends;
use crate::client::{Client, work};
use crate::dice::Dice;
use crate::mounted::{POOL, World, bounded};
use crate::names::Names;
use crate::slots::Slots;

const DISK_MIB: u64 = 384;
const SHAPES: u64 = 5;
const ROUNDS_DEFAULT: u64 = 50;
/// How long clients write before the kill, and how many changes they have made stable by then.
const WRITE_MIN_MS: u64 = 250;
const WRITE_MORE_MS: u64 = 250;
const ACKNOWLEDGED_MIN: u64 = 64;
const PATIENCE: Duration = Duration::from_secs(60);
/// Every so many rounds the pool is also closed in good order.
const EXPORT_EVERY: u64 = 5;
/// Copies that `zdb` may be busy with. It takes seconds, most of which it waits.
const CHECKS_MAX: usize = 4;

/// This shape's part of all rounds.
pub fn run(shape: u64, vdevs: &str) {
    let rounds = number("SAWMILL_KILL_ROUNDS", ROUNDS_DEFAULT).div_ceil(SHAPES);
    let seed = number("SAWMILL_KILL_SEED", 1) * 1_000 + shape;
    let Some(world) = World::new(vdevs, DISK_MIB) else { return };
    let mut clients = clients(seed);
    let mut dice = Dice::new(seed, u64::MAX);
    let mut checks = Vec::new();
    for round in 1..=rounds {
        let what = format!("{vdevs}, seed {seed}, round {round}");
        write_and_kill(&world, &mut clients, &mut dice);
        if checks.len() == CHECKS_MAX {
            finish(checks.remove(0));
        }
        checks.push(check_killed(what.clone(), copy_disks(&world)));
        world.restart();
        for client in &mut clients {
            client.check(&world.root()).unwrap_or_else(|lost| panic!("{what}: {lost}"));
        }
        if round % EXPORT_EVERY == 0 {
            world.export();
            checks.push(check_closed(what, copy_disks(&world)));
            world.import();
        }
    }
    checks.into_iter().for_each(finish);
    world.finish();
}

/// Six that write pages, three of them into one file; five that append; five that rename.
fn clients(seed: u64) -> Vec<Box<dyn Client>> {
    let mut clients: Vec<Box<dyn Client>> = Vec::new();
    for (number, slot_bytes) in (0..).zip([512, 4096, 1536]) {
        let base = number << 20;
        clients.push(Box::new(Slots::new(number, "shared", base, slot_bytes, 64, Dice::new(seed, number))));
    }
    for (number, slot_bytes) in (3..).zip([8192, 16 << 10, 128 << 10]) {
        let name = format!("pages-{number}");
        clients.push(Box::new(Slots::new(number, &name, 0, slot_bytes, 24, Dice::new(seed, number))));
    }
    for number in 6..11 {
        clients.push(Box::new(Appends::new(number, Dice::new(seed, number))));
    }
    for number in 11..16 {
        clients.push(Box::new(Names::new(number, Dice::new(seed, number))));
    }
    clients
}

fn write_and_kill(world: &World, clients: &mut [Box<dyn Client>], dice: &mut Dice) {
    let root = world.root();
    for client in clients.iter_mut() {
        client.prepare(&root).expect("files are opened");
    }
    let (acknowledged, killed) = (AtomicU64::new(0), AtomicBool::new(false));
    let time = Duration::from_millis(WRITE_MIN_MS + dice.below(WRITE_MORE_MS));
    let begun = Instant::now();
    thread::scope(|scope| {
        let (root, acknowledged, killed): (&Path, _, _) = (&root, &acknowledged, &killed);
        for client in clients.iter_mut() {
            scope.spawn(move || work(client.as_mut(), root, acknowledged, killed));
        }
        while begun.elapsed() < time || acknowledged.load(Ordering::SeqCst) < ACKNOWLEDGED_MIN {
            if begun.elapsed() > PATIENCE {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        killed.store(true, Ordering::SeqCst);
        world.kill_daemon();
    });
    assert!(acknowledged.into_inner() >= ACKNOWLEDGED_MIN, "writers are kept waiting");
}

/// The devices as they are now, in a directory of their own.
fn copy_disks(world: &World) -> TempDir {
    let copy = TempDir::new().expect("a directory");
    let mut command = bounded(Path::new("cp"));
    command.args(["-r", "--sparse=always"]).arg(world.disks().join(".")).arg(copy.path());
    assert!(command.status().expect("cp runs").success(), "devices are copied");
    copy
}

/// What the kill left: nothing leaked, every block sound, and a log with records.
fn check_killed(what: String, copy: TempDir) -> JoinHandle<()> {
    thread::spawn(move || {
        let zdb = Zdb::new(copy.path(), POOL);
        zdb.check_blocks().unwrap_or_else(|damage| panic!("{what}: {damage}"));
        let records = zdb.log_records().unwrap_or_else(|damage| panic!("{what}: {damage}"));
        assert!(records.contains_key("TX_WRITE"), "{what}: no write in the log: {records:?}");
    })
}

/// What closing left.
fn check_closed(what: String, copy: TempDir) -> JoinHandle<()> {
    thread::spawn(move || {
        let zdb = Zdb::new(copy.path(), POOL);
        zdb.check().unwrap_or_else(|damage| panic!("{what}, closed: {damage}"));
    })
}

fn finish(check: JoinHandle<()>) {
    if let Err(panic) = check.join() {
        std::panic::resume_unwind(panic);
    }
}
