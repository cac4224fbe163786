//! Which datasets a command line means.

use crate::session::{Session, Stop, usage};
use control::{DatasetInfo, DatasetKind, DatasetList, Failure};
use engine::props::WRITTEN_SINCE;

/// Kinds of datasets, by `-t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kinds {
    filesystem: bool,
    volume: bool,
    snapshot: bool,
}

impl Kinds {
    /// Everything but snapshots: what commands show when not told otherwise.
    pub const LIVE: Self = Self { filesystem: true, volume: true, snapshot: false };
    /// Everything.
    pub const ALL: Self = Self { filesystem: true, volume: true, snapshot: true };

    /// Reads `-t`.
    pub fn parse(text: &str) -> Result<Self, Stop> {
        let mut kinds = Self { filesystem: false, volume: false, snapshot: false };
        for word in text.split(',') {
            match word {
                "filesystem" | "fs" => kinds.filesystem = true,
                "volume" | "vol" => kinds.volume = true,
                "snapshot" | "snap" => kinds.snapshot = true,
                "bookmark" => {}
                "all" => kinds = Self::ALL,
                _ => return usage(format!("invalid type '{word}'")),
            }
        }
        Ok(kinds)
    }

    /// Nothing but snapshots: those of a dataset that is named are meant, not the dataset.
    pub fn only_snapshots(self) -> bool {
        self.snapshot && !self.filesystem && !self.volume
    }

    /// Whether a dataset is among them.
    pub fn has(self, kind: DatasetKind) -> bool {
        match kind {
            DatasetKind::Filesystem => self.filesystem,
            DatasetKind::Volume => self.volume,
            DatasetKind::Snapshot => self.snapshot,
        }
    }
}

/// How far below the named datasets to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Depth(pub Option<u32>);

impl Depth {
    /// `-d N`, or all with `-r`, or none.
    pub fn read(recursive: bool, depth: Option<&str>) -> Result<Self, Stop> {
        match depth {
            Some(text) => match text.parse() {
                Ok(depth) => Ok(Self(Some(depth))),
                Err(_) => usage(format!("'{text}' is not an integer")),
            },
            None => Ok(Self(if recursive { None } else { Some(0) })),
        }
    }
}

/// The datasets meant: those named and below, or all. Complains of names that are not
/// there, and gives the exit code. `properties` are those that will be shown.
pub fn select(
    session: &mut Session,
    names: &[String],
    depth: Depth,
    kinds: Option<Kinds>,
    properties: &str,
) -> Result<(Vec<DatasetInfo>, u8), Stop> {
    let since = properties.split(',').filter_map(|word| word.strip_prefix(WRITTEN_SINCE));
    let written_since: Vec<String> = since.map(str::to_owned).collect();
    if names.is_empty() {
        let all = session.ask(&DatasetList { root: None, depth: None, written_since })?;
        let kinds = kinds.unwrap_or(Kinds::LIVE);
        return Ok((all.into_iter().filter(|d| kinds.has(d.kind)).collect(), 0));
    }
    let mut code = 0;
    let mut found: Vec<DatasetInfo> = Vec::new();
    for name in names {
        let name = name.strip_suffix('/').unwrap_or(name);
        let depth = match depth.0 {
            Some(0) if kinds.is_some_and(Kinds::only_snapshots) => Some(1),
            depth => depth,
        };
        let written_since = written_since.clone();
        match session.ask(&DatasetList { root: Some(name.to_owned()), depth, written_since }) {
            Ok(below) => {
                // A dataset that is named is shown, whatever its kind.
                let meant = |d: &DatasetInfo| {
                    kinds.map_or(d.name == *name || Kinds::LIVE.has(d.kind), |kinds| kinds.has(d.kind))
                };
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
    Ok((found, code))
}

/// One dataset.
pub fn find(session: &Session, name: &str) -> Result<DatasetInfo, Stop> {
    let call = DatasetList { root: Some(name.to_owned()), depth: Some(0), ..DatasetList::default() };
    let found = session.ask(&call)?;
    found.into_iter().next().ok_or_else(|| Stop::Failed(Failure::no_such_dataset(name)))
}
