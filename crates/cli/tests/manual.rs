//! The examples of the manual pages, run as an operator would type them.
//!
//! Each page has a machine of its own: private namespaces of mounts and processes, and a root directory that
//! `manual/world.sh` makes. The commands run unchanged. What the machine replaces:
//! - `/dev/sda` to `/dev/sdl`, `/dev/nvme0n1` and `/dev/nvme1n1` are sparse files of 512 MiB;
//! - `ZPOOL_IMPORT_PATH=/dev` lets `zpool import` find these files, because they are no block devices;
//! - `$ ` commands run as the user joe, who is added to the machine's `/etc/passwd`.
#![forbid(unsafe_code)]

use cli::{ExampleStep, PageExamples, examples};
use oracle::needs::{Need, lack_of_fuse};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

const WORLD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/manual/world.sh");
/// The most examples that may be marked as not run.
const NOT_RUN_MAX: usize = 3;
/// As a line of an example, this stands for any lines; as a word, for any word, and at the end of a line
/// for any words.
const ANY: &str = "...";
/// An example shows with this command how the command before ended.
const ASK_CODE: &str = "echo $?";

/// True if the examples cannot run here, which has been reported.
fn cannot_run() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    let lack = lack_of_fuse().or((!is_root).then_some("only root can make namespaces of mounts"));
    lack.iter().for_each(|lack| Need::Fuse.is_missing(lack));
    lack.is_some()
}

/// A command as the machine runs it.
fn shell_line(step: &ExampleStep) -> String {
    match step.is_roots {
        true => format!("{}\n", step.command),
        false => format!("runuser -u joe -- bash -c 'cd; {}'\n", step.command.replace('\'', r"'\''")),
    }
}

/// What the command of a step did.
struct Done {
    code: String,
    shown: String,
}

/// Runs the steps on a machine of their own. Steps without a command of their own are left out.
fn run(steps: &[&ExampleStep]) -> Vec<Option<Done>> {
    let directory = TempDir::new().expect("a directory");
    let root = directory.path();
    // The user joe enters the machine's root directory.
    fs::set_permissions(root, fs::Permissions::from_mode(0o755)).expect("permissions");
    fs::create_dir(root.join("steps")).expect("a directory");
    for (number, step) in steps.iter().enumerate().filter(|(_, step)| step.command != ASK_CODE) {
        fs::write(root.join(format!("steps/{number}")), shell_line(step)).expect("a step");
    }
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "bash", WORLD]);
    let output = command.arg(root).arg(env!("CARGO_BIN_EXE_sawmill")).output().expect("unshare runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (0..steps.len()).map(|number| done(root, number)).collect()
}

fn done(root: &Path, number: usize) -> Option<Done> {
    let code = fs::read_to_string(root.join(format!("code/{number}"))).ok()?;
    let shown = fs::read(root.join(format!("shown/{number}"))).ok()?;
    Some(Done { code: code.trim().to_owned(), shown: String::from_utf8_lossy(&shown).into_owned() })
}

/// True if the lines are those that a page shows, whatever the widths of their columns are.
fn is_shown(expected: &[&str], lines: &[&str]) -> bool {
    let Some((first, rest)) = expected.split_first() else { return lines.is_empty() };
    if *first == ANY {
        return (0..=lines.len()).any(|skipped| is_shown(rest, &lines[skipped..]));
    }
    lines.split_first().is_some_and(|(line, after)| has_words(line, first) && is_shown(rest, after))
}

/// True if the word has the form of a duration, as `zpool status` shows the length of a scrub: `00:00:01`.
fn is_duration(word: &str) -> bool {
    let parts: Vec<&str> = word.split(':').collect();
    let is_part = |part: &&str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
    parts.len() == 3 && parts.iter().all(is_part)
}

/// True if the word is the one that a page shows. Any duration stands for any other.
fn is_word(word: &str, expected: &str) -> bool {
    expected == ANY || expected == word || (is_duration(expected) && is_duration(word))
}

/// True if the line has the words that a page shows.
fn has_words(line: &str, expected: &str) -> bool {
    let mut wanted: Vec<&str> = expected.split_whitespace().collect();
    let mut found: Vec<&str> = line.split_whitespace().collect();
    if wanted.last() == Some(&ANY) {
        wanted.pop();
        found.truncate(wanted.len());
    }
    wanted.len() == found.len() && wanted.iter().zip(&found).all(|(wanted, found)| is_word(found, wanted))
}

/// The ways in which a step did not do what the page shows.
fn difference(step: &ExampleStep, done: Option<&Done>, asks_next: bool) -> Option<String> {
    let Some(done) = done else { return Some(format!("{} was not run", step.command)) };
    let lines: Vec<&str> = done.shown.lines().filter(|line| !line.trim().is_empty()).collect();
    let expected: Vec<&str> = step.output.iter().copied().filter(|line| !line.trim().is_empty()).collect();
    let is_right_code = asks_next || done.code == "0";
    let is_right = is_right_code && (expected.is_empty() || is_shown(&expected, &lines));
    (!is_right).then(|| format!("{}\nexit code {}\n{}", step.command, done.code, done.shown))
}

fn check(page: &PageExamples) {
    let before =
        page.before.iter().map(|command| ExampleStep { is_roots: true, command, output: Vec::new() });
    let before: Vec<ExampleStep> = before.collect();
    let shown = page.examples.iter().filter(|example| example.not_run.is_none());
    let steps: Vec<&ExampleStep> = before.iter().chain(shown.flat_map(|example| &example.steps)).collect();
    if steps.is_empty() {
        return;
    }
    let all = run(&steps);
    let mut code = "0".to_owned();
    for (number, step) in steps.iter().enumerate() {
        if step.command == ASK_CODE {
            assert_eq!(step.output, [code.as_str()], "{}", page.page);
            continue;
        }
        let asks_next = steps.get(number + 1).is_some_and(|next| next.command == ASK_CODE);
        let difference = difference(step, all[number].as_ref(), asks_next);
        assert_eq!(difference, None, "{}: {}", page.page, difference.as_deref().unwrap_or_default());
        code = all[number].as_ref().map(|done| done.code.clone()).unwrap_or_default();
    }
}

fn check_pages(is_chosen: impl Fn(&str) -> bool) {
    if !cannot_run() {
        examples().iter().filter(|page| is_chosen(page.page)).for_each(check);
    }
}

#[test]
fn every_example_of_zpool_does_what_the_page_shows() {
    check_pages(|page| page.starts_with("zpool"));
}

#[test]
fn every_example_of_zfs_does_what_the_page_shows() {
    check_pages(|page| page.starts_with("zfs"));
}

#[test]
fn every_other_example_does_what_the_page_shows() {
    check_pages(|page| !page.starts_with("zpool") && !page.starts_with("zfs"));
}

#[test]
fn few_examples_are_not_run_and_each_has_a_reason() {
    let pages = examples();
    let reasons: Vec<&str> =
        pages.iter().flat_map(|page| &page.examples).filter_map(|example| example.not_run).collect();
    assert!(reasons.len() <= NOT_RUN_MAX, "{reasons:?}");
    assert!(reasons.iter().all(|reason| reason.split(' ').count() > 3), "{reasons:?}");
}

#[test]
fn outputs_are_compared_word_by_word() {
    assert!(is_shown(&["a  b", ANY, "c ..."], &["a b", "x", "y", "c d"]));
    assert!(!is_shown(&["a b"], &["a b", "c"]));
    assert!(!is_shown(&["a b"], &["a"]));
    assert!(is_shown(&["... b ..."], &["a b c d"]));
}
