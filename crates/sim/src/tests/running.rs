use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use env::{Durability, Env};
use futures::channel::oneshot;
use futures::future::{Either, join_all, select};
use parking_lot::Mutex;

use super::{open, put, world};
use crate::{DiskModel, DiskSpec, Sim};

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn hours_pass_in_no_time() {
    let sim = Sim::seed(1);
    let began = Instant::now();
    sim.run_until(sim.sleep(HOUR * 24));
    assert_eq!(sim.now(), HOUR * 24);
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[test]
fn sleepers_wake_in_order_of_time() {
    let sim = Sim::seed(1);
    let order = Mutex::new(Vec::new());
    sim.run_until(join_all([3_u64, 1, 2].map(|n| {
        let (sleep, order) = (sim.sleep(Duration::from_secs(n)), &order);
        async move {
            sleep.await;
            order.lock().push(n);
        }
    })));
    assert_eq!(*order.lock(), [1, 2, 3]);
}

#[test]
fn a_sleep_nobody_waits_for_does_not_move_the_clock() {
    let sim = Sim::seed(1);
    let winner = sim.run_until(select(sim.sleep(Duration::from_secs(1)), sim.sleep(HOUR)));
    assert!(matches!(winner, Either::Left(_)));
    drop(winner);
    sim.run_until(sim.sleep(Duration::from_secs(1)));
    assert_eq!(sim.now(), Duration::from_secs(2));
}

#[test]
#[should_panic(
    expected = "deadlock at 1s: nothing can run and nothing is due; waiting: the main future, tasks [\"stuck\"]"
)]
fn a_deadlock_panics_and_names_who_waits() {
    let sim = Sim::seed(1);
    let (_sender, receiver) = oneshot::channel::<()>();
    sim.spawn("stuck", Box::pin(futures::future::pending()));
    sim.run_until(async {
        sim.sleep(Duration::from_secs(1)).await;
        let _ = receiver.await;
    });
}

#[test]
fn tasks_go_on_from_one_run_to_the_next() {
    let sim = Sim::seed(1);
    let steps = Arc::new(AtomicU64::new(0));
    let (env, counter) = (sim.env(), Arc::clone(&steps));
    let ticker = async move {
        loop {
            env.sleep(Duration::from_secs(1)).await;
            counter.fetch_add(1, Ordering::Relaxed);
        }
    };
    sim.spawn("ticker", Box::pin(ticker));
    for _ in 0..3 {
        sim.run_until(sim.sleep(Duration::from_millis(1500)));
    }
    assert_eq!(steps.load(Ordering::Relaxed), 4);
}

#[test]
fn killing_drops_the_tasks_and_the_disks_still_finish() {
    struct Flag(Arc<AtomicBool>);
    impl Drop for Flag {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let sim = Sim::seed(1);
    let disk = sim.add_disk("/a", DiskSpec::new(1 << 20, DiskModel::sata_2007()));
    let dropped = Arc::new(AtomicBool::new(false));
    let (env, flag) = (sim.env(), Flag(Arc::clone(&dropped)));
    let writer = async move {
        let _flag = flag;
        let disk = open(&env, "/a").await;
        put(&*disk, 0, 1, 7, Durability::Stable).await.expect("never gets here");
        futures::future::pending::<()>().await;
    };
    sim.spawn("writer", Box::pin(writer));
    sim.run_until(sim.sleep(Duration::from_micros(10)));
    assert_eq!(disk.peek(0, 1), [0]);
    sim.kill();
    assert!(dropped.load(Ordering::SeqCst));
    sim.run_until(async {
        // Its lock went with it.
        open(&sim.env(), "/a").await;
        sim.sleep(Duration::from_secs(1)).await;
    });
    assert_eq!(disk.peek(0, 1), [7]);
}

#[test]
fn a_world_frees_its_tasks_when_it_ends() {
    let watched = Arc::new(());
    {
        let sim = Sim::seed(1);
        let (env, held) = (sim.env(), Arc::clone(&watched));
        let task = async move {
            env.sleep(HOUR).await;
            drop(held);
        };
        sim.spawn("sleeper", Box::pin(task));
        sim.run_until(sim.sleep(Duration::from_secs(1)));
    }
    assert_eq!(Arc::strong_count(&watched), 1);
}

/// Some tasks that write here and there, take their time, and draw numbers.
fn busy_world(seed: u64) -> (u64, Vec<u64>) {
    let sim = world(seed, &["/a", "/b"]);
    sim.add_disk("/c", DiskSpec::new(1 << 20, DiskModel::ssd()));
    let order = Arc::new(Mutex::new(Vec::new()));
    let tasks = (0..6_u64).map(|n| {
        let (env, order) = (sim.env(), Arc::clone(&order));
        let (sender, receiver) = oneshot::channel();
        let task = async move {
            let path = ["/a", "/b", "/c"][n as usize % 3];
            let disk = env.open(path.as_ref(), env::OpenMode::ReadOnly).await.expect("there is one");
            for round in 0..10 {
                let byte = env.random_u64() as u8;
                put(&*disk, n * 16 + round, 1, byte, Durability::Cached).await.expect("written");
                env.sleep(Duration::from_micros(env.random_u64() % 100)).await;
                order.lock().push(n);
                if round % 3 == 0 {
                    disk.flush().await.expect("flushed");
                }
            }
            let _ = sender.send(());
        };
        sim.spawn("busy", Box::pin(task));
        receiver
    });
    let tasks: Vec<_> = tasks.collect();
    sim.run_until(join_all(tasks));
    let order = order.lock().clone();
    (sim.recording().digest(), order)
}

#[test]
fn one_seed_gives_one_history() {
    for seed in 0..10 {
        assert_eq!(busy_world(seed), busy_world(seed));
    }
}

#[test]
fn who_boots_an_image_draws_other_numbers() {
    let first = Sim::seed(7);
    let second = first.power_cut(1).boot(7);
    let again = first.power_cut(1).boot(7);
    let third = second.power_cut(1).boot(7);
    let draw = |sim: &Sim| sim.env().random_u64();
    let mut drawn = [&first, &second, &third].map(draw);
    assert_eq!(draw(&again), drawn[1], "as often as it is booted");
    drawn.sort_unstable();
    assert!(drawn.windows(2).all(|pair| pair[0] != pair[1]), "{drawn:?}");
}

#[test]
fn other_seeds_give_other_histories() {
    let mut digests: Vec<u64> = (0..20).map(|seed| busy_world(seed).0).collect();
    digests.sort_unstable();
    digests.dedup();
    assert_eq!(digests.len(), 20);
}

#[test]
fn the_seed_decides_who_goes_first() {
    let firsts = |seed| {
        let sim = Sim::seed(seed);
        let order = Arc::new(Mutex::new(Vec::new()));
        for n in 0..3 {
            let order = Arc::clone(&order);
            sim.spawn("racer", Box::pin(async move { order.lock().push(n) }));
        }
        sim.run_until(sim.sleep(Duration::from_secs(1)));
        Arc::into_inner(order).expect("the racers are done").into_inner()
    };
    let mut orders: Vec<Vec<i32>> = (0..100).map(firsts).collect();
    orders.sort_unstable();
    orders.dedup();
    assert_eq!(orders.len(), 6, "all orders of three come up");
}
