//! Files that are opened by handles in place of names, as NFS servers and fanotify do.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::shell::sh;

const SCRIPT: &str = include_str!("handles.py");
/// Makes the kernel forget inodes that nobody uses.
const DROP_CACHES: &str = "echo 2 > /proc/sys/vm/drop_caches";

/// The lines that the script prints for these words and this input.
fn handles(words: &[&str], input: &str) -> Vec<String> {
    let mut python = Command::new("python3");
    python.args(["-c", SCRIPT]).args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = python.spawn().expect("python3 runs");
    std::io::Write::write_all(&mut child.stdin.take().expect("a pipe"), input.as_bytes()).expect("taken");
    let output = child.wait_with_output().expect("ends");
    assert!(output.status.success(), "{words:?}: {}", output.status);
    String::from_utf8(output.stdout).expect("text").lines().map(str::to_owned).collect()
}

fn opened(root: &Path, handles_taken: &[String]) -> Vec<String> {
    handles(&["open", &root.to_string_lossy()], &handles_taken.join("\n"))
}

#[test]
fn handles_outlive_the_caches_of_the_kernel_and_a_remount() {
    let Some(world) = crate::world(&["python3"]) else { return };
    let root = world.root();
    sh("mkdir -p d/sub; echo one > f; echo two > d/sub/g; ln f d/link; echo gone > u", &root);
    let paths = ["f", "d/sub/g", "d/sub", "d/link", "u"].map(|name| root.join(name));
    let paths: Vec<_> = paths.iter().map(|path| path.to_string_lossy().into_owned()).collect();
    let mut words = vec!["take"];
    words.extend(paths.iter().map(String::as_str));
    let taken = handles(&words, "");
    fs::remove_file(root.join("u")).expect("removed");
    let sub = root.join("d/sub");
    let wanted = ["one", "two", &format!("{} g", sub.display()), "one", "ESTALE"];

    assert_eq!(opened(&root, &taken), wanted);
    sh(DROP_CACHES, &root);
    assert_eq!(opened(&root, &taken), wanted, "the kernel has forgotten the inodes");
    // The number of what was removed is given to others, which have other generations.
    sh("mkdir many; cd many; for n in $(seq 300); do echo other > $n; done", &root);
    world.zpool("sync");
    world.export();
    world.import();
    assert_eq!(opened(&root, &taken), wanted, "it is mounted anew");

    let forged = [
        "0",
        "1",
        "2",
        "3",
        "32",
        "34",
        "35",
        "1000000",
        "1099511627776",
        "140737488355328",
        "18446744073709551615",
    ];
    let found = opened(&root, &handles(&[&["forge"][..], &forged].concat(), ""));
    assert!(found.iter().all(|word| word == "ESTALE"), "{found:?}");
    world.finish();
}
