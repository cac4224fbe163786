//! I/O of a top-level vdev: which child is asked, who is repaired, who is out.
//!
//! ```text
//!   VdevOffset ──► Top ──┬─► leaf ──► LeafOffset = VdevOffset + 4 MiB
//!                        ├─► leaf      (a mirror's children hold the same bytes at the
//!                        └─► leaf       same offsets)
//! ```
//! A read asks one child and checks what came; it asks the others when that was bad, and then
//! repairs. A write goes to all at once. A single leaf is a mirror of one here: only the
//! configuration tells them apart.
//!
//! Invariants
//! - A write that is reported done is on at least one usable child, and every child that does
//!   not have it is out of use. (test: `a_write_that_one_child_missed_is_never_read_from_it`)
//! - The same holds for flushes: a child that failed one may lack any write since its last
//!   good one. (test: `a_child_that_fails_a_flush_serves_no_more_reads`)
//! - A good copy replaces bad ones, but never newer ones ([`crate::heal`]).
//!   (test: `a_bad_copy_is_healed_from_its_sibling`)

use std::sync::Arc;
use std::time::Duration;

use device::{BufSlice, DeviceError, Durability, IoBuf};
use futures::future::join_all;
use units::{LeafOffset, VdevOffset};

use crate::heal::Claim;
use crate::leaf::{block_on_leaf, padded};
use crate::{IoKind, Leaf, Top, VdevAux, VdevError, VdevState};

/// Decides whether bytes that were read are those that were written.
pub type Verify<'a> = &'a (dyn Fn(&[u8]) -> bool + Send + Sync);

/// Reads of neighbouring blocks go to the same child, so that it can read ahead: 2 MiB.
const ROTATION_SHIFT: u32 = 21;

/// What came of asking a vdev's children.
struct Asked {
    /// The right bytes; those who had others have been blamed and repaired.
    good: Option<IoBuf>,
    /// Bytes that are not the right ones.
    doubtful: Option<IoBuf>,
    /// Who had them, when nobody had the right ones.
    wrong: Vec<Arc<Leaf>>,
    /// The last child's that did not answer.
    error: VdevError,
}

impl Top {
    /// Reads `len` bytes that satisfy `verify`, from whichever child has them; repairs the
    /// children that did not, when `heal` allows writing.
    ///
    /// # Errors
    /// [`VdevError::Checksum`] when bytes came but never the right ones, else the last child's
    /// error, else [`VdevError::NoReplica`].
    pub async fn read(
        &self,
        offset: VdevOffset,
        len: usize,
        verify: Verify<'_>,
        heal: bool,
    ) -> Result<IoBuf, VdevError> {
        let asked = self.ask(offset, len, verify, heal).await?;
        match asked.good {
            Some(buf) => Ok(buf),
            None if asked.wrong.is_empty() => Err(asked.error),
            None => {
                asked.wrong.iter().for_each(|leaf| leaf.stats().bad_checksum());
                self.stats.bad_checksum();
                Err(VdevError::Checksum { vdev: self.id.id, offset, len: len as u64 })
            }
        }
    }

    /// Reads where nobody knows whether anything was ever written, as at the end of a log: the
    /// copy that satisfies `verify`, else any. Wrong bytes are no child's fault here, unless
    /// another has the right ones.
    ///
    /// # Errors
    /// When no child answers.
    pub async fn probe(
        &self,
        offset: VdevOffset,
        len: usize,
        verify: Verify<'_>,
        heal: bool,
    ) -> Result<IoBuf, VdevError> {
        let asked = self.ask(offset, len, verify, heal).await?;
        asked.good.or(asked.doubtful).ok_or(asked.error)
    }

    /// Asks one child after the other until one has the right bytes; then blames and repairs those
    /// asked before.
    async fn ask(
        &self,
        offset: VdevOffset,
        len: usize,
        verify: Verify<'_>,
        heal: bool,
    ) -> Result<Asked, VdevError> {
        let whole = self.id.ashift.round_up(len as u64);
        let place = block_on_leaf(self.id.id, offset, whole, self.config().asize)?;
        let whole_len = usize::try_from(whole).unwrap_or(usize::MAX);
        let start = self.env.now();
        let _in_flight = self.stats.begin();
        let mut asked = Asked {
            good: None,
            doubtful: None,
            wrong: Vec::new(),
            error: VdevError::NoReplica { vdev: self.id.id, guid: self.id.guid },
        };
        let mut silent = Vec::new();
        let mut claim = None;
        for leaf in self.read_order(offset) {
            match leaf.read(place, whole_len).await {
                Ok(buf) if verify(&buf[..len]) => {
                    asked.good = Some(buf);
                    break;
                }
                Ok(buf) => {
                    asked.doubtful = Some(buf);
                    asked.wrong.push(leaf);
                }
                Err(VdevError::LeafUnavailable { .. }) => continue,
                Err(error) => {
                    asked.error = error;
                    silent.push(leaf);
                }
            }
            if heal && claim.is_none() {
                claim = Some(self.places.claim(offset.get()..offset.get() + whole));
            }
        }
        if let Some(good) = asked.good.take() {
            asked.wrong.iter().for_each(|leaf| leaf.stats().bad_checksum());
            silent.append(&mut asked.wrong);
            asked.good = Some(match claim {
                Some(claim) => self.heal(claim, place, good, &silent).await,
                None => good,
            });
        }
        asked.good.iter_mut().chain(&mut asked.doubtful).for_each(|buf| buf.truncate(len));
        let bytes = asked.good.as_ref().or(asked.doubtful.as_ref()).map(|buf| buf.len() as u64);
        self.count(IoKind::Read, bytes.unwrap_or(0), start, bytes.is_none());
        Ok(asked)
    }

    /// Usable children, best first: whole before stale, idle before busy, and among equals the
    /// one whose turn it is at this offset.
    fn read_order(&self, offset: VdevOffset) -> Vec<Arc<Leaf>> {
        let count = self.leaves.len().max(1) as u64;
        let turn = (offset.get() >> ROTATION_SHIFT) % count;
        let mut order: Vec<_> = self.leaves.iter().enumerate().filter(|(_, leaf)| leaf.is_usable()).collect();
        order.sort_by_key(|(index, leaf)| {
            let rank = (*index as u64 + count - turn) % count;
            (leaf.is_stale(), leaf.stats().load(), rank)
        });
        order.into_iter().map(|(_, leaf)| leaf.clone()).collect()
    }

    /// Writes the good copy over the bad ones, unless the place was written meanwhile, and gives
    /// it back.
    async fn heal(&self, claim: Claim, place: LeafOffset, good: IoBuf, bad: &[Arc<Leaf>]) -> IoBuf {
        if !claim.begin() {
            return good;
        }
        let shared = Arc::new(good);
        for leaf in bad {
            let slices = vec![BufSlice::from(shared.clone())];
            match leaf.write(place, slices, Durability::Cached).await {
                Ok(()) => leaf.stats().healed(shared.len() as u64),
                Err(error) => self.child_lost(leaf, &error),
            }
        }
        Arc::try_unwrap(shared).unwrap_or_else(|still_shared| (*still_shared).clone())
    }

    /// Reads a place from every usable child, and repairs the children that do not have the right
    /// bytes, when `heal` allows writing: what a scrub does. Says how many were wrong or silent.
    ///
    /// # Errors
    /// As [`Self::read`], when no child has the right bytes.
    pub async fn scrub(
        &self,
        offset: VdevOffset,
        len: usize,
        verify: Verify<'_>,
        heal: bool,
    ) -> Result<usize, VdevError> {
        let whole = self.id.ashift.round_up(len as u64);
        let place = block_on_leaf(self.id.id, offset, whole, self.config().asize)?;
        let whole_len = usize::try_from(whole).unwrap_or(usize::MAX);
        let claim = self.places.claim(offset.get()..offset.get() + whole);
        let leaves: Vec<_> = self.leaves.iter().filter(|leaf| leaf.is_usable()).cloned().collect();
        let reads = join_all(leaves.iter().map(|leaf| leaf.read(place, whole_len))).await;
        let (mut good, mut bad, mut is_wrong) = (None, Vec::new(), false);
        let mut last = VdevError::NoReplica { vdev: self.id.id, guid: self.id.guid };
        for (leaf, read) in leaves.into_iter().zip(reads) {
            match read {
                Ok(buf) if verify(&buf[..len]) => {
                    good.get_or_insert(buf);
                    continue;
                }
                Ok(_) => {
                    is_wrong = true;
                    leaf.stats().bad_checksum();
                }
                Err(error) => last = error,
            }
            bad.push(leaf);
        }
        match good {
            Some(good) if heal && !bad.is_empty() => {
                self.heal(claim, place, good, &bad).await;
                Ok(bad.len())
            }
            Some(_) => Ok(bad.len()),
            None if is_wrong => {
                self.stats.bad_checksum();
                Err(VdevError::Checksum { vdev: self.id.id, offset, len: len as u64 })
            }
            None => Err(last),
        }
    }

    /// Writes slices to every usable child, padded with zeros to whole sectors.
    ///
    /// # Errors
    /// Only when no child took the write: the last child's error.
    pub async fn write(
        &self,
        offset: VdevOffset,
        slices: Vec<BufSlice>,
        durability: Durability,
    ) -> Result<(), VdevError> {
        let start = self.env.now();
        let _in_flight = self.stats.begin();
        let (slices, bytes) = padded(slices, self.id.ashift);
        let place = block_on_leaf(self.id.id, offset, bytes, self.config().asize)?;
        let _writing = self.places.write(offset.get()..offset.get() + bytes).await;
        let result = self.on_all(|leaf| leaf.write(place, slices.clone(), durability)).await;
        self.count(IoKind::Write, if result.is_ok() { bytes } else { 0 }, start, result.is_err());
        result
    }

    /// Makes every completed write stable on every usable child.
    ///
    /// # Errors
    /// Only when no child could: the last child's error.
    pub async fn flush(&self) -> Result<(), VdevError> {
        let start = self.env.now();
        let _in_flight = self.stats.begin();
        let usable_before = self.leaves.iter().filter(|leaf| leaf.is_usable()).count();
        let result = self.on_all(|leaf| leaf.flush()).await;
        if result.is_err() && usable_before > 0 {
            self.suspect_all();
        }
        self.count(IoKind::Flush, 0, start, result.is_err());
        result
    }

    /// Every copy's unflushed writes may be lost: no child is to be trusted until reopened.
    fn suspect_all(&self) {
        for leaf in self.leaves.iter().filter(|leaf| leaf.is_usable()) {
            leaf.set_state(VdevState::Faulted, VdevAux::IoFailure);
        }
        self.mark_changed();
    }

    /// Runs one I/O on all usable children at once. Done when one succeeds; then those that
    /// failed are out of use.
    async fn on_all<'a, F, R>(&'a self, io: F) -> Result<(), VdevError>
    where
        F: Fn(&'a Leaf) -> R,
        R: Future<Output = Result<(), VdevError>>,
    {
        let usable: Vec<_> = self.leaves.iter().filter(|leaf| leaf.is_usable()).collect();
        let results = match usable.as_slice() {
            [only] => vec![io(only).await],
            several => join_all(several.iter().map(|leaf| io(leaf))).await,
        };
        let any = results.iter().any(Result::is_ok);
        let mut last = VdevError::NoReplica { vdev: self.id.id, guid: self.id.guid };
        for (leaf, result) in usable.into_iter().zip(results) {
            let Err(error) = result else { continue };
            if any {
                self.child_lost(leaf, &error);
            } else if let VdevError::Leaf { source, .. } = &error {
                leaf.degrade(source);
            }
            last = error;
        }
        if any { Ok(()) } else { Err(last) }
    }

    fn child_lost(&self, leaf: &Leaf, error: &VdevError) {
        match error {
            VdevError::Leaf { source, .. } => leaf.fault(source),
            _ => leaf.fault(&DeviceError::Gone),
        }
        self.mark_changed();
    }

    fn count(&self, kind: IoKind, bytes: u64, start: Duration, failed: bool) {
        self.stats.done(kind, bytes, self.env.now().saturating_sub(start));
        if failed {
            self.stats.failed(kind);
        }
    }
}
