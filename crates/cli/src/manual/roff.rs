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

    /// A line of text.
    pub fn text(&mut self, text: &str) {
        _ = writeln!(self.0, "{}", escape(text));
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
        let is_first = self.0.lines().last().is_some_and(|line| line.starts_with(".SH"));
        self.0.push_str(if is_first { "" } else { ".PP\n" });
    }

    /// A term, and what it means.
    pub fn item(&mut self, term: &str, meaning: &str) {
        _ = writeln!(self.0, ".TP\n.B {}\n{}", quote(term), escape(meaning));
    }

    pub fn into_text(self) -> String {
        self.0
    }
}

/// A hyphen that is typed is one that can be copied; a line must not begin like a macro.
fn escape(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    let macro_like = text.starts_with('.') || text.starts_with('\'');
    if macro_like { format!("\\&{text}") } else { text }
}

/// As one argument of a macro.
fn quote(text: &str) -> String {
    format!("\"{}\"", escape(text).replace('"', "\\(dq"))
}
