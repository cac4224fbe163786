//! From argv to a command and its exit code.

use crate::args::{Args, Spec};
use crate::session::{Outcome, Session, Stop};
use crate::unknown;
use control::RunPaths;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

/// A command and what runs it.
#[derive(Clone, Copy)]
pub struct Command {
    /// What it takes.
    pub spec: Spec,
    /// Does it.
    pub run: fn(&mut Session, &Args) -> Outcome,
    /// Told after the usage line when its words were wrong.
    pub usage_tail: Option<fn() -> String>,
}

impl Command {
    /// A command whose usage is one line.
    pub const fn new(spec: Spec, run: fn(&mut Session, &Args) -> Outcome) -> Self {
        Self { spec, run, usage_tail: None }
    }

    /// With more to tell when its words were wrong.
    pub const fn telling(mut self, tail: fn() -> String) -> Self {
        self.usage_tail = Some(tail);
        self
    }
}

/// A family of commands called by one name.
pub struct Program {
    /// Its name.
    pub name: &'static str,
    /// Its commands, in the order of the usage list.
    pub commands: &'static [Command],
}

/// All programs.
pub const PROGRAMS: &[Program] =
    &[crate::zpool::PROGRAM, crate::zfs::PROGRAM, crate::daemon::PROGRAM, crate::visit::PROGRAM];

/// What is called without the name of a program.
const PLAIN: &Program = &crate::visit::PROGRAM;

const EXIT_USAGE: u8 = 2;
const EXIT_UNSUPPORTED: u8 = 1;

/// Runs the program that `argv` names, and gives its exit code.
pub fn main(argv: impl IntoIterator<Item = OsString>) -> u8 {
    let mut words: Vec<String> = argv.into_iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let called = if words.is_empty() { String::new() } else { words.remove(0) };
    let called = Path::new(&called).file_name().map(|n| n.to_string_lossy().into_owned());
    let by_link = PROGRAMS.iter().filter(|p| p.name != "daemon" && p.name != PLAIN.name);
    if let Some(program) = by_link.into_iter().find(|p| Some(p.name) == called.as_deref()) {
        return run_program(program, &words);
    }
    let Some((first, rest)) = words.split_first() else {
        eprint!("missing command\n{}", usage());
        return EXIT_USAGE;
    };
    if let Some(command) = PLAIN.command(first) {
        return run_command(PLAIN, command, rest);
    }
    match (PROGRAMS.iter().find(|p| p.name == first && p.name != PLAIN.name), first.as_str()) {
        (Some(program), _) => run_program(program, rest),
        (None, "bench") => crate::bench::main(rest),
        (None, "version" | "--version" | "-V") => {
            println!("sawmill-{}", env!("CARGO_PKG_VERSION"));
            0
        }
        (None, "help" | "--help" | "-h" | "-?") => {
            print!("{}", usage());
            0
        }
        (None, word) => {
            eprint!("unrecognized command '{word}'\n{}", usage());
            EXIT_USAGE
        }
    }
}

fn usage() -> String {
    let mut text =
        String::from("usage: sawmill command args ...\nwhere 'command' is one of the following:\n\n");
    for program in PROGRAMS.iter().filter(|program| program.name != PLAIN.name) {
        _ = writeln!(text, "\t{} ...", program.name);
    }
    for command in PLAIN.commands {
        _ = writeln!(text, "\t{}", command.spec.usage());
    }
    text.push_str("\tversion\n");
    text
}

fn run_program(program: &Program, words: &[String]) -> u8 {
    let Some((name, rest)) = words.split_first() else {
        eprint!("missing command\n{}", program.usage());
        return EXIT_USAGE;
    };
    match name.as_str() {
        "-?" | "--help" | "-h" => return print_all(&program.usage()),
        "help" => return program.help(rest),
        _ => {}
    }
    let name = if matches!(name.as_str(), "-V" | "--version") { "version" } else { name };
    let Some(command) = program.command(name) else { return unknown_command(program, name) };
    run_command(program, command, rest)
}

fn unknown_command(program: &Program, name: &str) -> u8 {
    if let Some(text) = unknown::not_yet(program, name) {
        eprint!("{text}");
        return EXIT_UNSUPPORTED;
    }
    eprintln!("unrecognized command '{name}'");
    if let Some(meant) = unknown::meant(program, name) {
        eprintln!("did you mean '{} {meant}'?", program.name);
    }
    eprint!("{}", program.usage());
    EXIT_USAGE
}

fn print_all(text: &str) -> u8 {
    _ = std::io::stdout().write_all(text.as_bytes());
    0
}

fn run_command(program: &Program, command: &Command, words: &[String]) -> u8 {
    if words.iter().any(|w| w == "-?" || w == "--help") {
        return print_all(&command.spec.help(program.name));
    }
    let out = Box::new(std::io::BufWriter::new(std::io::stdout()));
    let command_line = [&[program.name.to_owned(), command.spec.name.to_owned()], words].concat().join(" ");
    let mut session = Session::new(RunPaths::from_env(), out).saying(command_line);
    let outcome = match command.spec.parse(words) {
        Ok(args) => (command.run)(&mut session, &args),
        Err(reason) => Err(Stop::Usage(reason)),
    };
    let outcome = session.out().flush().map_err(Stop::from).and(outcome);
    match outcome {
        Ok(code) => code,
        Err(Stop::Quiet(code)) => code,
        Err(Stop::Closed) => 1,
        Err(Stop::Failed(failure)) => session.complain(&failure),
        Err(Stop::Usage(reason)) => {
            if !reason.is_empty() {
                eprintln!("{reason}");
            }
            eprintln!("usage:\n\t{}", command.spec.usage());
            if let Some(tail) = command.usage_tail {
                eprint!("\n{}", tail());
            }
            EXIT_USAGE
        }
    }
}

impl Program {
    fn command(&self, name: &str) -> Option<&'static Command> {
        self.commands.iter().find(|c| c.spec.name == name || c.spec.alias == Some(name))
    }

    /// The usage of all commands.
    pub fn usage(&self) -> String {
        let mut text =
            format!("usage: {} command args ...\nwhere 'command' is one of the following:\n\n", self.name);
        for command in self.commands {
            _ = writeln!(text, "\t{}", command.spec.usage());
        }
        _ = writeln!(text, "\nFor further help on a command, run: {} help <command>", self.name);
        text
    }

    fn help(&self, words: &[String]) -> u8 {
        let Some(name) = words.first() else { return print_all(&self.usage()) };
        match self.command(name) {
            Some(command) => print_all(&command.spec.help(self.name)),
            None => {
                eprint!("unrecognized command '{name}'\n{}", self.usage());
                EXIT_USAGE
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_of_every_command_parses_as_its_usage_says() {
        for program in PROGRAMS {
            for command in program.commands {
                let spec = &command.spec;
                for flag in spec.flags {
                    let value = flag.value.map(|_| "v".to_owned());
                    if let Some(short) = flag.short {
                        let words: Vec<String> =
                            [format!("-{short}")].into_iter().chain(value.clone()).collect();
                        let args = spec.parse(&words).expect("a flag of the command");
                        assert!(args.has(short), "{} {} -{short}", program.name, spec.name);
                        assert_eq!(args.value(short), value.as_deref());
                    }
                    if let Some(long) = flag.long {
                        let words: Vec<String> = [format!("--{long}")].into_iter().chain(value).collect();
                        assert!(spec.parse(&words).expect("a long flag").has_long(long));
                    }
                    assert!(!flag.help.is_empty(), "{} {}", program.name, spec.name);
                }
            }
        }
    }

    #[test]
    fn no_command_has_a_flag_twice() {
        for command in PROGRAMS.iter().flat_map(|p| p.commands) {
            let mut shorts: Vec<char> = command.spec.flags.iter().filter_map(|f| f.short).collect();
            let count = shorts.len();
            shorts.sort_unstable();
            shorts.dedup();
            assert_eq!(shorts.len(), count, "{}", command.spec.name);
        }
    }
}
