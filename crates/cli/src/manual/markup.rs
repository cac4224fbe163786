//! The markup of the texts of the manual (`crates/cli/manual/*.md`).
//!
//! ```text
//! # HEADING                    begins a chapter
//! ## Heading                   begins a part of a chapter
//! text                         a paragraph, up to an empty line
//! - `term`: text               an item; further lines of the item begin with two spaces
//!     # command                code, indented by four spaces: a command of root (`# `) or of a user (`$ `),
//!     output                   and what the command prints; the code may have empty lines
//! <!-- before: COMMAND -->     a command that the tests run before the examples of the page
//! <!-- not run: REASON -->     why the tests do not run the next code
//! ```
//! Backquotes mark what is typed or printed literally.

/// A part of a page under one heading.
#[derive(Debug)]
pub(super) struct Chapter {
    pub heading: &'static str,
    pub passages: Vec<Passage>,
}

/// A piece of a chapter.
#[derive(Debug)]
pub(super) enum Passage {
    /// A heading within the chapter.
    Heading(&'static str),
    Paragraph(String),
    /// A term and its meaning.
    Item(&'static str, String),
    /// Lines without the indentation.
    Code(Vec<&'static str>),
    /// A command that the tests run before the examples.
    Before(&'static str),
    /// The reason why the tests do not run the next code.
    NotRun(&'static str),
}

const CODE: &str = "    ";
const CONTINUED: &str = "  ";

/// Splits a text into chapters.
pub(super) fn parse(text: &'static str) -> Vec<Chapter> {
    let mut chapters = Vec::new();
    let mut is_joined = false;
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix("# ") {
            chapters.push(Chapter { heading, passages: Vec::new() });
            is_joined = false;
            continue;
        }
        let Some(chapter) = chapters.last_mut() else { continue };
        is_joined = !line.is_empty() && add(&mut chapter.passages, line, is_joined);
    }
    chapters
}

/// Adds a line to the passages of a chapter. `is_joined`: no empty line precedes the line. Returns true
/// if the next line may continue the passage.
fn add(passages: &mut Vec<Passage>, line: &'static str, is_joined: bool) -> bool {
    if let Some(code) = line.strip_prefix(CODE) {
        match passages.last_mut() {
            Some(Passage::Code(lines)) => lines.extend((!is_joined).then_some("").into_iter().chain([code])),
            _ => passages.push(Passage::Code(vec![code])),
        }
        return true;
    }
    let last = passages.last_mut().filter(|_| is_joined);
    match (read(line), last) {
        (Passage::Paragraph(_), Some(Passage::Item(_, text) | Passage::Paragraph(text))) => {
            text.push(' ');
            text.push_str(line.trim_start_matches(CONTINUED));
        }
        (passage, _) => passages.push(passage),
    }
    true
}

fn read(line: &'static str) -> Passage {
    let remark = |name: &str| line.strip_prefix("<!-- ")?.strip_prefix(name)?.strip_suffix(" -->");
    if let Some(heading) = line.strip_prefix("## ") {
        return Passage::Heading(heading);
    }
    if let Some(command) = remark("before: ") {
        return Passage::Before(command);
    }
    if let Some(reason) = remark("not run: ") {
        return Passage::NotRun(reason);
    }
    match line.strip_prefix("- `").and_then(|item| item.split_once("`: ")) {
        Some((term, text)) => Passage::Item(term, text.to_owned()),
        None => Passage::Paragraph(line.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mark_is_read() {
        let text = "# A\none\ntwo\n\n- `t`: an item\n  goes on\n- `u`: next\n\n    # c\n    out\n\n    end\n\n\
                    <!-- before: x -->\n<!-- not run: y -->\n## B\n\n# C\nlast\n";
        let chapters = parse(text);
        let passages = format!("{:?}", chapters[0].passages);
        assert_eq!(
            passages,
            "[Paragraph(\"one two\"), Item(\"t\", \"an item goes on\"), Item(\"u\", \"next\"), \
             Code([\"# c\", \"out\", \"\", \"end\"]), Before(\"x\"), NotRun(\"y\"), Heading(\"B\")]"
        );
        assert_eq!((chapters[1].heading, chapters.len()), ("C", 2));
    }
}
