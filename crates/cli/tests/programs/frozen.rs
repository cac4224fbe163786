//! A log that does not answer, for the file system in which it lies is that of a daemon that is stopped.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};

use crate::mounted::{POOL, World};

/// More than any server has threads.
const MANY: usize = 1000;
/// How often it is asked for each kind of thing beside writers that wait. On two busy processors, with tests' programs, a
/// hundred of each take five seconds beside [`MANY`] writers.
const ASKED: usize = 30;
const BLOCK: [u8; 8192] = [7; 8192];
/// `O_DSYNC` on Linux.
const O_DSYNC: i32 = 0o10_000;
/// `O_DIRECT` on Linux; on Arm it has another number.
const O_DIRECT: i32 = if cfg!(target_arch = "aarch64") { 0o200_000 } else { 0o40_000 };
/// Until a log is given up, and a little more.
const GIVEN_UP: Duration = Duration::from_secs(10);
/// Until a device that answers again is used again.
const TAKEN_BACK: Duration = Duration::from_secs(100);

/// Kills process `$1` once process `$0` ends. That is not gone yet then: a thread of it may be waiting for `$1`.
const GUARD: &str = r#"while grep -qs "^State:.[^ZX]" /proc/$0/status; do sleep 0.1; done; kill -KILL $1"#;

/// A file system for a log: another pool's, whose daemon can be stopped. The kernel ends all that waits for it when that
/// daemon is killed, and it is killed when this process ends, in whatever way.
struct Slow {
    world: World,
    guard: Child,
}

impl Slow {
    /// `None` where nothing can be mounted and that may be so.
    fn new() -> Option<Self> {
        let world = World::new("a", 1024)?;
        let mut guard = Command::new("sh");
        guard.args(["-c", GUARD, &std::process::id().to_string(), &world.server_pid()]);
        // Who interrupts the tests from a terminal does not reach another group.
        let guard = guard.process_group(0).spawn().expect("sh runs");
        Some(Self { world, guard })
    }

    fn log(&self) -> PathBuf {
        self.world.root().join("l")
    }

    fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.world.server(), signal).expect("it lives");
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.guard.kill().and_then(|()| self.guard.wait()).expect("it waits for this process");
        self.thaw();
    }
}

/// Programs that write one stable block after the other.
struct Writers {
    is_over: Arc<AtomicBool>,
    done: Vec<Arc<AtomicU64>>,
    threads: Vec<JoinHandle<()>>,
}

impl Writers {
    fn start(root: &Path, count: usize) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let done: Vec<_> = (0..count).map(|_| Arc::new(AtomicU64::new(0))).collect();
        let start = |(number, done): (usize, &Arc<AtomicU64>)| {
            let path = root.join(format!("file{number}"));
            let (done, is_over) = (Arc::clone(done), Arc::clone(&is_over));
            std::thread::spawn(move || {
                let mut options = OpenOptions::new();
                let options = options.create(true).truncate(false).write(true).custom_flags(O_DSYNC);
                let file = options.open(path).expect("a file");
                while !is_over.load(SeqCst) {
                    let at = done.load(SeqCst) % 64 * BLOCK.len() as u64;
                    file.write_all_at(&BLOCK, at).expect("a stable write");
                    done.fetch_add(1, SeqCst);
                }
            })
        };
        let threads = done.iter().enumerate().map(start).collect();
        Self { is_over, done, threads }
    }

    /// What each has got done.
    fn done(&self) -> Vec<u64> {
        self.done.iter().map(|done| done.load(SeqCst)).collect()
    }

    /// How many got something done within `span`.
    fn busy_within(&self, span: Duration) -> usize {
        let before = self.done();
        std::thread::sleep(span);
        self.done().iter().zip(before).filter(|(done, before)| *done > before).count()
    }

    fn stop(self) {
        self.is_over.store(true, SeqCst);
        self.threads.into_iter().for_each(|thread| thread.join().expect("all its writes were done"));
    }
}

fn until_taken_back(world: &World) {
    let begun = Instant::now();
    while world.zpool(&format!("status {POOL}")).contains("UNAVAIL") {
        assert!(begun.elapsed() < TAKEN_BACK, "it is not taken back");
        std::thread::sleep(Duration::from_secs(1));
    }
}

#[test]
fn writers_go_on_though_their_log_does_not_answer() {
    go_on_though_their_log_does_not_answer(8);
}

/// Its requests are made by the thread that serves it, which the system holds.
#[test]
fn a_lone_writer_goes_on_though_its_log_does_not_answer() {
    go_on_though_their_log_does_not_answer(1);
}

fn go_on_though_their_log_does_not_answer(count: usize) {
    let Some(slow) = Slow::new() else { return };
    let Some(world) = World::new(&format!("a log {}", slow.log().display()), 128) else { return };
    // Dropped before the world, whose daemon may be waiting for it.
    let slow = slow;
    let writers = Writers::start(&world.root(), count);
    let second = Duration::from_secs(1);
    assert_eq!(writers.busy_within(second), count);
    slow.freeze();
    std::thread::sleep(GIVEN_UP);
    assert_eq!(writers.busy_within(4 * second), count, "all go on");
    let status = world.zpool(&format!("status {POOL}"));
    assert!(status.contains("UNAVAIL") && !status.contains("SUSPENDED"), "{status}");
    slow.thaw();
    assert_eq!(writers.busy_within(4 * second), count, "all do, once it answers");
    until_taken_back(&world);
    assert_eq!(writers.busy_within(second), count);
    writers.stop();
    world.zpool(&format!("remove {POOL} {}", slow.log().display()));
    world.finish();
}

/// Before a snapshot, the daemon opens the files that are open for writing, so that the kernel hands
/// over their pages. If the kernel waited there for the direct write, which waits for the log, a kill
/// could not end the daemon.
#[test]
fn a_daemon_is_killed_while_a_snapshot_and_a_direct_write_wait_for_the_log() {
    let Some(slow) = Slow::new() else { return };
    let Some(world) = World::patient(&format!("a log {}", slow.log().display()), 128, false) else { return };
    // Dropped before the world, whose daemon may be waiting for it.
    let slow = slow;
    let written = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut options = OpenOptions::new();
            let options = options.create(true).truncate(false).write(true).custom_flags(O_DSYNC);
            let file = options.open(world.root().join("file")).expect("a file");
            while file.write_all_at(&BLOCK, 0).is_ok() {
                written.fetch_add(1, SeqCst);
            }
        });
        std::thread::sleep(Duration::from_secs(1));
        slow.freeze();
        std::thread::sleep(Duration::from_secs(1));
        let before = written.load(SeqCst);
        scope.spawn(|| world.run("zfs", &format!("snapshot {POOL}@beside")));
        std::thread::sleep(Duration::from_secs(2));
        assert!(before > 0 && written.load(SeqCst) == before, "the write waits for the log");
        // A process is not gone before its requests to devices are answered.
        scope.spawn(|| {
            std::thread::sleep(Duration::from_secs(1));
            slow.thaw();
        });
        world.kill_daemon();
    });
    world.restart();
    File::create(world.root().join("after")).expect("the pool is back");
    world.finish();
}

/// Asks for what the kernel does not remember, and for no log: names, attributes, contents, new files.
fn ask_for_much(root: &Path, round: usize) {
    let mut options = OpenOptions::new();
    let file = options.read(true).custom_flags(O_DIRECT).open(root.join("read")).expect("a file");
    for n in 0..ASKED {
        let name = root.join(format!("name{round}.{n}"));
        assert_eq!(fs::metadata(&name).expect_err("not there").kind(), std::io::ErrorKind::NotFound);
        File::create(&name).expect("a new file");
        let mut bytes = [0; BLOCK.len()];
        file.read_exact_at(&mut bytes, 0).expect("it can be read");
        assert_eq!(bytes, BLOCK);
    }
}

#[test]
fn requests_that_wait_hold_up_no_others() {
    hold_up_no_others(false);
}

pub fn hold_up_no_others(over_rings: bool) {
    let Some(slow) = Slow::new() else { return };
    // Where room is short, a new file waits for a txg, and that for the log.
    // A log that is given up while others are asked for would let go those who wait.
    let vdevs = format!("a log {}", slow.log().display());
    let Some(world) = World::patient(&vdevs, 8192, over_rings) else { return };
    // Dropped before the world, whose daemon may be waiting for it.
    let slow = slow;
    fs::write(world.root().join("read"), BLOCK).expect("written");
    for (round, count) in [1, 2, MANY].into_iter().enumerate() {
        let writers = Writers::start(&world.root(), count);
        while writers.done().contains(&0) {
            std::thread::sleep(Duration::from_millis(10));
        }
        slow.freeze();
        // On busy processors a thousand writers may rest for a moment before the last that were answered are told so.
        while writers.busy_within(Duration::from_millis(500)) > 0 {}
        let (before, begun) = (writers.done(), Instant::now());
        ask_for_much(&world.root(), round);
        let took = begun.elapsed();
        assert_eq!(writers.done(), before, "they waited all the time");
        assert!(took < GIVEN_UP / 2, "{} requests beside {count} that wait took {took:?}", 3 * ASKED);
        slow.thaw();
        writers.stop();
    }
    world.zpool(&format!("remove {POOL} {}", slow.log().display()));
    world.finish();
}
