//! The copying of one txg: as much as fits its bounds of bytes and time, in rounds of a few spans.

use std::sync::Arc;
use std::time::Duration;

use env::{IoClass, boxed, in_class};
use futures::stream::{self, StreamExt, TryStreamExt};
use metaslab::{AllocError, Allocator, Class, Hint, Segment};
use ondisk::Dva;
use ondisk::indirect::Entry;
use units::{Asize, Psize, Txg, VdevId, VdevOffset};
use vdev::{Run, Top};
use zio::{RunCopy, Zio};

use crate::{EvacuationError, Plan, SPAN_MAX_BYTES, Span};

/// I/O of one piece of a span: 1 MiB.
const PIECE_BYTES: u64 = 1 << 20;
/// Pieces at a time, each of which is in memory.
const AT_ONCE: usize = 8;
/// After so many bytes it is asked whether the time is up.
const ROUND_BYTES: u64 = PIECE_BYTES * AT_ONCE as u64;

/// How much a txg copies.
#[derive(Clone, Copy, Debug)]
pub struct BatchLimits {
    /// Bytes that are allocated on the vdev, at most: whole sectors.
    pub bytes: u64,
    /// No round begins after that.
    pub time: Duration,
}

/// What a txg has copied.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The mapping's next entries, with how many of their bytes are obsolete from the beginning.
    pub entries: Vec<(Entry, u32)>,
}

/// A span, and its new place.
struct Placed {
    span: Span,
    to: Dva,
}

/// Copies what comes next of a vdev that is being removed to room of `txg`, which is being synced. Nothing is left if the
/// batch is empty. The copying is to be noted in the same txg.
///
/// # Errors
/// [`EvacuationError::Copy`], [`EvacuationError::NoSpace`]: nothing is allocated then.
#[boxed]
pub async fn copy_some(
    zio: &Arc<Zio>,
    top: &Top,
    txg: Txg,
    limits: BatchLimits,
) -> Result<Batch, EvacuationError> {
    let (vdev, from) = (top.id(), top.with_copied(vdev::Mapping::end));
    let (left, ms_shift) = zio.with_allocator(|allocator| {
        let ms_shift = allocator.vdev_config(vdev).map_or(0, |config| config.ms_shift);
        (allocator.left_on(vdev, from, limits.bytes), ms_shift)
    });
    let mut work = Work {
        zio,
        vdev,
        txg,
        plan: Plan::new(left, ms_shift),
        span_max: SPAN_MAX_BYTES,
        placed: Vec::new(),
    };
    let env = zio.vdevs().env();
    let until = env.now() + limits.time;
    let copied = loop {
        match in_class(IoClass::Scrub, work.round()).await {
            Ok(true) if env.now() < until => {}
            Ok(_) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    match copied {
        Ok(()) => Ok(work.done()),
        Err(error) => {
            work.give_back();
            Err(error)
        }
    }
}

struct Work<'a> {
    zio: &'a Arc<Zio>,
    vdev: VdevId,
    txg: Txg,
    plan: Plan,
    /// Longer spans found no room in this txg.
    span_max: u64,
    placed: Vec<Placed>,
}

impl Work<'_> {
    /// Places and copies a few spans; whether there may be more.
    async fn round(&mut self) -> Result<bool, EvacuationError> {
        let (first, mut bytes) = (self.placed.len(), 0);
        while bytes < ROUND_BYTES {
            match self.place() {
                Ok(Some(len)) => bytes += len,
                Ok(None) => break,
                // There is room for some: the next txg tries the rest, when more may be free.
                Err(_) if !self.placed.is_empty() => break,
                Err(source) => return Err(EvacuationError::NoSpace { vdev: self.vdev, source }),
            }
        }
        let copies: Vec<_> =
            self.placed[first..].iter().flat_map(|placed| placed.pieces(self.vdev)).collect();
        let zio = self.zio;
        let copies = copies.into_iter().map(|copy| async move { zio.copy_run(&copy).await });
        let done = stream::iter(copies).buffer_unordered(AT_ONCE).try_collect::<()>().await;
        done.map_err(|source| EvacuationError::Copy { vdev: self.vdev, source })?;
        Ok(bytes >= ROUND_BYTES)
    }

    /// Finds room for the next span, or the first part of it; says how long that is.
    fn place(&mut self) -> Result<Option<u64>, AllocError> {
        loop {
            let Some(span) = self.plan.next(self.span_max) else { return Ok(None) };
            let len = span.whole().len();
            match self.room(len) {
                Ok(to) => {
                    assert_eq!(to.asize, Asize::new(len), "all vdevs have the same sectors");
                    self.placed.push(Placed { span, to });
                    return Ok(Some(len));
                }
                Err(error) => {
                    self.plan.put_back(span);
                    let sector = self.zio.vdevs().min_ashift();
                    if len <= sector.sector_bytes() {
                        return Err(error);
                    }
                    self.span_max = sector.round_up(len / 2);
                }
            }
        }
    }

    /// Room of the vdev's own class, or else where data are.
    fn room(&self, len: u64) -> Result<Dva, AllocError> {
        let avoid: Vec<VdevId> = self.zio.vdevs().unusable().into_iter().chain([self.vdev]).collect();
        let hint = Hint { prefer: None, avoid: &avoid };
        self.zio.with_allocator(|allocator| {
            let own = allocator.vdev_config(self.vdev).map_or(Class::Normal, |config| config.class);
            let room = |allocator: &mut Allocator, class| {
                allocator.allocate(class, Psize::new(len), 1, self.txg, hint).map(|dvas| dvas[0])
            };
            match room(allocator, own) {
                Err(_) if own != Class::Normal => room(allocator, Class::Normal),
                found => found,
            }
        })
    }

    /// Gives back what lies between runs, and tells the rest.
    fn done(self) -> Batch {
        let entries = self.zio.with_allocator(|allocator| {
            let noted = |placed: &Placed| {
                let gaps = placed.gaps().inspect(|gap| allocator.unalloc(self.txg, gap));
                let obsolete: u64 = gaps.map(|gap| gap.asize.get()).sum();
                let source = VdevOffset::new(placed.span.whole().start);
                (Entry { source, target: placed.to }, u32::try_from(obsolete).expect("a span is short"))
            };
            self.placed.iter().map(noted).collect()
        });
        Batch { entries }
    }

    fn give_back(self) {
        self.zio.with_allocator(|allocator| {
            self.placed.iter().for_each(|placed| allocator.unalloc(self.txg, &placed.to));
        });
    }
}

impl Placed {
    fn gaps(&self) -> impl Iterator<Item = Dva> + '_ {
        self.span.gaps().map(|gap| self.at(gap).dva())
    }

    /// The new place of some of its bytes.
    fn at(&self, part: Segment) -> Run {
        let within = part.start - self.span.whole().start;
        Run { vdev: self.to.vdev, offset: VdevOffset::new(self.to.offset.get() + within), len: part.len() }
    }

    fn pieces(&self, vdev: VdevId) -> impl Iterator<Item = RunCopy> + '_ {
        let whole = self.span.whole();
        let starts = (whole.start..whole.end).step_by(PIECE_BYTES as usize);
        let parts = starts.map(move |start| Segment { start, end: whole.end.min(start + PIECE_BYTES) });
        let copy = move |part: Segment| RunCopy {
            from: Run { vdev, offset: VdevOffset::new(part.start), len: part.len() },
            to: self.at(part),
            live: self.span.live_in(part),
        };
        parts.map(copy).filter(|copy| !copy.live.is_empty())
    }
}
