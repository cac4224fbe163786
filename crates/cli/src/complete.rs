//! Completion in shells: `sawmill completions SHELL` prints the few lines that a shell needs, and these ask
//! `sawmill complete -- WORD ...` what the last word could become.
//!
//! ```text
//!  words ─► program, command ─► a flag? its value? an operand? ─► candidates, each with its line of help
//!              tables that parse       └─ what it is called says what it may be ─► names, properties, files
//! ```
//! Names of pools and datasets are those of a daemon that runs: a key pressed starts none.

mod places;

use crate::args::{Args, Flag, Spec};
use crate::program::{Command, PLAIN, PROGRAMS, Program, by_link, by_name};
use crate::session::{Outcome, Session, usage};
use control::{DaemonStatusCall, DatasetList};
use places::{Names, Place};

pub const COMPLETIONS: Command = Command::new(
    Spec {
        name: "completions",
        alias: None,
        about: "prints the completion of all commands for a shell",
        flags: &[],
        operands: "<bash | zsh | fish>",
    },
    |session, args| {
        let script = match args.operands.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["bash"] => include_str!("complete/bash"),
            ["zsh"] => include_str!("complete/zsh"),
            ["fish"] => include_str!("complete/fish"),
            _ => return usage("one shell is needed: bash, zsh or fish"),
        };
        write!(session.out(), "{script}")?;
        Ok(0)
    },
);

pub const COMPLETE: Command = Command::new(
    Spec {
        name: "complete",
        alias: None,
        about: "tells a shell what the last word of a command could become",
        flags: &[],
        operands: "-- <word> ...",
    },
    run,
);

/// What a shell is to offer for files of its own.
const FILES: &str = ":files";

fn run(session: &mut Session, args: &Args) -> Outcome {
    let Some((last, words)) = args.operands.split_last() else { return usage("missing word") };
    let offered: Vec<String> = offers(words, last)
        .into_iter()
        .flat_map(|offer| match offer {
            Offer::Word { text, about } if text.starts_with(last.as_str()) => {
                vec![format!("{text}\t{about}")]
            }
            Offer::Word { .. } => Vec::new(),
            Offer::Names(names) => named(session, names, last),
            Offer::Files => vec![FILES.to_owned()],
        })
        .collect();
    for line in offered {
        writeln!(session.out(), "{line}")?;
    }
    Ok(0)
}

/// Names that begin so, of a daemon that runs.
fn named(session: &Session, names: Names, begin: &str) -> Vec<String> {
    let found: Vec<String> = match names {
        Names::Pools => {
            session.ask_running(&DaemonStatusCall {}).map(|status| status.pools).unwrap_or_default()
        }
        Names::Datasets => datasets(session),
        Names::Snapshots => datasets(session).into_iter().filter(|name| name.contains(['@', '#'])).collect(),
    };
    found.into_iter().filter(|name| name.starts_with(begin)).map(|n| n + "\t").collect()
}

fn datasets(session: &Session) -> Vec<String> {
    let all = session.ask_running(&DatasetList { bookmarks: true, ..DatasetList::default() });
    all.unwrap_or_default().into_iter().map(|dataset| dataset.name).collect()
}

/// Something that a word could become.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Offer {
    /// This.
    Word { text: String, about: String },
    /// A name that the daemon knows.
    Names(Names),
    /// A file.
    Files,
}

impl Offer {
    fn word(text: impl Into<String>, about: &str) -> Self {
        Self::Word { text: text.into(), about: about.to_owned() }
    }
}

/// What may follow `words`, where `last` was begun.
fn offers(words: &[String], last: &str) -> Vec<Offer> {
    let Some((called, rest)) = words.split_first() else { return Vec::new() };
    if let Some(program) = by_link(called) {
        return of_program(program, rest, last);
    }
    match rest.split_first() {
        None => everything(),
        Some((first, rest)) if first == "help" => after_help(rest),
        Some((first, behind)) => match by_name(first) {
            Some(program) => of_program(program, behind, last),
            None => of_program(PLAIN, rest, last),
        },
    }
}

/// `help`, `help PROGRAM`.
fn after_help(words: &[String]) -> Vec<Offer> {
    match words {
        [] => everything(),
        [word] => by_name(word).map_or(Vec::new(), |program| commands(program).collect()),
        _ => Vec::new(),
    }
}

fn everything() -> Vec<Offer> {
    let programs = PROGRAMS.iter().filter(|program| program.name != PLAIN.name);
    let mut all: Vec<Offer> = programs.map(|program| Offer::word(program.name, program.about)).collect();
    all.extend(commands(PLAIN));
    all
}

fn commands(program: &Program) -> impl Iterator<Item = Offer> {
    let listed = program.commands.iter().map(|c| Offer::word(c.spec.name, c.spec.about));
    listed.chain([Offer::word("help", "tells what a command takes")])
}

fn of_program(program: &Program, words: &[String], last: &str) -> Vec<Offer> {
    match words.split_first() {
        None => commands(program).collect(),
        Some((help, [])) if help == "help" => commands(program).collect(),
        Some((name, rest)) => match program.command(name) {
            Some(command) => of_command(program, &command.spec, rest, last),
            None => Vec::new(),
        },
    }
}

fn of_command(program: &Program, spec: &Spec, words: &[String], last: &str) -> Vec<Offer> {
    if let Some(flag) = open_flag(spec, words) {
        let place = flag.value.unwrap_or_default();
        return Place::new(program, spec, place).offers(last);
    }
    let is_ended = words.iter().any(|word| word == "--");
    if last.starts_with('-') && !is_ended {
        let one = |flag: &Flag| flag.names().map(|name| Offer::word(name, flag.help)).collect::<Vec<_>>();
        return spec.flags.iter().flat_map(one).collect();
    }
    let operands = spec.parse(words).map_or(0, |args| args.operands.len());
    let reached = places::reached(spec.operands.lines().next().unwrap_or_default(), operands).into_iter();
    reached.flat_map(|place| Place::new(program, spec, place).offers(last)).collect()
}

/// The flag whose value comes next.
fn open_flag(spec: &Spec, words: &[String]) -> Option<&'static Flag> {
    let of = |word: &String| {
        spec.flags.iter().filter(|flag| flag.value.is_some()).find(|flag| match word.strip_prefix("--") {
            Some(long) => flag.long == Some(long),
            None => word.len() > 1 && word.starts_with('-') && flag.short == word.chars().last(),
        })
    };
    let listing = || words.iter().rev().find(|word| word.starts_with("--")).and_then(of);
    words.last().and_then(of).or_else(|| listing().filter(|flag| flag.list))
}

#[cfg(test)]
mod tests;
