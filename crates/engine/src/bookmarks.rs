//! Bookmarks: notes of where a snapshot was, which stay when it goes.

use crate::lineage::{Lineage, Snapshot};
use crate::props::{Prop, Source, Value};
use crate::{Held, Holder, names, refusal};
use control::{BookmarkCreate, BookmarkDestroy, DatasetInfo, DatasetKind, Failure, FailureKind};
use pool::BookmarkInfo;
use std::collections::BTreeMap;

impl Holder {
    pub(super) async fn create_bookmark(&self, call: BookmarkCreate) -> Result<(), Failure> {
        let held = self.pool_of(&call.name)?;
        let lineage = self.lineage(&held).await?;
        check_source(&call)?;
        let mut marks = self.bookmarks_of(&held, names::head_of(&call.name)).await?;
        marks.extend(self.bookmarks_of(&held, names::head_of(&call.source)).await?);
        check_new(&lineage, &marks, &call)?;
        let made = held.pool.bookmark(call.source, call.name.clone()).await;
        made.map_err(|error| {
            let (kind, reason) = refusal::kind_and_reason(&error);
            let reason = match kind {
                FailureKind::Exists => "bookmark exists".to_owned(),
                FailureKind::Unsupported => "bookmark feature not enabled".to_owned(),
                _ => reason,
            };
            refuse(kind, &call.name, &reason)
        })
    }

    pub(super) async fn destroy_bookmark(&self, call: BookmarkDestroy) -> Result<(), Failure> {
        let no_such =
            || Failure::new(FailureKind::NoSuchDataset, format!("bookmark '{}' does not exist.", call.name));
        let held = self.pool_of(&call.name).map_err(|_| no_such())?;
        let marks = self.bookmarks_of(&held, names::head_of(&call.name)).await.map_err(|_| no_such())?;
        if !marks.iter().any(|mark| mark.name == call.name) {
            return Err(no_such());
        }
        let gone = held.pool.destroy_bookmark(call.name).await;
        gone.map_err(|error| {
            let (kind, reason) = refusal::kind_and_reason(&error);
            Failure::new(kind, format!("cannot destroy bookmark: {reason}"))
        })
    }

    /// Bookmarks of a dataset.
    pub(super) async fn bookmarks_of(&self, held: &Held, head: &str) -> Result<Vec<Snapshot>, Failure> {
        let found = self.told_bookmarks(held, head).await?.into_iter();
        Ok(found.map(|mark| Snapshot { name: mark.name, createtxg: mark.creation_txg }).collect())
    }

    /// Bookmarks of a dataset, to be shown.
    pub(super) async fn bookmark_infos(&self, held: &Held, head: &str) -> Result<Vec<DatasetInfo>, Failure> {
        Ok(self.told_bookmarks(held, head).await?.into_iter().map(shown).collect())
    }

    /// A bookmark, to be shown.
    pub(super) async fn bookmark_info(&self, held: &Held, name: &str) -> Result<DatasetInfo, Failure> {
        self.dataset(held, names::head_of(name)).await.map_err(|_| Failure::no_such_dataset(name))?;
        let found = self.bookmark_infos(held, names::head_of(name)).await?.into_iter();
        found.into_iter().find(|mark| mark.name == name).ok_or_else(|| no_such_bookmark(name))
    }

    async fn told_bookmarks(&self, held: &Held, head: &str) -> Result<Vec<BookmarkInfo>, Failure> {
        let _view = held.pool.view().await;
        held.pool.bookmarks(head).await.map_err(|e| refusal::pool("open", head, &e))
    }
}

/// `cannot open 'NAME': no such pool or dataset`: a dataset is there, and has no such bookmark.
pub fn no_such_bookmark(name: &str) -> Failure {
    Failure::cannot(FailureKind::NoSuchDataset, "open", name, "no such pool or dataset")
}

fn refuse(kind: FailureKind, name: &str, reason: &str) -> Failure {
    Failure::cannot(kind, "create bookmark", name, reason)
}

/// What needs no look at the pool.
fn check_source(call: &BookmarkCreate) -> Result<(), Failure> {
    if names::check_bookmark(&call.name).is_err() {
        return Err(refuse(FailureKind::Invalid, &call.name, "invalid argument"));
    }
    if names::pool_of(&call.source) != names::pool_of(&call.name) {
        return Err(refuse(FailureKind::Invalid, &call.name, "bookmark is in a different pool"));
    }
    Ok(())
}

/// Whether a bookmark can be made; `marks` are those of its dataset and of the source's.
///
/// # Errors
/// When its name will not do, the source is not there or no part of its dataset's history, or there is one already.
pub fn check_new(lineage: &Lineage, marks: &[Snapshot], call: &BookmarkCreate) -> Result<(), Failure> {
    check_source(call)?;
    let (name, head) = (call.name.as_str(), names::head_of(&call.name));
    let mark = |name: &str| marks.iter().find(|mark| mark.name == name);
    let source = lineage.snapshot(&call.source).or_else(|| mark(&call.source));
    let no_such = || refuse(FailureKind::NoSuchDataset, name, "dataset does not exist");
    let source = source.filter(|_| lineage.has(head)).ok_or_else(no_such)?;
    if mark(name).is_some() {
        return Err(refuse(FailureKind::Exists, name, "bookmark exists"));
    }
    if !lineage.is_history_of(head, names::head_of(&source.name), source.createtxg) {
        let reason = "source is not an ancestor of the new bookmark's dataset";
        return Err(refuse(FailureKind::Invalid, name, reason));
    }
    Ok(())
}

fn shown(mark: BookmarkInfo) -> DatasetInfo {
    let numbers = [("creation", mark.creation_secs), ("guid", mark.guid), ("createtxg", mark.creation_txg)];
    let referenced = mark
        .referenced
        .into_iter()
        .flat_map(|[referenced, _, logical]| [("referenced", referenced), ("logicalreferenced", logical)]);
    let facts = numbers.into_iter().chain(referenced).map(|(name, number)| (name, Value::Number(number)));
    let facts = facts.chain([("type", DatasetKind::Bookmark.word().into())]);
    let redacted_by = mark.redact_snaps.as_deref().map(|snaps| ("redact_snaps", crate::redact::shown(snaps)));
    let facts = facts.chain(redacted_by);
    let fact = |(name, value): (&str, Value)| (name.to_owned(), Prop { value, source: Source::None });
    DatasetInfo {
        name: mark.name,
        kind: DatasetKind::Bookmark,
        createtxg: mark.creation_txg,
        props: facts.map(fact).collect(),
        received: BTreeMap::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bookmark_is_of_its_datasets_history() {
        let mut family = Lineage::default();
        family.add_head("p/a", None);
        family.add_head("p/c", Some("p/a@2"));
        for (name, txg) in [("p/a@2", 2), ("p/a@3", 3), ("p/c@4", 4)] {
            family.add_snapshot(name, txg);
        }
        let marks = [Snapshot { name: "p/a#1".to_owned(), createtxg: 1 }];
        let check = |source: &str, name: &str| {
            let call = BookmarkCreate { source: source.to_owned(), name: name.to_owned() };
            check_new(&family, &marks, &call).map_err(|failure| failure.stderr.join("\n"))
        };
        for (source, name) in [("p/a@3", "p/a#x"), ("p/a@2", "p/c#x"), ("p/a#1", "p/c#x"), ("p/a#1", "p/a#y")]
        {
            assert_eq!(check(source, name), Ok(()), "{source} {name}");
        }
        for (source, name, reason) in [
            ("p/a@3", "p/c#x", "source is not an ancestor of the new bookmark's dataset"),
            ("p/c@4", "p/a#x", "source is not an ancestor of the new bookmark's dataset"),
            ("p/a@2", "p/a#1", "bookmark exists"),
            ("p/a@9", "p/a#x", "dataset does not exist"),
            ("p/a@2", "p/x#x", "dataset does not exist"),
            ("q/a@2", "p/a#x", "bookmark is in a different pool"),
            ("p/a@2", "p/a#!", "invalid argument"),
        ] {
            assert_eq!(check(source, name), Err(format!("cannot create bookmark '{name}': {reason}")));
        }
    }
}
