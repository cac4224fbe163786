//! A request that was refused or went wrong, with the words to print.

use serde::{Deserialize, Serialize};

/// Why, for programs; people read [`Failure::stderr`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// No pool of that name is open, or found for import.
    NoSuchPool,
    /// No dataset of that name.
    NoSuchDataset,
    /// The name is taken.
    Exists,
    /// A pool, dataset or device is held by somebody.
    Busy,
    /// The request itself makes no sense: names, properties, vdev specification.
    Invalid,
    /// Not enough space.
    NoSpace,
    /// Devices are missing, broken or too small.
    Unavailable,
    /// This version cannot do it.
    Unsupported,
    /// The user may not do that.
    Denied,
    /// Anything else, I/O errors among it.
    Other,
}

/// A request that was refused or went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{}", stderr.join(" / "))]
pub struct Failure {
    /// Why, for programs.
    pub kind: FailureKind,
    /// The exit code of the command: 1 ordinary, 255 where scripts expect it.
    pub exit: u8,
    /// Lines for standard output (the list of missing logs goes there).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stdout: Vec<String>,
    /// Lines for standard error.
    pub stderr: Vec<String>,
}

impl Failure {
    /// An ordinary failure: exit code 1 and these lines.
    pub fn new(kind: FailureKind, line: impl Into<String>) -> Self {
        Self { kind, exit: 1, stdout: Vec::new(), stderr: vec![line.into()] }
    }

    /// `cannot VERB 'WHAT': REASON`, the shape of most refusals.
    pub fn cannot(kind: FailureKind, verb: &str, what: &str, reason: &str) -> Self {
        Self::new(kind, format!("cannot {verb} '{what}': {reason}"))
    }

    /// `cannot open 'NAME': no such pool`.
    pub fn no_such_pool(name: &str) -> Self {
        Self::cannot(FailureKind::NoSuchPool, "open", name, "no such pool")
    }

    /// `cannot open 'NAME': dataset does not exist`.
    pub fn no_such_dataset(name: &str) -> Self {
        Self::cannot(FailureKind::NoSuchDataset, "open", name, "dataset does not exist")
    }

    /// One more line on standard error.
    #[must_use]
    pub fn and(mut self, line: impl Into<String>) -> Self {
        self.stderr.push(line.into());
        self
    }

    /// Another exit code.
    #[must_use]
    pub fn exits(mut self, code: u8) -> Self {
        self.exit = code;
        self
    }

    /// Lines for standard output.
    #[must_use]
    pub fn telling(mut self, lines: Vec<String>) -> Self {
        self.stdout = lines;
        self
    }
}
