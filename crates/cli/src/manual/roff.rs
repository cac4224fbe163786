//! The few man(7) macros that a page needs.

use std::fmt::Write;

/// When this version was released, as the foot of each page has it.
const DATE: &str = "2026-11-23";

/// A page that is being written.
pub(super) struct Roff(String);

impl Roff {
    /// With the name and the section that its head shows.
    pub fn page(name: &str, section: u8) -> Self {
        let version = env!("CARGO_PKG_VERSION");
        Self(format!(".TH {} {section} {DATE} \"Sawmill {version}\"\n", escape(&name.to_uppercase())))
    }

    /// A heading.
    pub fn section(&mut self, heading: &str) -> &mut Self {
        _ = writeln!(self.0, ".SH {heading}");
        self
    }

    /// A heading within a section.
    pub fn subsection(&mut self, heading: &str) {
        _ = writeln!(self.0, ".SS {}", escape(heading));
    }

    /// A line of text.
    pub fn text(&mut self, text: &str) {
        _ = writeln!(self.0, "{}", inline(text));
    }

    /// A paragraph of its own.
    pub fn paragraph(&mut self, text: &str) {
        self.part();
        self.text(text);
    }

    /// A line of the synopsis: what is typed, then what may follow.
    pub fn synopsis(&mut self, typed: &str, rest: &str) {
        self.part();
        _ = writeln!(self.0, ".B {}\n{}", escape(typed), escape(rest));
    }

    /// Parts paragraphs; a heading does so by itself.
    fn part(&mut self) {
        let is_heading = |line: &str| line.starts_with(".SH") || line.starts_with(".SS");
        let is_first = self.0.lines().last().is_some_and(is_heading);
        self.0.push_str(if is_first { "" } else { ".PP\n" });
    }

    /// A term, and what it means.
    pub fn item(&mut self, term: &str, meaning: &str) {
        _ = writeln!(self.0, ".TP\n.B {}\n{}", quote(term), inline(meaning));
    }

    /// Lines that are shown as they are.
    pub fn code<'a>(&mut self, lines: impl IntoIterator<Item = &'a str>) {
        self.0.push_str(".RS 4\n.PP\n.nf\n");
        for line in lines {
            _ = writeln!(self.0, "{}", escape(line));
        }
        self.0.push_str(".fi\n.RE\n");
    }

    pub fn into_text(self) -> String {
        self.0
    }
}

/// Text in which backquotes mark literal words and references to pages are recognized.
fn inline(text: &str) -> String {
    let mut line = String::new();
    for (place, piece) in text.split('`').enumerate() {
        match place % 2 {
            0 => line.push_str(&with_references(piece)),
            _ => _ = write!(line, "\\fB{}\\fR", escaped(piece)),
        }
    }
    guarded(line)
}

/// Sets the names of pages such as `zpool(8)` in bold type.
fn with_references(text: &str) -> String {
    let bold = |word: &str| {
        let (name, end) = word.split_once('(').filter(|(name, end)| is_reference(name, end))?;
        Some(format!("\\fB{}\\fR({}", escaped(name), escaped(end)))
    };
    let words = text.split(' ').map(|word| bold(word).unwrap_or_else(|| escaped(word)));
    words.collect::<Vec<_>>().join(" ")
}

fn is_reference(name: &str, end: &str) -> bool {
    let is_section =
        end.split_once(')').is_some_and(|(section, _)| matches!(section, "1" | "2" | "4" | "5" | "7" | "8"));
    is_section && !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c))
}

/// A line of text as roff reads it.
fn escape(text: &str) -> String {
    guarded(escaped(text))
}

/// A hyphen that is typed is one that can be copied.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-")
}

/// A line must not begin like a macro.
fn guarded(line: String) -> String {
    let macro_like = line.starts_with('.') || line.starts_with('\'');
    if macro_like { format!("\\&{line}") } else { line }
}

/// As one argument of a macro.
fn quote(text: &str) -> String {
    format!("\"{}\"", escape(text).replace('"', "\\(dq"))
}
