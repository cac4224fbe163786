//! Tests which half of a mirror speaks for the pool, when devices are missing, old, or were used on
//! another host.
//!
//! ```text
//!   a half fails (offline, fault, failing writes, gone) ─► more writes ─► power cut
//!     ─► the other half is missing ─► restart: refused, or all acknowledged writes
//!     ─► both are there: all acknowledged writes
//!     ─► old half imported by command ─► the good half returns: refused by name, not written to
//!   a half is removed ─► another host writes it ─► online: refused by name ─► crash or export
//!     ─► both are there: own history by restart, an error by command, all writes with `-d`
//!   a copy of a half, whose name sorts before or after it ─► crash ─► import: all writes
//! ```
//! The test compares with the set of acknowledged writes: a pool has them all, or it is refused, or
//! the command named a device that lacks some of them.

use crate::alone::for_some_time;
use crate::clients::Ledger;
use crate::node::{Node, world};
use crate::over_seeds;
use sim::{DiskModel, DiskSpec, Sim};

const A: u64 = 0xa;
const B: u64 = 0xb;
/// More files than a client can write before the end of the test.
const MANY: u64 = 1000;
/// The time in milliseconds within which a txg certainly becomes stable.
const LONGER_THAN_A_TXG_MS: u64 = 2500;
const HALVES: [&str; 2] = ["/dev/disk/a", "/dev/disk/b"];
/// The message for a device with another history.
const ELSEWHERE: &str = "was written by another system";

/// How a half of the mirror fails.
#[derive(Clone, Copy, Debug)]
enum Going {
    Offline,
    Faulted,
    /// Its writes fail.
    Failing,
    /// All its requests fail.
    Gone,
}

const GOINGS: [Going; 4] = [Going::Offline, Going::Faulted, Going::Failing, Going::Gone];

/// The choices of a seed: which half fails, and how.
struct HalfDraw {
    going: Going,
    old: &'static str,
    good: &'static str,
}

impl HalfDraw {
    fn of(seed: u64) -> Self {
        let which = usize::from(seed % 8 >= 4);
        Self { going: GOINGS[seed as usize % 4], old: HALVES[which], good: HALVES[1 - which] }
    }

    async fn go(&self, sim: &Sim, node: &Node) -> Result<(), String> {
        let faults = sim.disk(self.old).faults().clone();
        match self.going {
            Going::Offline => node.offline(self.old, false).await.map_err(|e| e.to_string())?,
            Going::Faulted => node.offline(self.old, true).await.map_err(|e| e.to_string())?,
            Going::Failing => faults.fail_all(env::FaultOp::Write),
            Going::Gone => faults.disappear(),
        }
        Ok(())
    }
}

fn hide(sim: &Sim, disk: &str) {
    sim.disk(disk).faults().disappear();
}

fn show(sim: &Sim, disk: &str) {
    sim.disk(disk).faults().heal();
}

/// Returns the contents of a disk.
fn bytes_of(sim: &Sim, disk: &str) -> Vec<u8> {
    let disk = sim.disk(disk);
    disk.peek(0, usize::try_from(env::Device::info(&disk).size_bytes).expect("a small disk"))
}

/// The half that is up to date is missing at the restart and returns later.
fn old_half_first(seed: u64) -> Result<u64, String> {
    let (sim, draw) = (world(seed), HalfDraw::of(seed));
    let (node, ledger) = (Node::new(&sim, A), Ledger::default());
    let has_log = seed % 3 == 1;
    sim.run_until(async {
        let made = if has_log { node.create().await } else { node.create_without_log().await };
        made.map_err(|e| e.to_string())?;
        for_some_time(&sim, seed * 31 % 700, ledger.write(&node, "whole", MANY)).await;
        let work = for_some_time(&sim, seed * 97 % 2500 + 20, ledger.write(&node, "half", MANY));
        let ((), gone) = futures::join!(work, draw.go(&sim, &node));
        gone
    })?;
    let later = sim.power_cut(seed).boot(seed + 1000);
    hide(&later, draw.good);
    let back = node.reboot(&later);
    later.run_until(async {
        let restored = back.restore().await;
        if !restored.is_empty() {
            ledger
                .check(&back)
                .await
                .map_err(|lost| format!("{:?}, brought back alone: {lost}", draw.going))?;
        }
        // A command that names the old half may import it.
        if restored.is_empty() && seed.is_multiple_of(3) {
            return take_old_half(&later, back, &draw, &ledger, seed).await;
        }
        show(&later, draw.good);
        let again = back.reboot(&later);
        if again.restore().await.is_empty() {
            return Err(format!("{:?}: both halves are there, and the pool is not", draw.going));
        }
        ledger.check(&again).await.map_err(|lost| format!("{:?}, both there: {lost}", draw.going))
    })
}

/// The old half is imported by command and written to. The good half then returns. It is not
/// written to, and has all acknowledged writes.
async fn take_old_half(
    sim: &Sim,
    node: Node,
    draw: &HalfDraw,
    ledger: &Ledger,
    seed: u64,
) -> Result<u64, String> {
    let own = Ledger::default();
    node.import_from(&[draw.old], true).await.map_err(|e| format!("the old half alone: {e}"))?;
    for_some_time(sim, seed * 13 % 4000 + 1500, own.write(&node, "old half", MANY)).await;
    show(sim, draw.good);
    let before = bytes_of(sim, draw.good);
    match node.online(draw.good).await {
        Err(refused) if refused.to_string().contains(ELSEWHERE) => {}
        other => return Err(format!("{:?}: the good half is taken back: {other:?}", draw.going)),
    }
    for_some_time(sim, 2000, own.write(&node, "more", MANY)).await;
    if bytes_of(sim, draw.good) != before {
        return Err(format!("{:?}: the good half was written to", draw.going));
    }
    own.check(&node).await?;
    node.host.die();
    hide(sim, draw.old);
    let other = Node::new(sim, A);
    other.import_from(&[draw.good], true).await.map_err(|e| format!("the good half alone: {e}"))?;
    ledger.check(&other).await.map_err(|lost| format!("{:?}, the good half alone: {lost}", draw.going))
}

#[test]
fn a_restart_never_takes_the_old_half_for_the_pool() {
    over_seeds("brought back with one half", old_half_first);
}

/// Another host has used a half in the meantime.
fn half_elsewhere(seed: u64) -> Result<u64, String> {
    let sim = world(seed);
    let which = usize::from(seed % 4 >= 2);
    let (gone, kept) = (HALVES[which], HALVES[1 - which]);
    let (a, b) = (Node::new(&sim, A), Node::new(&sim, if seed.is_multiple_of(5) { A } else { B }));
    let (ours, theirs) = (Ledger::default(), Ledger::default());
    sim.run_until(async {
        a.create_without_log().await.map_err(|e| e.to_string())?;
        for_some_time(&sim, seed * 31 % 700, ours.write(&a, "whole", MANY)).await;
        a.offline(gone, false).await.map_err(|e| e.to_string())?;
        for_some_time(&sim, seed * 61 % 2000, ours.write(&a, "of a", MANY)).await;
        // Only this half is moved to the other host.
        a.host.pause();
        hide(&sim, kept);
        b.import_from(&[gone], true).await.map_err(|e| format!("b takes the half: {e}"))?;
        for_some_time(&sim, seed * 977 % 90_000, theirs.write(&b, "of b", MANY)).await;
        b.export().await.map_err(|e| format!("b exports: {e}"))?;
        show(&sim, kept);
        a.host.resume();
        for_some_time(&sim, seed * 17 % 1500, ours.write(&a, "more of a", MANY)).await;
        let before = bytes_of(&sim, gone);
        match a.online(gone).await {
            Err(refused) if refused.to_string().contains(ELSEWHERE) => {}
            other => return Err(format!("b's half is taken back: {other:?}")),
        }
        for_some_time(&sim, 1500, ours.write(&a, "last of a", MANY)).await;
        if bytes_of(&sim, gone) != before {
            return Err("b's half was written to".into());
        }
        Ok(())
    })?;
    if seed.is_multiple_of(2) {
        let later = sim.power_cut(seed).boot(seed + 1000);
        let a = a.reboot(&later);
        return later.run_until(async {
            if a.restore().await.is_empty() {
                return Err("the pool is not brought back beside b's half".into());
            }
            ours.check(&a).await.map_err(|lost| format!("brought back: {lost}"))
        });
    }
    sim.run_until(async {
        a.export().await.map_err(|e| e.to_string())?;
        match a.import(true).await {
            Err(refused) if HALVES.iter().all(|half| refused.to_string().contains(half)) => {}
            other => return Err(format!("of two histories one was chosen: {other:?}")),
        }
        a.import_from(&[kept], true).await.map_err(|e| format!("its own half: {e}"))?;
        let own = ours.check(&a).await.map_err(|lost| format!("its own half: {lost}"))?;
        a.export().await.map_err(|e| e.to_string())?;
        a.import_from(&[gone], true).await.map_err(|e| format!("b's half: {e}"))?;
        Ok(own + theirs.check(&a).await.map_err(|lost| format!("b's half: {lost}"))?)
    })
}

#[test]
fn a_half_that_was_elsewhere_is_refused_by_name_and_never_speaks_for_the_pool() {
    over_seeds("a half that was elsewhere", half_elsewhere);
}

/// A copy of a half is next to it.
fn copied(seed: u64) -> Result<u64, String> {
    let sim = world(seed);
    let (a, ledger) = (Node::new(&sim, A), Ledger::default());
    let half = HALVES[seed as usize % 2];
    let name = format!("/dev/disk/{}-copy", if seed % 4 < 2 { "0" } else { "z" });
    // A copy that has missed no txg looks like a second path to the half. The import reports nothing
    // then, and uses the device at the path that the label names.
    let has_missed = !seed.is_multiple_of(3);
    let wait = if has_missed { LONGER_THAN_A_TXG_MS } else { 100 };
    sim.run_until(async {
        a.create().await.map_err(|e| e.to_string())?;
        for_some_time(&sim, seed * 31 % 900 + 100, ledger.write(&a, "before", MANY)).await;
        copy(&sim, half, &name);
        for_some_time(&sim, seed * 61 % 4000 + wait, ledger.write(&a, "after", MANY)).await;
        a.host.die();
        // A host that does not know the former paths of the devices.
        let fresh = Node::new(&sim, A);
        let imported = fresh.import(true).await.map_err(|e| e.to_string())?;
        if has_missed && !imported.lost.iter().any(|line| line.contains(&name) && line.contains(half)) {
            return Err(format!("nothing is said of {name}: {:?}", imported.lost));
        }
        ledger.check(&fresh).await
    })
}

/// Creates a disk with the same bytes.
fn copy(sim: &Sim, disk: &str, name: &str) {
    const PIECE: usize = 1 << 20;
    let bytes = bytes_of(sim, disk);
    let copy = sim.add_disk(name, DiskSpec::new(bytes.len() as u64, DiskModel::ssd()));
    for (place, piece) in bytes.chunks(PIECE).enumerate() {
        if piece.iter().any(|byte| *byte != 0) {
            copy.rot((place * PIECE) as u64, piece);
        }
    }
}

#[test]
fn the_newest_copy_of_a_half_counts_and_the_other_is_told_of() {
    over_seeds("beside a copy", copied);
}
