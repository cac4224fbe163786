//! Help, manual pages and completions, as people meet them: the commands, man(1), mandoc(1), bash, fish, zsh.

use crate::world::World;
use oracle::needs::Need;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const PROGRAM: &str = env!("CARGO_BIN_EXE_sawmill");

/// All commands, each as it is typed behind `sawmill`.
fn commands(world: &World) -> Vec<String> {
    let first_words = |text: &str| -> Vec<String> {
        let lines = text.lines().filter_map(|line| line.split('\t').next());
        lines.filter(|word| *word != "help").map(str::to_owned).collect()
    };
    let offered = |words: &[&str]| {
        let mut command = world.command("complete -- sawmill");
        let output = command.args(words).arg("").output().expect("the program runs");
        first_words(&String::from_utf8(output.stdout).expect("text"))
    };
    let of = |word: String| match word.as_str() {
        "zpool" | "zfs" | "daemon" | "advise" | "trace" | "bench" => {
            offered(&[&word]).into_iter().map(|name| format!("{word} {name}")).collect()
        }
        _ => vec![word],
    };
    offered(&[]).into_iter().flat_map(of).collect()
}

#[test]
fn every_command_has_help_in_every_way_that_it_is_asked_for() {
    let world = World::without_daemon();
    let all = commands(&world);
    assert!(all.len() > 40, "{all:?}");
    let listed = world.ok("--help");
    for command in all {
        let help = world.ok(&format!("help {command}"));
        assert!(help.contains("\nusage:\n\t"), "{command}: {help}");
        assert_eq!(world.ok(&format!("{command} --help")), help, "{command}");
        let name = command.split(' ').next_back().expect("a word");
        assert!(listed.split([' ', '\n', '\t']).any(|word| word == name), "{command}");
    }
}

#[test]
fn a_question_mark_is_no_flag_of_openzfs() {
    let world = World::without_daemon();
    for command in ["zpool add", "zpool create", "zpool list", "zpool status", "zpool iostat", "zfs list"] {
        let err = world.fails(&format!("{command} -?"), 2);
        assert!(err.starts_with("invalid option '?'\nusage:\n\t"), "{command}: {err}");
    }
    assert!(world.ok("ls -?").contains("usage:"));
}

#[test]
fn what_is_no_command_has_no_help() {
    let world = World::without_daemon();
    for line in ["help bogus", "help zpool bogus", "zpool help bogus", "bench help bogus"] {
        assert!(world.fails(line, 2).starts_with("unrecognized command 'bogus'\nusage: "), "{line}");
    }
}

fn run(command: &mut Command) -> Output {
    command.output().expect("the program runs")
}

fn is_there(program: &'static str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
    let is_there = found.is_ok_and(|output| output.status.success());
    if !is_there {
        Need::Program(program).is_missing(&format!("{program} is not installed"));
    }
    is_there
}

fn pages(world: &World) -> Vec<PathBuf> {
    world.ok("manual W/man");
    let of = |section: &str| std::fs::read_dir(world.path().join("man").join(section)).expect("pages");
    of("man1").chain(of("man7")).chain(of("man8")).map(|entry| entry.expect("a page").path()).collect()
}

#[test]
fn every_command_has_a_page_that_man_and_mandoc_find_no_fault_with() {
    let world = World::without_daemon();
    let pages = pages(&world);
    for command in commands(&world) {
        let name = match command.split_once(' ') {
            Some(("zpool" | "zfs", _)) => format!("man8/{}.8", command.replace(' ', "-")),
            _ => format!("man1/sawmill-{}.1", command.replace(' ', "-")),
        };
        assert!(pages.contains(&world.path().join("man").join(&name)), "{name}");
    }
    let man = world.path().join("man");
    for page in &pages {
        let inside = page.strip_prefix(&man).expect("a page");
        if is_there("man") {
            let shown = run(Command::new("man").args(["-l", "--warnings"]).arg(inside).current_dir(&man));
            assert_eq!(String::from_utf8_lossy(&shown.stderr), "", "{}", inside.display());
        }
        // A page that leads to another one has nothing of its own; mandoc would like a link better.
        let leads_on = std::fs::read_to_string(page).expect("text").starts_with(".so ");
        if !leads_on && is_there("mandoc") {
            let lint =
                run(Command::new("mandoc").args(["-Tlint", "-Wwarning"]).arg(inside).current_dir(&man));
            assert_eq!(String::from_utf8_lossy(&lint.stdout), "", "{}", inside.display());
        }
    }
}

/// A directory with the program under its names.
fn path_with_links(world: &World) -> String {
    let bin = world.path().join("bin");
    std::fs::create_dir_all(&bin).expect("a directory");
    for name in ["sawmill", "zpool", "zfs"] {
        let link: &Path = &bin.join(name);
        if !link.exists() {
            std::os::unix::fs::symlink(PROGRAM, link).expect("a link");
        }
    }
    format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default())
}

/// What bash would put into the place of the last word.
fn in_bash(world: &World, line: &str) -> Vec<String> {
    let script = "compopt() { :; }; . <(sawmill completions bash); COMP_LINE=$1 COMP_POINT=${#1}; \
                  _sawmill; [ ${#COMPREPLY[@]} = 0 ] || printf '%s\\n' \"${COMPREPLY[@]}\"";
    let mut command = Command::new("bash");
    command.args(["-c", script, "bash", line]).current_dir(world.path());
    command.env("PATH", path_with_links(world)).env("SAWMILL_RUN", world.path());
    let output = run(&mut command);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{line}");
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_flags_properties_names_and_files() {
    let world = World::new();
    world.file("disk1", 160);
    world.ok("zpool create -m none p1 W/disk1");
    for (line, completed) in [
        ("zpool cre", &["create"][..]),
        ("sawmill zpool cre", &["create"]),
        ("sawmill dae", &["daemon"]),
        ("zpool import --rep", &["--replay-plan"]),
        ("zpool status ", &["p1"]),
        ("zfs get logbias p", &["p1"]),
        ("zfs set logb", &["logbias="]),
        // `=` begins a word in bash.
        ("zfs set logbias=thr", &["throughput"]),
        ("zpool create tank di", &["disk1"]),
        ("zpool bogus ", &[]),
    ] {
        assert_eq!(in_bash(&world, line), completed, "{line}");
    }
}

#[test]
fn completion_starts_no_daemon() {
    let world = World::without_daemon();
    assert_eq!(world.ok("complete -- zpool status p"), "");
    assert!(!world.paths().daemon_lock().exists());
}

#[test]
fn zsh_and_fish_take_their_scripts() {
    let world = World::without_daemon();
    if is_there("zsh") {
        let script =
            "autoload -U compinit; compinit -u -d $1; . <(sawmill completions zsh); print ${_comps[zpool]}";
        let mut command = Command::new("zsh");
        command
            .args(["-fc", script, "zsh"])
            .arg(world.path().join("dump"))
            .env("PATH", path_with_links(&world));
        let output = run(&mut command);
        let told = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!((told.0.trim(), told.1.trim()), ("_sawmill", ""));
    }
    if is_there("fish") {
        let script = "sawmill completions fish | source; complete -C 'zpool cre'";
        let mut command = Command::new("fish");
        command.args(["--no-config", "-c", script]).env("PATH", path_with_links(&world));
        let offered = String::from_utf8(run(&mut command).stdout).expect("text");
        assert!(offered.starts_with("create\t"), "{offered}");
    }
}
