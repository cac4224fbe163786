//! Loops take what comes by files, and work on all of it at once.

use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use futures::future::{join_all, select};
use oracle::fuse_disk::FuseDisk;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_getaffinity};

use super::files::file_on_disk;
use super::{BELOW_BYTES, at, env, filled, plain_env};
use crate::exec::helpers;
use crate::exec::parker::signal;
use crate::{Command, Commands, LoopWatch, Loops, RealEnv, spawn_here};
use env::{BoxFuture, Device, Durability, Env, OpenMode};

/// Until something that nothing holds up has happened, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

type Work = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// Has work done by loops as soon as it is asked for through a file.
struct Desk {
    file: Arc<OwnedFd>,
    wanted: Sender<Work>,
    done: Receiver<()>,
}

impl Desk {
    fn new(env: &RealEnv) -> Self {
        // Each read takes one away.
        let flags = EventfdFlags::SEMAPHORE | EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        let file = Arc::new(eventfd(0, flags).expect("an event counter"));
        let ((wanted, wishes), (tell, done)) = (channel(), channel());
        let wishes = Arc::new(Mutex::new(wishes));
        let taker = |watch| {
            let (file, wishes, tell) = (Arc::clone(&file), Arc::clone(&wishes), tell.clone());
            Box::pin(take(watch, file, wishes, tell)) as BoxFuture<'static, ()>
        };
        env.loops().expect("loops").spawn_each("desk", taker);
        Self { file, wanted, done }
    }

    fn ask(&self, work: &Work) {
        self.wanted.send(Arc::clone(work)).expect("the takers live");
        signal(&self.file);
    }

    fn wait_for(&self, count: usize) {
        (0..count).for_each(|_| self.done.recv_timeout(PATIENCE).expect("it is done in time"));
    }
}

async fn take(watch: LoopWatch, file: Arc<OwnedFd>, wishes: Arc<Mutex<Receiver<Work>>>, tell: Sender<()>) {
    let source = watch.source(Arc::clone(&file)).expect("a file that can be waited for");
    loop {
        if rustix::io::read(&file, &mut [0_u8; 8]).is_err() {
            source.readable().await;
            continue;
        }
        let work = wishes.lock().expect("nobody panics").try_recv().expect("it was sent before");
        let (work, tell) = (work(), tell.clone());
        let request = async move {
            work.await;
            // The test may be over.
            _ = tell.send(());
        };
        spawn_here("request", Box::pin(request));
    }
}

fn no_work() -> Work {
    Arc::new(|| Box::pin(async {}))
}

/// Writes one stable block to `device`.
fn write(device: &Arc<dyn Device>) -> Work {
    let device = Arc::clone(device);
    Arc::new(move || {
        let device = Arc::clone(&device);
        Box::pin(async move {
            device.write(at(0), filled(3, 4096), Durability::Stable).await.expect("written");
        })
    })
}

#[test]
fn what_comes_by_a_file_is_done_whatever_it_waits_for() {
    for env in [env(), plain_env()] {
        let file = file_on_disk(1 << 20);
        let device = env.block_on(env.open(file.path(), OpenMode::ReadWrite)).expect("opened");
        let sleeper = Arc::clone(&env);
        let sleep: Work = Arc::new(move || sleeper.sleep(Duration::from_millis(2)));
        let desk = Desk::new(&env);
        let all = [no_work(), write(&device), sleep];
        // One after the other, and then many at once.
        for round in 0..60 {
            desk.ask(&all[round % 3]);
            desk.wait_for(1);
        }
        (0..600).for_each(|round| desk.ask(&all[round % 3]));
        desk.wait_for(600);
    }
}

#[test]
fn tasks_of_other_threads_wake_a_loop_that_waits_for_files() {
    let env = env();
    let desk = Desk::new(&env);
    for _ in 0..200 {
        let (sender, receiver) = futures::channel::oneshot::channel::<()>();
        let receiver = Mutex::new(Some(receiver));
        desk.ask(
            &(Arc::new(move || {
                let receiver = receiver.lock().expect("nobody panics").take().expect("asked for once");
                Box::pin(async move { receiver.await.expect("told") }) as BoxFuture<'static, ()>
            }) as Work),
        );
        env.spawn("tells", Box::pin(async move { sender.send(()).expect("somebody waits") }));
        desk.wait_for(1);
    }
}

#[test]
fn a_loop_always_watches_though_devices_hang() {
    let Some(below) = FuseDisk::mount(BELOW_BYTES) else { return };
    let env = env();
    let device = env.block_on(env.open(&below.path(), OpenMode::ReadWrite)).expect("opened");
    let loops = std::thread::available_parallelism().map_or(1, usize::from).max(2);
    for count in [1, loops, 3 * loops] {
        // A desk of its own for each, as requests of several mounts come: none is beside another on its loop, if
        // loops take turns.
        let desks: Vec<Desk> = (0..count).map(|_| Desk::new(&env)).collect();
        let held = below.hold();
        for desk in &desks {
            desk.ask(&write(&device));
            std::thread::sleep(Duration::from_millis(20));
        }
        let quick = Desk::new(&env);
        (0..50).for_each(|_| quick.ask(&no_work()));
        quick.wait_for(50);
        drop(held);
        desks.iter().for_each(|desk| desk.wait_for(1));
    }
}

/// Returns when a loop makes the system call of a write to `device`, which is blocked.
fn send_one_away(loops: &Loops, desk: &Desk, device: &Arc<dyn Device>) {
    desk.ask(&write(device));
    while loops.away() == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn every_loop_watches_a_file_that_comes_while_one_is_away() {
    let Some(below) = FuseDisk::mount(BELOW_BYTES) else { return };
    let env = env();
    let loops = env.loops().expect("loops");
    let device = env.block_on(env.open(&below.path(), OpenMode::ReadWrite)).expect("opened");
    let desk = Desk::new(&env);
    let held = below.hold();
    send_one_away(&loops, &desk, &device);
    let file = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).expect("a counter"));
    let (sender, watched) = channel();
    loops.spawn_each("watch", |watch| {
        let (file, sender) = (Arc::clone(&file), sender.clone());
        // The source is kept until all loops have theirs.
        Box::pin(async move { sender.send(watch.source(file)).expect("the test waits") })
    });
    let sources: Vec<_> =
        (0..loops.count()).map(|_| watched.recv_timeout(PATIENCE).expect("begun in time")).collect();
    assert!(
        sources.iter().all(Result::is_ok),
        "a loop cannot watch: {:?}",
        sources.iter().find_map(|it| it.as_ref().err())
    );
    drop(held);
    desk.wait_for(1);
}

#[test]
fn what_is_about_a_thread_waits_until_that_thread_is_back() {
    let Some(below) = FuseDisk::mount(BELOW_BYTES) else { return };
    let env = env();
    let loops = env.loops().expect("loops");
    let device = env.block_on(env.open(&below.path(), OpenMode::ReadWrite)).expect("opened");
    let desk = Desk::new(&env);
    let held = below.hold();
    send_one_away(&loops, &desk, &device);
    let (sender, threads) = channel();
    loops.spawn_own("who", || {
        let sender = sender.clone();
        Box::pin(async move { sender.send(std::thread::current().id()).expect("the test waits") })
    });
    let next = || threads.recv_timeout(PATIENCE).expect("a loop runs what is its own");
    let mut ran: Vec<_> = (1..loops.count()).map(|_| next()).collect();
    // Another loop would run the task at once.
    assert_eq!(threads.recv_timeout(Duration::from_millis(50)), Err(RecvTimeoutError::Timeout));
    drop(held);
    ran.push(next());
    assert!((1..ran.len()).all(|at| !ran[..at].contains(&ran[at])), "a thread each: {ran:?}");
    desk.wait_for(1);
}

#[test]
fn a_request_whose_device_hangs_goes_on_when_it_is_told_to() {
    let Some(below) = FuseDisk::mount(BELOW_BYTES) else { return };
    let env = env();
    let device = env.block_on(env.open(&below.path(), OpenMode::ReadWrite)).expect("opened");
    let desk = Desk::new(&env);
    for _ in 0..3 {
        let held = below.hold();
        let (tell, told) = futures::channel::oneshot::channel::<()>();
        let (told, write) = (Mutex::new(Some(told)), write(&device));
        let gives_up: Work = Arc::new(move || {
            let told = told.lock().expect("nobody panics").take().expect("asked for once");
            let write = write();
            Box::pin(async move {
                // What is written after it was given up is nobody's concern.
                select(write, told).await;
            })
        });
        desk.ask(&gives_up);
        // It is alone, and so its loop makes the call.
        std::thread::sleep(Duration::from_millis(50));
        tell.send(()).expect("it waits");
        desk.wait_for(1);
        drop(held);
    }
    drop(device);
    // The write that was given up goes on, and nothing can be unmounted while a file is open on it.
    while env.block_on(env.open(&below.path(), OpenMode::ReadWrite)).is_err() {
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_command_that_is_not_known_ends_and_gives_its_memory_back() {
    let env = env();
    let command = || Command { code: 1, data: [0; 80], areas: [vec![1; 288], vec![2; 4096]] };
    let file = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).expect("an event counter"));
    let commands = Commands::new(file);
    let (tell, told) = channel();
    let give = || {
        let (commands, tell) = (commands.clone(), tell.clone());
        Box::pin(async move { _ = tell.send(commands.give(command()).await) }) as BoxFuture<'static, ()>
    };
    let loops = env.loops().expect("loops");
    (0..2 * loops.count()).for_each(|n| loops.spawn_at(n, "gives a command", give()));
    // A worker is no loop.
    env.spawn("gives a command", give());
    for _ in 0..=2 * loops.count() {
        let (command, ended) = told.recv_timeout(PATIENCE).expect("it ends");
        assert_eq!(ended.expect_err("not known").raw_os_error(), Some(Errno::OPNOTSUPP.raw_os_error()));
        assert_eq!(command.areas, [vec![1; 288], vec![2; 4096]]);
    }
}

/// Where the thread that calls may run.
fn processors() -> Vec<usize> {
    let set = sched_getaffinity(None).expect("the system tells");
    (0..CpuSet::MAX_CPU).filter(|&processor| set.is_set(processor)).collect()
}

#[test]
fn bound_loops_run_on_a_processor_each_and_who_they_start_anywhere() {
    const CALLS: usize = 24;
    let (env, usable) = (env(), processors());
    assert!(!usable.is_empty());
    let loops = env.loops().expect("loops");
    loops.bind();
    for &processor in &usable {
        let (tell, told) = channel();
        let look = async move {
            let meeting = Arc::new(Barrier::new(CALLS));
            // So many at once that there must be a thread among them that this loop has started.
            let call = || {
                let meeting = Arc::clone(&meeting);
                helpers::call(move || {
                    meeting.wait();
                    processors()
                })
            };
            let calls: Vec<_> = std::iter::repeat_with(call).take(CALLS).collect();
            let of_helpers = join_all(calls).await;
            let own = processors();
            _ = tell.send((own, of_helpers));
        };
        loops.spawn_at(processor, "looks", Box::pin(look));
        let (own, of_helpers) = told.recv_timeout(PATIENCE).expect("it looks");
        assert_eq!(own, [processor]);
        assert!(of_helpers.into_iter().all(|of_helper| of_helper.as_ref() == Ok(&usable)));
    }
}
