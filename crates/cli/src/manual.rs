//! `sawmill manual DIRECTORY`: the manual pages, made of the tables that parse and of texts.
//!
//! ```text
//!  PROGRAMS ──────────► NAME, SYNOPSIS, OPTIONS, COMMANDS ─┐   zpool.8 …         a page of each program
//!                                                          ├─► zpool-create.8 …  a page of each command
//!  crates/cli/manual ─► DESCRIPTION, EXAMPLES, SEE ALSO ───┘   zpoolconcepts.7 … a page of each topic
//!        └─► items ─► values and defaults from the tables of properties and features
//! ```
//! So no page names a flag, a property or a feature that the program lacks, and none is left out
//! (tests: `every_command_and_flag_is_in_a_page`, `pages_of_tables_name_each_entry_and_no_other`).
//! A test runs the examples of all pages: `crates/cli/tests/manual.rs`.

mod examples;
mod facts;
mod markup;
mod roff;
mod texts;

use crate::args::{Args, Spec};
use crate::program::{Command, Kind, PLAIN, PROGRAMS, Program, has_own_link};
use crate::session::{Outcome, Session, Stop, usage};
use control::{Failure, FailureKind};
use markup::{Chapter, Passage};
use roff::Roff;
use std::fs;
use std::path::Path;

pub use examples::{ExampleStep, ManualExample, PageExamples, examples};

pub const COMMAND: Command = Command::new(
    Spec {
        name: "manual",
        alias: None,
        about: "writes the manual pages of all commands to files",
        flags: &[],
        operands: "<directory>",
    },
    run,
);

fn run(_: &mut Session, args: &Args) -> Outcome {
    let [directory] = args.operands.as_slice() else { return usage("one directory is needed") };
    for page in pages() {
        let path = Path::new(directory).join(format!("man{}", page.section)).join(page.file());
        let written =
            fs::create_dir_all(path.parent().unwrap_or(&path)).and_then(|()| fs::write(&path, &page.text));
        let told = |e| Failure::new(FailureKind::Other, format!("cannot write {}: {e}", path.display()));
        written.map_err(|e| Stop::from(told(e)))?;
    }
    Ok(0)
}

/// A page.
struct Page {
    name: String,
    section: u8,
    text: String,
}

impl Page {
    fn file(&self) -> String {
        format!("{}.{}", self.name, self.section)
    }
}

fn pages() -> Vec<Page> {
    let of = |program: &'static Program| {
        let commands = program.commands.iter().flat_map(|c| of_command(program, c));
        std::iter::once(of_program(program)).chain(commands)
    };
    PROGRAMS
        .iter()
        .flat_map(of)
        .chain(texts::TOPICS.iter().map(|(file, about)| of_topic(file, about)))
        .collect()
}

fn section(program: &Program) -> u8 {
    match program.kind {
        Kind::OpenZfs => 8,
        Kind::Own => 1,
    }
}

/// `zpool`, `sawmill-daemon`, and with a command behind it `zpool-create`, `sawmill-ls`.
fn name(program: &Program, command: Option<&str>) -> String {
    let program = program.typed().replace(' ', "-");
    command.map_or(program.clone(), |command| format!("{program}-{command}"))
}

fn of_program(program: &Program) -> Page {
    let name = name(program, None);
    let mut page = Draft::new(&name, section(program), program.about);
    page.roff.section("SYNOPSIS");
    page.roff.synopsis(&program.typed(), "command [argument ...]");
    if program.name == PLAIN.name {
        page.roff.synopsis(PLAIN.name, "version");
    }
    page.roff.synopsis(&program.typed(), "help [command]");
    page.chapters(|heading| heading == DESCRIPTION);
    page.roff.section("COMMANDS");
    for other in others(program) {
        page.roff.item(
            &format!("{} command", other.typed()),
            &format!("{}, see {}", other.about, page_ref(other, None)),
        );
    }
    for command in program.commands {
        page.roff.item(&command.spec.forms().join(" | "), command.spec.about);
    }
    page.end()
}

/// Programs that the page of `sawmill` tells of.
fn others(program: &Program) -> impl Iterator<Item = &'static Program> {
    let is_plain = program.name == PLAIN.name;
    PROGRAMS.iter().filter(move |other| is_plain && other.name != PLAIN.name)
}

fn of_command(program: &Program, command: &Command) -> Vec<Page> {
    let spec = &command.spec;
    let (page_name, section) = (name(program, Some(spec.name)), section(program));
    let mut page = Draft::new(&page_name, section, spec.about);
    page.roff.section("SYNOPSIS");
    spec.forms().iter().for_each(|form| page.roff.synopsis(&program.typed(), form));
    if let Some(alias) = spec.alias {
        page.roff.synopsis(&program.typed(), &format!("{alias} ..."));
    }
    page.chapters(|heading| heading == DESCRIPTION);
    if !spec.flags.is_empty() {
        page.roff.section("OPTIONS");
        spec.flags.iter().for_each(|flag| page.roff.item(&flag.spelling(), flag.help));
    }
    let alias = spec.alias.map(|alias| name(program, Some(alias)));
    let others = alias.into_iter().chain(has_own_link(command).then(|| spec.name.to_owned()));
    let text = format!(".so man{section}/{page_name}.{section}\n");
    let others: Vec<Page> = others.map(|name| Page { name, section, text: text.clone() }).collect();
    std::iter::once(page.end()).chain(others).collect()
}

/// A page about a topic, which is all text. `file` is its file name: `zpoolconcepts.7`.
fn of_topic(file: &str, about: &str) -> Page {
    let (name, section) = file.rsplit_once('.').unwrap_or((file, "7"));
    let mut page = Draft::new(name, section.parse().unwrap_or(7), about);
    page.chapters(|heading| heading != SEE_ALSO);
    page.chapters(|heading| heading == SEE_ALSO);
    page.into_page()
}

const DESCRIPTION: &str = "DESCRIPTION";
const EXIT_STATUS: &str = "EXIT STATUS";
const EXAMPLES: &str = "EXAMPLES";
const SEE_ALSO: &str = "SEE ALSO";
/// The exit status of a command whose text has no chapter about it.
const USUAL_STATUS: &str = "0 on success, 1 or, where OpenZFS does so, 255 on error, 2 on invalid usage.";

/// A page that is being written, and its text.
struct Draft {
    name: String,
    section: u8,
    chapters: Vec<Chapter>,
    roff: Roff,
}

impl Draft {
    /// A page with its first section.
    fn new(name: &str, section: u8, about: &str) -> Self {
        let mut roff = Roff::page(name, section);
        roff.section("NAME").text(&format!("{name} - {about}"));
        let chapters = texts::text(&format!("{name}.{section}")).map(markup::parse).unwrap_or_default();
        Self { name: name.to_owned(), section, chapters, roff }
    }

    fn file(&self) -> String {
        format!("{}.{}", self.name, self.section)
    }

    /// Writes the chapters of the text whose heading is chosen.
    fn chapters(&mut self, is_chosen: impl Fn(&str) -> bool) {
        let file = self.file();
        for chapter in self.chapters.iter().filter(|chapter| is_chosen(chapter.heading)) {
            self.roff.section(chapter.heading);
            chapter.passages.iter().for_each(|passage| write(&mut self.roff, &file, passage));
        }
    }

    /// Writes the chapters of a command or a program that follow its options.
    fn end(mut self) -> Page {
        let last = [DESCRIPTION, EXIT_STATUS, EXAMPLES, SEE_ALSO];
        self.chapters(|heading| !last.contains(&heading));
        if self.chapters.iter().all(|chapter| chapter.heading != EXIT_STATUS) {
            self.roff.section(EXIT_STATUS).text(USUAL_STATUS);
        }
        for heading in &last[1..] {
            self.chapters(|other| other == *heading);
        }
        self.into_page()
    }

    fn into_page(self) -> Page {
        Page { name: self.name, section: self.section, text: self.roff.into_text() }
    }
}

/// Writes a passage of the page in `file`.
fn write(roff: &mut Roff, file: &str, passage: &Passage) {
    match passage {
        Passage::Heading(heading) => roff.subsection(heading),
        Passage::Paragraph(text) => roff.paragraph(text),
        Passage::Item(term, text) => match facts::about(file, term) {
            Some(facts) => roff.item(term, &format!("{text} {facts}")),
            None => roff.item(term, text),
        },
        Passage::Code(lines) => roff.code(lines.iter().copied()),
        Passage::Before(_) | Passage::NotRun(_) => {}
    }
}

fn page_ref(program: &Program, command: Option<&str>) -> String {
    format!("{}({})", name(program, command), section(program))
}

#[cfg(test)]
mod tests;
