//! `sawmill manual DIRECTORY`: the manual pages, made of the tables that parse.
//!
//! ```text
//!  PROGRAMS ─► a page of each program:  zpool.8  zfs.8  sawmill.1  sawmill-daemon.1 …
//!         └──► a page of each command:  zpool-create.8  sawmill-ls.1 …, and by their other names: zilstat.1 …
//! ```
//! So no page tells of a flag that does not parse, and no flag is without a line
//! (test: `every_command_and_flag_is_in_a_page`).

mod roff;
mod text;

use crate::args::{Args, Spec};
use crate::program::{Command, Kind, PLAIN, PROGRAMS, Program, has_own_link};
use crate::session::{Outcome, Session, Stop, usage};
use control::{Failure, FailureKind};
use roff::Roff;
use std::fs;
use std::path::Path;

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
    PROGRAMS.iter().flat_map(of).collect()
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
    let mut roff = Roff::page(&name, section(program));
    roff.section("NAME").text(&format!("{name} - {}", program.about));
    roff.section("SYNOPSIS");
    roff.synopsis(&program.typed(), "command [argument ...]");
    if program.name == PLAIN.name {
        roff.synopsis(PLAIN.name, "version");
    }
    roff.synopsis(&program.typed(), "help [command]");
    for (heading, paragraphs) in text::about(program) {
        roff.section(heading);
        paragraphs.iter().for_each(|paragraph| roff.paragraph(paragraph));
    }
    roff.section("COMMANDS");
    for other in others(program) {
        roff.item(
            &format!("{} command", other.typed()),
            &format!("{}, see {}", other.about, page_ref(other, None)),
        );
    }
    for command in program.commands {
        roff.item(&command.spec.usage(), command.spec.about);
    }
    ending(&mut roff, program, None);
    Page { name, section: section(program), text: roff.into_text() }
}

/// Programs that the page of `sawmill` tells of.
fn others(program: &Program) -> impl Iterator<Item = &'static Program> {
    let is_plain = program.name == PLAIN.name;
    PROGRAMS.iter().filter(move |other| is_plain && other.name != PLAIN.name)
}

fn of_command(program: &Program, command: &Command) -> Vec<Page> {
    let spec = &command.spec;
    let (page_name, section) = (name(program, Some(spec.name)), section(program));
    let mut roff = Roff::page(&page_name, section);
    roff.section("NAME").text(&format!("{page_name} - {}", spec.about));
    roff.section("SYNOPSIS");
    roff.synopsis(&program.typed(), &spec.usage());
    if let Some(alias) = spec.alias {
        roff.synopsis(&program.typed(), &format!("{alias} ..."));
    }
    roff.section("DESCRIPTION").text(&format!("{} {} {}.", program.typed(), spec.name, spec.about));
    for paragraph in text::more(&page_name) {
        roff.paragraph(paragraph);
    }
    if !spec.flags.is_empty() {
        roff.section("OPTIONS");
        spec.flags.iter().for_each(|flag| roff.item(&flag.spelling(), flag.help));
    }
    ending(&mut roff, program, Some(spec.name));
    let alias = spec.alias.map(|alias| name(program, Some(alias)));
    let others = alias.into_iter().chain(has_own_link(command).then(|| spec.name.to_owned()));
    let text = format!(".so man{section}/{page_name}.{section}\n");
    let others: Vec<Page> = others.map(|name| Page { name, section, text: text.clone() }).collect();
    std::iter::once(Page { name: page_name, section, text: roff.into_text() }).chain(others).collect()
}

fn ending(roff: &mut Roff, program: &Program, command: Option<&str>) {
    roff.section("EXIT STATUS");
    roff.paragraph("0 when it was done, 1 when it was refused or failed, 2 when its words were wrong.");
    roff.section("SEE ALSO");
    let others = PROGRAMS.iter().filter(|other| command.is_some() || other.name != program.name);
    roff.text(&others.map(|other| page_ref(other, None)).collect::<Vec<_>>().join(", "));
}

fn page_ref(program: &Program, command: Option<&str>) -> String {
    format!("{}({})", name(program, command), section(program))
}

#[cfg(test)]
mod tests;
