//! `sawmill ls`: what is in directories, as coreutils' ls(1) shows it.

mod long;

use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, Stop};
use crate::visit::place::{Place, common_pool};
use crate::visit::{Access, FORCE, SEARCH, Visit, words};
use long::LongList;
pub(crate) use long::names;
use sawmill::{Attributes, FileKind, Files};
use zpl::ZplError;

pub const COMMAND: Command = Command::new(
    Spec {
        name: "ls",
        alias: None,
        about: "lists directories of a pool that is not in use",
        flags: &[
            Flag::switch('a', "also names that begin with a dot"),
            FORCE,
            Flag::switch('h', "with -l: sizes like 1.5K"),
            Flag::switch('l', "with modes, owners, sizes and times"),
            Flag::switch('n', "with -l: owners by number"),
            Flag::switch('R', "with all directories below"),
            SEARCH,
        ],
        operands: "<pool/filesystem[@snapshot][:path]> ...",
    },
    run,
);

/// One line.
struct Line {
    name: Vec<u8>,
    attributes: Attributes,
    /// Text of a symbolic link.
    target: Option<Vec<u8>>,
}

fn run(session: &mut Session, args: &Args) -> Outcome {
    let places = args.operands.iter().map(|text| Place::parse(text)).collect::<Result<Vec<_>, _>>()?;
    let visit = Visit::open(args, common_pool(&places)?, Access::Read)?;
    let mut listing = Listing { visit: &visit, args, blocks: 0, code: 0 };
    let mut directories = Vec::new();
    let mut files = Vec::new();
    for place in &places {
        let opened = visit.files(place)?;
        // As ls does: a link to a directory is followed, but for -l.
        let follow = !args.has('l') || place.path.ends_with('/') || place.path.is_empty();
        match visit.env().block_on(opened.spot(&place.path, follow)) {
            Ok(spot) => match spot.node {
                Some(node) if node.kind == FileKind::Directory => directories.push((place, opened, node)),
                Some(node) => files.push(listing.line(&opened, place.text.clone().into_bytes(), node)),
                None => listing.cannot_access(&place.text, &words::file(&ZplError::NotFound)),
            },
            Err(error) => listing.cannot_access(&place.text, &words::reason(&error)),
        }
    }
    listing.print(session, &files)?;
    let with_titles = places.len() > 1 || args.has('R');
    for (place, opened, node) in &directories {
        let title = with_titles.then(|| place.text.clone().into_bytes());
        listing.directory(session, opened, node, title)?;
    }
    Ok(visit.code(listing.code))
}

struct Listing<'a> {
    visit: &'a Visit,
    args: &'a Args,
    /// Whether a blank line is needed before the next title.
    blocks: usize,
    code: u8,
}

impl Listing<'_> {
    fn cannot_access(&mut self, what: &str, reason: &str) {
        eprintln!("ls: cannot access '{what}': {reason}");
        self.code = 2;
    }

    /// A directory's lines, and with `-R` those of the directories in it.
    fn directory(
        &mut self,
        session: &mut Session,
        files: &Files,
        node: &Attributes,
        title: Option<Vec<u8>>,
    ) -> Result<(), Stop> {
        let mut todo = vec![(title, node.object)];
        while let Some((title, dir)) = todo.pop() {
            let entries = match self.visit.env().block_on(files.entries(dir)) {
                Ok(entries) => entries,
                Err(error) => {
                    let title = title.as_deref().map(String::from_utf8_lossy).unwrap_or_default();
                    self.cannot_access(&title, &words::file(&error));
                    continue;
                }
            };
            if let Some(title) = &title {
                let gap: &[u8] = if self.blocks > 0 { b"\n" } else { b"" };
                session.out().write_all(&[gap, title, b":\n"].concat())?;
            }
            let mut lines = Vec::new();
            if self.args.has('a') {
                lines.extend(self.dots(files, dir));
            }
            for entry in entries.into_iter().filter(|e| self.args.has('a') || !e.name.starts_with(b".")) {
                match self.visit.env().block_on(files.zfs().attributes(entry.object)) {
                    Ok(attributes) => lines.push(self.line(files, entry.name, attributes)),
                    Err(error) => {
                        self.cannot_access(&String::from_utf8_lossy(&entry.name), &words::file(&error));
                    }
                }
            }
            if self.args.has('l') {
                let sectors: u64 = lines.iter().map(|line| line.attributes.sectors).sum();
                writeln!(session.out(), "total {}", long::blocks(sectors, self.args.has('h')))?;
            }
            self.print(session, &lines)?;
            self.blocks += 1;
            if let (true, Some(title)) = (self.args.has('R'), title) {
                todo.extend(below(&title, &lines).rev());
            }
        }
        Ok(())
    }

    /// `.` and `..`.
    fn dots(&mut self, files: &Files, dir: units::ObjectId) -> Vec<Line> {
        let names = [b".".to_vec(), b"..".to_vec()];
        let find = |name: Vec<u8>| {
            let found = self.visit.env().block_on(files.zfs().lookup(dir, &name)).ok()?;
            Some(Line { name, attributes: found, target: None })
        };
        names.into_iter().filter_map(find).collect()
    }

    fn line(&mut self, files: &Files, name: Vec<u8>, attributes: Attributes) -> Line {
        let mut target = None;
        if attributes.kind == FileKind::Symlink && self.args.has('l') {
            match self.visit.env().block_on(files.zfs().readlink(attributes.object)) {
                Ok(text) => target = Some(text),
                Err(error) => self.cannot_access(&String::from_utf8_lossy(&name), &words::file(&error)),
            }
        }
        Line { name, attributes, target }
    }

    fn print(&mut self, session: &mut Session, lines: &[Line]) -> Result<(), Stop> {
        if lines.is_empty() {
            return Ok(());
        }
        self.blocks += 1;
        if self.args.has('l') {
            let list = LongList::new(lines, self.args.has('h'), self.args.has('n'));
            session.out().write_all(&list.text())?;
        } else {
            for line in lines {
                session.out().write_all(&[line.name.as_slice(), b"\n"].concat())?;
            }
        }
        Ok(())
    }
}

/// The directories among these lines, with their titles.
fn below<'a>(
    title: &'a [u8],
    lines: &'a [Line],
) -> impl DoubleEndedIterator<Item = (Option<Vec<u8>>, units::ObjectId)> + 'a {
    let is_below =
        |line: &&Line| line.attributes.kind == FileKind::Directory && line.name != b"." && line.name != b"..";
    lines.iter().filter(is_below).map(move |line| {
        let separator: &[u8] = match title.last() {
            Some(b'/' | b':') => b"",
            _ if title.contains(&b':') => b"/",
            _ => b":",
        };
        (Some([title, separator, &line.name].concat()), line.attributes.object)
    })
}
