//! Lists that tell frees from allocations: sublists of livelists.

use std::sync::Arc;

use dmu::{Objset, SpaceDelta, Tx};
use ondisk::bpobj::BPOBJ_BYTES;
use ondisk::{BLKPTR_BYTES, Blkptr};
use zerocopy::little_endian::U64;

use super::{Bpobj, FILL_AT, add, count, stored};
use crate::DslError;
use crate::dataset::deadlist::BPOBJ_BLOCK_BYTES;

impl Bpobj {
    /// A new, empty list whose entries may be of freed blocks.
    pub(crate) async fn create_listed(mos: &Arc<Objset>, tx: &Tx) -> Result<Self, DslError> {
        Self::create_with(mos, tx, BPOBJ_BLOCK_BYTES, BPOBJ_BYTES).await
    }

    /// How many entries of its own there are, and how many of them say that a block was freed.
    pub(crate) fn listed(&self) -> (u64, u64) {
        let phys = self.phys.lock();
        (phys.blkptrs.get(), phys.freed.get())
    }

    /// Appends entries, which are no holes, `freed` or not. Those that are take off the list's space.
    ///
    /// # Errors
    /// Those of reading and writing.
    pub(crate) async fn append_listed(&self, tx: &Tx, bps: &[Blkptr], freed: bool) -> Result<(), DslError> {
        if bps.is_empty() {
            return Ok(());
        }
        assert!(!freed || self.bonus_bytes == BPOBJ_BYTES, "a list that cannot tell frees");
        let mut bytes = Vec::with_capacity(bps.len() * BLKPTR_BYTES);
        let mut space = SpaceDelta::default();
        for bp in bps {
            assert!(!bp.is_hole(), "a hole cannot be freed");
            space.add(self.mos.zio(), bp);
            let mut entry = stored(bp);
            entry[FILL_AT] |= u8::from(freed);
            bytes.extend_from_slice(&entry);
        }
        let first = self.phys.lock().blkptrs.get();
        self.dnode.write(tx, first * BLKPTR_BYTES as u64, &bytes).await?;
        self.change(tx, |phys| {
            add(&mut phys.blkptrs, bps.len() as i64)?;
            add(&mut phys.freed, if freed { bps.len() as i64 } else { 0 })?;
            count(phys, space, if freed { -1 } else { 1 })
        })
    }

    /// Has the list have these entries in place of all its own, none of them freed.
    ///
    /// # Errors
    /// Those of reading and writing.
    pub(crate) async fn replace_listed(&self, tx: &Tx, bps: &[Blkptr]) -> Result<(), DslError> {
        self.dnode.free_range(tx, 0, u64::MAX).await?;
        self.change(tx, |phys| {
            for figure in [
                &mut phys.blkptrs,
                &mut phys.freed,
                &mut phys.bytes,
                &mut phys.compressed,
                &mut phys.uncompressed,
            ] {
                *figure = U64::ZERO;
            }
            Ok(())
        })?;
        self.append_listed(tx, bps, false).await
    }
}
