//! What a stream leaves out on purpose, and what it has to make good.
//!
//! ```text
//!  walk        object 7 │▒▒▒▒▒▒▒▒▒▒▒▒│        what is new
//!  blocks               │   ▒▒▒      │        left out: told as REDACT, new or not
//!  from blocks          │ ▒▒▒▒▒   ▒▒ │ ▒▒     left out of what the receiver has: sent, though old
//! ```
//! All three are in order of object and block, and are merged by that. Where the first two meet, the second wins, and where it
//! meets the third nothing is told: the receiver has not got it and is not to get it.
//!
//! Invariants
//! - No block in `blocks` is sent. (test: `what_is_redacted_is_not_in_the_stream`)
//! - What a receiver lacks that is in `from_blocks` is sent, if it is still there.
//!   (test: `a_stream_from_a_redaction_bookmark_makes_good_what_was_left_out`)

use std::collections::VecDeque;
use std::sync::Arc;

use dmu::{DmuError, Dnode, Objset, SeekTo};
use env::boxed;
use ondisk::dsl::RedactBlockPhys;
use units::{BlockId, Level, ObjectId};
use zio::Bookmark;

use crate::SendError;
use crate::walk::{Found, FoundBlock, Walk};

/// What of a stream is left out, and what of the one that it starts from was.
#[derive(Clone, Debug, Default)]
pub struct Redaction {
    /// Guids of the snapshots by which what is sent is redacted; `None`: it is not.
    pub snaps: Option<Vec<u64>>,
    /// Runs of blocks that are left out, by object and block.
    pub blocks: Vec<RedactBlockPhys>,
    /// Guids of the snapshots by which what the stream starts from is redacted.
    pub from_snaps: Option<Vec<u64>>,
    /// Runs of blocks that the receiver lacks of that, by object and block.
    pub from_blocks: Vec<RedactBlockPhys>,
}

/// A run of blocks: the first, and the one behind the last.
#[derive(Clone, Copy, Debug)]
struct Run {
    object: u64,
    block: u64,
    end: u64,
    block_bytes: u64,
}

impl Run {
    fn of(phys: &RedactBlockPhys) -> Self {
        let block = phys.block.get();
        let end = block.saturating_add(phys.count());
        Self { object: phys.object.get(), block, end, block_bytes: phys.block_bytes() }
    }
}

fn runs(blocks: &[RedactBlockPhys]) -> VecDeque<Run> {
    blocks.iter().map(Run::of).filter(|run| run.block < run.end).collect()
}

/// A run that is looked for in what is sent.
struct Lacking {
    dnode: Arc<Dnode>,
    next: u64,
    end: u64,
}

/// A walk with what is left out and what is made good.
pub(crate) struct Redacted {
    walk: Walk,
    objset: Arc<Objset>,
    head: Option<Found>,
    blocks: VecDeque<Run>,
    from_blocks: VecDeque<Run>,
    lacking: Option<Lacking>,
}

impl Redacted {
    pub fn new(walk: Walk, objset: &Arc<Objset>, redaction: &Redaction) -> Self {
        Self {
            walk,
            objset: Arc::clone(objset),
            head: None,
            blocks: runs(&redaction.blocks),
            from_blocks: runs(&redaction.from_blocks),
            lacking: None,
        }
    }

    /// What comes next; `None` at the end.
    #[boxed]
    pub async fn next(&mut self) -> Result<Option<Found>, SendError> {
        loop {
            if let Some(found) = self.made_good().await? {
                return Ok(Some(found));
            }
            if self.head.is_none() {
                self.head = self.walk.next().await?;
            }
            let head = self.head.as_ref().map(place);
            let fronts = [self.blocks.front(), self.from_blocks.front()];
            let listed = fronts.into_iter().flatten().map(|run| (run.object, run.block)).min();
            match (head, listed) {
                (None, None) => return Ok(None),
                (_, None) => return Ok(self.head.take()),
                (Some(head), Some(listed)) if head.is_whole && (head.object, head.block) <= listed => {
                    return Ok(self.head.take());
                }
                (_, Some(listed)) => {
                    let at = head.map_or(listed, |head| listed.min((head.object, head.block)));
                    if let Some(found) = self.piece(at).await? {
                        return Ok(Some(found));
                    }
                }
            }
        }
    }

    /// What is to be told of the blocks from here up to where something else begins or ends.
    async fn piece(&mut self, (object, block): (u64, u64)) -> Result<Option<Found>, SendError> {
        let head = self.head.as_ref().map(place).filter(|head| head.object == object);
        let fronts = [self.blocks.front(), self.from_blocks.front()];
        let ends =
            fronts.into_iter().flatten().filter(|run| run.object == object).map(|run| (run.block, run.end));
        let ends = ends.chain(head.map(|head| (head.block, head.end)));
        let end = ends.map(|(start, end)| if start == block { end } else { start }).min().unwrap_or(block);
        let redacted = taken(&mut self.blocks, object, block, end);
        let lacking = taken(&mut self.from_blocks, object, block, end);
        let new = match head {
            Some(head) if head.block == block && !head.is_whole => self.cut(end),
            _ => None,
        };
        match (redacted, new, lacking) {
            (Some(_), _, Some(_)) => Ok(None),
            (Some(run), ..) => Ok(Some(Found::Redacted {
                object: ObjectId::new(object),
                block_bytes: run.block_bytes,
                first_block: block,
                end_block: end,
            })),
            (None, Some(found), _) => Ok(Some(found)),
            (None, None, Some(_)) => {
                self.look_for(object, block, end).await?;
                Ok(None)
            }
            (None, None, None) => Ok(None),
        }
    }

    /// Takes off what was found up to this block.
    fn cut(&mut self, end: u64) -> Option<Found> {
        match self.head.take()? {
            Found::Hole { object, block_bytes, first_block, end_block }
                if end_block.is_none_or(|last| end < last) && end != u64::MAX =>
            {
                self.head = Some(Found::Hole { object, block_bytes, first_block: end, end_block });
                Some(Found::Hole { object, block_bytes, first_block, end_block: Some(end) })
            }
            found => Some(found),
        }
    }

    async fn look_for(&mut self, object: u64, first: u64, end: u64) -> Result<(), SendError> {
        let dnode = match self.objset.hold(ObjectId::new(object)).await {
            Ok(dnode) => dnode,
            // What is gone is told of where its number is.
            Err(DmuError::NoSuchObject { .. }) => return Ok(()),
            Err(source) => return Err(self.unreadable(object, source)),
        };
        let end = end.min(dnode.max_block().get().saturating_add(1));
        self.lacking = (first < end).then_some(Lacking { dnode, next: first, end });
        Ok(())
    }

    fn unreadable(&self, object: u64, source: DmuError) -> SendError {
        SendError::Object {
            objset: self.objset.id(),
            object: ObjectId::new(object),
            source: Box::new(source),
        }
    }

    /// The next block, or hole, of what the receiver lacks.
    async fn made_good(&mut self) -> Result<Option<Found>, SendError> {
        let Some(Lacking { dnode, next, end }) = self.lacking.take() else { return Ok(None) };
        let object = dnode.object();
        let objset = self.objset.id();
        let failed = |source| SendError::Object { objset, object, source: Box::new(source) };
        let block_bytes = u64::from(dnode.block_bytes());
        let data = dnode.seek(next.saturating_mul(block_bytes), SeekTo::Data).await.map_err(failed)?;
        let data = data.map_or(end, |offset| (offset / block_bytes).clamp(next, end));
        let (found, until) = if data > next {
            (Found::Hole { object, block_bytes, first_block: next, end_block: Some(data) }, data)
        } else {
            let bp = dnode.synced_blkptr(BlockId::new(next)).await.map_err(failed)?;
            let bookmark = Bookmark::new(self.objset.id(), object, Level::new(0), BlockId::new(next));
            (Found::Data(FoundBlock { object_type: dnode.object_type(), bookmark, bp }), next + 1)
        };
        self.lacking = (until < end).then_some(Lacking { dnode, next: until, end });
        Ok(Some(found))
    }
}

/// Where something was found.
#[derive(Clone, Copy)]
struct Place {
    object: u64,
    block: u64,
    end: u64,
    /// It is told of as it is, before what is listed there.
    is_whole: bool,
}

impl Found {
    /// The object that it is about, or the first of them.
    pub fn object(&self) -> u64 {
        place(self).object
    }
}

fn place(found: &Found) -> Place {
    let whole = |object, block| Place { object, block, end: block, is_whole: true };
    let part = |object: ObjectId, block, end| Place { object: object.get(), block, end, is_whole: false };
    match found {
        Found::Object { object, .. } => whole(object.get(), 0),
        Found::Free { first, .. } => whole(*first, 0),
        Found::Spill { block, is_old: true } => whole(block.bookmark.object.get(), 0),
        Found::Spill { block, is_old: false } => whole(block.bookmark.object.get(), u64::MAX),
        Found::Data(block) => {
            let number = block.bookmark.block.get();
            part(block.bookmark.object, number, number.saturating_add(1))
        }
        Found::Hole { object, first_block, end_block, .. } => {
            part(*object, *first_block, end_block.unwrap_or(u64::MAX))
        }
        Found::Redacted { object, first_block, end_block, .. } => part(*object, *first_block, *end_block),
    }
}

/// Takes blocks off the first run, if it begins with them.
fn taken(runs: &mut VecDeque<Run>, object: u64, block: u64, end: u64) -> Option<Run> {
    let front = runs.front_mut().filter(|run| run.object == object && run.block == block)?;
    let run = *front;
    front.block = end;
    if front.block >= front.end {
        runs.pop_front();
    }
    Some(run)
}
