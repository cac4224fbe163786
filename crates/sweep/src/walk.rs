//! The walk over a leaf's free space.

use std::sync::Arc;
use std::time::Duration;

use env::{BufSlice, Durability, IoBuf, IoClass, boxed, in_class};
use metaslab::{NextFree, Segment};
use units::{LeafOffset, VdevOffset};
use vdev::{Leaf, Share, Top, VdevError};
use zio::Zio;

use crate::{Kind, PIECE_MAX_BYTES, PIECE_MIN_BYTES, Record, TrimCounters};

/// What is written where nothing is (`zfs_initialize_value`), little-endian.
pub const PATTERN: u64 = 0xdead_beef_dead_beef;
/// Bytes written at a time: few enough that who comes in between hardly waits.
const WRITE_BYTES: u64 = 64 << 10;
/// No more than this part of a vdev is held at a time.
const HELD_FRACTION: u64 = 16;

/// What a step of the walk came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// So many bytes of the leaf were swept, or skipped as too few.
    Swept(u64),
    /// The device did not do it; the walk goes on behind that place.
    Failed,
    /// Another leaf's walk is at the same place; it will be free in a moment.
    Busy,
    /// The leaf is out of use.
    Away,
    /// The leaf is in no vdev any more.
    Gone,
    /// There is nothing left.
    End,
}

/// One walk, from where the leaf's record says.
pub struct Walk {
    zio: Arc<Zio>,
    leaf: Arc<Leaf>,
    kind: Kind,
    rate: u64,
    /// Where it goes on, once the leaf's vdev is known.
    at: Option<VdevOffset>,
    begun: LeafOffset,
    filled: Arc<IoBuf>,
    swept_bytes: u64,
    /// Where a trim counts what becomes of free space.
    trims: Arc<TrimCounters>,
}

impl Walk {
    /// Returns a walk that begins at the place in `record`. A trim adds its counts to `trims`.
    #[must_use]
    pub fn new(
        zio: Arc<Zio>,
        leaf: Arc<Leaf>,
        kind: Kind,
        record: &Record,
        trims: Arc<TrimCounters>,
    ) -> Self {
        let filled = match kind {
            Kind::Initialize => filled(),
            Kind::Trim => IoBuf::zeroed(0),
        };
        let (rate, begun) = (record.rate, record.offset);
        Self { zio, leaf, kind, rate, at: None, begun, filled: Arc::new(filled), swept_bytes: 0, trims }
    }

    /// The place on the device up to which all is done.
    #[must_use]
    pub fn offset(&self) -> LeafOffset {
        self.begun
    }

    /// Does the next few bytes. Not to be dropped before it ends: bytes would stay held.
    #[boxed]
    pub async fn step(&mut self) -> Step {
        let Some(top) = self.top() else { return Step::Gone };
        if !self.leaf.is_usable() {
            return Step::Away;
        }
        let from = *self.at.get_or_insert_with(|| top.offset_from(&self.leaf, self.begun));
        let max = self.hold_bytes(&top);
        let held = match self.zio.with_allocator(|allocator| allocator.hold_free(top.id(), from, max)) {
            NextFree::Held(held) => held,
            NextFree::Busy(_) => return Step::Busy,
            NextFree::None => return Step::End,
        };
        let (share, done) = match self.share(&top, held) {
            Ok(Some(share)) => (Some(share), in_class(IoClass::Scrub, self.sweep(share)).await),
            Ok(None) => (None, Ok(())),
            Err(error) => (None, Err(error)),
        };
        // Also after a request that was given up without an answer and may still be carried out: until it is, nobody
        // writes to the device.
        self.zio.with_allocator(|allocator| allocator.give_back(top.id(), held));
        self.judge(held, share, done)
    }

    fn judge(&mut self, held: Segment, share: Option<Share>, done: Result<(), VdevError>) -> Step {
        let step = match done {
            Ok(()) => Step::Swept(share.map_or(0, |share| share.len)),
            Err(error) if error.is_absence() => return Step::Away,
            Err(error) => {
                tracing::warn!(kind = self.kind.name(), %error, "free space was passed over");
                Step::Failed
            }
        };
        self.at = Some(VdevOffset::new(held.end));
        if let Some(share) = share {
            self.begun = LeafOffset::new(share.start.get() + share.len);
            self.swept_bytes += share.len;
        }
        step
    }

    /// How long to wait so that no more is done than was asked for, `since` it began.
    #[must_use]
    pub fn ahead_by(&self, since: Duration) -> Duration {
        match self.rate {
            0 => Duration::ZERO,
            rate => Duration::from_secs_f64(self.swept_bytes as f64 / rate as f64).saturating_sub(since),
        }
    }

    fn top(&self) -> Option<Arc<Top>> {
        let top = self.zio.vdevs().top(self.leaf.vdev()).ok()?;
        top.leaves().iter().any(|leaf| Arc::ptr_eq(leaf, &self.leaf)).then_some(top)
    }

    /// What the leaf has of it; nothing if that is not worth a request.
    fn share(&self, top: &Top, held: Segment) -> Result<Option<Share>, VdevError> {
        let share = top.share_of(&self.leaf, VdevOffset::new(held.start), held.len())?;
        match share {
            Some(small) if self.kind == Kind::Trim && small.len < PIECE_MIN_BYTES => {
                self.trims.skipped(small.len);
                Ok(None)
            }
            share => Ok(share),
        }
    }

    fn hold_bytes(&self, top: &Top) -> u64 {
        let on_leaf = match self.kind {
            Kind::Initialize => WRITE_BYTES,
            Kind::Trim => PIECE_MAX_BYTES,
        };
        let part = top.config().asize / HELD_FRACTION;
        let held = (on_leaf * top.spread().children() as u64).min(part);
        held.next_multiple_of(top.ashift().sector_bytes())
    }

    async fn sweep(&self, share: Share) -> Result<(), VdevError> {
        if self.kind == Kind::Trim {
            let done = self.leaf.discard(share.start, share.len).await;
            self.trims.ended(share.len, done.is_ok());
            return done;
        }
        let mut at = share.start.get();
        let end = at + share.len;
        while at < end {
            let len = (end - at).min(WRITE_BYTES);
            let slice = BufSlice::new(Arc::clone(&self.filled), 0..len as usize);
            self.leaf.write(LeafOffset::new(at), vec![slice], Durability::Cached).await?;
            at += len;
        }
        Ok(())
    }
}

fn filled() -> IoBuf {
    let words = WRITE_BYTES as usize / size_of::<u64>();
    IoBuf::copy_of(&PATTERN.to_le_bytes().repeat(words))
}
