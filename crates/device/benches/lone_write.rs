//! What one lone 8 KiB stable write costs beside the bare system call, and what a wake-up
//! across threads costs. Prints microseconds: median and 99th of a hundred.
//!
//! `cargo bench -p sawmill-device` writes to a file in the target directory and, where
//! there is one, to `/dev/shm`.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use device::{Options, RealEnv};
use env::{BufSlice, Device, Durability, Env, IoBuf, OpenMode, RamDevice};
use futures::channel::{mpsc, oneshot};
use futures::future::{Either, join, select};
use futures::{SinkExt, StreamExt};
use rustix::fs::{Mode, OFlags};
use rustix::io::{IoSlice, ReadWriteFlags};
use units::LeafOffset;

const LEN: usize = 8192;
const FILE_BYTES: u64 = 16 << 20;

fn report(what: &str, rounds: u64, mut act: impl FnMut(u64)) {
    for n in 0..rounds / 10 {
        act(n);
    }
    let mut times: Vec<Duration> = (0..rounds)
        .map(|n| {
            let began = Instant::now();
            act(n);
            began.elapsed()
        })
        .collect();
    times.sort_unstable();
    let us = |share: usize| times[times.len() * share / 100].as_nanos() as f64 / 1000.0;
    println!("{what:<58} {:>9.1} {:>9.1}", us(50), us(99));
}

fn place(n: u64) -> u64 {
    n * LEN as u64 % FILE_BYTES
}

fn raw(path: &Path, flags: OFlags, rounds: u64, what: &str) {
    let file = rustix::fs::open(path, OFlags::RDWR | flags, Mode::empty()).expect("opened");
    let buf = IoBuf::zeroed(LEN);
    report(what, rounds, |n| {
        let parts = [IoSlice::new(&buf)];
        rustix::io::pwritev2(&file, &parts, place(n), ReadWriteFlags::DSYNC).expect("written");
    });
}

fn through(env: &Arc<RealEnv>, device: &Arc<dyn Device>, rounds: u64, name: &str) {
    let buf = Arc::new(IoBuf::zeroed(LEN));
    let write = |n| {
        let slices = vec![BufSlice::from(Arc::clone(&buf))];
        device.write(LeafOffset::new(place(n)), slices, Durability::Stable)
    };
    report(&format!("{name}: block_on, lone"), rounds, |n| {
        env.block_on(write(n)).expect("written");
    });
    report(&format!("{name}: block_on, with a timer armed (by ring)"), rounds, |n| {
        let timer = env.sleep(Duration::from_secs(100));
        match env.block_on(select(write(n), timer)) {
            Either::Left((result, _)) => result.expect("written"),
            Either::Right(_) => unreachable!("100 s"),
        }
    });
    report(&format!("{name}: block_on, two at once"), rounds, |n| {
        let (first, second) = env.block_on(join(write(2 * n), write(2 * n + 1)));
        first.and(second).expect("written");
    });
    report(&format!("{name}: in a spawned task, answer awaited"), rounds, |n| {
        let (sender, receiver) = oneshot::channel();
        let write = write(n);
        env.spawn("write", Box::pin(async move { sender.send(write.await).expect("awaited") }));
        env.block_on(receiver).expect("answered").expect("written");
    });
}

fn file(dir: &Path) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new_in(dir).expect("a file");
    // Written, not only made long: what is measured is overwriting.
    std::fs::write(file.path(), vec![1; FILE_BYTES as usize]).expect("room");
    file.as_file().sync_all().expect("synced");
    file
}

fn wakes(env: &Arc<RealEnv>) {
    let (mut ping, mut pinged) = mpsc::channel::<()>(0);
    let (mut pong, mut ponged) = mpsc::channel::<()>(0);
    let other = Arc::clone(env);
    let thread = std::thread::spawn(move || {
        other.block_on(async {
            while pinged.next().await.is_some() {
                pong.send(()).await.expect("listened to");
            }
        });
    });
    report("wake a thread and be woken (round trip)", 20_000, |_| {
        env.block_on(async {
            ping.send(()).await.expect("listened to");
            ponged.next().await;
        });
    });
    drop(ping);
    thread.join().expect("ended");
    report("block_on of something ready", 20_000, |_| env.block_on(async {}));
    report("a wake of oneself", 20_000, |_| {
        let (sender, receiver) = oneshot::channel();
        env.block_on(async {
            let both = join(receiver, async { sender.send(()) }).await;
            both.0.expect("sent");
        });
    });
}

fn main() {
    println!("{:<58} {:>9} {:>9}", "µs", "p50", "p99");
    let ring = RealEnv::new(Options { workers: 1, ..Options::default() });
    let plain = RealEnv::new(Options { workers: 1, uring: false, ..Options::default() });
    let exe = std::env::current_exe().expect("a program");
    let disk = file(exe.parent().expect("a directory"));
    raw(disk.path(), OFlags::DIRECT, 2000, "disk: pwritev2(RWF_DSYNC), O_DIRECT");
    raw(disk.path(), OFlags::empty(), 2000, "disk: pwritev2(RWF_DSYNC), page cache");
    for (env, name) in [(&ring, "disk"), (&plain, "disk, no io_uring")] {
        let device = env.block_on(env.open(disk.path(), OpenMode::ReadWrite)).expect("opened");
        through(env, &device, 2000, name);
    }
    if Path::new("/dev/shm").is_dir() {
        let memory = file(Path::new("/dev/shm"));
        raw(memory.path(), OFlags::empty(), 20_000, "tmpfs: pwritev2(RWF_DSYNC)");
        let device = ring.block_on(ring.open(memory.path(), OpenMode::ReadWrite)).expect("opened");
        through(&ring, &device, 20_000, "tmpfs");
    }
    let ram: Arc<dyn Device> = Arc::new(RamDevice::new(FILE_BYTES));
    through(&ring, &ram, 20_000, "RAM");
    wakes(&ring);
}
