//! Reading logs: their blocks mostly lie next to each other, so more is read than the block that was asked for.
//!
//! ```text
//!  vdev   ├──── span ────┼──── span ────┼──── span ────┼────
//!          a1 b1 a2 b2 a3 b3 a4 …         being read     being read
//!          │  └ the second in this span: it is read whole
//!          └ the first: read by itself, many logs are no longer
//! ```
//! A chain is walked block by block, for each block names the next; read so, a device is never asked for two blocks
//! at once. Spans are raw bytes of a vdev, shared by all chains that are walked at the time, as logs of several
//! datasets lie among each other. Whether a span holds the block that a chain means, the block's checksum says; if
//! not, it is read by itself, from all copies there are. Spans are kept while a log is being walked: a block of a
//! chain that is claimed, or found before anything is written, does not change meanwhile.
//! (test: `a_log_is_read_in_spans_and_block_by_block_where_those_fail`)

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use env::{BoxFuture, Env, IoBuf, boxed};
use futures::FutureExt;
use futures::future::Shared;
use ondisk::{Blkptr, Dva};
use parking_lot::Mutex;
use units::{VdevId, VdevOffset};
use vdev::{Address, VdevTree};

/// Bytes of a span.
const SPAN_BYTES: u64 = 1 << 20;
/// Spans that are read ahead of the one in use.
const SPANS_AHEAD: u64 = 2;
/// Spans kept.
const SPANS_MAX: usize = 32;

/// Which span of which vdev.
type Place = (VdevId, u64);
type Reading = Shared<BoxFuture<'static, Option<Arc<IoBuf>>>>;

/// Reads blocks of logs for walks along their chains.
pub(crate) struct LogReader {
    vdevs: Arc<VdevTree>,
    env: Arc<dyn Env>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Walks under way.
    walks: usize,
    spans: BTreeMap<Place, Span>,
    /// Reads under way, and some that have ended.
    reading: Vec<Reading>,
    uses: u64,
}

struct Span {
    /// Its bytes, or none where a device did not answer; nobody has asked for them yet when a single block
    /// was read there.
    bytes: Option<Reading>,
    last_used: u64,
}

impl LogReader {
    pub fn new(vdevs: Arc<VdevTree>, env: Arc<dyn Env>) -> Self {
        Self { vdevs, env, state: Mutex::default() }
    }

    pub fn walk_begins(&self) {
        self.state.lock().walks += 1;
    }

    pub fn walk_ends(&self) {
        let mut state = self.state.lock();
        state.walks -= 1;
        if state.walks == 0 {
            state.spans.clear();
        }
    }

    /// Waits until nothing is being read ahead: that would keep devices open.
    #[boxed]
    pub async fn wait_for_reads(&self) {
        loop {
            let Some(reading) = self.state.lock().reading.pop() else { return };
            reading.await;
        }
    }

    /// Bytes of the place of `bp`, if they come with a span: what was there when that was read.
    #[boxed]
    pub async fn read(&self, bp: &Blkptr) -> Option<IoBuf> {
        let Dva { vdev, offset, .. } = bp.dva(0);
        let len = bp.psize().get();
        let end = offset.get().checked_add(len)?;
        let extent = self.plain_extent(vdev).filter(|&extent| !bp.is_gang() && end <= extent)?;
        let mut block = IoBuf::stale(usize::try_from(len).ok()?);
        for number in offset.get() / SPAN_BYTES..end.div_ceil(SPAN_BYTES) {
            let span = self.span((vdev, number), extent)?.await?;
            let start = number * SPAN_BYTES;
            let part = offset.get().max(start)..end.min(start + SPAN_BYTES);
            let from = span.get(within(&part, start))?;
            block[within(&part, offset.get())].copy_from_slice(from);
        }
        Some(block)
    }

    /// How far the vdev reaches, if any range of it can be read as it lies there.
    fn plain_extent(&self, vdev: VdevId) -> Option<u64> {
        let top = self.vdevs.top(vdev).ok()?;
        top.kind().holds_copies().then(|| top.asize_of_leaf())
    }

    /// The span to take a block from; none for the first block of a place where nothing was read before.
    fn span(&self, place: Place, extent: u64) -> Option<Reading> {
        let (vdev, number) = place;
        let mut state = self.state.lock();
        let is_next = number > 0 && state.spans.contains_key(&(vdev, number - 1));
        if state.walks == 0 || !is_next && !state.spans.contains_key(&place) {
            state.touch(place);
            return None;
        }
        let last = if is_next { number + SPANS_AHEAD } else { number };
        let ahead = (number + 1..=last).filter(|ahead| ahead * SPAN_BYTES < extent);
        for number in ahead {
            drop(self.start(&mut state, (vdev, number), extent));
        }
        Some(self.start(&mut state, place, extent))
    }

    /// Reads a span, unless that was begun before.
    fn start(&self, state: &mut State, place: Place, extent: u64) -> Reading {
        let span = state.touch(place);
        if let Some(bytes) = &span.bytes {
            return bytes.clone();
        }
        let (vdev, start) = (place.0, place.1 * SPAN_BYTES);
        let len = SPAN_BYTES.min(extent - start) as usize;
        let vdevs = Arc::clone(&self.vdevs);
        let read = async move {
            let read = vdevs.read(Address::now(vdev, VdevOffset::new(start)), len, &|_| true).await;
            read.ok().map(Arc::new)
        };
        let reading = (Box::pin(read) as BoxFuture<'static, _>).shared();
        span.bytes = Some(reading.clone());
        state.reading.retain(|reading| reading.peek().is_none());
        state.reading.push(reading.clone());
        // Whether anybody waits for it or not.
        self.env.spawn("log_ahead", Box::pin(reading.clone().map(drop)));
        reading
    }
}

impl State {
    /// The span at `place`; the one that was used longest ago makes room for it.
    fn touch(&mut self, place: Place) -> &mut Span {
        self.uses += 1;
        if self.spans.len() >= SPANS_MAX && !self.spans.contains_key(&place) {
            let oldest = self.spans.iter().min_by_key(|(_, span)| span.last_used).map(|(place, _)| *place);
            oldest.and_then(|place| self.spans.remove(&place));
        }
        let span = self.spans.entry(place).or_insert(Span { bytes: None, last_used: 0 });
        span.last_used = self.uses;
        span
    }
}

fn within(part: &Range<u64>, start: u64) -> Range<usize> {
    (part.start - start) as usize..(part.end - start) as usize
}
