//! What a place in a usage line may hold: its name there says so.

use super::Offer;
use crate::args::Spec;
use crate::program::Program;
use engine::props::{Access, DATASET_PROPS, Kind, POOL_PROPS, PropDef};

/// Names that the daemon knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Names {
    /// Of open pools.
    Pools,
    /// Of their datasets.
    Datasets,
    /// Of snapshots and bookmarks of these.
    Snapshots,
}

/// A place of a command's usage line.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    program: &'a Program,
    spec: &'a Spec,
    name: &'a str,
}

impl<'a> Place<'a> {
    pub fn new(program: &'a Program, spec: &'a Spec, name: &'a str) -> Self {
        Self { program, spec, name }
    }

    /// What it may hold, where `begun` is there already.
    pub fn offers(self, begun: &str) -> Vec<Offer> {
        let has = |word: &str| self.name.contains(word);
        if has("property=value") {
            self.assignments(begun)
        } else if has("property") {
            self.properties(begun)
        } else if (has("filesystem") || has("newbookmark")) && !has(":path") {
            vec![Offer::Names(Names::Datasets)]
        } else if has("snapshot") {
            vec![Offer::Names(Names::Snapshots)]
        } else if has("pool") && !has("/") {
            // Those to be made or imported are not open yet.
            let is_open = !matches!(self.spec.name, "create" | "import");
            is_open.then_some(Offer::Names(Names::Pools)).into_iter().collect()
        } else if ["file", "vdev", "device", "dir", "root", "source", "path", "mountpoint"]
            .iter()
            .any(|w| has(w))
        {
            vec![Offer::Files]
        } else {
            self.words()
        }
    }

    /// `d|u`: the words themselves.
    fn words(self) -> Vec<Offer> {
        let is_word = |word: &str| word.chars().all(|c| c.is_ascii_alphanumeric());
        let words: Vec<&str> =
            self.name.split(['|', '<', '>', '[', ']', ' ']).filter(|w| !w.is_empty()).collect();
        let is_choice = self.name.contains('|') && words.iter().all(|word| is_word(word));
        words.into_iter().filter(|_| is_choice).map(|word| Offer::word(word, "")).collect()
    }

    fn table(self) -> &'static [PropDef] {
        let of_pool = self.program.name == "zpool" && !self.name.contains("file-system");
        if of_pool { POOL_PROPS } else { DATASET_PROPS }
    }

    /// `a,b,c`: the last one.
    fn properties(self, begun: &str) -> Vec<Offer> {
        let before = begun.rfind(',').map_or("", |comma| &begun[..=comma]);
        let all = self.name.contains("all").then(|| Offer::word("all", "every property"));
        let each =
            self.table().iter().map(|def| Offer::word(format!("{before}{}", def.name), &words_of(def)));
        all.into_iter().filter(|_| before.is_empty()).chain(each).collect()
    }

    /// `name=`, and behind that the words that it may be.
    fn assignments(self, begun: &str) -> Vec<Offer> {
        let may_be_set = |def: &&PropDef| def.access != Access::ReadOnly;
        let settable = self.table().iter().filter(may_be_set);
        match begun.split_once('=') {
            None => settable.map(|def| Offer::word(format!("{}=", def.name), &words_of(def))).collect(),
            Some((name, _)) => settable
                .filter(|def| def.name == name)
                .flat_map(|def| values(def).iter().map(|(word, _)| Offer::word(format!("{name}={word}"), "")))
                .collect(),
        }
    }
}

fn values(def: &PropDef) -> &'static [engine::props::Choice] {
    match def.kind {
        Kind::Choice { words, .. } => words,
        _ => &[],
    }
}

fn words_of(def: &PropDef) -> String {
    match def.kind {
        Kind::Choice { help, .. } => help.to_owned(),
        _ => String::new(),
    }
}

/// The places of a usage line that the operand of this number may be in. One with `...` behind it
/// may take any number.
pub(super) fn reached(operands: &str, number: usize) -> Vec<&str> {
    let all = split(operands);
    let first_open = all.iter().position(|&(_, repeats)| repeats);
    match first_open {
        Some(first) if number >= first => {
            all.iter().skip(first).take(number - first + 1).map(|(p, _)| *p).collect()
        }
        _ => all.get(number).map(|(place, _)| *place).into_iter().collect(),
    }
}

/// Places, and whether they repeat: split at blanks outside of brackets.
fn split(operands: &str) -> Vec<(&str, bool)> {
    let mut places: Vec<(&str, bool)> = Vec::new();
    let (mut depth, mut begin) = (0_u32, 0);
    for (at, letter) in operands.char_indices().chain([(operands.len(), ' ')]) {
        match letter {
            '<' | '[' => depth += 1,
            '>' | ']' => depth = depth.saturating_sub(1),
            ' ' if depth == 0 => {
                match (&operands[begin..at], places.last_mut()) {
                    ("...", Some((_, repeats))) => *repeats = true,
                    ("" | "--", _) => {}
                    (place, _) => places.push((place, place.contains(" ..."))),
                }
                begin = at + 1;
            }
            _ => {}
        }
    }
    places
}
