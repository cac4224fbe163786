use std::sync::Arc;
use std::time::Duration;

use env::{Durability, Env};
use futures::channel::oneshot;
use futures::future::join_all;

use super::{SECTOR, open, put, sectors};
use crate::{CrashPlan, Cuts, DiskModel, DiskSpec, Sim};

const CLIENTS: u64 = 4;
const VERSIONS: u8 = 12;

/// Clients that write ever higher numbers into their own two sectors, and say so once a
/// number is stable, by one way or the other.
fn run(seed: u64, model: DiskModel, lies: bool) -> Sim {
    let sim = Sim::seed(seed);
    sim.add_disk("/a", DiskSpec::new(1 << 20, model)).set_lying(lies);
    let disk = sim.run_until(open(&sim.env(), "/a"));
    let clients = (0..CLIENTS).map(|client| {
        let (env, disk, world) = (sim.env(), Arc::clone(&disk), Arc::downgrade(&sim));
        let (sender, receiver) = oneshot::channel();
        let task = async move {
            for version in 1..=VERSIONS {
                let stable = env.random_u64() % 2 == 0;
                let durability = if stable { Durability::Stable } else { Durability::Cached };
                put(&*disk, client * 2, 2, version, durability).await.expect("written");
                if env.random_u64() % 3 == 0 {
                    env.sleep(Duration::from_micros(env.random_u64() % 50)).await;
                }
                if !stable {
                    disk.flush().await.expect("flushed");
                }
                let world = world.upgrade().expect("the world outlives its tasks");
                world.mark_with("stable", [client as u8, version]);
            }
            let _ = sender.send(());
        };
        sim.spawn("client", Box::pin(task));
        receiver
    });
    let clients: Vec<_> = clients.collect();
    sim.run_until(join_all(clients));
    sim
}

/// Holds every image against the marks in it; how many there were.
fn check_images(sim: &Sim, plan: CrashPlan) -> usize {
    let mut images = 0;
    for image in sim.recording().crash_images_by(plan) {
        let mut promised = [0; CLIENTS as usize];
        for mark in image.marks() {
            promised[usize::from(mark.payload[0])] = mark.payload[1];
        }
        let found = sectors(&image.peek("/a", 0, CLIENTS as usize * 2 * SECTOR));
        for (client, &promised) in promised.iter().enumerate() {
            for &version in &found[client * 2..client * 2 + 2] {
                assert!(version >= promised, "client {client}: {version} < {promised}: {}", image.story());
                assert!(version <= promised + 1, "client {client}: {version} from the future");
            }
        }
        images += 1;
    }
    images
}

#[test]
fn stable_writes_survive_every_cut_after_them() {
    let models = [
        DiskModel::instant(),
        DiskModel::ssd(),
        DiskModel::ssd_with_plp(),
        DiskModel::nvram(),
        DiskModel::sata_2007(),
    ];
    for (seed, model) in models.into_iter().enumerate() {
        for round in 0..5 {
            let seed = seed as u64 * 100 + round;
            let sim = run(seed, model, false);
            let images = check_images(&sim, CrashPlan::new(seed));
            assert!(images > 100, "{images}");
            if round == 0 {
                let plan = CrashPlan { cuts: Cuts::Everywhere, ..CrashPlan::new(seed) };
                assert!(check_images(&sim, plan) > images);
            }
        }
    }
}

#[test]
#[should_panic(expected = "client")]
fn a_lying_disk_is_caught() {
    let sim = run(3, DiskModel::instant(), true);
    check_images(&sim, CrashPlan::new(3));
}
