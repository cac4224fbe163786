//! The contents of an object, read in spite of damage.

use std::ops::Range;

use futures::future::join_all;
use ondisk::Blkptr;
use zio::Keep;

use crate::tree::{BlockTree, TreeRun, chain};

/// The number of bytes that are read at the same time.
const AT_ONCE_BYTES: u64 = 8 << 20;

/// The byte ranges of a file that cannot be read, in order, and the reason for the first of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LostRanges {
    /// The ranges, which do not touch each other.
    pub ranges: Vec<Range<u64>>,
    /// The reason why the first range is lost.
    pub why: Option<String>,
}

impl LostRanges {
    fn add(&mut self, range: Range<u64>, why: String) {
        if range.is_empty() {
            return;
        }
        match self.ranges.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.ranges.push(range),
        }
        self.why.get_or_insert(why);
    }

    /// Returns the number of lost bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.ranges.iter().map(|range| range.end - range.start).sum()
    }
}

/// Calls `put` for each run of data in the first `size` bytes with its offset, in order, and
/// returns the lost ranges. `put` is not called for holes and lost ranges.
///
/// # Errors
/// The first error of `put`, which ends the copy.
pub async fn copy_contents<E>(
    tree: &BlockTree<'_>,
    size: u64,
    mut put: impl FnMut(u64, &[u8]) -> Result<(), E>,
) -> Result<LostRanges, E> {
    let block_bytes = tree.block_bytes().max(1);
    let at_once = usize::try_from((AT_ONCE_BYTES / block_bytes).clamp(1, 64)).unwrap_or(1);
    let mut lost = LostRanges::default();
    let (mut block, end) = (0, size.div_ceil(block_bytes));
    let mut waiting: Vec<(u64, Blkptr)> = Vec::with_capacity(at_once);
    while block < end {
        let Some(run) = tree.run_at(block).await else { break };
        match run {
            TreeRun::Hole { end } => block = end,
            TreeRun::Data(bp) => {
                waiting.push((block, bp));
                block += 1;
            }
            TreeRun::Lost { end, why } => {
                flush(tree, &mut waiting, size, &mut lost, &mut put).await?;
                lost.add(bytes_of(block, end, block_bytes, size), why);
                block = end;
            }
        }
        if waiting.len() == at_once {
            flush(tree, &mut waiting, size, &mut lost, &mut put).await?;
        }
    }
    flush(tree, &mut waiting, size, &mut lost, &mut put).await?;
    Ok(lost)
}

fn bytes_of(block: u64, end: u64, block_bytes: u64, size: u64) -> Range<u64> {
    block.saturating_mul(block_bytes).min(size)..end.saturating_mul(block_bytes).min(size)
}

/// Reads all pending blocks and passes them on in order.
async fn flush<E>(
    tree: &BlockTree<'_>,
    waiting: &mut Vec<(u64, Blkptr)>,
    size: u64,
    lost: &mut LostRanges,
    put: &mut impl FnMut(u64, &[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let reads = waiting
        .iter()
        .map(|(block, bp)| async move { tree.zio().read_as(bp, &tree.bookmark(0, *block), Keep::No).await });
    for ((block, _), read) in waiting.iter().zip(join_all(reads).await) {
        let range = bytes_of(*block, block + 1, tree.block_bytes(), size);
        match read {
            Ok(bytes) => {
                let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX).min(bytes.len());
                put(range.start, &bytes[..len])?;
            }
            Err(error) => lost.add(range, chain(&error)),
        }
    }
    waiting.clear();
    Ok(())
}

/// Returns the first `len` bytes of an object with metadata. `None` if a part of them is lost.
pub(crate) async fn read_whole(tree: &BlockTree<'_>, len: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; len];
    let put = |at: u64, run: &[u8]| {
        let start = usize::try_from(at).unwrap_or(usize::MAX);
        let room = bytes.get_mut(start..).unwrap_or_default();
        let fits = run.len().min(room.len());
        room[..fits].copy_from_slice(&run[..fits]);
        Ok::<_, std::convert::Infallible>(())
    };
    let Ok(lost) = copy_contents(tree, len as u64, put).await;
    lost.ranges.is_empty().then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::LostRanges;

    #[test]
    fn lost_ranges_that_touch_are_one() {
        let mut lost = LostRanges::default();
        lost.add(0..4, "first".into());
        lost.add(4..6, "second".into());
        lost.add(6..6, "nothing".into());
        lost.add(8..9, "third".into());
        assert_eq!((lost.ranges.as_slice(), lost.bytes()), (&[0..6, 8..9][..], 7));
        assert_eq!(lost.why.as_deref(), Some("first"));
    }
}
