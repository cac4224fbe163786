//! What `zfs destroy` takes away, and what hinders it.

use crate::lineage::Lineage;
use crate::{names, snapspec};
use control::{DatasetDestroy, DatasetKind, Failure, FailureKind, SnapshotDestroy};
use std::collections::BTreeSet;

/// All that goes with a dataset, in the order in which it can go, the dataset last.
///
/// # Errors
/// When the call does not ask for as much as depends on the dataset.
pub fn of_dataset(
    lineage: &Lineage,
    kind: DatasetKind,
    call: &DatasetDestroy,
) -> Result<Vec<String>, Failure> {
    let root = call.name.as_str();
    if !lineage.has(root) {
        return Err(Failure::no_such_dataset(root));
    }
    let mut going = lineage.dependents(root);
    let (below, elsewhere): (Vec<&String>, Vec<&String>) =
        going.iter().partition(|name| names::is_within(name, root));
    let refusal = match (call.recursive, call.clones) {
        (_, true) => None,
        (true, false) => hindered(root, kind, "dependent clones", "-R", &elsewhere),
        (false, false) => hindered(root, kind, "children", "-r", &below),
    };
    if let Some(refusal) = refusal {
        return Err(refusal);
    }
    going.push(root.to_owned());
    Ok(going)
}

/// The snapshots that a call means: of one dataset after the other, the oldest first. Datasets that it means none of
/// have an empty list.
///
/// # Errors
/// When there is none, or one has clones and the call neither takes these along nor waits for them.
pub fn of_snapshots<'a>(
    lineage: &'a Lineage,
    call: &SnapshotDestroy,
) -> Result<Vec<(&'a str, Vec<String>)>, Failure> {
    if !lineage.has(&call.dataset) {
        return Err(Failure::no_such_dataset(&call.dataset));
    }
    let heads = lineage.heads(&call.dataset, call.recursive).into_iter();
    let going: Vec<_> = heads.map(|head| (head, picked(lineage, head, &call.snapshots))).collect();
    let all: Vec<&String> = going.iter().flat_map(|(_, snapshots)| snapshots).collect();
    if !call.clones && !call.defer {
        let refusals = all.iter().filter_map(|snapshot| {
            let clones = lineage.dependents(snapshot);
            hindered(
                snapshot,
                DatasetKind::Snapshot,
                "dependent clones",
                "-R",
                &clones.iter().collect::<Vec<_>>(),
            )
        });
        if let Some(refusal) = together(refusals) {
            return Err(refusal);
        }
    }
    if all.is_empty() {
        let line = "could not find any snapshots to destroy; check snapshot names.";
        return Err(Failure::new(FailureKind::NoSuchDataset, line));
    }
    Ok(going)
}

fn picked(lineage: &Lineage, head: &str, spec: &str) -> Vec<String> {
    let all = last_names(lineage, head);
    snapspec::pick(spec, &all).into_iter().map(|last| format!("{head}@{last}")).collect()
}

/// What stands behind the `@` of a dataset's snapshots, the oldest first.
fn last_names<'a>(lineage: &'a Lineage, head: &str) -> Vec<&'a str> {
    let last = |name: &'a str| name.split('@').nth(1).unwrap_or_default();
    lineage.snapshots_of(head).iter().map(|snapshot| last(&snapshot.name)).collect()
}

/// Rows of snapshots of a dataset that all go, as full names of the first and the last of each.
pub fn runs(lineage: &Lineage, head: &str, going: &[String]) -> Vec<(String, String)> {
    let all: Vec<&str> = lineage.snapshots_of(head).iter().map(|snapshot| snapshot.name.as_str()).collect();
    let going: Vec<&str> = going.iter().map(String::as_str).collect();
    let owned = |(first, last): (&str, &str)| (first.to_owned(), last.to_owned());
    snapspec::runs(&all, &going).into_iter().map(owned).collect()
}

/// Clones of these snapshots and what is below them, in the order in which they can go.
pub fn clones_of<'a>(lineage: &Lineage, snapshots: impl IntoIterator<Item = &'a String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let all = snapshots.into_iter().flat_map(|snapshot| lineage.dependents(snapshot));
    all.filter(|name| seen.insert(name.clone())).collect()
}

/// The refusal where anything hinders.
fn hindered(what: &str, kind: DatasetKind, has: &str, flag: &str, hindering: &[&String]) -> Option<Failure> {
    let reason = format!("{} has {has}", kind.word());
    let refusal = Failure::cannot(FailureKind::Busy, "destroy", what, &reason)
        .and(format!("use '{flag}' to destroy the following datasets:"));
    let tell = |refusal: Failure, name: &&String| refusal.and(name.as_str());
    (!hindering.is_empty()).then(|| hindering.iter().fold(refusal, tell))
}

/// One refusal that has the lines of all.
pub fn together(refusals: impl IntoIterator<Item = Failure>) -> Option<Failure> {
    refusals.into_iter().reduce(|one, other| other.stderr.into_iter().fold(one, Failure::and))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// p/a with @1 to @3 and p/a/b with @2; p/c is a clone of p/a@2.
    fn family() -> Lineage {
        let mut family = Lineage::default();
        for name in ["p", "p/a", "p/a/b"] {
            family.add_head(name, None);
        }
        family.add_head("p/c", Some("p/a@2"));
        for (name, txg) in [("p/a@1", 10), ("p/a@2", 20), ("p/a@3", 30), ("p/a/b@2", 20)] {
            family.add_snapshot(name, txg);
        }
        family
    }

    fn dataset(name: &str, recursive: bool, clones: bool) -> Result<Vec<String>, String> {
        let call = DatasetDestroy { name: name.to_owned(), recursive, clones, ..DatasetDestroy::default() };
        of_dataset(&family(), DatasetKind::Filesystem, &call).map_err(|failure| failure.stderr.join("\n"))
    }

    fn snapshots(spec: &str, change: impl FnOnce(&mut SnapshotDestroy)) -> Result<Vec<String>, String> {
        let mut call = SnapshotDestroy {
            dataset: "p/a".to_owned(),
            snapshots: spec.to_owned(),
            ..SnapshotDestroy::default()
        };
        change(&mut call);
        let family = family();
        let going = of_snapshots(&family, &call).map_err(|failure| failure.stderr.join("\n"))?;
        Ok(going.into_iter().flat_map(|(_, snapshots)| snapshots).collect())
    }

    #[test]
    fn a_dataset_goes_with_as_much_as_was_asked_for() {
        assert_eq!(
            dataset("p/a", false, false),
            Err("cannot destroy 'p/a': filesystem has children\nuse '-r' to destroy the following datasets:\n\
                 p/a/b@2\np/a/b\np/a@1\np/a@2\np/a@3"
                .to_owned())
        );
        assert_eq!(
            dataset("p/a", true, false),
            Err("cannot destroy 'p/a': filesystem has dependent clones\n\
                 use '-R' to destroy the following datasets:\np/c"
                .to_owned())
        );
        let all = ["p/a/b@2", "p/a/b", "p/a@1", "p/c", "p/a@2", "p/a@3", "p/a"];
        assert_eq!(dataset("p/a", true, true), Ok(all.map(str::to_owned).to_vec()));
        assert_eq!(dataset("p/c", false, false), Ok(vec!["p/c".to_owned()]));
        assert_eq!(dataset("p/x", true, true), Err("cannot open 'p/x': dataset does not exist".to_owned()));
    }

    #[test]
    fn snapshots_with_clones_stay_unless_the_clones_go_or_are_waited_for() {
        let refusal = "cannot destroy 'p/a@2': snapshot has dependent clones\n\
                       use '-R' to destroy the following datasets:\np/c";
        assert_eq!(snapshots("1%3", |_| ()), Err(refusal.to_owned()));
        let all = ["p/a@1", "p/a@2", "p/a@3"].map(str::to_owned).to_vec();
        assert_eq!(snapshots("1%3", |call| call.defer = true), Ok(all.clone()));
        assert_eq!(snapshots("%", |call| call.clones = true), Ok(all));
        assert_eq!(snapshots("3,1", |_| ()), Ok(vec!["p/a@1".to_owned(), "p/a@3".to_owned()]));
        assert_eq!(
            snapshots("2", |call| (call.recursive, call.clones) = (true, true)),
            Ok(vec!["p/a@2".to_owned(), "p/a/b@2".to_owned()])
        );
        let none = "could not find any snapshots to destroy; check snapshot names.";
        assert_eq!(snapshots("x", |_| ()), Err(none.to_owned()));
    }
}
