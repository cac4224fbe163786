use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::case::{Case, Outcome, Verdict};
use super::leftovers::left_in;

fn script(script: &str) -> Case {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    Case::new("a script".to_owned(), command).within(Duration::from_secs(1))
}

fn run(case: &Case) -> Outcome {
    let dir = TempDir::new().expect("a directory");
    let below = dir.path().join("0");
    let outcome = case.run(&below);
    assert!(left_in(&below).is_empty() && !below.exists(), "{}", left_in(&below).summary());
    assert_eq!(dir.path().read_dir().expect("it is there").count(), 0, "nothing is left beside it");
    outcome
}

fn failed(outcome: &Outcome) -> &str {
    match &outcome.verdict {
        Verdict::Failed(why) => why,
        Verdict::Passed => panic!("it passed"),
    }
}

#[test]
fn a_case_passes_or_fails_with_what_it_printed() {
    let passed = run(&script("echo fine; touch $TMPDIR/file"));
    assert_eq!((passed.verdict, passed.printed.as_str()), (Verdict::Passed, "fine\n"));
    let outcome = run(&script("echo told; echo more >&2; exit 3"));
    assert!(failed(&outcome).contains('3'));
    assert_eq!(outcome.printed, "told\nmore\n");
}

#[test]
fn a_case_that_does_not_end_is_killed_and_named_with_all_that_it_started() {
    let begun = Instant::now();
    // The second has left the session, as a daemon does.
    let outcome = run(&script("echo begun; setsid sleep 1234 & sleep 1235"));
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert!(failed(&outcome).contains("killed"));
    assert!(outcome.printed.starts_with("begun\n"), "{}", outcome.printed);
    assert!(
        outcome.printed.contains("sleep 1234") && outcome.printed.contains("sleep 1235"),
        "{}",
        outcome.printed
    );
    assert!(!outcome.leftovers.is_empty());
}

#[test]
fn what_a_case_leaves_running_is_ended() {
    let outcome = run(&script("setsid sleep 1236 & echo over"));
    assert_eq!(outcome.verdict, Verdict::Passed);
    assert_eq!(outcome.leftovers.summary(), "1 processes, 0 mounts");
}

#[test]
fn files_of_a_case_are_kept_if_it_failed_and_only_then() {
    let dir = TempDir::new().expect("a directory");
    for (end, is_kept) in [("true", false), ("false", true)] {
        let below = dir.path().join(end);
        let outcome = script(&format!("echo data > $TMPDIR/file; {end}")).run(&below);
        assert_eq!(below.join("file").exists(), is_kept, "{end}");
        assert_eq!(outcome.printed.contains("are kept in"), is_kept, "{}", outcome.printed);
    }
}

#[test]
fn a_program_has_to_say_that_it_ran_the_test() {
    assert!(failed(&run(&script("echo '0 passed; 0 failed;'").of_program())).contains("does not say"));
    assert_eq!(run(&script("echo '1 passed; 0 failed; 0 ignored'").of_program()).verdict, Verdict::Passed);
}
