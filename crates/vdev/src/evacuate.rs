//! Emptying a vdev: its bytes copied to another, its place in the tree left to a mapping.
//!
//! ```text
//!   vdev 1, leaves a b         vdev 0, leaves c d
//!     a: ▓▓▓▓  ─┐                c: ▓▓▓▓          all leaves of the old vdev are read. Where they say the same it is
//!     b: ▓▓▓▓  ─┴─ the same ─►   d: ▓▓▓▓          written to all leaves of the new one.
//!
//!     a: ▓▓▓▓  ─── differ ────►  c: ▓▓▓▓          Nobody here can tell which is right, for nobody knows what blocks
//!     b: ▓▒▓▓  ───────────────►  d: ▓▒▓▓          these are: both are kept. If there is no leaf for each, it is an error.
//! ```
//! A copy is of runs that may be any number of blocks, and parts of some. What lies between the runs is copied along where
//! that saves an I/O, and nobody cares what it is.
//!
//! Invariants
//! - What could be read of a run before it was copied can be read after. (tests: `copies_that_differ_are_all_kept`,
//!   `copies_that_differ_are_not_chosen_from`)
//! - Whoever reads while a vdev leaves the tree finds the bytes, here or there.
//!   (test: `a_read_that_began_before_the_vdev_was_gone_finds_the_bytes`)

use std::ops::Range;
use std::sync::Arc;

use env::{BufSlice, Durability, IoBuf, boxed};
use futures::future::join_all;
use units::{Guid, Txg, VdevId};

use crate::leaf::block_on_leaf;
use crate::spec::draw_guid;
use crate::top::{TopConfig, TopId};
use crate::{Leaf, Located, Mapping, Node, Removed, RemovedConfig, Run, Top, VdevError, VdevTree};

impl VdevTree {
    /// Copies the parts `live` of a run to another place as long, as each leaf has them. The writes may be cached.
    ///
    /// # Errors
    /// When none of the leaves can be read, or too few be written; [`VdevError::CopiesDiffer`].
    ///
    /// # Panics
    /// When the places are not as long as each other.
    #[boxed]
    pub async fn copy(&self, from: Run, to: Run, live: &[Range<usize>]) -> Result<(), VdevError> {
        assert_eq!(from.len, to.len, "a run is copied as long as it is");
        let (old, new) = (self.top(from.vdev)?, self.top(to.vdev)?);
        let variants = old.variants(from, live).await?;
        if variants.len() > new.leaves().iter().filter(|leaf| leaf.is_usable()).count() {
            return Err(VdevError::CopiesDiffer { vdev: from.vdev, offset: from.offset, len: from.len });
        }
        new.write_variants(to, variants).await
    }

    /// What of a run was copied by now, of a vdev that is being removed: where that is. Nothing of any other vdev.
    ///
    /// # Errors
    /// [`VdevError::NoSuchVdev`]; [`VdevError::Unmapped`] when something before the mapping's end was not copied.
    pub fn copied(&self, run: Run) -> Result<Located, VdevError> {
        let top = self.top(run.vdev)?;
        if top.config().leaving.is_none() {
            return Ok(Located::default());
        }
        let mapping = top.ledger.copied.read();
        let len = mapping.end().saturating_sub(run.offset.get()).min(run.len);
        if len == 0 {
            return Ok(Located::default());
        }
        let passed = Run { len, ..run };
        let pieces = mapping.pieces(run.offset, len).ok_or_else(|| passed.unmapped())?;
        Ok(Located { pieces, passed: vec![passed] })
    }

    /// Puts what was copied of a vdev in its place, under a guid of its own, and gives the old one. Its devices close
    /// with their last I/O.
    ///
    /// # Errors
    /// [`VdevError::NoSuchVdev`].
    ///
    /// # Panics
    /// When it is not being removed.
    pub fn make_indirect(&self, id: VdevId, previous: Option<VdevId>) -> Result<Arc<Top>, VdevError> {
        let gone = self.top(id)?;
        let guid = draw_guid(self.env());
        let made = self.replace_top(id, |top| Ok(top.left_behind(guid, previous)))?;
        made.mark_changed();
        Ok(gone)
    }

    /// Whether a vdev was removed after whoever has `top` asked for it.
    pub(crate) fn has_left(&self, top: &Top) -> bool {
        !top.is_removed() && self.top(top.id()).is_ok_and(|now| now.is_removed())
    }
}

impl Top {
    /// Looks at where what was copied of it is, as far as it was, while it is being removed.
    pub fn with_copied<R>(&self, look: impl FnOnce(&Mapping) -> R) -> R {
        look(&self.ledger.copied.read())
    }

    /// Changes that: the meta-objset has the same, or will with the txg being synced.
    pub fn change_copied(&self, change: impl FnOnce(&mut Mapping)) {
        change(&mut self.ledger.copied.write());
    }

    fn left_behind(&self, guid: Guid, previous: Option<VdevId>) -> Self {
        let config = self.config();
        let leaving = config.leaving.expect("only what is being removed leaves something behind");
        let removed = Removed::new(RemovedConfig {
            guid,
            mapping: leaving.mapping,
            births: leaving.births,
            previous,
            whole_disk: Some(0),
            non_allocating: Some(1),
        });
        removed.set_mapping(self.with_copied(Mapping::clone));
        let config = TopConfig { metaslab_array: 0, leaving: None, ..config };
        Self::new(self.env.clone(), TopId { guid, ..self.id }, config, Node::Indirect(Arc::new(removed)))
    }

    /// All different things that leaves which missed nothing say of a run, as far as it is `live`.
    async fn variants(&self, run: Run, live: &[Range<usize>]) -> Result<Vec<IoBuf>, VdevError> {
        let place = block_on_leaf(run.vdev, run.offset, run.len, self.config().asize)?;
        let is_whole = |leaf: &&Arc<Leaf>| leaf.is_usable() && !leaf.is_stale();
        let reads = self.leaves().iter().filter(is_whole).map(|leaf| leaf.read(place, run.bytes()));
        let (mut variants, mut last) = (Vec::<IoBuf>::new(), self.no_replica());
        for read in join_all(reads).await {
            match read {
                Ok(buf) if variants.iter().any(|known| is_same(known, &buf, live)) => {}
                Ok(buf) => variants.push(buf),
                Err(error) => last = error,
            }
        }
        if variants.is_empty() { Err(last) } else { Ok(variants) }
    }

    /// Writes each of the variants to at least one leaf, and one to every leaf.
    async fn write_variants(&self, run: Run, mut variants: Vec<IoBuf>) -> Result<(), VdevError> {
        if variants.len() == 1 {
            let only = variants.pop().map(BufSlice::from).into_iter().collect();
            return self.write(run.address(Txg::new(u64::MAX)), only, Durability::Cached).await;
        }
        let place = block_on_leaf(run.vdev, run.offset, run.len, self.config().asize)?;
        let slices: Vec<BufSlice> = variants.into_iter().map(BufSlice::from).collect();
        let _writing = self.ledger.places.write(run.offset.get()..run.offset.get() + run.len).await;
        let usable: Vec<_> = self.leaves().iter().filter(|leaf| leaf.is_usable()).cloned().collect();
        let writes = usable.iter().zip(slices.iter().cycle());
        let writes = writes.map(|(leaf, slice)| leaf.write(place, vec![slice.clone()], Durability::Cached));
        let results = join_all(writes).await;
        let failed = results.iter().find_map(|result| result.clone().err());
        self.settle(&usable, results)?;
        // The leaf that failed may be the only one that was to have the right bytes.
        failed.map_or(Ok(()), Err)
    }
}

fn is_same(one: &IoBuf, other: &IoBuf, live: &[Range<usize>]) -> bool {
    live.iter().all(|part| one[part.clone()] == other[part.clone()])
}

#[cfg(test)]
mod tests;
