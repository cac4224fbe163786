//! fsx, with its maps, and fio with O_DIRECT, each beside the other in the same pool, while the daemon is killed
//! between and beneath them. `SAWMILL_FSX_SECONDS` says for how long; `cargo xtask fsx` takes an hour.
//!
//! A round in which both run to their ends tells whether what they made stable outlives the daemon; one in which they are
//! killed with it, whether they saw a wrong byte before, and whether the pool is whole after.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use oracle::lane::number;

use crate::mounted::{POOL, World, bounded};
use crate::posix;
use crate::shell::{sh, until};

const SECONDS_DEFAULT: u64 = 8;
const RECORD_SIZES: [&str; 4] = ["128K", "4K", "16K", "1M"];
/// Of a round that is not cut short.
const OPERATIONS: u32 = 1_500;
const DIRECT_SECONDS: u32 = 2;
/// What the two say of wrong data, in words that they use for nothing else.
pub const ACCUSATIONS: [&str; 3] = ["miscompare", "verify failed", "bad header"];

#[test]
fn what_was_synced_outlives_the_daemon() {
    if let Some(world) = crate::world(&["fsx", "fio"]) {
        rounds(&world);
        world.finish();
    }
}

/// Rounds of both kinds until the time is over, one of each at least.
pub fn rounds(world: &World) {
    let time = Duration::from_secs(number("SAWMILL_FSX_SECONDS", SECONDS_DEFAULT));
    let (begun, mut rounds) = (Instant::now(), 0);
    while rounds < 2 || begun.elapsed() < time {
        let exerciser = Exerciser::new(world, rounds);
        match rounds % 2 {
            0 => exerciser.ends_and_is_kept(),
            _ => exerciser.dies_with_the_daemon(),
        }
        exerciser.remove();
        rounds += 1;
    }
    eprintln!("fsx and fio: {rounds} rounds, the daemon killed in each");
}

/// The two programs of one round, and their files.
struct Exerciser<'a> {
    world: &'a World,
    round: u64,
    beside: tempfile::TempDir,
}

impl<'a> Exerciser<'a> {
    fn new(world: &'a World, round: u64) -> Self {
        let record_size = RECORD_SIZES[(round / 2) as usize % RECORD_SIZES.len()];
        world.zfs(&format!("set recordsize={record_size} {POOL}"));
        let beside = tempfile::tempdir().expect("a directory");
        std::fs::write(beside.path().join("fsx.toml"), posix::FSX).expect("written");
        Self { world, round, beside }
    }

    fn files(&self) -> [PathBuf; 2] {
        ["mapped", "direct"].map(|name| self.world.root().join(format!("{name}-{}", self.round)))
    }

    /// fsx, for so many operations or for ever.
    fn mapped(&self, operations: Option<u32>) -> Command {
        let mut fsx = bounded(Path::new("fsx"));
        fsx.arg("-q").arg("-f").arg(self.beside.path().join("fsx.toml"));
        fsx.arg("-P").arg(self.beside.path()).args(["-S", &(1 + self.round).to_string()]);
        if let Some(operations) = operations {
            fsx.args(["-N", &operations.to_string()]);
        }
        fsx.arg(&self.files()[0]);
        fsx
    }

    fn direct(&self, seconds: u32) -> Command {
        direct(&self.files()[1], seconds, self.round)
    }

    /// Both run to their ends; then the daemon is killed, and what they left is as they left it.
    fn ends_and_is_kept(&self) {
        for output in together([self.mapped(Some(OPERATIONS)), self.direct(DIRECT_SECONDS)], || {}) {
            assert!(output.status.success(), "round {}: {}", self.round, said(&output));
        }
        let [mapped, direct] = self.files().map(|file| file.display().to_string());
        let sums = format!("sync {mapped} {direct}; sha256sum {mapped} {direct}");
        let before = sh(&sums, Path::new("/"));
        self.kill();
        assert_eq!(sh(&sums, Path::new("/")), before, "round {}", self.round);
    }

    /// The daemon is killed beneath both, at some time. They may fail then, but not have read what they did not write.
    fn dies_with_the_daemon(&self) {
        let time = Duration::from_millis(200 + self.round * 677 % 1_500);
        let outputs = together([self.mapped(None), self.direct(u32::MAX / 2)], || {
            until(|| self.files().iter().all(|file| file.exists()), "both have begun");
            std::thread::sleep(time);
            self.world.kill_daemon();
        });
        for output in &outputs {
            let said = said(output);
            assert!(!output.status.success(), "round {}: ended by itself: {said}", self.round);
            for accusation in ACCUSATIONS {
                assert!(!said.contains(accusation), "round {}: {said}", self.round);
            }
        }
        self.world.restart();
        // Every block can be read. A file that nobody has synced yet may be gone.
        sh(
            "for file in mapped-* direct-*; do [ ! -e $file ] || cat $file >/dev/null; done",
            &self.world.root(),
        );
    }

    fn kill(&self) {
        self.world.kill_daemon();
        self.world.restart();
    }

    fn remove(&self) {
        let files = self.files();
        files
            .iter()
            .filter(|file| file.exists())
            .for_each(|file| std::fs::remove_file(file).expect("removed"));
    }
}

/// fio, which reads again what it wrote, past the kernel's cache.
pub fn direct(file: &Path, seconds: u32, seed: u64) -> Command {
    let mut fio = bounded(Path::new("fio"));
    fio.args(["--name=direct", "--direct=1", "--ioengine=psync", "--rw=randrw", "--bsrange=4k-64k"]);
    fio.args(["--size=16m", "--fsync=32", "--verify=crc32c", "--verify_fatal=1", "--verify_backlog=64"]);
    fio.arg("--verify_state_save=0");
    fio.args(["--time_based", &format!("--runtime={seconds}"), &format!("--randseed={seed}")]);
    fio.arg(format!("--filename={}", file.display()));
    fio
}

/// Runs two programs side by side; `meanwhile` begins when both have begun.
fn together(programs: [Command; 2], meanwhile: impl FnOnce()) -> [Output; 2] {
    let children = programs.map(|mut program| {
        program.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        program.spawn().expect("the program runs")
    });
    meanwhile();
    children.map(|child| child.wait_with_output().expect("it ends"))
}

/// How a program ended, and what it printed.
pub fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}: {}{}", output.status, text(&output.stdout), text(&output.stderr))
}
