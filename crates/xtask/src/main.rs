//! `cargo xtask LANE`: tests that are too long for every run, the same by hand and in CI.
//!
//! ```text
//!  histories [STEPS]   every crash state of every history of up to STEPS (3) operations
//! ```
#![forbid(unsafe_code)]

use std::process::{Command, ExitCode};

const USAGE: &str = "usage: xtask histories [STEPS]";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match *args {
        ["histories"] => histories("3"),
        ["histories", steps] if steps.parse::<u32>().is_ok() => histories(steps),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// The crash tests of small histories, none of them left out, saying how much they looked at.
fn histories(steps: &str) -> ExitCode {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["test", "--locked", "--workspace", "--test", "crash", "every_small_history"]);
    cargo.args(["--", "--nocapture"]).env("SAWMILL_CRASH_STEPS", steps);
    match cargo.status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("cargo cannot be run: {error}");
            ExitCode::FAILURE
        }
    }
}
