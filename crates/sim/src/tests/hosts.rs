//! Several hosts in one world.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use env::{Durability, IoBuf, Machine, OpenMode, Readers};
use units::LeafOffset;

use crate::{DiskModel, DiskSpec, Sim, SimHost};

const DISK: &str = "/dev/a";

fn world() -> Sim {
    let sim = Sim::seed(5);
    sim.add_disk(DISK, DiskSpec::new(1 << 20, DiskModel::ssd()));
    sim
}

/// Writes a sector each second, for ever, and counts.
async fn write_on(host: SimHost, count: Arc<AtomicU64>) {
    let disk = host.env().open(Path::new(DISK), OpenMode::ReadWrite).await.expect("nobody has it here");
    loop {
        let sector = IoBuf::copy_of(&[7; 4096]);
        disk.write(LeafOffset::new(0), vec![sector.into()], Durability::Stable).await.expect("writes");
        count.fetch_add(1, Ordering::SeqCst);
        host.env().sleep(Duration::from_secs(1)).await;
    }
}

#[test]
fn a_host_that_is_paused_or_dead_does_nothing() {
    let sim = world();
    let (a, count) = (SimHost::new(&sim), Arc::new(AtomicU64::new(0)));
    a.env().spawn("writer", Box::pin(write_on(a.clone(), Arc::clone(&count))));
    let wait = || sim.run_until(sim.env().sleep(Duration::from_secs(10)));
    wait();
    let before = count.load(Ordering::SeqCst);
    assert!(before > 5);
    a.pause();
    wait();
    assert_eq!(count.load(Ordering::SeqCst), before);
    a.resume();
    wait();
    let before = count.load(Ordering::SeqCst);
    assert!(before > 10 && a.writes() == before);
    a.die();
    wait();
    a.resume();
    wait();
    assert_eq!((count.load(Ordering::SeqCst), a.writes()), (before, before));
}

#[test]
fn locks_do_not_reach_from_host_to_host_and_files_outlive_theirs() {
    let sim = world();
    let (a, b) = (SimHost::new(&sim), SimHost::new(&sim));
    sim.run_until(async {
        let open = |host: &SimHost| host.env().open(Path::new(DISK), OpenMode::ReadWrite);
        let _held = open(&a).await.expect("nobody has it");
        assert!(open(&a).await.is_err(), "it is held on this host");
        open(&b).await.expect("and free on the other");
    });
    let path = Path::new("/run/list");
    a.machine().replace(path, b"pools", Readers::Owner).expect("written");
    assert!(Machine::read(&b, path).is_err());
    assert_eq!(Machine::read(&a.reboot(&sim), path).expect("read"), b"pools");
}
