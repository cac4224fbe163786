//! Sentences in 80 columns, and figures in them.

use engine::nice::{bytes, number};

/// Columns of a terminal.
const WIDTH: usize = 80;

/// `262 µs`, `1.05 ms`, `12.3 s`.
pub fn micros(us: f64) -> String {
    let (value, unit) = match us {
        us if us < 1e3 => (us, "µs"),
        us if us < 1e6 => (us / 1e3, "ms"),
        us => (us / 1e6, "s"),
    };
    format!("{} {unit}", rate(value))
}

/// Three digits, more only before the point.
pub fn rate(value: f64) -> String {
    match value {
        value if value < 0.005 => "0".to_owned(),
        value if value < 10.0 => format!("{value:.2}"),
        value if value < 100.0 => format!("{value:.1}"),
        value if value < 10_000.0 => format!("{value:.0}"),
        value => number(value as u64),
    }
}

/// `1 commit`, `2 commits`.
pub fn count(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

pub fn size_of(size: f64) -> String {
    bytes(size.round() as u64)
}

/// What is printed, line by line.
#[derive(Default)]
pub struct Page(pub String);

impl Page {
    pub fn line(&mut self, words: &str) {
        self.wrap(words, "", "");
    }

    pub fn head(&mut self, words: &str) {
        self.0.push_str(&format!("\n{words}\n"));
    }

    pub fn item(&mut self, words: &str) {
        self.wrap(words, "  ", "    ");
    }

    pub fn below(&mut self, words: &str) {
        self.wrap(words, "    ", "    ");
    }

    /// Breaks lines between words; a word that is longer than a line has one for itself.
    fn wrap(&mut self, words: &str, first: &str, others: &str) {
        let (mut line, mut is_empty) = (first.to_owned(), true);
        for word in words.split_whitespace() {
            if !is_empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
                self.0.push_str(&line);
                self.0.push('\n');
                (line, is_empty) = (others.to_owned(), true);
            }
            if !is_empty {
                line.push(' ');
            }
            line.push_str(word);
            is_empty = false;
        }
        self.0.push_str(&line);
        self.0.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_between_words_at_80_columns() {
        let mut page = Page::default();
        let long = "x".repeat(90);
        page.item(&format!("{} {long} {}", ["word"; 20].join(" "), ["µs"; 40].join(" ")));
        let lines: Vec<&str> = page.0.lines().collect();
        assert!(lines.iter().all(|line| line.chars().count() <= WIDTH || line.trim() == long), "{lines:?}");
        assert!(lines[0].starts_with("  word") && lines[1].starts_with("    word"), "{lines:?}");
        assert_eq!(page.0.split_whitespace().count(), 61);
    }

    #[test]
    fn figures_have_as_many_digits_as_say_something() {
        assert_eq!([0.001, 1.234, 12.34, 1234.5, 123_456.0].map(rate), ["0", "1.23", "12.3", "1234", "121K"]);
        assert_eq!([262.1, 1048.6, 12_345_678.0].map(micros), ["262 µs", "1.05 ms", "12.3 s"]);
    }
}
