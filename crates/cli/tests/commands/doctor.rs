//! `sawmill doctor`, on this machine and where /dev/fuse is missing.

use crate::world::World;
use oracle::needs::Need;
use serde_json::Value;
use std::process::{Command, Output};

/// What is checked in any case, in this order.
const CHECKS: [&str; 13] = [
    "kernel",
    "/dev/fuse",
    "mounts",
    "io_uring",
    "descriptors",
    "memory",
    "confinement",
    "daemon",
    "clock",
    "host id",
    "commands",
    "kernel module",
    "mount helpers",
];

fn findings(output: &Output) -> Vec<Value> {
    let findings: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    findings.as_array().expect("a list").clone()
}

fn grades(findings: &[Value]) -> Vec<&str> {
    findings.iter().map(|finding| finding["grade"].as_str().expect("a grade")).collect()
}

#[test]
fn every_check_is_told_and_problems_make_the_exit_code() {
    let world = World::new();
    let output = world.command("doctor --json").output().expect("the program runs");
    let findings = findings(&output);
    let whats: Vec<&str> = findings.iter().map(|finding| finding["what"].as_str().expect("a name")).collect();
    assert_eq!(whats, CHECKS);
    let is_bad = grades(&findings).contains(&"bad");
    assert_eq!(output.status.code(), Some(i32::from(is_bad)));
    for finding in &findings {
        assert_eq!(finding["remedy"].is_null(), finding["grade"] == "good", "{finding}");
    }
    let text = world.command("doctor").output().expect("the program runs");
    let text = String::from_utf8(text.stdout).expect("text");
    assert!(CHECKS.iter().all(|what| text.contains(what)), "{text}");
}

/// Runs a script of commands where /dev has nothing but null, zero and urandom.
fn without_devices(world: &World, script: &str) -> Option<Output> {
    let prepare = "mkdir -p $SAWMILL_RUN/dev && for name in null zero urandom; do \
                   touch $SAWMILL_RUN/dev/$name && mount --bind /dev/$name $SAWMILL_RUN/dev/$name; done && \
                   mount --rbind $SAWMILL_RUN/dev /dev";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-ec", &format!("{prepare}\n{script}")]);
    command.env("SAWMILL_RUN", world.path()).env("SAWMILL", env!("CARGO_BIN_EXE_sawmill"));
    let output = command.output().expect("unshare runs");
    if String::from_utf8_lossy(&output.stderr).starts_with("unshare: ") {
        Need::Root.is_missing("mount namespaces are not allowed");
        return None;
    }
    Some(output)
}

#[test]
fn a_machine_without_fuse_is_told_how_to_get_it() {
    let world = World::without_daemon();
    let Some(output) = without_devices(&world, "$SAWMILL doctor --json") else { return };
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let findings = findings(&output);
    let fuse = findings.iter().find(|finding| finding["what"] == "/dev/fuse").expect("a check");
    assert_eq!(fuse["grade"], "bad");
    assert!(fuse["remedy"].as_str().is_some_and(|text| text.contains("--device /dev/fuse")), "{fuse}");
    // A command that needs it leads there.
    world.file("disk", 96);
    let script =
        "$SAWMILL zpool create -m $SAWMILL_RUN/mnt tank $SAWMILL_RUN/disk || true; $SAWMILL daemon stop";
    let output = without_devices(&world, script).expect("as before");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("there is no /dev/fuse; 'sawmill doctor' says how to get it"), "{said}");
}
