//! Finds snapshots by guid. A received snapshot has the guid of the sent snapshot, so several
//! snapshots of a pool may have the same guid. The purpose of the search decides which of them is
//! chosen.
//!
//! ```text
//!  base of a stream   the sent dataset, its origin, and so on; then its bookmarks; then as below
//!  other purposes     nearest to a name: this dataset, those below it, those below its parent, …
//! ```

use crate::{Held, Holder, names, refusal};
use control::Failure;
use dsl::{DatasetName, DslError};

impl Holder {
    /// Returns the snapshot with this guid that is nearest to a name.
    pub(super) async fn snapshot_near(
        &self,
        held: &Held,
        near: &str,
        guid: u64,
    ) -> Result<Option<String>, Failure> {
        let pool = held.pool.name();
        let cannot = |error| crate::datasets::cannot_open(&pool, error);
        let _view = held.pool.view().await;
        let mut heads = held.pool.dsl().list(&pool).await.map_err(cannot)?;
        heads.sort_by_key(|head| distance(names::head_of(near), &head.name));
        for head in heads {
            if let Some(found) = snapshot_of(held, &head, guid).await.map_err(cannot)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Returns the snapshot or bookmark with this guid from which a stream of `snapshot`, or of a
    /// part of it, starts.
    pub(super) async fn source_of_guid(
        &self,
        held: &Held,
        snapshot: &str,
        guid: u64,
    ) -> Result<Option<String>, Failure> {
        let head = names::head_of(snapshot);
        let cannot = |error: DslError| refusal::pool("open", head, &error.into());
        let dsl = held.pool.dsl();
        let view = held.pool.view().await;
        let (mut at, mut seen) = (Some(head.to_owned()), Vec::new());
        while let Some(name) = at.take().filter(|name| !seen.contains(name)) {
            let dataset = dsl.resolve(&name).await.map_err(cannot)?;
            if let Some(found) = snapshot_of(held, &dataset, guid).await.map_err(cannot)? {
                return Ok(Some(found));
            }
            let dir = dsl.dir(dataset.dir).await.map_err(cannot)?;
            let origin = dsl.origin_name(&dir, &held.pool.name()).await.map_err(cannot)?;
            at = origin.map(|origin| names::head_of(&origin).to_owned());
            seen.push(name);
        }
        let marks = held.pool.bookmarks(head).await.map_err(|error| refusal::pool("open", head, &error))?;
        drop(view);
        let is_whole = |mark: &pool::BookmarkInfo| mark.guid == guid && mark.redact_snaps.is_none();
        match marks.into_iter().find(is_whole) {
            Some(mark) => Ok(Some(mark.name)),
            None => self.snapshot_near(held, head, guid).await,
        }
    }
}

/// Returns the snapshot of a dataset with this guid.
async fn snapshot_of(held: &Held, head: &DatasetName, guid: u64) -> Result<Option<String>, DslError> {
    let dsl = held.pool.dsl();
    for snapshot in dsl.snapshots(head).await? {
        if dsl.dataset(snapshot.dataset).await?.guid.get() == guid {
            return Ok(Some(snapshot.name));
        }
    }
    Ok(None)
}

/// Returns the distance of a dataset from a name: the components up to the common ancestor, then
/// the components down from there.
fn distance(from: &str, to: &str) -> (usize, usize) {
    let (from, to): (Vec<&str>, Vec<&str>) = (from.split('/').collect(), to.split('/').collect());
    let common = from.iter().zip(&to).take_while(|(one, other)| one == other).count();
    (from.len() - common, to.len() - common)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dataset_itself_is_nearest_then_what_is_below_then_what_is_below_its_parent() {
        let mut names = ["p", "p/a", "p/a/copy", "p/s", "p/s/below", "p/s/below/more", "p/z"];
        names.sort_by_key(|name| distance("p/s", name));
        assert_eq!(names, ["p/s", "p/s/below", "p/s/below/more", "p", "p/a", "p/z", "p/a/copy"]);
    }
}
