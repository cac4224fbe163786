//! What files and volumes have in common when a log is replayed into them: the bytes of its records.

use std::sync::Arc;

use env::boxed;
use ondisk::Blkptr;
use ondisk::zil::record::{LrCloneRange, LrWrite};
use units::{BlockId, Level, ObjsetId};
use zil::ReplayBlock;
use zio::{Bookmark, Zio, ZioError};

/// The largest block there is, in bytes.
const BLOCK_BYTES_MAX: u64 = 16 << 20;

/// The bytes of a logged write and where they go: those in the record, or the block that it names, which may
/// reach beyond what was written. `None` for a record without data.
#[must_use]
pub fn logged_bytes<'a>(lr: &'a LrWrite, block: Option<&'a ReplayBlock>) -> Option<(u64, &'a [u8])> {
    match (&lr.data, block) {
        (Some(data), _) => Some((lr.offset, data)),
        (None, Some(block)) => Some((block.offset, &block.data)),
        (None, None) => None,
    }
}

/// A block that a logged clone shares with another object.
pub struct ClonedBlock<'a> {
    bp: &'a Blkptr,
    bookmark: Bookmark,
    /// Where its bytes go.
    pub offset: u64,
    len: usize,
}

impl ClonedBlock<'_> {
    /// Its bytes, as many as belong to the clone.
    ///
    /// # Errors
    /// When it cannot be read.
    #[boxed]
    pub async fn read(&self, zio: &Arc<Zio>) -> Result<Vec<u8>, ZioError> {
        let mut bytes = Vec::new();
        if !self.bp.is_hole() {
            bytes.extend_from_slice(&zio.read(self.bp, &self.bookmark).await?);
        }
        bytes.resize(self.len, 0);
        Ok(bytes)
    }
}

/// The blocks of a logged clone, in order, as far as its range goes; `None` where no object has blocks of that size.
pub fn cloned_blocks(lr: &LrCloneRange, objset: ObjsetId) -> Option<impl Iterator<Item = ClonedBlock<'_>>> {
    let step = Some(lr.block_bytes).filter(|bytes| (1..=BLOCK_BYTES_MAX).contains(bytes))?;
    let end = lr.offset.saturating_add(lr.length);
    let offsets = (lr.offset..end).step_by(step as usize);
    Some(lr.blkptrs.iter().zip(offsets).map(move |(bp, offset)| {
        let block = BlockId::new(offset / step);
        let bookmark = Bookmark { objset, object: lr.object, level: Level::new(0), block };
        ClonedBlock { bp, bookmark, offset, len: (end - offset).min(step) as usize }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clone_range(block_bytes: u64, length: u64) -> LrCloneRange {
        LrCloneRange {
            offset: 8192,
            length,
            block_bytes,
            blkptrs: vec![Blkptr::default(); 3],
            ..LrCloneRange::default()
        }
    }

    fn places(lr: &LrCloneRange) -> Option<Vec<(u64, usize)>> {
        let blocks = cloned_blocks(lr, ObjsetId::new(7))?;
        Some(blocks.map(|block| (block.offset, block.len)).collect())
    }

    #[test]
    fn a_clone_ends_where_its_range_ends_however_many_blocks_its_record_names() {
        assert_eq!(places(&clone_range(4096, 5000)), Some(vec![(8192, 4096), (12_288, 904)]));
        assert_eq!(places(&clone_range(4096, 1 << 20)).map(|all| all.len()), Some(3));
        assert_eq!(places(&clone_range(4096, 0)), Some(Vec::new()));
    }

    #[test]
    fn block_sizes_that_no_object_has_are_refused() {
        assert!(places(&clone_range(0, 4096)).is_none());
        assert!(places(&clone_range((16 << 20) + 1, 4096)).is_none());
    }
}
