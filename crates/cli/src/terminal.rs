//! What this program prints, without the control characters of names and values on a terminal.
//!
//! Names, hosts and paths come from labels of images, and values from other users. An escape sequence
//! in them could change what root sees, or what root's terminal does.
//!
//! ```text
//!  writeln!(session.out()), println! ─► standard output ─┬─ a terminal ─► control characters become ?
//!  eprintln!, Session::complain ──────► standard error ──┘  others ─────► every byte as it is
//! ```
//! Whether a stream is a terminal is decided for each stream by itself. Scripts read pipes and files,
//! and see what OpenZFS prints. Newlines and tabs stay, because lists are made of them.
//!
//! Two writers go around this module: `sawmill cat`, because contents are no names, and the screen of
//! `sawmill top`, which has a filter of its own.

use std::borrow::Cow;
use std::io::{self, BufWriter, IsTerminal, Write};

use paint::{Painted, Painter};

pub mod paint;

/// Printed in the place of a control character, as `ls` and the history of pools have it.
const MARK: char = '?';

/// As that of the standard library, through this module.
macro_rules! println {
    ($($words:tt)*) => { $crate::terminal::print(&format!("{}\n", format_args!($($words)*))) };
}

/// As that of the standard library, through this module.
macro_rules! eprintln {
    ($($words:tt)*) => { $crate::terminal::complain(&format!("{}\n", format_args!($($words)*))) };
}

/// As that of the standard library, through this module.
macro_rules! eprint {
    ($($words:tt)*) => { $crate::terminal::complain(&format!($($words)*)) };
}

/// Standard output, for a command.
pub fn stdout() -> Box<dyn Write> {
    painted(None)
}

/// Standard output for a command whose lines have colours on a terminal.
pub fn painted(painter: Option<Painter>) -> Box<dyn Write> {
    let out = io::stdout();
    match (out.is_terminal(), painter) {
        (true, Some(painter)) => Box::new(BufWriter::new(Plain::new(Painted::new(out, painter)))),
        (true, None) => Box::new(BufWriter::new(Plain::new(out))),
        (false, _) => Box::new(BufWriter::new(out)),
    }
}

/// Standard output for contents, on a terminal too.
pub fn contents() -> io::Stdout {
    io::stdout()
}

/// Prints text to standard output. A reader that has gone away is no error.
pub fn print(text: &str) {
    _ = write(&mut io::stdout(), text);
}

/// Prints text to standard error.
pub fn complain(text: &str) {
    _ = write(&mut io::stderr(), text);
}

fn write(to: &mut (impl Write + IsTerminal), text: &str) -> io::Result<()> {
    let text = if to.is_terminal() { plain(text) } else { Cow::Borrowed(text) };
    to.write_all(text.as_bytes())
}

/// The text with a question mark for each control character that is neither a newline nor a tab.
pub fn plain(text: &str) -> Cow<'_, str> {
    let is_kept = |c: char| !c.is_control() || c == '\n' || c == '\t';
    match text.chars().all(is_kept) {
        true => Cow::Borrowed(text),
        false => text.chars().map(|c| if is_kept(c) { c } else { MARK }).collect(),
    }
}

/// Writes what [`plain`] makes of text, however the text is cut into pieces. Bytes that are no UTF-8
/// become question marks, because some terminals take them for control characters.
struct Plain<W: Write> {
    inner: W,
    /// The beginning of a character whose end has not been written yet.
    begun: Vec<u8>,
}

impl<W: Write> Plain<W> {
    fn new(inner: W) -> Self {
        Self { inner, begun: Vec::new() }
    }
}

impl<W: Write> Write for Plain<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let joined = [&std::mem::take(&mut self.begun), bytes].concat();
        let mut rest = joined.as_slice();
        let mut text = String::with_capacity(rest.len());
        while let Some(chunk) = rest.utf8_chunks().next() {
            text += &plain(chunk.valid());
            let (valid, wrong) = (chunk.valid().len(), chunk.invalid());
            rest = &rest[valid..];
            if is_begun(rest) {
                self.begun = rest.to_vec();
                break;
            }
            text.extend(wrong.iter().map(|_| MARK));
            rest = &rest[wrong.len()..];
        }
        self.inner.write_all(text.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<W: Write> Drop for Plain<W> {
    /// A character that has no end is no character.
    fn drop(&mut self) {
        let marks: String = self.begun.iter().map(|_| MARK).collect();
        _ = self.inner.write_all(marks.as_bytes());
    }
}

/// True if the bytes can become one character by more bytes.
fn is_begun(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> String {
        let mut out = Vec::new();
        let mut writer = Plain::new(&mut out);
        for piece in pieces {
            writer.write_all(piece).expect("memory");
            writer.flush().expect("memory");
        }
        drop(writer);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn control_characters_become_question_marks_and_other_text_stays() {
        for (text, expected) in [
            ("tank\tONLINE\n", "tank\tONLINE\n"),
            ("a\x1b]0;evil\x07b", "a?]0;evil?b"),
            ("\0\x01\r\x0b\x7f", "?????"),
            ("\u{80}\u{9b}31m\u{9f}", "??31m?"),
            ("\u{a0}é 日本 🙂 ├── ", "\u{a0}é 日本 🙂 ├── "),
        ] {
            assert_eq!(plain(text), expected);
            assert_eq!(printed([text.as_bytes()]), expected);
        }
        assert_eq!(printed([b"\x9b31m\xff\xc3".as_slice()]), "?31m??", "no UTF-8");
    }

    #[test]
    fn text_is_the_same_however_it_is_cut() {
        let text = "é\u{9b}日\x1b[2J🙂\n".as_bytes();
        let whole = printed([text]);
        assert_eq!(whole, "é?日?[2J🙂\n");
        for cut in 0..=text.len() {
            assert_eq!(printed([&text[..cut], &text[cut..]]), whole, "cut at {cut}");
        }
        assert_eq!(printed(text.chunks(1)), whole);
        assert_eq!(printed([b"\xf0\x9f".as_slice(), b"x"]), "??x", "a character without an end");
    }

    /// Nothing else in this crate prints, so that no command can forget the filter.
    #[test]
    fn only_this_module_opens_standard_output_and_standard_error() {
        let mut dirs = vec![std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))];
        let mut found = Vec::new();
        while let Some(dir) = dirs.pop() {
            for entry in std::fs::read_dir(dir).expect("sources") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    dirs.push(path);
                } else if !path.ends_with("terminal.rs") {
                    let text = std::fs::read_to_string(&path).expect("a source");
                    let opens = |line: &&str| line.contains("stdout()") || line.contains("stderr()");
                    let is_asked =
                        |line: &&str| line.contains(".is_terminal()") || line.contains("terminal::");
                    let lines = text.lines().filter(opens).filter(|line| !is_asked(line));
                    found.extend(lines.map(|line| format!("{}: {line}", path.display())));
                }
            }
        }
        // The bar draws itself; its names go through `plain`.
        found.retain(|line| !line.contains("ProgressDrawTarget::stderr()"));
        assert!(found.is_empty(), "{found:#?}");
    }
}
