//! Gives `zpool status` and `zfs diff` colours on a terminal, if the variable `ZFS_COLOR` asks for
//! colours (zpool(8) of OpenZFS).
//!
//! ```text
//!  the command ─► text without control characters ─► line by line: the same text, between escape sequences ─► the terminal
//! ```
//! The commands do not know of colours. The painter sees the meaning of a line in its first word
//! and its columns. An image cannot bring a sequence of its own, because the filter of [`super`]
//! comes first.

use std::io::{self, Write};
use std::iter;

use crate::environment::is_set;

const RESET: &str = "\x1b[0m";
const BOLD: &str = "\x1b[1m";
const RED: &str = "\x1b[0;31m";
const GREEN: &str = "\x1b[0;32m";
const YELLOW: &str = "\x1b[0;33m";
const BRIGHT_BLUE: &str = "\x1b[1;34m";

/// Adds colours to a line, which has no newline at its end.
pub type Painter = Box<dyn FnMut(&str) -> String>;

/// Returns the painter of a command, if the command has colours and the user wants colours.
pub fn of(program: &str, command: &str) -> Option<Painter> {
    let term = std::env::var("TERM").unwrap_or_default();
    let is_wanted = is_set("ZFS_COLOR") && !is_set("NO_COLOR") && !["", "dumb", "unknown"].contains(&&*term);
    let painter: Painter = match (program, command) {
        ("zpool", "status") => Box::new(painter_of_status()),
        ("zfs", "diff") => Box::new(difference),
        _ => return None,
    };
    is_wanted.then_some(painter)
}

fn painted(colour: &str, text: &str) -> String {
    format!("{colour}{text}{RESET}")
}

/// The subject of the lines that follow a line of a status.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The fault of the pool, or the advice for the operator.
    Advice,
    /// The vdevs.
    Vdevs,
    Other,
}

fn painter_of_status() -> impl FnMut(&str) -> String {
    let mut part = Part::Other;
    move |line| {
        if let Some(rest) = line.strip_prefix('\t') {
            return match part {
                Part::Advice => painted(YELLOW, line),
                Part::Vdevs if rest.starts_with("NAME ") => painted(BOLD, line),
                Part::Vdevs => vdev(line),
                Part::Other => line.to_owned(),
            };
        }
        let Some((key, rest)) = line.split_once(':') else { return line.to_owned() };
        let word = key.trim_start();
        part = match word {
            "status" | "action" => Part::Advice,
            "config" => Part::Vdevs,
            _ => Part::Other,
        };
        let margin = &key[..key.len() - word.len()];
        // OpenZFS prints some of these words with the blank behind the colon in bold, and some
        // without.
        let bold = |is_wide: bool| painted(BOLD, &format!("{word}:{}", if is_wide { " " } else { "" }));
        let value = rest.trim_start();
        match word {
            "state" => format!("{margin}{}{}", bold(true), health(value, value)),
            "status" | "action" => format!("{margin}{}{}", bold(true), painted(YELLOW, value)),
            "remove" => format!("{margin}{}{value}", bold(true)),
            "pool" | "see" | "scan" | "config" => format!("{margin}{}{rest}", bold(false)),
            "errors" if value.contains("use '-v' for a list") => painted(RED, line),
            _ => line.to_owned(),
        }
    }
}

/// The text in the colour of a state.
fn health(state: &str, text: &str) -> String {
    match state {
        "FAULTED" | "SUSPENDED" | "UNAVAIL" => painted(RED, text),
        "OFFLINE" | "DEGRADED" | "REMOVED" => painted(YELLOW, text),
        _ => text.to_owned(),
    }
}

/// A line of a vdev: name, state, and the numbers of read, write and checksum errors.
fn vdev(line: &str) -> String {
    /// The width of a state in its column.
    const STATE_WIDTH: usize = 8;
    const COUNTS: usize = 3;
    let mut words = words(line).skip(1);
    let Some((at, state)) = words.next() else { return line.to_owned() };
    let end = (at + state.len().max(STATE_WIDTH)).min(line.len());
    let (Some(head), Some(mut rest)) = (line.get(..end), line.get(end..)) else { return line.to_owned() };
    let mut text = health(state, head);
    for (_, count) in words.take(COUNTS) {
        let is_error = count.starts_with(|c: char| c.is_ascii_digit()) && count != "0";
        let Some((before, after)) = rest.split_once(count).filter(|_| is_error || count == "0") else {
            break;
        };
        text += before;
        text += &if is_error { painted(RED, count) } else { count.to_owned() };
        rest = after;
    }
    text + rest
}

/// The words of a line, each with its offset in bytes.
fn words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    iter::from_fn(move || {
        let rest = line.get(at..)?;
        let word = rest.trim_start();
        let begin = at + rest.len() - word.len();
        let word = word.split(char::is_whitespace).next().filter(|word| !word.is_empty())?;
        at = begin + word.len();
        Some((begin, word))
    })
}

/// A line of `zfs diff`: the kind of the change, after the time if there is one.
fn difference(line: &str) -> String {
    match line.split('\t').find(|word| word.len() == 1) {
        Some("+") => painted(GREEN, line),
        Some("-") => painted(RED, line),
        Some("M") => painted(YELLOW, line),
        Some("R") => painted(BRIGHT_BLUE, line),
        _ => line.to_owned(),
    }
}

/// Writes each line in the form that the painter returns.
pub struct Painted<W: Write> {
    inner: W,
    painter: Painter,
    /// The beginning of a line whose end has not been written yet.
    begun: Vec<u8>,
}

impl<W: Write> Painted<W> {
    pub fn new(inner: W, painter: Painter) -> Self {
        Self { inner, painter, begun: Vec::new() }
    }
}

impl<W: Write> Write for Painted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.begun.extend_from_slice(bytes);
        while let Some(end) = self.begun.iter().position(|byte| *byte == b'\n') {
            let rest = self.begun.split_off(end + 1);
            let line = String::from_utf8_lossy(&self.begun[..end]);
            let line = (self.painter)(&line) + "\n";
            self.begun = rest;
            self.inner.write_all(line.as_bytes())?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<W: Write> Drop for Painted<W> {
    fn drop(&mut self) {
        _ = self.inner.write_all(&self.begun);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "  pool: tank\n state: DEGRADED\nstatus: One or more devices\n\tis offline.\naction: Online it.\n  scan: \
                          none requested\nconfig:\n\n\tNAME        STATE     READ WRITE CKSUM\n\ttank        DEGRADED     0     \
                          0     0\n\t  b         FAULTED     12     0  1.2K  too many errors\n\t  c         ONLINE       0     0     \
                          0\n\nerrors: No known data errors\n";

    fn through(painter: Painter, text: &str) -> String {
        let mut out = Vec::new();
        let mut writer = Painted::new(&mut out, painter);
        text.as_bytes().chunks(7).for_each(|piece| writer.write_all(piece).expect("memory"));
        drop(writer);
        String::from_utf8(out).expect("text").replace('\x1b', "~")
    }

    #[test]
    fn a_status_has_the_colours_of_openzfs() {
        let lines = [
            "  ~[1mpool:~[0m tank",
            " ~[1mstate: ~[0m~[0;33mDEGRADED~[0m",
            "~[1mstatus: ~[0m~[0;33mOne or more devices~[0m",
            "~[0;33m\tis offline.~[0m",
            "~[1maction: ~[0m~[0;33mOnline it.~[0m",
            "  ~[1mscan:~[0m none requested",
            "~[1mconfig:~[0m",
            "",
            "~[1m\tNAME        STATE     READ WRITE CKSUM~[0m",
            "~[0;33m\ttank        DEGRADED~[0m     0     0     0",
            "~[0;31m\t  b         FAULTED ~[0m    ~[0;31m12~[0m     0  ~[0;31m1.2K~[0m  too many errors",
            "\t  c         ONLINE       0     0     0",
            "",
            "errors: No known data errors",
            "",
        ];
        assert_eq!(through(Box::new(painter_of_status()), STATUS), lines.join("\n"));
    }

    #[test]
    fn colours_change_no_character_of_the_text() {
        let painted = through(Box::new(painter_of_status()), STATUS);
        let plain = [RESET, BOLD, RED, YELLOW]
            .iter()
            .fold(painted, |text, colour| text.replace(&colour.replace('\x1b', "~"), ""));
        assert_eq!(plain, STATUS);
        for line in ["", "\t", "\tspares", "\t  a  AVAIL", "\ta b  ONLINE 0", "\tä ö ü", "no newline"] {
            assert_eq!(through(Box::new(painter_of_status()), line), line);
        }
    }

    #[test]
    fn differences_have_the_colour_of_their_kind() {
        let text =
            "+\t/tank/new\n1700000000.000000001\tM\tF\t/tank/a\nR\t/tank/b -> /tank/c\n-\t/tank/-\nother\n";
        let wanted = "~[0;32m+\t/tank/new~[0m\n~[0;33m1700000000.000000001\tM\tF\t/tank/a~[0m\n~[1;34mR\t/tank/b -> \
                      /tank/c~[0m\n~[0;31m-\t/tank/-~[0m\nother\n";
        assert_eq!(through(Box::new(difference), text), wanted);
    }
}
