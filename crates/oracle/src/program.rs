//! The `main` of a test program, in the words of the usual one: `--list`, `--exact NAME`, parts of
//! names.
//!
//! The usual one runs each test on a second thread. A program whose tests start the program again needs
//! its first thread for itself, because only a process with one thread can be confined.

use std::env::args;
use std::panic::catch_unwind;
use std::process::ExitCode;

/// A name and what is run.
pub type Test = (&'static str, fn());

/// Makes a list of [`Test`]s of functions, by their names.
#[macro_export]
macro_rules! tests {
    ($($test:ident,)*) => { &[$((stringify!($test), $test),)*] };
}

/// Options that have a value behind them, which is no name.
const WITH_VALUE: &[&str] = &["--format", "--test-threads", "--color", "--skip"];

/// Lists tests or runs them one after another, as the arguments of the program say.
#[must_use]
pub fn run(tests: &[Test]) -> ExitCode {
    let arguments: Vec<String> = args().skip(1).collect();
    let has = |option: &str| arguments.iter().any(|argument| argument == option);
    // No test here is ignored.
    let chosen = tests.iter().filter(|(name, _)| !has("--ignored") && is_chosen(name, &arguments));
    if has("--list") {
        chosen.for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let outcomes: Vec<bool> = chosen.map(|(name, test)| passes(name, *test)).collect();
    let passed = outcomes.iter().filter(|passed| **passed).count();
    let (failed, left_out) = (outcomes.len() - passed, tests.len() - outcomes.len());
    let word = if failed == 0 { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {word}. {passed} passed; {failed} failed; 0 ignored; 0 measured; {left_out} filtered out"
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn is_chosen(name: &str, arguments: &[String]) -> bool {
    let is_exact = arguments.iter().any(|argument| argument == "--exact");
    let mut words = names(arguments).peekable();
    words.peek().is_none() || words.any(|word| if is_exact { name == word } else { name.contains(word) })
}

/// Arguments that are neither options nor their values.
fn names(arguments: &[String]) -> impl Iterator<Item = &str> {
    let before = std::iter::once("").chain(arguments.iter().map(String::as_str));
    let pairs = before.zip(arguments.iter().map(String::as_str));
    pairs
        .filter(|(before, word)| !word.starts_with("--") && !WITH_VALUE.contains(before))
        .map(|(_, word)| word)
}

fn passes(name: &str, test: fn()) -> bool {
    let is_well = catch_unwind(test).is_ok();
    println!("test {name} ... {}", if is_well { "ok" } else { "FAILED" });
    is_well
}
