//! Going back to what a dataset was when a snapshot was made.

use crate::destruction;
use crate::front::UnmountReach;
use crate::lineage::{Lineage, Snapshot};
use crate::mounts::Entry;
use crate::{Held, Holder, names, refusal};
use control::{DatasetRollback, Failure, FailureKind};
use std::sync::Arc;

/// So many of what is newer are told.
const TOLD_MAX: usize = 32;

impl Holder {
    pub(super) async fn rollback(&self, call: DatasetRollback) -> Result<(), Failure> {
        let head = names::head_of(&call.snapshot);
        let held = self.pool_of(head)?;
        let lineage = self.lineage(&held).await?;
        let marks = self.bookmarks_of(&held, head).await?;
        let plan = plan(&lineage, &marks, &call)?;
        self.refuse_receiving(&held, "rollback", &[head.to_owned()]).await?;
        if let Some(suspended) = self.suspend(head).await? {
            let rolled_back = self.go_back(&held, plan, &call).await;
            return rolled_back.and(self.resume(&held, head, suspended).await);
        }
        // What is in use is found out before anything is destroyed.
        let taken = self.take(&self.mounted_under(head), UnmountReach::for_change(call.force)).await?;
        let rolled_back = self.go_back(&held, plan, &call).await;
        rolled_back.and(self.put_back_what_is_there(&held, &taken).await)
    }

    async fn go_back(&self, held: &Held, plan: Plan, call: &DatasetRollback) -> Result<(), Failure> {
        self.destroy_those(held, &plan.going, call.force).await?;
        for name in plan.bookmarks {
            let gone = held.pool.destroy_bookmark(name.clone()).await;
            gone.map_err(|e| refusal::pool("destroy", &name, &e))?;
        }
        let (snapshot, head) = (call.snapshot.as_str(), names::head_of(&call.snapshot));
        let rolled_back = held.pool.rollback(head.to_owned(), snapshot.to_owned()).await;
        rolled_back.map_err(|e| refusal::pool("rollback", head, &e))?;
        tracing::info!(snapshot, "rolled back");
        Ok(())
    }

    /// Returns the mount of a file system, and the mounts of its pool in directories of it, which
    /// would prevent an unmount; in the order of mounting.
    pub(super) fn mounted_under(&self, head: &str) -> Vec<Arc<Entry>> {
        self.with_what_is_inside(head, |entry| entry.is_of(head))
    }
}

/// What goes before a dataset can be what it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Newer snapshots, and before them their clones with what is below these; in the order in which they go.
    pub going: Vec<String>,
    /// Newer bookmarks.
    pub bookmarks: Vec<String>,
}

/// What goes when a call is done; `bookmarks` are all of the dataset.
///
/// # Errors
/// When the snapshot is not there, or the call does not ask for as much as has to go.
pub fn plan(lineage: &Lineage, bookmarks: &[Snapshot], call: &DatasetRollback) -> Result<Plan, Failure> {
    let no_such = || Failure::no_such_dataset(&call.snapshot);
    let snapshot = lineage.snapshot(&call.snapshot).ok_or_else(no_such)?;
    let newer: Vec<String> = lineage.newer_than(snapshot).into_iter().map(|s| s.name.clone()).collect();
    let later = bookmarks.iter().filter(|mark| mark.createtxg > snapshot.createtxg);
    let bookmarks: Vec<String> = later.map(|mark| mark.name.clone()).collect();
    let clones = destruction::clones_of(lineage, &newer);
    match (call.newer || call.clones, call.clones) {
        (false, _) if !newer.is_empty() || !bookmarks.is_empty() => {
            Err(newer_exist(&call.snapshot, newer.iter().chain(&bookmarks)))
        }
        (true, false) if !clones.is_empty() => Err(clones_exist(&call.snapshot, &clones)),
        _ => Ok(Plan { going: clones.into_iter().chain(newer).collect(), bookmarks }),
    }
}

fn refuse(snapshot: &str, reason: &str) -> Failure {
    Failure::new(FailureKind::Busy, format!("cannot rollback to '{snapshot}': {reason}"))
}

fn newer_exist<'a>(snapshot: &str, newer: impl Iterator<Item = &'a String>) -> Failure {
    let told: Vec<&String> = newer.take(TOLD_MAX).collect();
    let refusal = refuse(snapshot, "more recent snapshots or bookmarks exist")
        .and("use '-r' to force deletion of the following snapshots and bookmarks:");
    let refusal = told.iter().fold(refusal, |refusal, name| refusal.and(name.as_str()));
    match told.len() == TOLD_MAX {
        true => refusal.and(format!("Output limited to {TOLD_MAX} snapshots/bookmarks")).exits(255),
        false => refusal,
    }
}

fn clones_exist(snapshot: &str, clones: &[String]) -> Failure {
    let refusal = refuse(snapshot, "clones of previous snapshots exist")
        .and("use '-R' to force deletion of the following clones and dependents:");
    clones.iter().fold(refusal, Failure::and)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// p/a with @1 to @3, p/c a clone of @2; bookmarks of @1 and @3.
    fn planned(snapshot: &str, newer: bool, clones: bool) -> Result<Plan, String> {
        let mut family = Lineage::default();
        ["p", "p/a"].iter().for_each(|name| family.add_head(name, None));
        family.add_head("p/c", Some("p/a@2"));
        (1..=3).for_each(|number| family.add_snapshot(&format!("p/a@{number}"), number));
        let mark = |number| Snapshot { name: format!("p/a#{number}"), createtxg: number };
        let call =
            DatasetRollback { snapshot: snapshot.to_owned(), newer, clones, ..DatasetRollback::default() };
        plan(&family, &[mark(1), mark(3)], &call).map_err(|failure| failure.stderr.join("\n"))
    }

    #[test]
    fn nothing_newer_goes_unless_it_was_asked_for() {
        assert_eq!(planned("p/a@3", false, false), Ok(Plan::default()));
        assert_eq!(
            planned("p/a@1", false, false),
            Err("cannot rollback to 'p/a@1': more recent snapshots or bookmarks exist\n\
                 use '-r' to force deletion of the following snapshots and bookmarks:\n\
                 p/a@2\np/a@3\np/a#3"
                .to_owned())
        );
        assert_eq!(
            planned("p/a@1", true, false),
            Err("cannot rollback to 'p/a@1': clones of previous snapshots exist\n\
                 use '-R' to force deletion of the following clones and dependents:\np/c"
                .to_owned())
        );
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let bookmarks: Vec<String> = names(&["p/a#3"]);
        let going = names(&["p/c", "p/a@2", "p/a@3"]);
        assert_eq!(planned("p/a@1", false, true), Ok(Plan { going, bookmarks: bookmarks.clone() }));
        assert_eq!(planned("p/a@2", true, false), Ok(Plan { going: names(&["p/a@3"]), bookmarks }));
    }

    #[test]
    fn of_very_many_only_some_are_told() {
        let names: Vec<String> = (0..40).map(|number| format!("p@{number}")).collect();
        let failure = newer_exist("p@x", names.iter());
        assert_eq!((failure.exit, failure.stderr.len()), (255, 2 + TOLD_MAX + 1));
        assert_eq!(newer_exist("p@x", names[..31].iter()).exit, 1);
    }
}
