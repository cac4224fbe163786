//! A terminal is given back also when something panics: tried on one that script(1) has, by this program run again.
#![forbid(unsafe_code)]

use control::{Failure, PoolInfo};
use live::Look;
use std::process::{Command, Stdio};
use std::time::Duration;
use top::{Ink, Options, Source, run};

/// The one who asks the daemon panics.
struct Panics;

impl Source for Panics {
    fn pools(&mut self) -> Result<Vec<PoolInfo>, Failure> {
        panic!("out of words");
    }

    fn look(&mut self, _: PoolInfo) -> Result<Look, Failure> {
        unreachable!("there are no pools")
    }
}

/// The program that looks, on the terminal it was given.
fn on_a_terminal() {
    let options = Options { pool: None, period: Duration::from_secs(1), ink: Ink::PLAIN, rating: None };
    let ended = run(|| Panics, options).expect_err("nobody looks any more");
    eprintln!("it said: {ended}");
}

/// Set where this program is to be the one on the terminal.
const IS_ON_TERMINAL: &str = "SAWMILL_TEST_ON_TERMINAL";

#[test]
fn a_panic_gives_the_terminal_back_and_is_told_of_then() {
    if std::env::var_os(IS_ON_TERMINAL).is_some() {
        return on_a_terminal();
    }
    let program = std::env::current_exe().expect("this program");
    let program = format!(
        "stty rows 24 cols 80; exec {} --exact a_panic_gives_the_terminal_back_and_is_told_of_then --nocapture",
        program.display()
    );
    let mut command = Command::new("timeout");
    command
        .args(["60", "script", "-qec", &program, "/dev/null"])
        .env("TERM", "xterm")
        .env(IS_ON_TERMINAL, "1")
        .stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).spawn().expect("script(1), of bsdutils, runs");
    // Held open: the end of what it reads is an end of its own to script(1).
    let keys = child.stdin.take();
    let output = child.wait_with_output().expect("it ends");
    drop(keys);
    let drawn = String::from_utf8_lossy(&output.stdout).into_owned();
    let place = |what: &str| drawn.find(what).unwrap_or_else(|| panic!("no {what:?} in {drawn:?}"));
    assert!(place("\x1b[?1049h") < place("\x1b[?1049l"), "{drawn:?}");
    assert!(place("\x1b[?1049l") < place("out of words"), "{drawn:?}");
    assert!(place("out of words") < place("it said: the thread that looks has ended"), "{drawn:?}");
    assert!(output.status.success(), "{drawn}");
}
