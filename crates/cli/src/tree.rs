//! `sawmill tree`: a directory and all below it, as tree(1) draws it.

use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, Stop, usage};
use crate::visit::place::{Place, common_pool};
use crate::visit::{Access, FORCE, SEARCH, Visit, words};
use sawmill::{FileKind, Files, ListEntry};
use units::ObjectId;
use zpl::ZplError;

/// In front of a name, and in front of what is below it; blanks that do not break, as tree(1) has
/// them.
const BRANCH: &str = "├── ";
const LAST: &str = "└── ";
const PAST: &str = "│\u{a0}\u{a0} ";
const NOTHING: &str = "    ";

pub const COMMAND: Command = Command::new(
    Spec {
        name: "tree",
        alias: None,
        about: "draws a directory, and all below it, of a pool that is not in use",
        flags: &[
            Flag::switch('a', "also names that begin with a dot"),
            FORCE,
            Flag::value('L', "levels", "no deeper than this"),
            SEARCH,
        ],
        operands: "<pool/filesystem[@snapshot][:path]>",
    },
    run,
);

fn run(session: &mut Session, args: &Args) -> Outcome {
    let [text] = args.operands.as_slice() else { return usage("one place is needed") };
    let place = Place::parse(text)?;
    let levels = match args.value('L').map(str::parse::<usize>) {
        None => usize::MAX,
        Some(Ok(levels)) if levels > 0 => levels,
        Some(_) => return usage("invalid number of levels"),
    };
    let visit = Visit::open(args, common_pool(std::slice::from_ref(&place))?, Access::Read)?;
    let files = visit.files(&place)?;
    let root = match visit.env().block_on(files.metadata(&place.path)) {
        Ok(root) => root,
        Err(error) => {
            eprintln!("tree: {}: {}", place.text, words::reason(&error));
            return Ok(1);
        }
    };
    writeln!(session.out(), "{}", place.text)?;
    let all = args.has('a');
    let mut drawing =
        Drawing { visit: &visit, files: &files, levels, all, directories: 0, others: 0, failed: false };
    if root.kind == FileKind::Directory {
        drawing.below(session, root.object, &mut String::new(), 1)?;
    }
    let (directories, others) = (counted(drawing.directories, "directory"), counted(drawing.others, "file"));
    writeln!(session.out(), "\n{directories}, {others}")?;
    Ok(visit.code(u8::from(drawing.failed)))
}

fn counted(count: usize, what: &str) -> String {
    match (count, what) {
        (1, what) => format!("1 {what}"),
        (count, "directory") => format!("{count} directories"),
        (count, what) => format!("{count} {what}s"),
    }
}

/// What has been drawn so far.
struct Drawing<'a> {
    visit: &'a Visit,
    files: &'a Files,
    /// Deepest level to draw.
    levels: usize,
    /// Names that begin with a dot, too.
    all: bool,
    directories: usize,
    others: usize,
    failed: bool,
}

impl Drawing<'_> {
    /// What is below a directory; `indent` is what stands in front of it.
    fn below(
        &mut self,
        session: &mut Session,
        dir: ObjectId,
        indent: &mut String,
        level: usize,
    ) -> Result<(), Stop> {
        let mut entries = match self.visit.env().block_on(self.files.entries(dir)) {
            Ok(entries) => entries,
            Err(error) => return self.fail(&words::file(&error)),
        };
        entries.retain(|entry| self.all || !entry.name.starts_with(b"."));
        let last = entries.len().saturating_sub(1);
        for (place, entry) in entries.iter().enumerate() {
            let (branch, deeper) = if place == last { (LAST, NOTHING) } else { (BRANCH, PAST) };
            write!(session.out(), "{indent}{branch}")?;
            session.out().write_all(&entry.name)?;
            match self.kind(entry) {
                Ok(kind) => self.one(session, entry, kind)?,
                Err(error) => {
                    writeln!(session.out())?;
                    self.fail(&words::file(&error))?;
                    continue;
                }
            }
            if entry.kind == Some(FileKind::Directory) && level < self.levels {
                let outer = indent.len();
                indent.push_str(deeper);
                self.below(session, entry.object, indent, level + 1)?;
                indent.truncate(outer);
            }
        }
        Ok(())
    }

    fn kind(&self, entry: &ListEntry) -> Result<FileKind, ZplError> {
        match entry.kind {
            Some(kind) => Ok(kind),
            None => Ok(self.visit.env().block_on(self.files.zfs().attributes(entry.object))?.kind),
        }
    }

    /// The rest of an entry's line.
    fn one(&mut self, session: &mut Session, entry: &ListEntry, kind: FileKind) -> Result<(), Stop> {
        match kind {
            FileKind::Directory => self.directories += 1,
            _ => self.others += 1,
        }
        if kind == FileKind::Symlink {
            match self.visit.env().block_on(self.files.zfs().readlink(entry.object)) {
                Ok(target) => {
                    session.out().write_all(b" -> ")?;
                    session.out().write_all(&target)?;
                }
                Err(error) => self.fail(&words::file(&error))?,
            }
        }
        Ok(writeln!(session.out())?)
    }

    fn fail(&mut self, reason: &str) -> Result<(), Stop> {
        eprintln!("tree: {reason}");
        self.failed = true;
        Ok(())
    }
}
