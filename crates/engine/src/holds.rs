//! Holds: what keeps a snapshot from being destroyed until it is taken back.

use crate::destruction::together;
use crate::lineage::Lineage;
use crate::{Held, Holder, names, refusal};
use control::{Failure, FailureKind, HeldSnapshot, HoldInfo, SnapshotHold, SnapshotHolds, SnapshotRelease};

/// Tags are shorter than this.
const TAG_MAX_BYTES: usize = 256;

impl Holder {
    pub(super) async fn hold(&self, call: SnapshotHold) -> Result<(), Failure> {
        let held = self.pool_of(&call.name)?;
        let lineage = self.lineage(&held).await?;
        let there = self.held_snapshots(&held, lineage.namesakes(&call.name, call.recursive)).await?;
        check_hold(&call, &there)?;
        let names = there.into_iter().map(|snapshot| snapshot.name).collect();
        let done = held.pool.hold(call.tag, names).await;
        done.map_err(|e| refusal::pool("hold snapshot", &call.name, &e))
    }

    pub(super) async fn release(&self, call: SnapshotRelease) -> Result<(), Failure> {
        let held = self.pool_of(&call.name)?;
        let lineage = self.lineage(&held).await?;
        let there = self.held_snapshots(&held, lineage.namesakes(&call.name, call.recursive)).await?;
        let names = to_release(&lineage, &call, &there)?;
        // One that was only waiting for that goes.
        let _nobody_opens_them = self.let_go_of(&held, &names).await;
        let done = held.pool.release(call.tag, names).await;
        done.map_err(|e| refusal::pool("release hold from snapshot", &call.name, &e))
    }

    pub(super) async fn holds(&self, call: SnapshotHolds) -> Result<Vec<HeldSnapshot>, Failure> {
        let held = self.pool_of(names::head_of(&call.name))?;
        let lineage = self.lineage(&held).await?;
        check_shown(&lineage, &call)?;
        self.held_snapshots(&held, lineage.namesakes(&call.name, call.recursive)).await
    }

    async fn held_snapshots(&self, held: &Held, names: Vec<String>) -> Result<Vec<HeldSnapshot>, Failure> {
        let mut found = Vec::new();
        for name in names {
            let holds = self.holds_on(held, &name).await?;
            found.push(HeldSnapshot { name, holds });
        }
        Ok(found)
    }

    /// What holds a snapshot.
    pub(super) async fn holds_on(&self, held: &Held, snapshot: &str) -> Result<Vec<HoldInfo>, Failure> {
        let _view = held.pool.view().await;
        let holds = held.pool.holds(snapshot).await.map_err(|e| refusal::pool("open", snapshot, &e))?;
        Ok(holds.into_iter().map(|(tag, since_secs)| HoldInfo { tag, since_secs }).collect())
    }
}

fn has(snapshot: &HeldSnapshot, tag: &str) -> bool {
    snapshot.holds.iter().any(|hold| hold.tag == tag)
}

/// Whether these snapshots, which a call means, can get its hold.
///
/// # Errors
/// When there are none, the tag is too long, or one has such a hold already.
pub fn check_hold(call: &SnapshotHold, there: &[HeldSnapshot]) -> Result<(), Failure> {
    let refuse = |kind, name: &str, reason: &str| Failure::cannot(kind, "hold snapshot", name, reason);
    if there.is_empty() {
        return Err(refuse(FailureKind::NoSuchDataset, &call.name, "dataset does not exist"));
    }
    if call.tag.len() >= TAG_MAX_BYTES {
        let too_long = |snapshot: &HeldSnapshot| refuse(FailureKind::Invalid, &snapshot.name, "tag too long");
        return together(there.iter().map(too_long)).map_or(Ok(()), Err);
    }
    let taken = there.iter().filter(|snapshot| has(snapshot, &call.tag));
    let taken = taken
        .map(|snapshot| refuse(FailureKind::Exists, &snapshot.name, "tag already exists on this dataset"));
    together(taken).map_or(Ok(()), Err)
}

/// Those of these snapshots, which a call means, that have its hold.
///
/// # Errors
/// When none has.
pub fn to_release(
    lineage: &Lineage,
    call: &SnapshotRelease,
    there: &[HeldSnapshot],
) -> Result<Vec<String>, Failure> {
    let names: Vec<String> =
        there.iter().filter(|snapshot| has(snapshot, &call.tag)).map(|s| s.name.clone()).collect();
    if !names.is_empty() {
        return Ok(names);
    }
    // OpenZFS tells what it met last.
    let root = names::head_of(&call.name);
    let last = lineage.heads(root, call.recursive).pop().unwrap_or(root);
    let is_there = lineage.has(&format!("{last}{}", &call.name[root.len()..]));
    let (kind, reason) = match is_there {
        true => (FailureKind::Invalid, "no such tag on this dataset"),
        false => (FailureKind::NoSuchDataset, "dataset does not exist"),
    };
    Err(Failure::cannot(kind, "release hold from snapshot", &call.name, reason))
}

/// Whether there is what a call is about: the snapshot, or where it is about those below, too, its dataset.
///
/// # Errors
/// When there is not.
pub fn check_shown(lineage: &Lineage, call: &SnapshotHolds) -> Result<(), Failure> {
    let root = if call.recursive { names::head_of(&call.name) } else { call.name.as_str() };
    if lineage.has(root) { Ok(()) } else { Err(Failure::no_such_dataset(root)) }
}
