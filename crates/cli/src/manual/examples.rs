//! The examples of the manual, as the tests run them.

use super::markup::{Passage, parse};
use super::texts::TEXTS;

/// The examples of one page.
pub struct PageExamples {
    /// The file name of the page, such as `zpool-create.8`.
    pub page: &'static str,
    /// Commands that prepare the examples and are not shown.
    pub before: Vec<&'static str>,
    /// The examples, in order.
    pub examples: Vec<ManualExample>,
}

/// The commands of one block of code.
pub struct ManualExample {
    /// The reason why the tests do not run the example.
    pub not_run: Option<&'static str>,
    /// The commands, in order.
    pub steps: Vec<ExampleStep>,
}

/// A command and its output.
pub struct ExampleStep {
    /// True for a command of root, false for a command of another user.
    pub is_roots: bool,
    /// The command line of a shell.
    pub command: &'static str,
    /// The lines that the page shows. An empty list shows nothing about the output.
    pub output: Vec<&'static str>,
}

/// The examples of all pages.
#[must_use]
pub fn examples() -> Vec<PageExamples> {
    TEXTS.iter().map(|(page, text)| of_page(page, text)).collect()
}

fn of_page(page: &'static str, text: &'static str) -> PageExamples {
    let mut found = PageExamples { page, before: Vec::new(), examples: Vec::new() };
    let mut not_run = None;
    for passage in parse(text).into_iter().flat_map(|chapter| chapter.passages) {
        match passage {
            Passage::Before(command) => found.before.push(command),
            Passage::NotRun(reason) => not_run = Some(reason),
            Passage::Code(lines) => {
                let steps = steps(&lines);
                if !steps.is_empty() {
                    found.examples.push(ManualExample { not_run: not_run.take(), steps });
                }
            }
            Passage::Heading(_) | Passage::Paragraph(_) | Passage::Item(..) => {}
        }
    }
    found
}

fn steps(lines: &[&'static str]) -> Vec<ExampleStep> {
    let mut steps: Vec<ExampleStep> = Vec::new();
    for line in lines {
        let of_root = line.strip_prefix("# ").map(|command| (true, command));
        let command = of_root.or_else(|| line.strip_prefix("$ ").map(|command| (false, command)));
        match (command, steps.last_mut()) {
            (Some((is_roots, command)), _) => {
                steps.push(ExampleStep { is_roots, command, output: Vec::new() });
            }
            (None, Some(step)) => step.output.push(line),
            (None, None) => {}
        }
    }
    steps
}
