use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use futures::channel::{mpsc, oneshot};
use futures::future::{Either, join_all, select};
use futures::stream::FuturesUnordered;
use futures::{FutureExt, SinkExt, StreamExt};

use super::{at, env, filled, holds, plain_env};
use crate::RealEnv;
use env::{Device, Durability, Env, OpenMode};

/// A file of 4 MiB on a real file system (where the target directory lies), opened.
async fn open_file(env: &RealEnv) -> (tempfile::NamedTempFile, Arc<dyn Device>) {
    let file = super::files::file_on_disk(4 << 20);
    let device = env.open(file.path(), OpenMode::ReadWrite).await.expect("a file can be opened");
    (file, device)
}

#[test]
fn block_on_returns_what_the_future_gives() {
    assert_eq!(env().block_on(async { 7 }), 7);
}

#[test]
fn a_future_that_wakes_itself_is_polled_again() {
    let mut left = 1000;
    env().block_on(poll_fn(|cx| {
        left -= 1;
        cx.waker().wake_by_ref();
        if left == 0 { Poll::Ready(()) } else { Poll::Pending }
    }));
    assert_eq!(left, 0);
}

#[test]
fn wakes_from_other_threads_are_never_lost() {
    // Two threads play ping-pong: a lost wake on either side hangs the test.
    let env = env();
    let (mut ping, mut pinged) = mpsc::channel::<u64>(0);
    let (mut pong, mut ponged) = mpsc::channel::<u64>(0);
    let other = {
        let env = Arc::clone(&env);
        std::thread::spawn(move || {
            env.block_on(async {
                while let Some(n) = pinged.next().await {
                    pong.send(n + 1).await.expect("the first thread listens");
                }
            });
        })
    };
    let total = env.block_on(async {
        let mut n = 0;
        for _ in 0..20_000 {
            ping.send(n).await.expect("the second thread listens");
            n = ponged.next().await.expect("the second thread answers");
        }
        drop(ping);
        n
    });
    assert_eq!(total, 20_000);
    other.join().expect("the second thread ends");
}

#[test]
fn wakes_reach_a_thread_that_waits_in_its_ring() {
    // I/O is always in flight, so the waiting thread sleeps in io_uring_enter.
    let env = env();
    env.block_on(async {
        let (_file, device) = open_file(&env).await;
        for round in 0..500_u64 {
            let (sender, receiver) = oneshot::channel();
            env.spawn(
                "answer",
                Box::pin(async move {
                    let _ = sender.send(round);
                }),
            );
            let io = device.write(at(0), filled(1, 4096), Durability::Stable);
            let other = device.write(at(4096), filled(1, 4096), Durability::Stable);
            let (answer, first, second) = futures::join!(receiver, io, other);
            assert_eq!(answer, Ok(round));
            first.and(second).expect("writes succeed");
        }
    });
}

#[test]
fn a_wake_interrupts_a_long_wait() {
    let env = env();
    let began = Instant::now();
    let (sender, receiver) = oneshot::channel();
    let waker = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        sender.send(5)
    });
    let first = env.block_on(select(receiver, env.sleep(Duration::from_secs(60))));
    assert!(matches!(first, Either::Left((Ok(5), _))));
    assert!(began.elapsed() < Duration::from_secs(10));
    waker.join().expect("the waker ends").expect("somebody listened");
}

#[test]
fn sleeps_end_in_order_and_not_early() {
    let env = env();
    let began = Instant::now();
    let sleep = |ms| {
        let sleep = env.sleep(Duration::from_millis(ms));
        async move {
            sleep.await;
            assert!(began.elapsed() >= Duration::from_millis(ms));
            ms
        }
    };
    // Polled in the order of their wakes, also when a busy machine has several due at once.
    let ended = [300, 100, 200].map(sleep).into_iter().collect::<FuturesUnordered<_>>();
    assert_eq!(env.block_on(ended.collect::<Vec<u64>>()), [100, 200, 300]);
}

#[test]
fn sleeps_work_outside_of_any_executor_of_ours() {
    let env = env();
    let began = Instant::now();
    futures::executor::block_on(env.sleep(Duration::from_millis(15)));
    assert!(began.elapsed() >= Duration::from_millis(15));
}

#[test]
fn io_works_outside_of_any_executor_of_ours() {
    let env = env();
    futures::executor::block_on(async {
        let (_file, device) = open_file(&env).await;
        device.write(at(0), filled(3, 4096), Durability::Stable).await.expect("written");
        assert!(holds(&*device, 0, 4096, 3).await);
    });
}

#[test]
fn spawned_tasks_run_and_see_each_other() {
    let env = env();
    let (sender, receiver) = mpsc::unbounded();
    for n in 0..100_u64 {
        let (sender, env_inside) = (sender.clone(), Arc::clone(&env));
        let task = async move {
            env_inside.sleep(Duration::from_micros(n * 10)).await;
            sender.unbounded_send(n).expect("somebody collects");
        };
        env.spawn("numbers", Box::pin(task));
    }
    drop(sender);
    let mut all: Vec<u64> = env.block_on(receiver.collect());
    all.sort_unstable();
    assert_eq!(all, (0..100).collect::<Vec<_>>());
}

#[test]
fn a_task_knows_whether_others_of_its_thread_could_go_on() {
    let env = plain_env();
    assert!(!env.has_ready(), "no tasks run on this thread");
    let (told, tells) = oneshot::channel();
    let inside = Arc::clone(&env);
    // There is one worker, and so both are its.
    let task = async move {
        let alone = inside.has_ready();
        inside.spawn("another", Box::pin(async {}));
        let beside = inside.has_ready();
        env::let_others_first().await;
        let _ = told.send([alone, beside, inside.has_ready()]);
    };
    env.spawn("asks", Box::pin(task));
    assert_eq!(env.block_on(tells), Ok([false, true, false]));
}

#[test]
fn a_panicking_task_takes_nobody_along_and_those_who_wait_hear_of_it() {
    let env = env();
    for _ in 0..4 {
        let (sender, receiver) = oneshot::channel::<()>();
        let task = async move {
            let _held = sender;
            panic!("this panic belongs to a test");
        };
        env.spawn("panics", Box::pin(task));
        assert!(env.block_on(receiver).is_err());
    }
    let (sender, receiver) = oneshot::channel();
    env.spawn(
        "works",
        Box::pin(async move {
            let _ = sender.send(1);
        }),
    );
    assert_eq!(env.block_on(receiver), Ok(1));
}

#[test]
fn dropping_the_environment_drops_its_tasks() {
    struct Flag(Arc<AtomicBool>);
    impl Drop for Flag {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let dropped = Arc::new(AtomicBool::new(false));
    let env = env();
    let flag = Flag(Arc::clone(&dropped));
    let forever = async move {
        let _flag = flag;
        futures::future::pending::<()>().await;
    };
    env.spawn("forever", Box::pin(forever));
    drop(env);
    assert!(dropped.load(Ordering::SeqCst));
}

#[test]
fn the_last_owner_of_an_environment_may_be_its_own_task() {
    for _ in 0..50 {
        let env = env();
        let (sender, receiver) = oneshot::channel::<()>();
        let (begin, begun) = oneshot::channel::<()>();
        let held = Arc::clone(&env);
        let task = async move {
            let _ = begun.await;
            drop(held);
            drop(sender);
        };
        env.spawn("owner", Box::pin(task));
        drop(env);
        begin.send(()).expect("the task waits");
        assert!(futures::executor::block_on(receiver).is_err());
    }
}

#[test]
fn many_threads_wake_one_that_waits_in_its_ring() {
    // The sleeper always has I/O in flight, the others wake it at any time: each of their
    // messages must arrive, although many fall between its polls and its waits.
    const MESSAGES: u64 = 3000;
    let env = env();
    let (_file, device) = env.block_on(open_file(&env));
    let (sender, mut receiver) = mpsc::unbounded();
    let threads: Vec<_> = (0..3_u64)
        .map(|thread| {
            let sender = sender.clone();
            std::thread::spawn(move || {
                for n in 0..MESSAGES {
                    sender.unbounded_send(1).expect("listened to");
                    if (n + thread) % 64 == 0 {
                        std::thread::yield_now();
                    }
                }
            })
        })
        .collect();
    drop(sender);
    let total = env.block_on(async {
        let mut io: futures::stream::FuturesUnordered<_> =
            (0..2).map(|n| device.write(at(n * 4096), filled(1, 4096), Durability::Stable)).collect();
        let mut total = 0;
        loop {
            futures::select! {
                message = receiver.next() => match message {
                    Some(one) => total += one,
                    None => break,
                },
                result = io.select_next_some() => {
                    result.expect("written");
                    io.push(device.write(at(0), filled(1, 4096), Durability::Stable));
                }
            }
        }
        total
    });
    assert_eq!(total, 3 * MESSAGES);
    for thread in threads {
        thread.join().expect("ended");
    }
}

#[test]
fn a_dropped_write_still_reaches_the_file() {
    let env = env();
    let (_file, device) = env.block_on(open_file(&env));
    for round in 1..=100_u8 {
        // Polled once, then dropped with its buffers in the kernel's hands.
        env.block_on(async {
            let mut writes: Vec<_> =
                (0..4).map(|n| device.write(at(n * 8192), filled(round, 8192), Durability::Stable)).collect();
            poll_fn(|cx| {
                for write in &mut writes {
                    assert!(write.poll_unpin(cx).is_pending() || !env.uses_uring());
                }
                Poll::Ready(())
            })
            .await;
        });
        let arrived = || env.block_on(holds(&*device, 0, 4 * 8192, round));
        let deadline = Instant::now() + Duration::from_secs(20);
        while !arrived() {
            assert!(Instant::now() < deadline, "the write of round {round} never arrived");
        }
    }
}

#[test]
fn io_begun_on_one_thread_ends_on_another() {
    let env = env();
    let (_file, device) = env.block_on(open_file(&env));
    for round in 1..=200_u8 {
        let begin = {
            let (env, device) = (Arc::clone(&env), Arc::clone(&device));
            move || {
                let mut writes: Vec<_> = (0..3)
                    .map(|n| device.write(at(n * 4096), filled(round, 4096), Durability::Stable))
                    .collect();
                let mut sleep = env.sleep(Duration::from_millis(1));
                env.block_on(poll_fn(|cx| {
                    let _ = sleep.poll_unpin(cx);
                    // A finished future must not be polled again.
                    writes.retain_mut(|write| write.poll_unpin(cx).is_pending());
                    Poll::Ready(())
                }));
                (writes, sleep)
            }
        };
        // The thread that submitted is gone when the futures are awaited.
        let (writes, sleep) = std::thread::spawn(begin).join().expect("the first thread ends");
        env.block_on(async {
            for result in join_all(writes).await {
                result.expect("a write begun by another thread succeeds");
            }
            sleep.await;
            assert!(holds(&*device, 0, 3 * 4096, round).await);
        });
    }
}

#[test]
fn many_threads_and_tasks_do_io_at_once() {
    let env = env();
    let (_file, device) = env.block_on(open_file(&env));
    let done = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (env, device, done) = (&env, &device, &done);
            scope.spawn(move || {
                env.block_on(async {
                    for round in 0..20_u64 {
                        // More at once than a ring's queue holds.
                        let writes = (0..200).map(|n| {
                            let place = at(((thread * 200 + n) % 1024) * 4096);
                            device.write(place, filled(round as u8, 4096), Durability::Cached)
                        });
                        for result in join_all(writes).await {
                            result.expect("written");
                            done.fetch_add(1, Ordering::Relaxed);
                        }
                        device.flush().await.expect("flushed");
                    }
                });
            });
        }
    });
    assert_eq!(done.load(Ordering::Relaxed), 4 * 20 * 200);
}

#[test]
fn block_on_may_be_nested() {
    let env = env();
    let (sender, receiver) = oneshot::channel();
    let got = env.block_on(async {
        let inner = env.block_on(async {
            env.sleep(Duration::from_millis(1)).await;
            2
        });
        sender.send(inner).expect("the receiver lives");
        receiver.await
    });
    assert_eq!(got, Ok(2));
}

#[test]
fn everything_works_without_io_uring() {
    let env = plain_env();
    assert!(!env.uses_uring());
    env.block_on(async {
        let (_file, device) = open_file(&env).await;
        let writes = (0..16).map(|n| device.write(at(n * 4096), filled(9, 4096), Durability::Stable));
        for result in join_all(writes).await {
            result.expect("written");
        }
        device.flush().await.expect("flushed");
        assert!(holds(&*device, 0, 16 * 4096, 9).await);
    });
}

#[test]
fn random_numbers_differ_and_clocks_move() {
    let env = env();
    assert_ne!(env.random_u64(), env.random_u64());
    let before = env.now();
    env.block_on(env.sleep(Duration::from_millis(2)));
    assert!(env.now() >= before + Duration::from_millis(2));
    assert!(env.wall_clock() > Duration::from_secs(1_700_000_000));
}

#[test]
fn without_io_uring_several_ios_are_under_way_at_once() {
    let env = plain_env();
    env.block_on(async {
        let (_file, device) = open_file(&env).await;
        for round in 0..20_u8 {
            let writes =
                (0..64).map(|n| device.write(at(n * 65536), filled(round, 65536), Durability::Cached));
            join_all(writes).await.into_iter().for_each(|result| result.expect("written"));
            device.flush().await.expect("flushed");
            assert!(holds(&*device, 0, 4 << 20, round).await);
        }
    });
    assert!(crate::exec::helpers::threads() > 1, "one thread did it all");
}

/// What a container's seccomp filter does to io_uring, in a thread of its own.
#[test]
fn where_io_uring_is_refused_io_works_all_the_same() {
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
    // io_uring_setup (425) on every architecture; EPERM is 1.
    let refuse = |arch: &str| {
        let arch = arch.try_into().expect("an architecture that seccomp knows");
        let rules = [(425, Vec::new())].into_iter().collect();
        SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(1), arch).expect("a filter")
    };
    let thread = std::thread::spawn(move || {
        let filter: BpfProgram = refuse(std::env::consts::ARCH).try_into().expect("a program");
        seccompiler::apply_filter(&filter).expect("installed");
        assert!(crate::exec::ring::probe().is_err(), "the kernel refuses");
        // As if a program had found io_uring at its start, and lost it since.
        let env = env();
        env.block_on(async {
            let (_file, device) = open_file(&env).await;
            let writes = (0..64).map(|n| device.write(at(n * 4096), filled(9, 4096), Durability::Stable));
            join_all(writes).await.into_iter().for_each(|result| result.expect("written"));
            assert!(holds(&*device, 0, 64 * 4096, 9).await);
        });
    });
    thread.join().expect("all of that");
}

/// The kernel lacks memory for submissions, once or for a while.
#[test]
fn a_ring_that_the_kernel_has_no_memory_for_is_waited_for_and_passed_by() {
    use crate::exec::ring::ordered;
    const AGAIN: i32 = 11;
    const NOMEM: i32 = 12;
    let env = env();
    env.block_on(async {
        let (_file, device) = open_file(&env).await;
        for (byte, errno, refusals) in [(1, AGAIN, 1), (2, NOMEM, 2), (3, AGAIN, 12), (4, NOMEM, 12)] {
            ordered::refuse(refusals, errno);
            // More requests than the ring can hold.
            let pieces = (0..300).map(|n| device.write(at(n * 4096), filled(byte, 4096), Durability::Cached));
            join_all(pieces).await.into_iter().for_each(|written| written.expect("written in the end"));
            assert_eq!(ordered::left(), 0, "the ring met the shortage");
            assert!(holds(&*device, 0, 300 * 4096, byte).await);
        }
    });
}
