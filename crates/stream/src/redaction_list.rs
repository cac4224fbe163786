//! Which blocks of a snapshot others have all changed: what a redacted send leaves out.
//!
//! ```text
//!  p/fs@s    object 7 │ 0 1 2 3 4 5 │
//!  p/a@r              │   ▒ ▒ ▒     │   what each of its clones has changed since, in the same order of
//!  p/b@r              │     ▒ ▒   ▒ │   objects and blocks
//!  the list           │     ▒ ▒     │   what all have
//! ```
//! Who may see a clone may see what it has not changed, so that what one clone has left as it was is nobody's secret. A block
//! that a clone has freed counts as changed, as do all of a file that it has removed. Only data is listed: directories and
//! attributes are sent in any case.
//! (test: `what_all_clones_have_changed_is_listed`, golden: `the_list_is_the_one_that_openzfs_made`)

use std::collections::BTreeSet;
use std::sync::Arc;

use dmu::zap::Zap;
use dmu::{Dnode, Objset};
use env::boxed;
use ondisk::dnode::OBJECT_SHIFT_MAX;
use ondisk::dsl::RedactBlockPhys;
use ondisk::objset::ObjsetType;
use ondisk::znode::{MASTER_NODE, master};
use units::{ObjectId, Txg};

use crate::SendError;
use crate::walk::{Found, From, Walk};

/// A place in an objset: object and block.
type At = (u64, u64);

/// The blocks of `target` that all of `by` have changed since `since`, by object and block: without any of them, all. None of them changes meanwhile:
/// they are snapshots.
///
/// # Errors
/// See [`SendError`].
#[boxed]
pub async fn redaction_list(
    target: &Arc<Objset>,
    by: &[Arc<Objset>],
    since: Txg,
) -> Result<Vec<RedactBlockPhys>, SendError> {
    let mut all = Vec::with_capacity(by.len());
    let mut fronts = Vec::with_capacity(by.len());
    for objset in by {
        let mut changed = Changed::begin(objset, since).await?;
        let Some(front) = changed.next().await? else { return Ok(Vec::new()) };
        fronts.push(front);
        all.push(changed);
    }
    let mut list = List { target, runs: Vec::new(), held: None };
    if by.is_empty() {
        list.add((1, 0), (u64::MAX, u64::MAX)).await?;
    }
    while let Some(first_to_end) = (0..fronts.len()).min_by_key(|at| fronts[*at].1) {
        let end = fronts[first_to_end].1;
        let start = fronts.iter().map(|front| front.0).max().unwrap_or(end);
        if start <= end {
            list.add(start, end).await?;
        }
        match all[first_to_end].next().await? {
            Some(front) => fronts[first_to_end] = front,
            None => break,
        }
    }
    Ok(list.runs)
}

/// What an objset has changed since a txg, run after run: the first place of each, and its last.
struct Changed {
    walk: Walk,
    /// Files that are removed and still open.
    removed: BTreeSet<u64>,
    /// All of this object was told.
    told: Option<u64>,
}

impl Changed {
    async fn begin(objset: &Arc<Objset>, since: Txg) -> Result<Self, SendError> {
        let zio = Arc::clone(objset.zio());
        let (walk, _) = Walk::begin(zio, objset.id(), &objset.root(), since, From::default()).await?;
        Ok(Self { walk: walk.with_holes_beyond_ends(), removed: removed(objset).await?, told: None })
    }

    async fn next(&mut self) -> Result<Option<(At, At)>, SendError> {
        while let Some(found) = self.walk.next().await? {
            let run = match found {
                Found::Object { object, .. } if self.removed.contains(&object.get()) => {
                    self.told = Some(object.get());
                    ((object.get(), 0), (object.get(), u64::MAX))
                }
                Found::Free { first, objects } if objects > 0 => {
                    ((first, 0), (first.saturating_add(objects - 1), u64::MAX))
                }
                Found::Data(block) => {
                    let at = (block.bookmark.object.get(), block.bookmark.block.get());
                    (at, at)
                }
                Found::Hole { object, first_block, end_block, .. } => {
                    let last = end_block.map_or(u64::MAX, |end| end.saturating_sub(1));
                    ((object.get(), first_block), (object.get(), last))
                }
                _ => continue,
            };
            let (start, end) = run;
            if self.told != Some(start.0) || end.1 == u64::MAX && start.1 == 0 {
                return Ok(Some((start, end)));
            }
        }
        Ok(None)
    }
}

/// Files that are removed and still open.
async fn removed(objset: &Arc<Objset>) -> Result<BTreeSet<u64>, SendError> {
    if objset.kind() != ObjsetType::Zfs {
        return Ok(BTreeSet::new());
    }
    let id = objset.id();
    let held = async |object| {
        let held = objset.hold(object).await;
        held.map_err(|source| SendError::Object { objset: id, object, source: Box::new(source) })
    };
    let damaged = |source| SendError::MasterZap { objset: id, source: Box::new(source) };
    let zap = Zap::open(held(MASTER_NODE).await?).await.map_err(damaged)?;
    let Some(queue) = zap.lookup_u64(master::DELETE_QUEUE.as_bytes()).await.map_err(damaged)? else {
        return Ok(BTreeSet::new());
    };
    let queue = Zap::open(held(ObjectId::new(queue)).await?).await.map_err(damaged)?;
    let entries = queue.all().await.map_err(damaged)?;
    Ok(entries.iter().filter_map(|entry| entry.value.as_u64()).collect())
}

/// The list, as far as it is.
struct List<'a> {
    target: &'a Arc<Objset>,
    runs: Vec<RedactBlockPhys>,
    held: Option<Arc<Dnode>>,
}

impl List<'_> {
    /// What the target has of all places from one to another.
    async fn add(&mut self, start: At, end: At) -> Result<(), SendError> {
        if start.0 >> OBJECT_SHIFT_MAX != 0 {
            // There are no such numbers.
            return Ok(());
        }
        let mut before = start.0.saturating_sub(1);
        if self.held.as_ref().is_some_and(|dnode| dnode.object().get() == start.0) {
            before = start.0;
            self.add_of_held(start, end);
        }
        while before < end.0 {
            let (objset, object) = (self.target.id(), ObjectId::new(before));
            let failed = |source| SendError::Object { objset, object, source: Box::new(source) };
            let next = self.target.next_object(object).await.map_err(failed)?;
            let Some(next) = next.filter(|next| next.get() <= end.0) else { return Ok(()) };
            before = next.get();
            self.held = Some(self.target.hold(next).await.map_err(failed)?);
            self.add_of_held(start, end);
        }
        Ok(())
    }

    fn add_of_held(&mut self, start: At, end: At) {
        let Some(dnode) = self.held.as_ref().filter(|dnode| !dnode.object_type().is_metadata()) else {
            return;
        };
        let (object, last_block) = (dnode.object().get(), dnode.max_block().get());
        let first = if start.0 < object { 0 } else { start.1 };
        let last = if end.0 > object { last_block } else { end.1.min(last_block) };
        if first <= last {
            let block_bytes = dnode.block_bytes();
            self.push(object, first, last - first + 1, block_bytes);
        }
    }

    fn push(&mut self, object: u64, first: u64, count: u64, block_bytes: u32) {
        if let Some(run) = self.runs.last_mut()
            && run.object.get() == object
            && run.block.get() + run.count() == first
            && run.count().saturating_add(count) <= RedactBlockPhys::COUNT_MAX
        {
            *run = RedactBlockPhys::new(object, run.block.get(), run.count() + count, block_bytes);
            return;
        }
        let (mut first, mut rest) = (first, count);
        while rest > 0 {
            let some = rest.min(RedactBlockPhys::COUNT_MAX);
            self.runs.push(RedactBlockPhys::new(object, first, some, block_bytes));
            (first, rest) = (first + some, rest - some);
        }
    }
}
