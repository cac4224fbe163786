//! Which datasets a command line means.

use crate::session::{Session, Stop, usage};
use control::{DatasetInfo, DatasetKind, DatasetList, Failure, FailureKind, Mounts};
use engine::names::NameError;
use engine::props::{dataset_prop, written_since};
use engine::refusal;
use std::cmp::Ordering;
use std::os::unix::fs::MetadataExt;

/// Kinds of datasets, by `-t`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds {
    filesystem: bool,
    volume: bool,
    snapshot: bool,
    bookmark: bool,
}

impl Kinds {
    const NONE: Self = Self { filesystem: false, volume: false, snapshot: false, bookmark: false };
    /// What can be changed.
    pub const LIVE: Self = Self { filesystem: true, volume: true, ..Self::NONE };
    /// File systems.
    pub const FILESYSTEMS: Self = Self { filesystem: true, ..Self::NONE };
    /// Snapshots.
    pub const SNAPSHOTS: Self = Self { snapshot: true, ..Self::NONE };
    /// Bookmarks.
    pub const BOOKMARKS: Self = Self { bookmark: true, ..Self::NONE };
    /// Everything but bookmarks.
    pub const DATASETS: Self = Self { snapshot: true, ..Self::LIVE };
    /// Everything.
    pub const ALL: Self = Self { bookmark: true, ..Self::DATASETS };

    /// Reads `-t`.
    pub fn parse(text: &str) -> Result<Self, Stop> {
        let mut kinds = Self::NONE;
        for word in text.split(',') {
            match word {
                "filesystem" | "fs" => kinds.filesystem = true,
                "volume" | "vol" => kinds.volume = true,
                "snapshot" | "snap" => kinds.snapshot = true,
                "bookmark" => kinds.bookmark = true,
                "all" => kinds = Self::ALL,
                _ => return usage(format!("invalid type '{word}'")),
            }
        }
        Ok(kinds)
    }

    /// Nothing but snapshots, or bookmarks: those of a dataset that is named are meant, not the dataset.
    fn only_below(self) -> bool {
        self == Self::SNAPSHOTS || self == Self::BOOKMARKS
    }

    /// Whether a dataset is among them.
    pub fn has(self, kind: DatasetKind) -> bool {
        match kind {
            DatasetKind::Filesystem => self.filesystem,
            DatasetKind::Volume => self.volume,
            DatasetKind::Snapshot => self.snapshot,
            DatasetKind::Bookmark => self.bookmark,
        }
    }

    /// Whether something of these kinds could be called so, by its delimiters.
    fn check(self, name: &str) -> Result<(), NameError> {
        match (name.contains('@'), name.contains('#')) {
            (true, _) if !self.snapshot => Err(NameError::SnapshotDelimiter),
            (false, _) if self == Self::SNAPSHOTS => Err(NameError::NoSnapshotDelimiter),
            (_, true) if !self.bookmark => Err(NameError::BookmarkDelimiter),
            (_, false) if self == Self::BOOKMARKS => Err(NameError::NoBookmarkDelimiter),
            _ => Ok(()),
        }
    }

    /// What may be named to see these: where it is gone into, also what has them below.
    fn with_what_has_them(self, depth: Depth) -> Self {
        let goes_below = depth.is_given || depth.levels != Some(0);
        Self {
            filesystem: self.filesystem || goes_below,
            volume: self.volume || goes_below && (self.snapshot || self.bookmark),
            ..self
        }
    }
}

/// How far below the named datasets to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Depth {
    /// So many levels; all without a number.
    pub levels: Option<u32>,
    /// The command line says how far, so that what is named need not be shown itself.
    is_given: bool,
}

impl Depth {
    /// Everything below.
    pub const ALL: Self = Self { levels: None, is_given: true };
    /// What is named alone.
    pub const NONE: Self = Self { levels: Some(0), is_given: false };

    /// `-d N`, or all with `-r`, or none; and one where only what lies there is meant.
    pub fn read(recursive: bool, depth: Option<&str>, kinds: Option<Kinds>) -> Result<Self, Stop> {
        match depth {
            Some(text) => match text.parse() {
                Ok(depth) => Ok(Self { levels: Some(depth), is_given: true }),
                Err(_) => usage(format!("'{text}' is not an integer")),
            },
            None if recursive => Ok(Self::ALL),
            None => {
                Ok(Self { levels: Some(u32::from(kinds.is_some_and(Kinds::only_below))), is_given: false })
            }
        }
    }
}

/// What is shown.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    /// Of what is named.
    pub named: Kinds,
    /// Of what is below that, or of all.
    pub below: Kinds,
    /// Of what is below, also the snapshots of pools whose property `listsnapshots` is on.
    pub listed_snapshots: bool,
}

impl Shown {
    /// The same everywhere.
    pub fn everywhere(kinds: Kinds) -> Self {
        Self { named: kinds, below: kinds, listed_snapshots: false }
    }

    /// Whether a dataset that is below what was named, or one of all, is among them.
    fn has_below(self, kind: DatasetKind) -> bool {
        self.below.has(kind) || self.listed_snapshots && kind == DatasetKind::Snapshot
    }
}

/// The datasets meant: those named and below, or all; by name, snapshots by age. Complains of names that are not
/// there, and gives the exit code. `properties` are those that are needed. A name that begins with `/` or `./` is a path
/// in a file system.
pub fn select(
    session: &mut Session,
    names: &[String],
    depth: Depth,
    shown: Shown,
    properties: &str,
    received: bool,
) -> Result<(Vec<DatasetInfo>, u8), Stop> {
    let since = properties.split(',').filter(|word| written_since(word).is_some());
    let needed = |word: &str| dataset_prop(word).map_or(word, |def| def.name).to_owned();
    let words = properties.split(',').filter(|word| !word.is_empty());
    let call = DatasetList {
        written_since: since.map(str::to_owned).collect(),
        bookmarks: shown.below.bookmark,
        without_snapshots: !shown.below.snapshot,
        snapshots_if_listed: shown.listed_snapshots,
        without_heads: !shown.below.filesystem && !shown.below.volume,
        properties: (!properties.split(',').any(|word| word == "all")).then(|| words.map(needed).collect()),
        received,
        ..DatasetList::default()
    };
    if names.is_empty() {
        let mut all = session.ask(&call)?;
        all.retain(|dataset| shown.has_below(dataset.kind));
        all.sort_by(by_name);
        return Ok((all, 0));
    }
    let mut code = 0;
    let mut found: Vec<DatasetInfo> = Vec::new();
    for name in names {
        let name = match dataset_at(session, name) {
            Ok(name) => name,
            Err(Stop::Failed(failure)) => {
                code = session.complain(&failure);
                continue;
            }
            Err(stop) => return Err(stop),
        };
        let call = DatasetList { root: Some(name.clone()), depth: depth.levels, ..call.clone() };
        match list(session, &call, shown.named.with_what_has_them(depth)) {
            Ok(below) => {
                let meant =
                    |d: &DatasetInfo| shown.has_below(d.kind) || d.name == name && shown.named.has(d.kind);
                let new = below.into_iter().filter(meant);
                for dataset in new {
                    if !found.iter().any(|d| d.name == dataset.name) {
                        found.push(dataset);
                    }
                }
            }
            Err(Stop::Failed(failure)) => code = session.complain(&failure),
            Err(stop) => return Err(stop),
        }
    }
    found.sort_by(by_name);
    Ok((found, code))
}

/// Returns the name of the dataset that a word means. The word is the name of a dataset, or a path in a mounted file
/// system.
///
/// # Errors
/// A path that cannot be looked up, or that is in no file system of a pool.
pub fn dataset_at(session: &Session, word: &str) -> Result<String, Stop> {
    if !word.starts_with('/') && !word.starts_with("./") {
        return Ok(word.strip_suffix('/').unwrap_or(word).to_owned());
    }
    let cannot = |e| Failure::cannot(FailureKind::Invalid, "open", word, &refusal::words(&e));
    let device = std::fs::metadata(word).map_err(cannot)?.dev();
    let is_there = |place: &str| std::fs::metadata(place).is_ok_and(|found| found.dev() == device);
    let found = session.ask(&Mounts {})?.into_iter().find(|mount| is_there(&mount.mountpoint));
    let foreign = || Failure::new(FailureKind::Invalid, format!("'{word}': not a ZFS filesystem"));
    Ok(found.ok_or_else(foreign)?.dataset)
}

/// The order in which datasets are shown when nothing else is asked for: by name, each followed by its snapshots,
/// the oldest first.
pub fn by_name(a: &DatasetInfo, b: &DatasetInfo) -> Ordering {
    let dataset = |name| str::split(name, '@').next().unwrap_or_default();
    let standing = |d: &DatasetInfo| match d.kind {
        DatasetKind::Snapshot => (true, d.createtxg),
        _ => (false, 0),
    };
    dataset(&a.name).cmp(dataset(&b.name)).then(standing(a).cmp(&standing(b))).then(a.name.cmp(&b.name))
}

/// A dataset, which is to be of one of these kinds.
pub fn open(session: &Session, name: &str, wanted: Kinds) -> Result<DatasetInfo, Stop> {
    let call = DatasetList { root: Some(name.to_owned()), depth: Some(0), ..DatasetList::default() };
    let found = list(session, &call, wanted)?;
    found.into_iter().next().ok_or_else(|| Stop::Failed(Failure::no_such_dataset(name)))
}

/// One dataset, whatever it is, but for bookmarks.
pub fn find(session: &Session, name: &str) -> Result<DatasetInfo, Stop> {
    open(session, name, Kinds::DATASETS)
}

/// A dataset of one of these kinds, with what the call tells below it.
fn list(session: &Session, call: &DatasetList, wanted: Kinds) -> Result<Vec<DatasetInfo>, Stop> {
    let name = call.root.as_deref().unwrap_or_default();
    let refuse = |reason: &str| Stop::Failed(Failure::cannot(FailureKind::Invalid, "open", name, reason));
    wanted.check(name).map_err(|error| refuse(&error.to_string()))?;
    let found = session.ask(call)?;
    match found.iter().find(|dataset| dataset.name == name) {
        Some(root) if !wanted.has(root.kind) => {
            Err(refuse("operation not applicable to datasets of this type"))
        }
        _ => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn datasets_stand_by_name_and_snapshots_by_age() {
        let info = |(name, kind, createtxg): &(&str, DatasetKind, u64)| DatasetInfo {
            name: (*name).to_owned(),
            kind: *kind,
            createtxg: *createtxg,
            props: control::Props::new(),
            received: BTreeMap::new(),
        };
        let sorted = [
            ("p", DatasetKind::Filesystem, 9),
            ("p@z", DatasetKind::Snapshot, 10),
            ("p@a", DatasetKind::Snapshot, 11),
            ("p#a", DatasetKind::Bookmark, 11),
            ("p#z", DatasetKind::Bookmark, 10),
            ("p-q", DatasetKind::Filesystem, 1),
            ("p/a", DatasetKind::Filesystem, 1),
            ("p/a@s", DatasetKind::Snapshot, 2),
            ("p/a-b", DatasetKind::Filesystem, 1),
            ("p/a/b", DatasetKind::Volume, 1),
        ];
        let mut all: Vec<DatasetInfo> = sorted.iter().rev().map(info).collect();
        all.sort_by(by_name);
        assert_eq!(all, sorted.iter().map(info).collect::<Vec<_>>());
    }

    #[test]
    fn delimiters_say_what_a_name_can_be_of() {
        for (kinds, name, reason) in [
            (Kinds::LIVE, "p@a", "snapshot delimiter '@' is not expected here"),
            (Kinds::LIVE, "p#a", "bookmark delimiter '#' is not expected here"),
            (Kinds::SNAPSHOTS, "p", "missing '@' delimiter in snapshot name"),
            (Kinds::SNAPSHOTS, "p#a", "missing '@' delimiter in snapshot name"),
            (Kinds::BOOKMARKS, "p", "missing '#' delimiter in bookmark name"),
            (Kinds::BOOKMARKS, "p@a", "snapshot delimiter '@' is not expected here"),
            (Kinds::DATASETS, "p#a", "bookmark delimiter '#' is not expected here"),
        ] {
            assert_eq!(kinds.check(name).map_err(|error| error.to_string()), Err(reason.to_owned()));
        }
        for name in ["p", "p@a", "p#a"] {
            assert_eq!(Kinds::ALL.check(name), Ok(()));
        }
    }
}
