//! `zpool status -c` and `zpool iostat -c` on a real pool on files, by the real commands and the real daemon.
#![forbid(unsafe_code)]

mod place;

use place::{Place, Printed};
use std::os::unix::fs::PermissionsExt;

/// A script of this name and text, which can be run.
fn script(place: &Place, name: &str, text: &str) {
    let path = place.path("scripts").join(name);
    std::fs::create_dir_all(place.path("scripts")).expect("a directory");
    std::fs::write(&path, format!("#!/bin/sh\n{text}")).expect("a file");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("a mode");
}

/// A mirror and a log, and scripts of a user who may run them.
fn world() -> Place {
    let place = Place::with_files();
    let size = "[ \"$1\" = -h ] && echo 'Show the size.' && exit\necho size=$(stat -c %s \"$VDEV_UPATH\")\n";
    script(&place, "size", size);
    script(&place, "name", "echo name=$(basename \"$VDEV_PATH\")\necho home=$HOME\n");
    script(&place, "words", "echo of=$VDEV_PATH\necho no such thing\necho never=1\n");
    script(&place, "fails", "echo never=1\nexit 1\n");
    place.ok("zpool create -m none tank mirror W/d1 W/d2 log W/l1");
    place
}

fn run(place: &Place, line: &str) -> Printed {
    let mut command = place.command(line);
    command.env("ZPOOL_SCRIPTS_PATH", place.path("scripts")).env("ZPOOL_SCRIPTS_AS_ROOT", "1");
    place.print(&mut command)
}

/// What stands behind the checksum errors in the heading and of leaves.
fn behind_the_counters(printed: &Printed) -> Vec<String> {
    let lines =
        printed.out.lines().filter(|line| line.contains("CKSUM") || line.trim_start().starts_with("W/"));
    let words = |line: &str| line.split_whitespace().skip(5).collect::<Vec<_>>().join(" ");
    lines.map(words).collect()
}

#[test]
fn what_scripts_say_of_devices_stands_in_columns() {
    let place = world();
    let status = run(&place, "zpool status -c size,name tank");
    assert_eq!((status.err.as_str(), status.code), ("", 0));
    let columns = ["size name home", "100663296 d1 -", "100663296 d2 -", "67108864 l1 -"];
    assert_eq!(behind_the_counters(&status), columns, "{}", status.out);
    let words = run(&place, "zpool status -c words,fails,missing,../size tank");
    let said = behind_the_counters(&words);
    assert_eq!(said[..2], ["of", "W/d1 no such thing"], "{}", words.out);

    let iostat = run(&place, "zpool iostat -c size tank");
    let of = |start: &str| {
        let line = iostat.out.lines().find(|line| line.trim_start().starts_with(start));
        line.unwrap_or_else(|| panic!("{start}: {}", iostat.out))
            .split_whitespace()
            .last()
            .unwrap_or("")
            .to_owned()
    };
    assert_eq!(
        (of("pool").as_str(), of("W/d1").as_str(), of("W/l1").as_str()),
        ("size", "100663296", "67108864")
    );
    let twice = run(&place, "zpool iostat -H -c size tank W/d1 0.1 2");
    assert_eq!(twice.out.lines().filter(|line| line.ends_with("  100663296")).count(), 2, "{}", twice.out);

    let json = run(&place, "zpool status -j --json-int -c size tank");
    assert!(json.out.contains("\"size\":\"67108864\""), "{}", json.out);
}

#[test]
fn scripts_are_listed_and_refused_in_the_words_of_openzfs() {
    let place = world();
    for command in ["status", "iostat"] {
        let listed = run(&place, &format!("zpool {command} -c"));
        let list = format!("Available 'zpool {command} -c' commands:\n");
        assert!(listed.out.starts_with(&list), "{}", listed.out);
        assert!(listed.out.contains("\n  size            Show the size.\n"), "{}", listed.out);
        let twice = run(&place, &format!("zpool {command} -c size -c size"));
        assert_eq!((twice.err.as_str(), twice.code), ("Can't set -c flag twice\n", 1));
        let mut disabled = place.command(&format!("zpool {command} -c size"));
        let disabled = place.print(disabled.env("ZPOOL_SCRIPTS_ENABLED", "0"));
        let line = "Can't run -c, disabled by ZPOOL_SCRIPTS_ENABLED.\n";
        assert_eq!((disabled.err.as_str(), disabled.code), (line, 1));
    }
    if rustix::process::geteuid().is_root() {
        let refused = place.run("zpool status -c size tank");
        let line = "Can't run -c with root privileges unless ZPOOL_SCRIPTS_AS_ROOT is set.\n";
        assert_eq!((refused.err.as_str(), refused.code, refused.out.as_str()), (line, 1, ""));
    }
}
