//! `cargo xtask mutants`: mistakes planted into the program. For each of them one named test must fail.
//!
//! ```text
//!  checkout ─ copied, all mutants planted ─► target/mutants/tree ─ built once ─► test programs
//!
//!   each mutant: its lane with SAWMILL_MUTANT=NAME ─► fails: the mutant is caught
//!   each lane:   the same without SAWMILL_MUTANT   ─► passes: the lane is sound
//! ```
//! All mutants are compiled at once. In the text that a mutant puts in, the word `MUTANT` stands for an
//! expression that is true while the mutant is on. While the expression is false, the code must do what
//! it did before.
//!
//! A mutant that no lane catches is a gap in the tests. A lane that fails without a mutant says nothing
//! about mutants. Both make the command fail.
//!
//! Invariants
//! - Each text that a mutant replaces occurs once in its file (test: `each_mutant_can_be_planted`).
//! - The lane of each mutant runs a test that exists (test: `each_lane_has_its_test`).

mod list;
#[cfg(test)]
mod tests;
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::suite::{Outcome, Place, Program, Verdict, built};

/// The variable that turns a mutant on.
const SWITCH: &str = "SAWMILL_MUTANT";
/// The variable that says where cargo builds.
const TARGET_DIR: &str = "CARGO_TARGET_DIR";
/// What stands for "this mutant is on".
const MARK: &str = "MUTANT";
/// What a test program prints when its filter selects no test.
const RAN_NONE: &str = "ok. 0 passed";

/// A mistake that can be planted.
pub struct Mutant {
    /// What the mutant is called, here and in docs/testing.md.
    pub name: &'static str,
    /// What is wrong, in one sentence.
    pub what: &'static str,
    /// The file, from the root of the checkout.
    pub file: &'static str,
    /// The text that is replaced, which occurs once in the file.
    pub old: &'static str,
    /// What the text is replaced by.
    pub new: &'static str,
    /// The lane that must catch the mutant.
    pub lane: Lane,
}

/// The test that must fail while a mutant is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lane {
    pub package: &'static str,
    pub target: TestTarget,
    /// The name of the test, or a part of it.
    pub filter: &'static str,
    pub env: &'static [(&'static str, &'static str)],
}

/// A test program of a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TestTarget {
    /// The unit tests of its library.
    Lib,
    /// A program of its directory `tests`.
    Test(&'static str),
}

impl Mutant {
    /// The expression that is true while the mutant is on, for any function that is not const.
    fn switch(&self) -> String {
        format!(
            "({{ static ON: std::sync::LazyLock<bool> = std::sync::LazyLock::new(|| \
             std::env::var_os(\"{SWITCH}\").is_some_and(|on| on == \"{}\")); *ON }})",
            self.name
        )
    }

    /// The text of the file with the mutant in it.
    fn planted(&self, text: &str) -> Result<String, String> {
        match text.matches(self.old).count() {
            1 => Ok(text.replacen(self.old, &self.new.replace(MARK, &self.switch()), 1)),
            count => Err(format!("{}: its text occurs {count} times in {}", self.name, self.file)),
        }
    }
}

impl Lane {
    /// The name of its test program, as [`Program::name`] has it.
    fn program(&self) -> String {
        let package = self.package.trim_start_matches("sawmill-");
        match self.target {
            TestTarget::Lib => package.to_owned(),
            TestTarget::Test(name) => format!("{package}/{name}"),
        }
    }

    fn shown(&self) -> String {
        format!("{} {}", self.program(), self.filter)
    }

    /// Runs its test in a new directory `dir`, with a mutant on or with none.
    fn run(&self, programs: &BTreeMap<String, Program>, dir: &Path, on: Option<&str>) -> Outcome {
        let Some(program) = programs.get(&self.program()) else {
            let verdict = Verdict::Failed("cargo has built no such test program".to_owned());
            return Outcome::without_a_run(verdict);
        };
        let env: Vec<_> = self.env.iter().copied().chain(on.map(|name| (SWITCH, name))).collect();
        program.filtered(self.filter, &env).run(dir)
    }
}

/// Runs the lanes of the mutants in whose names one of the words is, or of all mutants if there is no word.
pub fn run(words: &[&str]) -> ExitCode {
    match try_run(words) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask mutants: {error}");
            ExitCode::FAILURE
        }
    }
}

fn try_run(words: &[&str]) -> Result<bool, String> {
    let is_chosen =
        |mutant: &&Mutant| words.is_empty() || words.iter().any(|word| mutant.name.contains(word));
    let chosen: Vec<&Mutant> = list::mutants().filter(is_chosen).collect();
    if chosen.is_empty() {
        return Err(format!("there is no mutant in whose name one of {words:?} is"));
    }
    let lanes: BTreeSet<Lane> = chosen.iter().map(|mutant| mutant.lane).collect();
    let programs = build(&lanes)?;
    let place = Place::new().map_err(|error| format!("no directory for temporary files: {error}"))?;
    let dirs = |number: usize| place.path().join(number.to_string());
    let mut is_good = true;
    for (number, mutant) in chosen.iter().enumerate() {
        let dir = dirs(number);
        let outcome = mutant.lane.run(&programs, &dir, Some(mutant.name));
        is_good &= report_mutant(mutant, &outcome);
        // A test that fails keeps its files. Nobody needs these.
        _ = std::fs::remove_dir_all(dir);
    }
    for (number, lane) in lanes.iter().enumerate() {
        let outcome = lane.run(&programs, &dirs(chosen.len() + number), None);
        is_good &= report_lane(lane, &outcome);
    }
    Ok(is_good)
}

/// Prints what became of a mutant; returns whether the mutant was caught.
fn report_mutant(mutant: &Mutant, outcome: &Outcome) -> bool {
    let (name, lane, seconds) = (mutant.name, mutant.lane.shown(), outcome.took.as_secs());
    match &outcome.verdict {
        Verdict::Passed => {
            println!("NOT CAUGHT  {name}  {lane}  {seconds} s: {}", mutant.what);
            false
        }
        Verdict::Failed(why) if why.contains("not ended") => {
            println!("caught  {name}  {lane}  {seconds} s: the test does not end");
            true
        }
        Verdict::Failed(_) => {
            println!("caught  {name}  {lane}  {seconds} s");
            true
        }
    }
}

/// Prints how a lane came out without a mutant; returns whether it passed.
fn report_lane(lane: &Lane, outcome: &Outcome) -> bool {
    let (lane, seconds) = (lane.shown(), outcome.took.as_secs());
    match &outcome.verdict {
        Verdict::Passed if outcome.printed.contains(RAN_NONE) => {
            println!("NO TEST  {lane}");
            false
        }
        Verdict::Passed => {
            println!("sound  {lane}  {seconds} s");
            true
        }
        Verdict::Failed(why) => {
            println!("FAILS WITHOUT A MUTANT  {lane}  {seconds} s: {why}\n{}", outcome.printed);
            false
        }
    }
}

/// Plants all mutants and builds the test programs of these lanes; returns the programs by name.
fn build(lanes: &BTreeSet<Lane>) -> Result<BTreeMap<String, Program>, String> {
    let below = root().join("target/mutants");
    let tree = below.join("tree");
    tree::copy(&root(), &tree)?;
    let packages: BTreeSet<&str> = lanes.iter().map(|lane| lane.package).collect();
    let programs: BTreeSet<&str> = lanes
        .iter()
        .filter_map(|lane| match lane.target {
            TestTarget::Lib => None,
            TestTarget::Test(name) => Some(name),
        })
        .collect();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(&tree).args(["test", "--locked", "--no-run"]);
    for package in packages {
        cargo.args(["--package", package]);
    }
    for program in programs {
        cargo.args(["--test", program]);
    }
    if lanes.iter().any(|lane| lane.target == TestTarget::Lib) {
        cargo.arg("--lib");
    }
    // This must never be the target directory of the checkout. Cargo does not distinguish the two
    // trees, so the next build of the checkout would contain mutants.
    cargo.env(TARGET_DIR, below.join("build"));
    let programs = built(&mut cargo)?;
    Ok(programs.into_iter().map(|program| (program.name().to_owned(), program)).collect())
}

/// The root of the checkout.
fn root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().nth(2).unwrap_or(package).to_owned()
}
