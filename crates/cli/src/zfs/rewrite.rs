//! `zfs rewrite`: blocks of files on mounts are written anew. It asks no daemon but the file system itself, by an `ioctl`
//! on each file, so that whoever may write to a file may do so.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::iter::successors;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use device::Rewrite;
use engine::refusal;
use rustix::fs::SeekFrom;
use rustix::io::Errno;

use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, usage};

pub const COMMAND: Command = Command::new(
    Spec {
        name: "rewrite",
        alias: None,
        about: "writes blocks of files anew, as the properties of their file system are now",
        flags: &[
            Flag::switch(
                'P',
                "keep the blocks' times of birth; takes the feature physical_rewrite, which no pool here has",
            ),
            Flag::switch('r', "directories with all below them"),
            Flag::switch('v', "tell which files were rewritten"),
            Flag::switch('x', "stay in the file system that a directory is in"),
            Flag::value('o', "offset", "from this byte on"),
            Flag::value('l', "length", "as many bytes at most"),
        ],
        operands: "<directory|file ...>",
    },
    run,
);

/// Bytes that are asked for at a time, so that a command that is interrupted ends soon. A multiple of what a block can be.
const PIECE_BYTES: u64 = 64 << 20;

/// What is asked for.
struct Work<'a> {
    args: &'a Args,
    offset: u64,
    /// 0: all to the end.
    len: u64,
    /// The number of the last error, which is what the command exits with.
    failed: u8,
}

/// A directory that is to be gone through, and the device of the one that was named.
struct Below {
    path: PathBuf,
    device: u64,
}

fn run(session: &mut Session, args: &Args) -> Outcome {
    if args.operands.is_empty() {
        return usage("missing file or directory target(s)");
    }
    let number = |flag| args.value(flag).map_or(0, leading_number);
    let mut work = Work { args, offset: number('o'), len: number('l'), failed: 0 };
    let mut directories = VecDeque::new();
    for target in &args.operands {
        work.target(session, Path::new(target), &mut directories)?;
    }
    while let Some(directory) = directories.pop_front() {
        work.directory(session, &directory, &mut directories)?;
    }
    Ok(work.failed)
}

/// The number that a text begins with, as strtoll(3) reads it with base 0; one below zero keeps its bits.
fn leading_number(text: &str) -> u64 {
    let text = text.trim_start();
    let (is_negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (digits, radix) = match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None if text.starts_with('0') => (text, 8),
        None => (text, 10),
    };
    let end = digits.find(|digit: char| !digit.is_digit(radix)).unwrap_or(digits.len());
    let most = i64::MAX as u64;
    let value = match &digits[..end] {
        "" => 0,
        digits => u64::from_str_radix(digits, radix).unwrap_or(most).min(most),
    };
    if is_negative { value.wrapping_neg() } else { value }
}

/// Splits a file into the pieces that are rewritten. The first piece is always included, so that
/// the file system can refuse the request. Of the others, only pieces with data are included.
fn pieces(all: Range<u64>, next_data: impl Fn(u64) -> Option<u64>) -> impl Iterator<Item = Range<u64>> {
    let piece = move |at: u64| at..(at - at % PIECE_BYTES).saturating_add(PIECE_BYTES).min(all.end);
    let is_asked = move |at: &u64| *at < all.end;
    successors(Some(piece(all.start)), move |last| next_data(last.end).filter(is_asked).map(&piece))
}

/// Returns the offset of the first data from `at` on, if there is any.
fn next_data(file: &File, at: u64) -> Option<u64> {
    match rustix::fs::seek(file, SeekFrom::Data(at)) {
        Ok(data) => Some(data),
        // There is no data after `at`, or no file is that long.
        Err(Errno::NXIO | Errno::OVERFLOW) => None,
        // The file system does not report holes, so everything counts as data.
        Err(_) => file.metadata().ok().filter(|of| at < of.len()).map(|_| at),
    }
}

impl Work<'_> {
    fn target(&mut self, session: &mut Session, path: &Path, found: &mut VecDeque<Below>) -> io::Result<()> {
        match fs::symlink_metadata(path) {
            Err(error) => self.fail("stat", path, &error),
            Ok(of) if of.is_file() => self.file(session, path)?,
            Ok(of) if of.is_dir() && self.args.has('r') => {
                self.directory(session, &Below { path: path.to_owned(), device: of.dev() }, found)?;
            }
            Ok(_) => {}
        }
        Ok(())
    }

    /// Rewrites the files of a directory; its directories are only found.
    fn directory(
        &mut self,
        session: &mut Session,
        directory: &Below,
        found: &mut VecDeque<Below>,
    ) -> io::Result<()> {
        let entries = match fs::read_dir(&directory.path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => {
                self.fail("opendir", &directory.path, &error);
                return Ok(());
            }
        };
        for entry in entries.filter_map(Result::ok) {
            let (Ok(kind), path) = (entry.file_type(), entry.path()) else { continue };
            if !(kind.is_file() || kind.is_dir()) || !self.is_wanted(&path, directory.device) {
                continue;
            }
            if kind.is_dir() {
                found.push_back(Below { path, device: directory.device });
            } else {
                self.file(session, &path)?;
            }
        }
        Ok(())
    }

    /// Whether it lies on the device that is not to be left.
    fn is_wanted(&mut self, path: &Path, device: u64) -> bool {
        if !self.args.has('x') {
            return true;
        }
        match fs::symlink_metadata(path) {
            Ok(of) => of.dev() == device,
            Err(error) => {
                self.fail("stat", path, &error);
                false
            }
        }
    }

    fn file(&mut self, session: &mut Session, path: &Path) -> io::Result<()> {
        match OpenOptions::new().write(true).open(path) {
            Err(error) => self.fail("open", path, &error),
            Ok(file) => match self.rewrite(&file) {
                Err(error) => self.fail("rewrite", path, &error),
                Ok(()) if self.args.has('v') => writeln!(session.out(), "{}", path.display())?,
                Ok(()) => {}
            },
        }
        Ok(())
    }

    fn rewrite(&self, file: &File) -> io::Result<()> {
        let flags = if self.args.has('P') { Rewrite::PHYSICAL } else { 0 };
        let end = match self.len {
            0 => u64::MAX,
            len => self.offset.saturating_add(len),
        };
        for piece in pieces(self.offset..end, |at| next_data(file, at)) {
            Rewrite::new(piece.start, piece.end - piece.start, flags).ask(file)?;
        }
        Ok(())
    }

    fn fail(&mut self, what: &str, path: &Path, error: &io::Error) {
        self.failed = error.raw_os_error().and_then(|number| u8::try_from(number).ok()).unwrap_or(1);
        eprintln!("failed to {what} {}: {}", path.display(), refusal::words(error));
    }
}

#[cfg(test)]
mod tests {
    use super::{PIECE_BYTES, leading_number, pieces};

    #[test]
    fn holes_are_asked_for_in_no_piece_but_the_first() {
        let asked = |all: std::ops::Range<u64>, data: &[u64]| {
            let pieces = pieces(all, |at| data.iter().copied().find(|&data| data >= at));
            pieces.map(|piece| (piece.start, piece.end)).collect::<Vec<_>>()
        };
        let (end, far) = (PIECE_BYTES, (1 << 62) + 5);
        let far_end = (1 << 62) + PIECE_BYTES;
        assert_eq!(asked(0..u64::MAX, &[]), [(0, end)]);
        assert_eq!(asked(0..u64::MAX, &[1, end + 7, far]), [(0, end), (end + 7, 2 * end), (far, far_end)]);
        assert_eq!(asked(10..far, &[far]), [(10, end)], "what is asked for ends before");
        assert_eq!(asked(10..far + 1, &[far]), [(10, end), (far, far + 1)]);
    }

    #[test]
    fn numbers_are_read_as_in_c() {
        assert_eq!(["4096", "0x10", "010", " 12k", "x", ""].map(leading_number), [4096, 16, 8, 12, 0, 0]);
        assert_eq!(leading_number("-1"), u64::MAX);
        assert_eq!(leading_number("99999999999999999999"), i64::MAX as u64);
    }
}
