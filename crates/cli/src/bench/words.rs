//! What the flags of a bench say.

use std::path::PathBuf;

use crate::args::Args;
use bench::Refusal;

/// What was given, by name.
pub(super) struct Words<'a>(pub &'a Args);

impl Words<'_> {
    pub fn number(&self, name: &str, default: usize) -> Result<usize, Refusal> {
        Ok(self.numbers(name)?.last().copied().unwrap_or(default))
    }

    pub fn numbers(&self, name: &str) -> Result<Vec<usize>, Refusal> {
        let bad = |word: &str| Refusal::Usage(format!("bad number '{word}' for --{name}"));
        self.0.long_values(name).map(|word| word.parse().map_err(|_| bad(word))).collect()
    }

    pub fn bytes(&self, name: &str, default: u64) -> Result<u64, Refusal> {
        match self.one(name) {
            None => Ok(default),
            Some(word) => engine::memory::bytes(word)
                .ok_or_else(|| Refusal::Usage(format!("bad size '{word}' for --{name}"))),
        }
    }

    pub fn path(&self, name: &str) -> Result<PathBuf, Refusal> {
        self.one(name).map(PathBuf::from).ok_or_else(|| Refusal::Usage(format!("--{name} FILE is needed")))
    }

    pub fn paths(&self, name: &str) -> Vec<PathBuf> {
        self.0.long_values(name).map(PathBuf::from).collect()
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.has_long(name)
    }

    /// The last one, where it was given several times.
    pub fn one(&self, name: &str) -> Option<&str> {
        self.0.long_values(name).last()
    }

    /// All of them, for another process.
    pub fn typed(&self) -> &[String] {
        &self.0.typed
    }
}
