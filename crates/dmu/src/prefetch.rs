//! Reading ahead: who reads blocks in a row will want the next ones.
//!
//! ```text
//!   read  4 5 6 │ asked for ahead: 7 8 9 … ─► zio, into the cache
//!               ▲ next            ▲ ahead_to
//! ```
//! An object has a few streams, so that several readers of one file do not disturb each other. The
//! second read in a row makes a stream; each time it has used up half of what was asked for, twice
//! as much is, up to [`WINDOW_MAX_BYTES`]. A read anywhere else begins a stream in the place of the
//! one longest unused, which costs nothing.
//! (tests: `a_stream_is_read_ahead_in_growing_windows`, `random_reads_ask_for_nothing`)

use std::ops::Range;
use std::sync::Arc;

use futures::stream::{FuturesUnordered, StreamExt};
use zio::{Ahead, Keep};

use crate::dnode::{Dnode, Found};

/// Streams of an object that are kept apart.
const STREAMS: usize = 4;
/// What the second read in a row asks for.
const WINDOW_MIN_BYTES: u64 = 512 << 10;
/// Most that is asked for ahead of a reader.
const WINDOW_MAX_BYTES: u64 = 8 << 20;

#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    /// The block that continues it.
    next: u64,
    /// Blocks below were asked for.
    ahead_to: u64,
    /// Blocks to be ahead by; 0 before the second read.
    window: u64,
    used: u64,
}

/// Who reads an object in a row.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    streams: [Stream; STREAMS],
    clock: u64,
    /// The last read continued a stream.
    is_continued: bool,
}

impl Streams {
    /// `blocks` are being read, of an object with `end` blocks; which ones to read ahead now.
    pub(crate) fn advance(&mut self, blocks: &Range<u64>, block_bytes: u64, end: u64) -> Option<Range<u64>> {
        self.clock += 1;
        let clock = self.clock;
        // A reader of parts of blocks reads the last one again.
        let goes_on = |stream: &&mut Stream| {
            stream.used > 0 && (blocks.start == stream.next || blocks.start + 1 == stream.next)
        };
        let found = self.streams.iter_mut().find(goes_on);
        self.is_continued = found.is_some();
        let Some(stream) = found else {
            let oldest = self.streams.iter_mut().min_by_key(|stream| stream.used)?;
            *oldest = Stream { next: blocks.end, ahead_to: blocks.end, window: 0, used: clock };
            return None;
        };
        stream.used = clock;
        if blocks.end <= stream.next {
            return None;
        }
        stream.next = blocks.end;
        stream.ahead_to = stream.ahead_to.max(blocks.end);
        if stream.ahead_to - stream.next > stream.window / 2 {
            return None;
        }
        let bounds = [WINDOW_MIN_BYTES, WINDOW_MAX_BYTES].map(|bytes| (bytes / block_bytes).max(1));
        stream.window = (stream.window * 2).clamp(bounds[0], bounds[1]);
        let ahead = stream.ahead_to..(stream.next + stream.window).min(end);
        stream.ahead_to = stream.ahead_to.max(ahead.end);
        (!ahead.is_empty()).then_some(ahead)
    }
}

impl Dnode {
    /// Blocks of file data are being read: has those read ahead that will be wanted next.
    pub(crate) fn look_ahead(&self, blocks: &Range<u64>) {
        let props = self.shared.props();
        if !props.prefetch || props.data.keep == Keep::No || self.object_type().is_metadata() {
            return;
        }
        self.look_ahead_anyway(blocks);
    }

    /// The same for blocks of any kind.
    pub(crate) fn look_ahead_anyway(&self, blocks: &Range<u64>) {
        let (block_bytes, end) = (u64::from(self.block_bytes()), self.max_block().get() + 1);
        let (ahead, is_continued) = {
            let mut streams = self.streams.lock();
            (streams.advance(blocks, block_bytes, end), streams.is_continued)
        };
        self.shared.zio.note_stream(is_continued);
        let Some(ahead) = ahead else { return };
        if let Some(me) = self.strong() {
            let reading = async move { me.read_ahead(ahead).await };
            self.shared.zio.vdevs().env().spawn("prefetch", Box::pin(reading));
        }
    }

    async fn read_ahead(self: Arc<Self>, blocks: Range<u64>) {
        let mut reads: FuturesUnordered<_> = blocks.map(|block| self.read_one_ahead(block)).collect();
        while reads.next().await.is_some() {}
    }

    async fn read_one_ahead(&self, block: u64) {
        let Found::OnDisk { shape, roots } = self.found(block) else { return };
        let (zio, name) = (&self.shared.zio, self.name());
        // Whoever reads the block will hear of what is wrong.
        let tree = self.stored(shape, &roots);
        if let Ok(bp) = tree.block(block).await {
            let bookmark = name.bookmark(0, block);
            zio.read_ahead(&bp, &bookmark, self.keeps_blocks(), Ahead::Predicted).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u64 = 128 << 10;

    #[test]
    fn a_stream_is_read_ahead_in_growing_windows() {
        let mut streams = Streams::default();
        let (mut asked, mut widest) = (1, 0);
        assert_eq!(streams.advance(&(0..1), BLOCK, 1000), None, "the first read says nothing");
        for block in 1..1000 {
            if let Some(ahead) = streams.advance(&(block..block + 1), BLOCK, 1000) {
                assert_eq!(ahead.start, asked.max(block + 1), "nothing twice, nothing left out");
                asked = ahead.end;
            }
            assert!(asked > block || asked == 1000, "ahead of the reader");
            widest = widest.max(asked - block);
        }
        assert_eq!((asked, widest), (1000, (WINDOW_MAX_BYTES / BLOCK) + 1));
    }

    #[test]
    fn streams_of_one_object_do_not_disturb_each_other() {
        let mut streams = Streams::default();
        for step in 0..20 {
            for reader in 0..STREAMS as u64 {
                let block = reader * 10_000 + step;
                let ahead = streams.advance(&(block..block + 1), BLOCK, 100_000);
                assert!(step > 1 || ahead.is_some() == (step == 1), "{step}: {ahead:?}");
                assert!(ahead.is_none_or(|ahead| ahead.start > block && ahead.end <= block + 66));
            }
        }
    }

    #[test]
    fn random_reads_ask_for_nothing() {
        let mut streams = Streams::default();
        let mut block = 1_u64;
        for _ in 0..10_000 {
            block = block.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = (block >> 33) % 10_000_000;
            assert_eq!(streams.advance(&(at..at + 1), BLOCK, 10_000_000), None);
        }
    }

    #[test]
    fn small_reads_of_one_block_are_one_step() {
        let mut streams = Streams::default();
        streams.advance(&(0..1), BLOCK, 100);
        for _ in 0..10 {
            assert_eq!(streams.advance(&(0..1), BLOCK, 100), None);
        }
        assert_eq!(streams.advance(&(1..2), BLOCK, 100), Some(2..6));
        assert_eq!(streams.advance(&(1..2), BLOCK, 100), None);
    }
}
