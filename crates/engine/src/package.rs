//! What comes before the streams of a package (`zfs send -R`, `-p`, `-b`, `-h`): a list of datasets, with their snapshots,
//! properties and holds.
//!
//! ```text
//!  tosnap  [fromsnap]  [not_recursive]  [raw]
//!  fss ─► "0x<guid>" ─► name  parentfromsnap  [origin]  [props]  snaps  snapprops  [snapholds]
//!                                │               │                └ name ─► guid
//!                                │               └ guid of a snapshot
//!                                └ guid of the snapshot that the receiver has of the dataset above it by then
//! ```
//! Datasets go by the guids of their snapshots: what they are called is another matter at the receiver's.
//! Source: `libzfs_sendrecv.c` (`send_data_t`).

mod streams;

pub use streams::PackageStream;

use ondisk::{NvList, NvValue, OndiskError};

/// Names in the list.
mod names {
    pub const TOSNAP: &str = "tosnap";
    pub const FROMSNAP: &str = "fromsnap";
    pub const NOT_RECURSIVE: &str = "not_recursive";
    pub const RAW: &str = "raw";
    pub const FSS: &str = "fss";
    pub const NAME: &str = "name";
    pub const PARENT_FROM: &str = "parentfromsnap";
    pub const ORIGIN: &str = "origin";
    pub const PROPS: &str = "props";
    pub const SNAPS: &str = "snaps";
    pub const SNAP_PROPS: &str = "snapprops";
    pub const SNAP_HOLDS: &str = "snapholds";
}

/// The list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Package {
    /// The snapshot that the receiver has, by what follows the `@`.
    pub fromsnap: Option<String>,
    /// The snapshot that is sent last of each dataset.
    pub tosnap: String,
    /// It is of a tree of datasets.
    pub recursive: bool,
    /// Blocks come as they are stored.
    pub raw: bool,
    /// The topmost first.
    pub members: Vec<Member>,
}

/// A dataset of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Member {
    /// Its guid.
    pub guid: u64,
    /// Its full name at the sender's.
    pub name: String,
    /// Guid of the snapshot of the dataset above it; zero at the top.
    pub parent_from: u64,
    /// Guid of the snapshot that it is a clone of.
    pub origin: Option<u64>,
    /// What is set on it, where that is told.
    pub props: Option<NvList>,
    /// Its snapshots, the oldest first, by what follows the `@`; and their guids.
    pub snaps: Vec<(String, u64)>,
    /// What is set on those.
    pub snap_props: Vec<(String, NvList)>,
    /// Who holds them since when, where that is told.
    pub snap_holds: Option<Vec<(String, NvList)>>,
    /// The full name of its origin, if this package was gathered here. The list has only the guid.
    pub origin_name: Option<String>,
    /// True if no stream of it follows. The list includes it all the same, because a receiver
    /// treats datasets that are not in the list as destroyed.
    pub is_left_out: bool,
}

impl Package {
    /// As a stream has it.
    pub fn list(&self) -> NvList {
        let mut list = NvList::new();
        if let Some(from) = &self.fromsnap {
            list.add_str(names::FROMSNAP, from.as_str());
        }
        list.add_str(names::TOSNAP, self.tosnap.as_str());
        if !self.recursive {
            list.add_flag(names::NOT_RECURSIVE);
        }
        if self.raw {
            list.add_flag(names::RAW);
        }
        let mut members = NvList::new();
        for member in &self.members {
            members.add_nvlist(&format!("{:#x}", member.guid), member.list());
        }
        list.add_nvlist(names::FSS, members);
        list
    }

    /// What a stream's list says.
    ///
    /// # Errors
    /// When something is missing in it, or is of another kind.
    pub fn of(list: &NvList) -> Result<Self, OndiskError> {
        let members = list.lookup_nvlist(names::FSS)?.iter().map(|(_, member)| match member {
            NvValue::List(member) => Member::of(member),
            _ => Err(OndiskError::WrongType { what: "nvlist", name: names::FSS.to_owned() }),
        });
        Ok(Self {
            fromsnap: list.get_str(names::FROMSNAP).map(str::to_owned),
            tosnap: list.get_str(names::TOSNAP).unwrap_or_default().to_owned(),
            recursive: !list.contains(names::NOT_RECURSIVE),
            raw: list.contains(names::RAW),
            members: members.collect::<Result<_, _>>()?,
        })
    }

    /// The dataset that has a snapshot of this guid, and what follows the `@` in that one's name.
    pub fn owner_of(&self, guid: u64) -> Option<(&Member, &str)> {
        self.members.iter().find_map(|member| Some((member, member.name_of(guid)?)))
    }
}

impl Member {
    /// Returns the part after the `@` in the name of its snapshot with this guid.
    pub fn name_of(&self, guid: u64) -> Option<&str> {
        self.snaps.iter().find(|(_, snap)| *snap == guid).map(|(name, _)| name.as_str())
    }

    /// What is set on a snapshot of it.
    pub fn props_of(&self, snap: &str) -> Option<&NvList> {
        self.snap_props.iter().find(|(name, _)| name == snap).map(|(_, props)| props)
    }

    /// Who holds a snapshot of it.
    pub fn holds_of(&self, snap: &str) -> Option<&NvList> {
        self.snap_holds.iter().flatten().find(|(name, _)| name == snap).map(|(_, holds)| holds)
    }

    fn list(&self) -> NvList {
        let by_name = |lists: &[(String, NvList)]| {
            let mut all = NvList::new();
            for (name, list) in lists {
                all.add_nvlist(name, list.clone());
            }
            all
        };
        let mut list = NvList::new();
        list.add_str(names::NAME, self.name.as_str()).add_u64(names::PARENT_FROM, self.parent_from);
        if let Some(origin) = self.origin {
            list.add_u64(names::ORIGIN, origin);
        }
        if let Some(props) = &self.props {
            list.add_nvlist(names::PROPS, props.clone());
        }
        let mut snaps = NvList::new();
        for (name, guid) in &self.snaps {
            snaps.add_u64(name, *guid);
        }
        list.add_nvlist(names::SNAPS, snaps).add_nvlist(names::SNAP_PROPS, by_name(&self.snap_props));
        if let Some(holds) = &self.snap_holds {
            list.add_nvlist(names::SNAP_HOLDS, by_name(holds));
        }
        list
    }

    fn of(list: &NvList) -> Result<Self, OndiskError> {
        let by_name = |name| {
            let lists = list.get_nvlist(name)?.iter().filter_map(|(name, list)| match list {
                NvValue::List(list) => Some((name.to_owned(), list.clone())),
                _ => None,
            });
            Some(lists.collect::<Vec<_>>())
        };
        let snaps = list.lookup_nvlist(names::SNAPS)?.iter().filter_map(|(name, guid)| match guid {
            NvValue::U64(guid) => Some((name.to_owned(), *guid)),
            _ => None,
        });
        Ok(Self {
            guid: 0,
            name: list.lookup_str(names::NAME)?.to_owned(),
            parent_from: list.get_u64(names::PARENT_FROM).unwrap_or_default(),
            origin: list.get_u64(names::ORIGIN),
            props: list.get_nvlist(names::PROPS).cloned(),
            snaps: snaps.collect(),
            snap_props: by_name(names::SNAP_PROPS).unwrap_or_default(),
            snap_holds: by_name(names::SNAP_HOLDS),
            ..Self::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, parent_from: u64, origin: Option<u64>, snap: u64) -> Member {
        let snaps = vec![("s".to_owned(), snap)];
        Member { guid: snap + 100, name: name.to_owned(), parent_from, origin, snaps, ..Member::default() }
    }

    #[test]
    fn a_snapshot_has_an_owner() {
        let members = vec![member("p", 0, None, 1), member("p/z", 1, None, 4)];
        let package = Package { tosnap: "s".into(), recursive: true, members, ..Package::default() };
        let (owner, snap) = package.owner_of(4).expect("there");
        assert_eq!((owner.name.as_str(), snap), ("p/z", "s"));
        assert!(package.owner_of(9).is_none());
    }

    #[test]
    fn a_list_says_what_it_was_made_of() {
        let mut props = NvList::new();
        props.add_u64("recordsize", 4096).add_str("org:by", "text");
        let mut holds = NvList::new();
        holds.add_u64("tag", 7);
        let with = Member {
            props: Some(props.clone()),
            snap_props: vec![("s".into(), props)],
            snap_holds: Some(vec![("s".into(), holds)]),
            ..member("p", 0, Some(9), 1)
        };
        let package = Package {
            fromsnap: Some("r".into()),
            tosnap: "s".into(),
            recursive: false,
            raw: true,
            members: vec![Member { guid: 0, ..with }],
        };
        assert_eq!(Package::of(&package.list()), Ok(package));
    }
}
