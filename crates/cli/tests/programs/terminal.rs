//! What names and values do to a terminal: nothing.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

use crate::mounted::{POOL, World};
use crate::shell::text;

/// Sets the title of a terminal, by an escape sequence and by a C1 control character; text follows.
const EVIL: &str = "\x1b]0;x\x07é\u{9b}31m";
/// The same where no terminal obeys it.
const SHOWN: &str = "?]0;x?é?31m";

/// What a command prints on a terminal, which script(1) has for whatever it runs.
fn on_a_terminal(world: &World, line: &str) -> String {
    let mut command = Command::new("timeout");
    command.args(["60", "script", "-qec", line, "/dev/null"]).env("SAWMILL_RUN", world.run_dir());
    let output = command.output().expect("script runs");
    String::from_utf8_lossy(&output.stdout).replace("\r\n", "\n")
}

/// What it prints into a pipe.
fn in_a_pipe(world: &World, line: &str) -> String {
    let mut command = Command::new("timeout");
    command.args(["60", "bash", "-c", line]).env("SAWMILL_RUN", world.run_dir());
    text(line, &command.output().expect("bash runs"))
}

#[test]
fn control_characters_of_names_and_values_reach_no_terminal() {
    let Some(world) = crate::world(&["script", "bash"]) else { return };
    let program = env!("CARGO_BIN_EXE_sawmill");
    world.zfs(&format!("set u:evil={EVIL} {POOL}"));
    let get = format!("{program} zfs get -Ho property,value u:evil {POOL}");
    assert_eq!(on_a_terminal(&world, &get), format!("u:evil\t{SHOWN}\n"));
    assert_eq!(in_a_pipe(&world, &get), format!("u:evil\t{EVIL}\n"));
    // Standard error, whatever standard output is.
    let refused = format!("{program} zfs list '{POOL}/{EVIL}'");
    let said = on_a_terminal(&world, &format!("{refused} > /dev/null"));
    assert!(said.contains(SHOWN) && !said.contains(EVIL), "{said:?}");
    let said = in_a_pipe(&world, &format!("{refused} 2>&1 || true"));
    assert!(said.contains(EVIL), "{said:?}");
    let name = OsStr::from_bytes(EVIL.as_bytes());
    fs::write(world.root().join(name), EVIL).expect("written");
    world.export();
    let disks = world.disks().display().to_string();
    let list = format!("{program} ls -d {disks} {POOL}");
    assert_eq!(on_a_terminal(&world, &list), format!("{SHOWN}\n"));
    assert_eq!(in_a_pipe(&world, &list), format!("{EVIL}\n"));
    // Contents are no names.
    let cat = format!("{program} cat -d {disks} '{POOL}:/{EVIL}'");
    assert_eq!(on_a_terminal(&world, &cat), EVIL);
    world.import();
    world.finish();
}
