//! A log that does not answer, for the file system in which it lies is frozen (`fsfreeze(8)`).

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use oracle::needs::Need;

use crate::mounted::{POOL, World};

const WRITERS: usize = 8;
const BLOCK: [u8; 8192] = [7; 8192];
/// `O_DSYNC` on Linux.
const O_DSYNC: i32 = 0o10_000;
/// Until a log is given up, and a little more.
const GIVEN_UP: Duration = Duration::from_secs(10);
/// Until a device that answers again is used again.
const TAKEN_BACK: Duration = Duration::from_secs(100);

fn ran(words: &[&str]) -> Option<String> {
    let output = Command::new(words[0]).args(&words[1..]).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// A file system of its own for a log, in a directory of the disks. All that waits for it goes on, and it is gone, once
/// this is dropped.
struct Slow {
    at: PathBuf,
    image: PathBuf,
}

impl Slow {
    fn new(disks: &Path) -> Option<Self> {
        let slow = Self { at: disks.join("slow"), image: disks.join("slow.image") };
        fs::create_dir(&slow.at).expect("a directory");
        File::create(&slow.image).and_then(|image| image.set_len(512 << 20)).expect("an image");
        let (image, at) = (slow.image.to_str()?, slow.at.to_str()?);
        ran(&["mkfs.ext4", "-q", image])?;
        ran(&["mount", "-o", "loop", image, at]).map(|_| slow)
    }

    fn freeze(&self) {
        ran(&["fsfreeze", "--freeze", &self.at.display().to_string()]).expect("it is frozen");
    }

    fn thaw(&self) {
        // Fails when it is not frozen.
        _ = ran(&["fsfreeze", "--unfreeze", &self.at.display().to_string()]);
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.thaw();
        _ = ran(&["umount", "--lazy", &self.at.display().to_string()]);
        _ = fs::remove_file(&self.image);
    }
}

/// Programs that write one stable block after the other.
struct Writers {
    is_over: Arc<AtomicBool>,
    done: Vec<Arc<AtomicU64>>,
    threads: Vec<JoinHandle<()>>,
}

impl Writers {
    fn start(root: &Path) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let done: Vec<_> = (0..WRITERS).map(|_| Arc::new(AtomicU64::new(0))).collect();
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

    /// How many got something done within `span`.
    fn busy_within(&self, span: Duration) -> usize {
        let before: Vec<u64> = self.done.iter().map(|done| done.load(SeqCst)).collect();
        std::thread::sleep(span);
        self.done.iter().zip(before).filter(|(done, before)| done.load(SeqCst) > *before).count()
    }

    fn stop(self) {
        self.is_over.store(true, SeqCst);
        self.threads.into_iter().for_each(|thread| thread.join().expect("all its writes were done"));
    }
}

#[test]
fn writers_go_on_though_their_log_does_not_answer() {
    let mut slow = None;
    let prepared = World::prepared("a log slow/l", 128, |disks| slow = Slow::new(disks));
    let Some(world) = prepared else { return };
    let Some(slow) = slow else { return Need::Loop.is_missing("a file system on a loop device") };
    let writers = Writers::start(&world.root());
    let second = Duration::from_secs(1);
    assert_eq!(writers.busy_within(second), WRITERS);
    slow.freeze();
    std::thread::sleep(GIVEN_UP);
    // A thread of the daemon may be held by the system in a write to the log, and who asked for that with it.
    let busy = writers.busy_within(4 * second);
    assert!(busy >= WRITERS - 1, "{busy} of {WRITERS} go on");
    let status = world.zpool(&format!("status {POOL}"));
    assert!(status.contains("UNAVAIL") && !status.contains("SUSPENDED"), "{status}");
    slow.thaw();
    assert_eq!(writers.busy_within(4 * second), WRITERS, "all do, once it answers");
    let begun = Instant::now();
    while world.zpool(&format!("status {POOL}")).contains("UNAVAIL") {
        assert!(begun.elapsed() < TAKEN_BACK, "it is not taken back");
        std::thread::sleep(second);
    }
    assert_eq!(writers.busy_within(second), WRITERS);
    writers.stop();
    world.zpool(&format!("remove {POOL} {}", world.disks().join("slow/l").display()));
    drop(slow);
    world.finish();
}
