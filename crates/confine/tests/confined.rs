//! A confined process reaches nothing but its descriptors, and has what an engine needs.
//!
//! ```text
//!  a test ─┬─ this program again, as root without confinement: each probe succeeds
//!          └─ this program again, confined: each probe is refused, or succeeds if an engine needs it
//! ```
//! What a probe tries is there in both runs, and the first run shows that the probe can succeed. So
//! a refusal comes from the confinement.

mod process;
mod reach;
mod ring;
mod work;
mod world;

use std::collections::BTreeMap;
use std::process::ExitCode;

use oracle::program::{self, Test};
use process::{Answers, ORDINARY, StartKind, answers_of};
use world::World;

/// Errors of the walls. What else a probe fails with is a mistake of the probe, but for those of
/// sockets in a network without interfaces.
const REFUSALS: &[&str] = &["EPERM", "EACCES"];
const NO_NETWORK: &[&str] = &["ENETUNREACH", "ECONNREFUSED"];
/// Connections that have only a network of their own against them in a kernel without newer rules
/// of Landlock.
const BY_RING: &str = "ring: connect";

const TESTS: &[Test] = oracle::tests![
    a_confined_process_reaches_nothing_but_its_descriptors,
    a_confined_process_still_has_what_an_engine_needs,
    what_stays_reachable_is_what_the_documentation_names,
    a_confined_process_has_no_rights_by_the_words_of_the_kernel,
    a_process_with_two_threads_is_refused,
    a_process_that_is_not_root_is_refused,
    a_process_that_lacks_rights_is_confined_and_reports_that,
    the_process_of_an_ordinary_user_keeps_its_user_and_nothing_else,
];

fn main() -> ExitCode {
    match process::run_if_started() {
        true => ExitCode::SUCCESS,
        false => program::run(TESTS),
    }
}

fn succeed(answers: &Answers, names: &[&str]) {
    for name in names {
        assert_eq!(answers.get(*name).map(String::as_str), Some("ok"), "{name}");
    }
}

/// True if an answer is that of a wall.
fn is_refused(name: &str, answer: &str) -> bool {
    REFUSALS.contains(&answer) || name.starts_with(BY_RING) && NO_NETWORK.contains(&answer)
}

fn a_confined_process_reaches_nothing_but_its_descriptors() {
    let Some(world) = World::new() else { return };
    let lists = [("reach", reach::PROBES), ("reach, one thread", reach::PROBES_OF_ONE_THREAD)];
    for (list, probes) in lists {
        let names: Vec<&str> = probes.iter().map(|(name, _)| *name).collect();
        succeed(&answers_of(&world, StartKind::Free, list), &names);
        let confined = answers_of(&world, StartKind::Confined, list);
        for name in names {
            let answer = confined.get(name).expect("the probe was made");
            assert!(is_refused(name, answer), "{name}: {answer}");
        }
    }
}

fn a_confined_process_still_has_what_an_engine_needs() {
    let Some(world) = World::new() else { return };
    let names: Vec<&str> = work::PROBES.iter().map(|(name, _)| *name).collect();
    succeed(&answers_of(&world, StartKind::Free, "work"), &names);
    succeed(&answers_of(&world, StartKind::Confined, "work"), &names);
}

fn what_stays_reachable_is_what_the_documentation_names() {
    let Some(world) = World::new() else { return };
    let names: Vec<&str> = reach::OPEN.iter().map(|(name, _)| *name).collect();
    succeed(&answers_of(&world, StartKind::Free, "open"), &names);
    let confined = answers_of(&world, StartKind::Confined, "open");
    // A kernel with all of Landlock refuses the connection.
    let is_all = confined.get("files").is_some_and(|files| files == "All");
    for name in names {
        let wanted = if is_all && name.starts_with(BY_RING) { "EACCES" } else { "ok" };
        assert_eq!(confined.get(name).map(String::as_str), Some(wanted), "{name}");
    }
}

fn a_confined_process_has_no_rights_by_the_words_of_the_kernel() {
    let Some(world) = World::new() else { return };
    let free = answers_of(&world, StartKind::Free, "status");
    let confined = answers_of(&world, StartKind::Confined, "status");
    let four = vec![world.user().to_string(); 4].join(" ");
    let wanted: BTreeMap<&str, String> = [
        ("CapInh", "0000000000000000".to_owned()),
        ("CapPrm", "0000000000000000".to_owned()),
        ("CapEff", "0000000000000000".to_owned()),
        ("CapBnd", "0000000000000000".to_owned()),
        ("CapAmb", "0000000000000000".to_owned()),
        ("NoNewPrivs", "1".to_owned()),
        ("Seccomp", "2".to_owned()),
        ("Groups", String::new()),
        ("Uid", four.clone()),
        ("Gid", four.clone()),
        ("core", "1 1".to_owned()),
        ("network", "Own".to_owned()),
    ]
    .into();
    for (name, wanted) in wanted {
        assert_eq!(confined.get(name), Some(&wanted), "{name}");
        let had = free.get(name);
        let is_always_so = matches!(name, "CapInh" | "CapAmb" | "Groups");
        assert!(
            is_always_so || had != Some(&wanted),
            "{name} says nothing: it is {had:?} without confinement"
        );
    }
    assert_ne!(free["net"], confined["net"], "another network");
    assert_ne!(free["ipc"], confined["ipc"], "other message queues");
}

fn a_process_with_two_threads_is_refused() {
    let Some(world) = World::new() else { return };
    let answers = answers_of(&world, StartKind::TwoThreads, "status");
    assert_eq!(
        answers.get("confine").map(String::as_str),
        Some("the process has 2 threads, and only one can be confined")
    );
}

fn a_process_that_is_not_root_is_refused() {
    let Some(world) = World::new() else { return };
    let answers = answers_of(&world, StartKind::User, "status");
    assert_eq!(answers.get("confine").map(String::as_str), Some("user cannot be given up"));
}

fn a_process_that_lacks_rights_is_confined_and_reports_that() {
    let Some(world) = World::new() else { return };
    let answers = answers_of(&world, StartKind::FewRights, "status");
    assert_eq!(answers.get("network").map(String::as_str), Some("Refused(EPERM)"));
    assert_eq!(answers.get("CapEff").map(String::as_str), Some("0000000000000000"));
    assert_eq!(answers.get("core").map(String::as_str), Some("0 0"));
    let reached = answers_of(&world, StartKind::FewRights, "reach");
    for (name, _) in reach::PROBES {
        let answer = reached.get(*name).expect("the probe was made").as_str();
        assert!(REFUSALS.contains(&answer), "{name}: {answer}");
    }
}

fn the_process_of_an_ordinary_user_keeps_its_user_and_nothing_else() {
    let Some(world) = World::new() else { return };
    let status = answers_of(&world, StartKind::OrdinaryUser, "status");
    let four = vec![ORDINARY.to_string(); 4].join(" ");
    for (name, wanted) in [("Uid", four.as_str()), ("NoNewPrivs", "1"), ("Seccomp", "2"), ("core", "1 1")] {
        assert_eq!(status.get(name).map(String::as_str), Some(wanted), "{name}");
    }
    for (list, probes) in [("reach", reach::PROBES), ("reach, one thread", reach::PROBES_OF_ONE_THREAD)] {
        let reached = answers_of(&world, StartKind::OrdinaryUser, list);
        for (name, _) in probes {
            let answer = reached.get(*name).expect("the probe was made");
            assert!(is_refused(name, answer), "{name}: {answer}");
        }
    }
    let names: Vec<&str> = work::PROBES.iter().map(|(name, _)| *name).collect();
    succeed(&answers_of(&world, StartKind::OrdinaryUser, "work"), &names);
}
