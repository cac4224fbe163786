//! From argv to a command and its exit code.

use crate::args::{Args, Spec};
use crate::session::{Outcome, Session, Stop};
use crate::{terminal, unknown};
use control::RunPaths;
use std::ffi::OsString;
use std::fmt::Write as _;
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

/// Whose words a family of commands has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// OpenZFS's: there `-?` is a flag that no command knows.
    OpenZfs,
    /// Our own.
    Own,
}

/// A family of commands called by one name.
pub struct Program {
    /// Its name.
    pub name: &'static str,
    /// One line for people.
    pub about: &'static str,
    /// Whose words it has.
    pub kind: Kind,
    /// Its commands, in the order of the usage list.
    pub commands: &'static [Command],
}

/// All programs.
pub const PROGRAMS: &[Program] = &[
    crate::zpool::PROGRAM,
    crate::zfs::PROGRAM,
    crate::daemon::PROGRAM,
    crate::advise::PROGRAM,
    crate::trace::PROGRAM,
    crate::bench::PROGRAM,
    crate::visit::PROGRAM,
];

/// What is called without the name of a program.
pub const PLAIN: &Program = &crate::visit::PROGRAM;

const EXIT_USAGE: u8 = 2;
const EXIT_UNSUPPORTED: u8 = 1;

/// Runs the program that `argv` names, and gives its exit code.
pub fn main(argv: impl IntoIterator<Item = OsString>) -> u8 {
    let words: Vec<String> = argv.into_iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let (called, words) = words.split_first().map_or(("", words.as_slice()), |(first, rest)| (first, rest));
    let file_name = Path::new(called).file_name().and_then(|name| name.to_str());
    if let Some(code) = crate::mount_helper::run(file_name, words) {
        return code;
    }
    if let Some(command) = file_name.and_then(linked_command) {
        return run_command(PLAIN, command, words);
    }
    if let Some(program) = by_link(called) {
        let code = run_program(program, words);
        dump_core_if_asked();
        return code;
    }
    let Some((first, rest)) = words.split_first() else {
        eprint!("missing command\n{}", usage());
        return EXIT_USAGE;
    };
    match first.as_str() {
        "version" | "--version" | "-V" => print_all(&format!("sawmill-{}\n", env!("CARGO_PKG_VERSION"))),
        "help" | "--help" | "-h" | "-?" => help(rest),
        word => match (PLAIN.command(word), by_name(word)) {
            (Some(command), _) => run_command(PLAIN, command, rest),
            (None, Some(program)) => run_program(program, rest),
            (None, None) => unrecognized(word, &usage()),
        },
    }
}

/// The command that has a name of its own in OpenZFS, too.
fn linked_command(name: &str) -> Option<&'static Command> {
    PLAIN.command(name).filter(|command| has_own_link(command))
}

/// Whether it is called by a link of its name, too, as OpenZFS has it as a program.
pub fn has_own_link(command: &Command) -> bool {
    [crate::zed::COMMAND, crate::zinject::COMMAND, crate::zilstat::COMMAND]
        .iter()
        .any(|linked| linked.spec.name == command.spec.name)
}

/// The program that a path is a link for.
pub fn by_link(path: &str) -> Option<&'static Program> {
    let name = Path::new(path).file_name()?;
    PROGRAMS.iter().find(|program| program.kind == Kind::OpenZfs && name == program.name)
}

/// The program that is called by the word behind `sawmill`.
pub fn by_name(word: &str) -> Option<&'static Program> {
    PROGRAMS.iter().find(|program| program.name == word && program.name != PLAIN.name)
}

fn unrecognized(word: &str, usage: &str) -> u8 {
    eprint!("unrecognized command '{word}'\n{usage}");
    EXIT_USAGE
}

/// `sawmill help [WORD ...]`: of everything, a program, or a command.
fn help(words: &[String]) -> u8 {
    match words {
        [] => print_all(&usage()),
        [first, rest @ ..] => match by_name(first) {
            Some(program) => program.help(rest),
            None if PLAIN.command(first).is_some() => PLAIN.help(words),
            None => unrecognized(first, &usage()),
        },
    }
}

/// Everything that `sawmill` can be asked for.
fn usage() -> String {
    let mut text =
        String::from("usage: sawmill command args ...\nwhere 'command' is one of the following:\n\n");
    for program in PROGRAMS.iter().filter(|program| program.name != PLAIN.name) {
        _ = writeln!(text, "\t{} command ...\n\t    {}:", program.name, program.about);
        for line in program.names_in_lines() {
            _ = writeln!(text, "\t    {line}");
        }
    }
    for command in PLAIN.commands {
        _ = writeln!(text, "\t{}\n\t    {}", command.spec.usage(), command.spec.about);
    }
    text.push_str("\tversion\n\thelp [command ...]\n\n");
    text.push_str(
        "For further help on a command, run: sawmill help <command>, as in: sawmill help zpool create\n",
    );
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
    match program.command(name) {
        Some(command) => run_command(program, command, rest),
        None => unknown_command(program, name),
    }
}

/// Ends the process with a core dump, if the variable `ZFS_ABORT` asks for a core dump (zfs(8)).
fn dump_core_if_asked() {
    if std::env::var_os("ZFS_ABORT").is_some() {
        terminal::print("dumping core by request\n");
        std::process::abort();
    }
}

fn unknown_command(program: &Program, name: &str) -> u8 {
    if let Some(text) = unknown::not_yet(program, name) {
        eprint!("{text}");
        return EXIT_UNSUPPORTED;
    }
    eprintln!("unrecognized command '{name}'");
    if let Some(meant) = unknown::meant(program, name) {
        eprintln!("did you mean '{} {meant}'?", program.typed());
    }
    eprint!("{}", program.usage());
    EXIT_USAGE
}

fn print_all(text: &str) -> u8 {
    terminal::print(text);
    0
}

fn run_command(program: &Program, command: &Command, words: &[String]) -> u8 {
    if program.asks_for_help(command, words) {
        return print_all(&command.spec.help(&program.typed()));
    }
    let command_line = [&[program.name.to_owned(), command.spec.name.to_owned()], words].concat().join(" ");
    let painter = terminal::paint::of(program.name, command.spec.name);
    let mut session = Session::new(RunPaths::from_env(), terminal::painted(painter)).saying(command_line);
    let outcome = match command.spec.parse(words) {
        Ok(args) => (command.run)(&mut session, &args),
        Err(reason) => Err(Stop::Usage(reason)),
    };
    let outcome = session.out().flush().map_err(Stop::from).and(outcome);
    match outcome {
        Ok(code) => code,
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
    /// The command of this name.
    pub fn command(&self, name: &str) -> Option<&'static Command> {
        self.commands.iter().find(|c| c.spec.name == name || c.spec.alias == Some(name))
    }

    /// The usage of all commands.
    pub fn usage(&self) -> String {
        let mut text =
            format!("usage: {} command args ...\nwhere 'command' is one of the following:\n\n", self.typed());
        for command in self.commands {
            _ = writeln!(text, "\t{}", command.spec.usage());
        }
        _ = writeln!(text, "\nFor further help on a command, run: {} help <command>", self.typed());
        text
    }

    /// What is typed to call it.
    pub fn typed(&self) -> String {
        match self.kind {
            Kind::Own if self.name != PLAIN.name => format!("{} {}", PLAIN.name, self.name),
            _ => self.name.to_owned(),
        }
    }

    /// Whether somebody asks what a command takes, before `--` ends its flags.
    fn asks_for_help(&self, command: &Command, words: &[String]) -> bool {
        // As `zinject` says of itself when there is nothing to list, and Python's `zilstat` of itself.
        let has_own_flag = has_own_link(command);
        let asks = |word: &str| {
            word == "--help" || (word == "-?" && self.kind == Kind::Own) || (word == "-h" && has_own_flag)
        };
        words.iter().take_while(|word| *word != "--").any(|word| asks(word))
    }

    fn help(&self, words: &[String]) -> u8 {
        let Some(name) = words.first() else { return print_all(&self.usage()) };
        match self.command(name) {
            Some(command) => print_all(&command.spec.help(&self.typed())),
            None => unrecognized(name, &self.usage()),
        }
    }

    /// The names of its commands, so many in a line as fit.
    fn names_in_lines(&self) -> Vec<String> {
        let mut lines = vec![String::new()];
        for command in self.commands {
            if lines[lines.len() - 1].len() + command.spec.name.len() >= NAMES_WIDTH {
                lines.push(String::new());
            }
            let last = lines.len() - 1;
            let line = &mut lines[last];
            line.push_str(if line.is_empty() { "" } else { " " });
            line.push_str(command.spec.name);
        }
        lines
    }
}

/// Columns that names of commands take in the list of everything.
const NAMES_WIDTH: usize = 72;

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
