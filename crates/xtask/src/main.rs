//! `cargo xtask test`: the tests. `cargo xtask LANE`: those that are too long for every run. Both the same by hand and in CI.
//!
//! ```text
//!  test [WORD...]              every test, or those in whose name a WORD is, each with a limit of time
//!  histories [STEPS [PARTS]]   every crash state of every history of up to STEPS (3) operations,
//!                              the longest ones in so many PARTS (1), each said when it is done
//!  crashes [IMAGES [RUNS]]     the crash tests of pools with IMAGES (100) states of each recorded run,
//!                              and RUNS (20) runs of each shape
//!  kills                       the golden pools' logs: replay killed after every record
//!  hostile [SECONDS]           blocks and streams changed and sealed again, each lane for so long (600)
//!  lives [SEEDS [FIRST]]       so many (2,000) pools to whose devices everything is done, while they fail
//!  mutants [WORD...]           planted mistakes (those with a WORD in their names): a test must catch each
//!  damage                      every block of a small pool lost in its turn, and read by all code
//!                              that uses it
//!  loops [SECONDS]             one thing done to a log over and over under 32 writers, for so long (120)
//!                              each, then kill -9; needs root, /dev/fuse
//!  fsx [SECONDS]               fsx with its maps and fio with O_DIRECT, the daemon killed between and beneath them,
//!                              for SECONDS (3600) by each transport side by side; needs root, /dev/fuse
//!  memory [MIB [PERCENT]]      a daemon in a control group of MIB (256): PERCENT (100) of 2 GB written and
//!                              read, 100,000 files, a scrub; needs root, /dev/fuse
//!  storm [SECONDS [SEED]]      eight programs run commands and file calls at once on a slow disk
//!                              and the daemon is killed meanwhile, for SECONDS (600); needs root,
//!                              /dev/fuse
//!  soak [SECONDS [SEED]]       PostgreSQL, fio, snapshots, streams, failing devices and kills on one
//!                              daemon, whose memory and descriptors must not grow, for SECONDS (7200);
//!                              needs root, /dev/fuse, PostgreSQL, fio
//!  screens [DIRECTORY]         pictures of the daemon's page over pools that are made up, large and small, light and
//!                              dark, in DIRECTORY (target/screens); needs chromium
//! ```
#![forbid(unsafe_code)]

mod mutants;
mod suite;

use std::path::Path;
use std::process::{Command, ExitCode};

const USAGE: &str = "usage: xtask test [WORD...]\n       xtask histories [STEPS [PARTS]]\n       xtask crashes [IMAGES [RUNS]]\n       xtask kills\n       xtask hostile [SECONDS]\n       xtask lives [SEEDS [FIRST]]\n       xtask mutants [WORD...]\n       xtask damage\n       xtask loops [SECONDS]\n       xtask fsx [SECONDS]\n       xtask memory [MIB [PERCENT]]\n       xtask storm [SECONDS [SEED]]\n       xtask soak [SECONDS [SEED]]\n       xtask screens [DIRECTORY]";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    if let Some((&"test", words)) = args.split_first() {
        return suite::run(words);
    }
    if let Some((&"mutants", words)) = args.split_first() {
        return mutants::run(words);
    }
    if let Some((&"screens", rest @ ([] | [_]))) = args.split_first() {
        return screens(rest.first().copied().unwrap_or("target/screens"));
    }
    let numbers: Option<Vec<u32>> = args.iter().skip(1).map(|arg| arg.parse().ok()).collect();
    match (args.first(), numbers.as_deref()) {
        (Some(&"histories"), Some([])) => histories(3, 1),
        (Some(&"histories"), Some(&[steps])) => histories(steps, 1),
        (Some(&"histories"), Some(&[steps, parts])) => histories(steps, parts),
        (Some(&"crashes"), Some([])) => crashes(100, 20),
        (Some(&"crashes"), Some(&[images])) => crashes(images, 20),
        (Some(&"crashes"), Some(&[images, runs])) => crashes(images, runs),
        (Some(&"kills"), Some([])) => kills(),
        (Some(&"hostile"), Some([])) => hostile(600),
        (Some(&"hostile"), Some(&[seconds])) => hostile(seconds),
        (Some(&"lives"), Some([])) => lives(2_000, 81_000),
        (Some(&"lives"), Some(&[seeds])) => lives(seeds, 81_000),
        (Some(&"lives"), Some(&[seeds, first])) => lives(seeds, first),
        (Some(&"damage"), Some([])) => damage(),
        (Some(&"loops"), Some([])) => loops(120),
        (Some(&"loops"), Some(&[seconds])) => loops(seconds),
        (Some(&"fsx"), Some([])) => fsx(3_600),
        (Some(&"fsx"), Some(&[seconds])) => fsx(seconds),
        (Some(&"memory"), Some([])) => memory(256, 100),
        (Some(&"memory"), Some(&[mib])) => memory(mib, 100),
        (Some(&"memory"), Some(&[mib, percent])) => memory(mib, percent),
        (Some(&"storm"), Some([])) => storm(600, 1),
        (Some(&"storm"), Some(&[seconds])) => storm(seconds, 1),
        (Some(&"storm"), Some(&[seconds, seed])) => storm(seconds, seed),
        (Some(&"soak"), Some([])) => soak(7_200, 1),
        (Some(&"soak"), Some(&[seconds])) => soak(seconds, 1),
        (Some(&"soak"), Some(&[seconds, seed])) => soak(seconds, seed),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// The crash tests of small histories, none of them left out, saying how much they looked at.
fn histories(steps: u32, parts: u32) -> ExitCode {
    let failed: Vec<u32> = (0..parts).filter(|&part| !part_of_histories(steps, part, parts)).collect();
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    eprintln!("parts {failed:?} of {parts} failed");
    ExitCode::FAILURE
}

fn part_of_histories(steps: u32, part: u32, parts: u32) -> bool {
    lane("sawmill-pool", "crash", "every_small_history", |cargo| {
        cargo.env("SAWMILL_CRASH_STEPS", steps.to_string());
        cargo.env("SAWMILL_CRASH_PART", part.to_string()).env("SAWMILL_CRASH_PARTS", parts.to_string());
    })
}

/// Runs the crash tests of pools with this number of states of each run, and prints how many states
/// were visited.
fn crashes(images: u32, runs: u32) -> ExitCode {
    let states = Path::new("target/states");
    _ = std::fs::remove_file(states);
    let counted = |cargo: &mut Command| {
        cargo.env("SAWMILL_CRASH_IMAGES", images.to_string());
        if let Ok(here) = std::env::current_dir() {
            cargo.env("SAWMILL_COUNT_STATES", here.join(states));
        }
    };
    let of_runs = lane("sawmill-pool", "crash", "images::", |cargo| {
        counted(cargo);
        cargo.env("SAWMILL_CRASH_RUNS", runs.to_string());
    });
    // The other tests choose their runs themselves.
    let others = lane("sawmill-pool", "crash", "", |cargo| {
        counted(cargo);
        cargo.args(["--skip", "images::"]);
    });
    println!("{} states were visited", std::fs::metadata(states).map_or(0, |file| file.len()));
    if of_runs && others { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Replay killed after every record, rather than after some of them.
fn kills() -> ExitCode {
    let passed = lane("sawmill-pool", "golden", "killed", |cargo| {
        cargo.env("SAWMILL_KILL_EVERY", "1").env("CI", "true");
    });
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Hostile images of each pool, and hostile streams of each kind, for so long.
fn hostile(seconds: u32) -> ExitCode {
    let checked = &["--profile", "checked"];
    let passed = lane_of(checked, "sawmill-pool", "hostile", "sealed_again", |cargo| {
        cargo.env("SAWMILL_HOSTILE_SECONDS", seconds.to_string());
    });
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Pools to whose devices everything is done.
fn lives(seeds: u32, first: u32) -> ExitCode {
    let passed = lane("sawmill-pool", "crash", "life::", |cargo| {
        cargo.env("SAWMILL_LIFE_SEEDS", seeds.to_string()).env("SAWMILL_LIFE_FIRST", first.to_string());
    });
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Loses every block of a small pool in its turn.
fn damage() -> ExitCode {
    let passed = lane("sawmill-pool", "damage", "lost::", |cargo| {
        cargo.env("SAWMILL_DAMAGE", "all");
    });
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Each thing that is done to logs, over and over for so long, one after another.
fn loops(seconds: u32) -> ExitCode {
    let passed = lane("sawmill-cli", "killed", "loops::", |cargo| {
        cargo.arg("--test-threads=1").env("SAWMILL_LOOP_SECONDS", seconds.to_string()).env("CI", "true");
    });
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Programs that read again what they wrote, and a daemon that is killed, for so long.
fn fsx(seconds: u32) -> ExitCode {
    let passed = lane("sawmill-cli", "programs", "what_was_synced_outlives", |cargo| {
        cargo.env("SAWMILL_FSX_SECONDS", seconds.to_string()).env("CI", "true");
    });
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Pictures of the page, for somebody to look at.
fn screens(directory: &str) -> ExitCode {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["run", "--quiet", "--locked", "--package", "sawmill-web", "--example", "screens", directory]);
    let taken = cargo.status().is_ok_and(|status| status.success());
    if taken { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A daemon with little memory, and all of the work.
fn memory(mib: u32, percent: u32) -> ExitCode {
    let passed = lane("sawmill-cli", "memory", "in_little_memory", |cargo| {
        cargo.env("SAWMILL_MEMORY_MIB", mib.to_string());
        cargo.env("SAWMILL_MEMORY_SCALE", percent.to_string()).env("CI", "true");
    });
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs commands, file calls and kills at the same time, for this many seconds.
fn storm(seconds: u32, seed: u32) -> ExitCode {
    let passed = lane("sawmill-cli", "storm", "a_storm", |cargo| {
        cargo.env("SAWMILL_STORM_SECONDS", seconds.to_string());
        cargo.env("SAWMILL_STORM_SEED", seed.to_string()).env("CI", "true");
    });
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Programs, faults of devices and kills for so long, on a daemon that must not grow.
fn soak(seconds: u32, seed: u32) -> ExitCode {
    let passed = lane("sawmill-cli", "programs", "soak::", |cargo| {
        cargo.env("SAWMILL_SOAK_SECONDS", seconds.to_string());
        cargo.env("SAWMILL_SOAK_SEED", seed.to_string()).env("CI", "true");
    });
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs what `filter` selects of the test program `test`; whether it passed.
fn lane(package: &str, test: &str, filter: &str, prepare: impl FnOnce(&mut Command)) -> bool {
    lane_of(&[], package, test, filter, prepare)
}

/// The same with further words for cargo.
fn lane_of(
    words: &[&str],
    package: &str,
    test: &str,
    filter: &str,
    prepare: impl FnOnce(&mut Command),
) -> bool {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["test", "--locked"]).args(words);
    cargo.args(["--package", package, "--test", test, filter]);
    cargo.args(["--", "--nocapture"]);
    prepare(&mut cargo);
    match cargo.status() {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("cargo cannot be run: {error}");
            false
        }
    }
}
