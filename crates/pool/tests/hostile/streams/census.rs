//! The datasets and snapshots of a pool, and what a receive may change of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use ondisk::Blkptr;
use pool::{Pool, Sealed};

use super::quarry::PARTS;
use crate::ours::POOL;

/// Guid and root of a dataset or snapshot. The checksum in the root covers all that the dataset contains.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry {
    pub guid: u64,
    root: Blkptr,
}

/// Everything that has a name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Census(BTreeMap<String, Entry>);

impl Census {
    pub async fn of(pool: &Arc<Pool>) -> Self {
        let mut entries = BTreeMap::new();
        let mut all = pool.dsl().list(POOL).await.expect("datasets can be listed");
        for head in all.clone() {
            all.extend(pool.dsl().snapshots(&head).await.expect("snapshots can be listed"));
        }
        for dataset in all {
            let phys = pool.dsl().dataset(dataset.dataset).await.expect("a dataset can be read");
            entries.insert(dataset.name, Entry { guid: phys.guid.get(), root: phys.bp });
        }
        Self(entries)
    }

    pub fn guid_of(&self, name: &str) -> Option<u64> {
        self.0.get(name).map(|entry| entry.guid)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Fails if anything differs that is not `within` a dataset.
    pub fn assert_same_outside(&self, after: &Self, within: &str) {
        let outside = |census: &Self| {
            let mut census = census.clone();
            census.0.retain(|name, _| !is_within(name, within));
            census
        };
        assert_eq!(outside(after), outside(self), "a receive changes {within} alone");
    }
}

/// True of a dataset, its snapshots, and all that is below the dataset.
pub fn is_within(name: &str, head: &str) -> bool {
    name.strip_prefix(head).is_some_and(|rest| rest.is_empty() || rest.starts_with(['@', '/']))
}

/// Heads that were received in part. A part that is kept has a note of how far it is.
pub async fn parts(pool: &Arc<Pool>) -> Vec<String> {
    let mut parts = Vec::new();
    for head in pool.dsl().list(POOL).await.expect("datasets can be listed") {
        let is_part = pool.sealed(&head.name).await.expect("readable") == Some(Sealed::HalfReceived);
        let below = pool.dsl().receiving_below(&head).await.expect("readable");
        if is_part || below.is_some() {
            let state = pool.resume_state(&head).await.expect("readable");
            assert!(state.is_some(), "{} was received in part, without a note", head.name);
            parts.push(head.name);
        }
    }
    parts
}

/// True if a part may be there after a receive into `head`.
pub fn is_part_expected(part: &str, head: &str, resumable: bool) -> bool {
    PARTS.contains(&part) || resumable && is_within(part, head)
}
