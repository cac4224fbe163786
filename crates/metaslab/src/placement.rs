//! Where in a metaslab the next block goes.
//!
//! Blocks written together are read together, so a metaslab is filled in streams: a cursor
//! marks where the last block of its stream ended, and the next one goes right behind it.
//! Blocks of very different sizes have streams of their own, kept well apart: or else freeing
//! the small ones would leave holes between the large ones that no large one fits.
//! Once a metaslab is nearly full, or its runs are short, streams are no longer to be had, and
//! the best fit keeps what longer runs are left.
//! (tests: `blocks_of_one_size_follow_each_other`, `small_and_large_blocks_do_not_interleave`,
//! `a_nearly_full_metaslab_is_filled_to_the_last_sector`)

use crate::{free_space::FreeSpace, segment::Segment};

/// Streams of a metaslab that holds all sizes of blocks.
const STREAMS: usize = 3;
/// From this size on a block belongs to the second stream, …
const MEDIUM_FROM_BYTES: u64 = 8 << 10;
/// … and from this size on to the third.
const LARGE_FROM_BYTES: u64 = 64 << 10;
/// Below this part of a metaslab free, in percent, only the best fit is used.
const STREAM_FREE_PERCENT: u64 = 4;
/// Runs that a cursor looks at ahead of itself before it goes elsewhere.
const LOOK_AHEAD_RUNS: usize = 8;
/// A stream starts where it has room for at least this many of its blocks, …
const START_ROOM_BLOCKS: u64 = 8;
/// … and shares a run with another stream only if each then has this much.
const SHARED_ROOM_BYTES: u64 = 1 << 20;
/// A stream that starts amid a run starts on a multiple of this, of any sector size, or of whole rows of a draid that come
/// close to it.
const START_ALIGN_BYTES: u64 = 64 << 10;

/// The streams of one metaslab.
#[derive(Clone, Debug)]
pub(crate) struct Placement {
    cursors: [Option<u64>; STREAMS],
    start_align_bytes: u64,
}

/// How blocks are divided into streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Streams {
    /// All in one: log blocks live short, and want to be one long sequential write.
    One,
    /// By size.
    BySize,
}

impl Placement {
    /// For a vdev on which every place is a multiple of `unit_bytes`.
    pub(crate) fn new(unit_bytes: u64) -> Self {
        let start_align_bytes = (START_ALIGN_BYTES / unit_bytes * unit_bytes).max(unit_bytes);
        Self { cursors: [None; STREAMS], start_align_bytes }
    }

    /// Picks `len` free bytes of a metaslab of `capacity` bytes, and moves the stream behind them.
    pub(crate) fn find(
        &mut self,
        free: &FreeSpace,
        capacity: u64,
        len: u64,
        streams: Streams,
    ) -> Option<Segment> {
        if free.longest_bytes() < len {
            return None;
        }
        if free.bytes() >= capacity / 100 * STREAM_FREE_PERCENT {
            let stream = stream_of(len, streams);
            let start = self.ahead(free, len, stream).or_else(|| self.start_afresh(free, len, stream));
            if let Some(start) = start {
                self.cursors[stream] = Some(start + len);
                return Segment::new(start, len);
            }
        }
        let run = free.best_fit(len)?;
        Segment::new(run.start, len)
    }

    /// The first place at or soon behind the cursor.
    fn ahead(&self, free: &FreeSpace, len: u64, stream: usize) -> Option<u64> {
        let cursor = self.cursors[stream]?;
        for run in free.tree().iter_from(cursor).take(LOOK_AHEAD_RUNS) {
            let start = run.start.max(cursor);
            if run.end - start < len {
                continue;
            }
            // Right behind our last block is ours; what comes later may be another stream's.
            let foreign = start != cursor && self.others_in(run, stream).next().is_some();
            return (!foreign).then_some(start);
        }
        None
    }

    /// The widest gap between streams in the longest run, if it is wide enough.
    fn start_afresh(&self, free: &FreeSpace, len: u64, stream: usize) -> Option<u64> {
        let run = free.longest()?;
        let mut edges: Vec<u64> = self.others_in(run, stream).chain([run.start, run.end]).collect();
        edges.sort_unstable();
        let (start, end) = edges
            .windows(2)
            .map(|pair| (pair[0], pair[1]))
            .max_by_key(|&(start, end)| (end - start, std::cmp::Reverse(start)))?;
        let room = end - start;
        if start == run.start && self.others_in(run, stream).all(|other| other != start) {
            return (room >= len * START_ROOM_BLOCKS).then_some(start);
        }
        let middle = start + room / 2;
        let middle = middle - middle % self.start_align_bytes;
        let shared_enough = room / 2 >= SHARED_ROOM_BYTES.max(len * START_ROOM_BLOCKS);
        (shared_enough && middle >= start && run.end - middle >= len).then_some(middle)
    }

    /// Cursors of the other streams within a run.
    fn others_in(&self, run: Segment, stream: usize) -> impl Iterator<Item = u64> + '_ {
        let cursors = self.cursors.iter().enumerate();
        cursors
            .filter(move |&(other, _)| other != stream)
            .filter_map(|(_, &cursor)| cursor)
            .filter(move |cursor| (run.start..run.end).contains(cursor))
    }
}

fn stream_of(len: u64, streams: Streams) -> usize {
    match (streams, len) {
        (Streams::One, _) | (_, ..MEDIUM_FROM_BYTES) => 0,
        (_, ..LARGE_FROM_BYTES) => 1,
        _ => 2,
    }
}
