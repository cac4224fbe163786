//! The user of a pool's process: a number that nobody else has.
//!
//! ```text
//!  number of the process ─► 1879048192 + number, if this user namespace maps that
//!                        └► else counted down from the highest id that the namespace maps
//! ```
//! A user of its own keeps the processes of two pools apart: neither may send a signal to the
//! other, trace it or read its memory. The user has no name, no files and no processes but this
//! one. Group and user have the same number.
//!
//! systemd lists the ids 1879048192 to 2147483647 as unused (<https://systemd.io/UIDS-GIDS/>); its
//! versions since 258 take 2147352576 and what follows for files of other systems. The range here
//! ends below.
//!
//! Two daemons in one user namespace give their processes the same users, as in containers without
//! a namespace of their own. A host may also have given an id of the range to a person. The other
//! walls do not rest on the user: seccomp and Landlock keep processes of one user apart, but for
//! what a person's processes do to this one.

use std::fs;
use std::ops::RangeInclusive;

use nix::unistd::{getresgid, getresuid};
use rustix::io::Errno;
use rustix::process::{RawUid, geteuid};
use rustix::thread::{Gid, Uid, set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use crate::ConfineError;

/// Ids that belong to nobody on any host.
const UNUSED: RangeInclusive<RawUid> = 1_879_048_192..=2_147_352_575;
/// Root, `nobody`, the invalid ids of 16 and of 32 bits.
const TAKEN: [RawUid; 4] = [0, 65_534, 65_535, RawUid::MAX];

/// A user and a group of the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolUser(RawUid);

impl PoolUser {
    /// The user of the process of this number, in the user namespace of this process. No two
    /// numbers have the same user.
    ///
    /// # Errors
    /// When the maps of the namespace cannot be read or have too few ids.
    pub fn nth(number: u64) -> Result<Self, ConfineError> {
        let read = |path| fs::read_to_string(path).map_err(|source| ConfineError::Proc { path, source });
        let (users, groups) = (read("/proc/self/uid_map")?, read("/proc/self/gid_map")?);
        Self::mapped(number, &users, &groups, geteuid().as_raw()).ok_or(ConfineError::NoUser { number })
    }

    /// The same by the texts of the maps (user_namespaces(7)). `own` is the user of the daemon.
    fn mapped(number: u64, users: &str, groups: &str, own: RawUid) -> Option<Self> {
        let mapped = common(&ranges(users), &ranges(groups));
        let is_mapped = |id: &RawUid| mapped.iter().any(|range| range.contains(id));
        // A namespace that maps the first of the unused ids maps its others, or it has too few for
        // all numbers. Numbers beyond its end have no user then, because a user counted down could
        // be another number's.
        let id = match is_mapped(UNUSED.start()) {
            true => nth_unused(number).filter(is_mapped),
            false => nth_from_the_end(number, &mapped, own),
        };
        id.filter(|id| *id != own).map(Self)
    }

    /// The number of the user and of the group.
    #[must_use]
    pub fn id(self) -> u32 {
        self.0
    }

    /// Has this process, which has one thread, become this user for good.
    ///
    /// # Errors
    /// The system's, or `EPERM` if an id is another one afterwards.
    pub(crate) fn become_user(self) -> Result<(), Errno> {
        let (user, group) = (Uid::from_raw(self.0), Gid::from_raw(self.0));
        set_thread_groups(&[])?;
        set_thread_res_gid(group, group, group)?;
        set_thread_res_uid(user, user, user)?;
        match self.is_own() {
            true => Ok(()),
            false => Err(Errno::PERM),
        }
    }

    /// True if all ids of this process are those of this user.
    fn is_own(self) -> bool {
        let users = getresuid().map(|ids| [ids.real, ids.effective, ids.saved].map(|id| id.as_raw()));
        let groups = getresgid().map(|ids| [ids.real, ids.effective, ids.saved].map(|id| id.as_raw()));
        users == Ok([self.0; 3]) && groups == Ok([self.0; 3])
    }
}

fn nth_unused(number: u64) -> Option<RawUid> {
    let id = UNUSED.start().checked_add(RawUid::try_from(number).ok()?)?;
    UNUSED.contains(&id).then_some(id)
}

fn nth_from_the_end(number: u64, mapped: &[RangeInclusive<RawUid>], own: RawUid) -> Option<RawUid> {
    let mut mapped = mapped.to_vec();
    mapped.sort_unstable_by_key(|range| *range.end());
    let ids = mapped.into_iter().rev().flat_map(Iterator::rev);
    ids.filter(|id| !TAKEN.contains(id) && *id != own).nth(usize::try_from(number).ok()?)
}

/// The ids inside a namespace that its map has. A line is: first id inside, first id outside,
/// count.
fn ranges(map: &str) -> Vec<RangeInclusive<RawUid>> {
    let range = |line: &str| {
        let mut numbers = line.split_whitespace().map(str::parse::<RawUid>);
        let first = numbers.next()?.ok()?;
        let count = numbers.nth(1)?.ok()?;
        Some(first..=first.checked_add(count.checked_sub(1)?)?)
    };
    map.lines().filter_map(range).collect()
}

/// What two maps have in common. The ranges of a map do not overlap.
fn common(some: &[RangeInclusive<RawUid>], others: &[RangeInclusive<RawUid>]) -> Vec<RangeInclusive<RawUid>> {
    let overlap = |some: &RangeInclusive<RawUid>, other: &RangeInclusive<RawUid>| {
        *some.start().max(other.start())..=*some.end().min(other.end())
    };
    let pairs = some.iter().flat_map(|some| others.iter().map(move |other| overlap(some, other)));
    pairs.filter(|range| !range.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = "         0          0 4294967295\n";
    const ROOTLESS: &str = "         0       1000          1\n         1     100000      65536\n";

    fn id(number: u64, map: &str) -> Option<u32> {
        PoolUser::mapped(number, map, map, 0).map(PoolUser::id)
    }

    #[test]
    fn a_host_has_a_user_of_the_unused_range_for_each_number() {
        assert_eq!(id(0, HOST), Some(1_879_048_192));
        assert_eq!(id(7, HOST), Some(1_879_048_199));
        assert_eq!(id(268_304_383, HOST), Some(2_147_352_575));
    }

    #[test]
    fn a_number_beyond_the_unused_range_has_no_user() {
        assert_eq!(id(268_304_384, HOST), None);
        assert_eq!(id(u64::MAX, HOST), None);
    }

    #[test]
    fn a_small_namespace_counts_down_from_its_end_without_ids_that_others_have() {
        let ids: Vec<u32> = (0..3).filter_map(|number| id(number, ROOTLESS)).collect();
        assert_eq!(ids, [65_536, 65_533, 65_532], "65535 and 65534 are taken");
        let own = PoolUser::mapped(1, ROOTLESS, ROOTLESS, 65_533).map(PoolUser::id);
        assert_eq!(own, Some(65_532), "the daemon's own");
        assert_eq!(id(65_533, ROOTLESS), Some(1));
        assert_eq!(id(65_534, ROOTLESS), None, "only root is left");
    }

    #[test]
    fn a_namespace_with_root_alone_has_no_user() {
        assert_eq!(id(0, "0 1000 1\n"), None);
    }

    #[test]
    fn no_two_numbers_have_the_same_user_also_where_the_map_ends_in_the_unused_range() {
        let map = "0 100000 1000\n1879048192 200000 3\n";
        let ids: Vec<Option<u32>> = (0..5).map(|number| id(number, map)).collect();
        assert_eq!(ids, [Some(1_879_048_192), Some(1_879_048_193), Some(1_879_048_194), None, None]);
    }

    #[test]
    fn a_user_has_a_group_of_the_same_number() {
        let groups = "0 1000 1\n1 100000 50\n60 300000 5\n";
        let ids: Vec<Option<u32>> =
            (0..6).map(|number| PoolUser::mapped(number, ROOTLESS, groups, 0).map(PoolUser::id)).collect();
        assert_eq!(ids, [64, 63, 62, 61, 60, 50].map(Some));
    }

    #[test]
    fn a_map_that_is_no_map_has_no_user() {
        for map in ["", "a b c\n", "0 0\n", "4294967295 0 9\n", "5 5 0\n"] {
            assert_eq!(id(0, map), None, "{map:?}");
        }
    }

    #[test]
    fn this_process_has_a_user_for_its_pool() {
        let user = PoolUser::nth(1).expect("this namespace has ids");
        assert!(user.id() > 0 && user.id() != geteuid().as_raw());
    }
}
