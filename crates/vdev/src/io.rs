//! I/O of a top-level vdev: who is asked, who is repaired, who is out.
//!
//! ```text
//!   VdevOffset ──► Top ──┬─► leaf        mirror: the same bytes at the same offset on each child
//!                        ├─► leaf        raidz:  a column of the block on each child, with parity
//!                        └─► leaf        either way LeafOffset = offset on the child + 4 MiB
//! ```
//! A read asks as few children as will do and checks what came; it asks the others when that was
//! bad, and then repairs. A write goes to all at once. A single leaf is a mirror of one here, and a
//! nested `replacing` or `spare` is more copies of its place: only the configuration and the health
//! ([`crate::Node`]) tell them apart. How the kinds differ is in [`crate::mirror`] and
//! [`crate::raidz`]; this is what they share.
//!
//! Invariants
//! - After a write that is reported done the vdev can lose as many children as it can do without,
//!   and still has it, less those that do not have it: they are out of use.
//!   (tests: `a_write_that_one_child_missed_is_never_read_from_it`,
//!   `a_write_within_parity_is_done_and_one_beyond_is_not`)
//! - The same holds for flushes: a child that failed one may lack any write since its last
//!   good one. (test: `a_child_that_fails_a_flush_serves_no_more_reads`)
//! - Good bytes replace bad ones, but never newer ones ([`crate::heal`]).
//!   (tests: `a_bad_copy_is_healed_from_its_sibling`, `a_wrong_column_is_found_and_healed`)

use std::sync::Arc;
use std::time::Duration;

use env::{BufSlice, DeviceError, Durability, IoBuf};
use futures::future::join_all;
use units::{LeafOffset, Txg, VdevOffset};

use crate::leaf::padded;
use crate::{Address, IoKind, Leaf, NodeKind, Top, VdevAux, VdevError, VdevState};

/// Decides whether bytes that were read are those that were written.
pub type Verify<'a> = &'a (dyn Fn(&[u8]) -> bool + Send + Sync);

/// A place on a vdev, and how to know what belongs there.
#[derive(Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub(crate) offset: VdevOffset,
    /// In which txg what belongs there was written.
    pub(crate) born: Txg,
    /// Bytes wanted, and checked.
    pub(crate) len: usize,
    /// These in whole sectors.
    pub(crate) whole: usize,
    pub(crate) verify: Verify<'a>,
    /// Whether bad children may be written to.
    pub(crate) heal: bool,
}

impl Ask<'_> {
    /// Whether whole sectors hold the right bytes.
    pub(crate) fn holds(&self, bytes: &[u8]) -> bool {
        (self.verify)(&bytes[..self.len])
    }
}

/// What came of asking a vdev's children.
pub(crate) struct Asked {
    /// The right bytes; those who had others have been blamed and repaired.
    pub(crate) good: Option<IoBuf>,
    /// Bytes that are not the right ones.
    pub(crate) doubtful: Option<IoBuf>,
    /// Who had them, when nobody had the right ones and it is clear whose fault that is.
    pub(crate) wrong: Vec<Arc<Leaf>>,
    /// The last child's that did not answer.
    pub(crate) error: VdevError,
}

impl Asked {
    /// Whether nothing says that the right bytes are nowhere: a child did not answer that may have them, and only those have
    /// others that missed writes.
    fn is_of_the_silent(&self) -> bool {
        let is_behind = |leaf: &Arc<Leaf>| leaf.is_stale();
        let is_silent = matches!(self.error, VdevError::Leaf { .. });
        is_silent && !self.wrong.is_empty() && self.wrong.iter().all(is_behind)
    }
}

/// A place on one child, and what belongs there.
pub(crate) struct Mend {
    pub(crate) leaf: Arc<Leaf>,
    pub(crate) place: LeafOffset,
    pub(crate) bytes: BufSlice,
}

impl Top {
    /// Reads `len` bytes that satisfy `verify`, from whichever children have them; repairs the
    /// children that did not, when `heal` allows writing.
    ///
    /// # Errors
    /// [`VdevError::Checksum`] when bytes came but never the right ones, and no child is out that may have them; else the
    /// last child's error, else [`VdevError::NoReplica`].
    pub async fn read(
        &self,
        at: Address,
        len: usize,
        verify: Verify<'_>,
        heal: bool,
    ) -> Result<IoBuf, VdevError> {
        let asked = self.ask(self.question(at, len, verify, heal)).await?;
        match asked.good {
            Some(buf) => Ok(buf),
            None if asked.doubtful.is_none() || asked.is_of_the_silent() || self.may_come_back(at.born) => {
                Err(asked.error)
            }
            None => {
                let place = at.offset.on_leaf().unwrap_or_default();
                asked.wrong.iter().for_each(|leaf| leaf.blame(place, len as u64));
                Err(self.nobody_has_it(at.offset, len))
            }
        }
    }

    /// Reads where nobody knows whether anything was ever written, as at the end of a log: the
    /// bytes that satisfy `verify`, else any. Wrong bytes are no child's fault here, unless
    /// others have the right ones.
    ///
    /// # Errors
    /// When too few children answer.
    pub async fn probe(
        &self,
        at: Address,
        len: usize,
        verify: Verify<'_>,
        heal: bool,
    ) -> Result<IoBuf, VdevError> {
        let asked = self.ask(self.question(at, len, verify, heal)).await?;
        asked.good.or(asked.doubtful).ok_or(asked.error)
    }

    /// Reads all that usable children have of a place, parity too, and repairs the children that
    /// do not have the right bytes, when `heal` allows writing: what a scrub does. Says how many
    /// were wrong or silent.
    ///
    /// # Errors
    /// As [`Self::read`], when the right bytes are nowhere.
    pub async fn scrub(
        &self,
        at: Address,
        len: usize,
        verify: Verify<'_>,
        heal: bool,
    ) -> Result<usize, VdevError> {
        let ask = self.question(at, len, verify, heal);
        match self.kind() {
            NodeKind::Raidz { .. } | NodeKind::Draid(_) => self.scrub_columns(ask).await,
            _ => self.scrub_copies(ask).await,
        }
    }

    fn question<'a>(&self, at: Address, len: usize, verify: Verify<'a>, heal: bool) -> Ask<'a> {
        let whole = usize::try_from(self.id.ashift.round_up(len as u64)).unwrap_or(usize::MAX);
        Ask { offset: at.offset, born: at.born, len, whole, verify, heal }
    }

    async fn ask(&self, ask: Ask<'_>) -> Result<Asked, VdevError> {
        let start = self.env.now();
        let _in_flight = self.ledger.stats.begin();
        let mut asked = match self.kind() {
            NodeKind::Raidz { .. } | NodeKind::Draid(_) => self.ask_columns(ask).await?,
            _ => self.ask_copies(ask).await?,
        };
        asked.good.iter_mut().chain(&mut asked.doubtful).for_each(|buf| buf.truncate(ask.len));
        let bytes = asked.good.as_ref().or(asked.doubtful.as_ref()).map(|buf| buf.len() as u64);
        self.count(IoKind::Read, bytes.unwrap_or(0), start, bytes.is_none());
        Ok(asked)
    }

    /// Whether what was born in that txg is not whole here, and would be if the leaves came back that failed by themselves:
    /// then it is not lost that those which are there have something else.
    pub(crate) fn may_come_back(&self, born: Txg) -> bool {
        let is_gone = |leaf: &Leaf| !leaf.is_usable() && !leaf.has_failed_by_itself();
        self.node.lacks(&|leaf| !leaf.is_usable()).contains(born) && !self.node.lacks(&is_gone).contains(born)
    }

    /// The error of bytes that came but are not the right ones.
    pub(crate) fn nobody_has_it(&self, offset: VdevOffset, len: usize) -> VdevError {
        self.ledger.stats.bad_checksum();
        VdevError::Checksum { vdev: self.id.id, offset, len: len as u64 }
    }

    /// The error of a vdev that has too few children left, if they have no other.
    pub(crate) fn no_replica(&self) -> VdevError {
        VdevError::NoReplica { vdev: self.id.id, guid: self.id.guid }
    }

    /// Writes good bytes over bad ones; whoever calls has begun a claim.
    pub(crate) async fn mend(&self, mends: Vec<Mend>) {
        let write = |mend: Mend| async move {
            let len = mend.bytes.bytes().len() as u64;
            match mend.leaf.write(mend.place, vec![mend.bytes], Durability::Cached).await {
                Ok(()) => mend.leaf.stats().healed(len),
                Err(error) => {
                    if let Err(error) = self.settle(&[mend.leaf], vec![Err(error)]) {
                        tracing::warn!(vdev = %self.id.id, %error, "bad bytes stay");
                    }
                }
            }
        };
        join_all(mends.into_iter().map(write)).await;
    }

    /// Writes slices one after another, padded with zeros to whole sectors.
    ///
    /// # Errors
    /// When more children failed, or are out of use, than the vdev can do without: the last
    /// one's error.
    pub async fn write(
        &self,
        at: Address,
        slices: Vec<BufSlice>,
        durability: Durability,
    ) -> Result<(), VdevError> {
        let start = self.env.now();
        let _in_flight = self.ledger.stats.begin();
        let (slices, bytes) = padded(slices, self.id.ashift);
        let result = match self.kind() {
            NodeKind::Raidz { .. } | NodeKind::Draid(_) => {
                self.write_columns(at, slices, bytes, durability).await
            }
            _ => self.write_copies(at.offset, slices, bytes, durability).await,
        };
        self.count(IoKind::Write, if result.is_ok() { bytes } else { 0 }, start, result.is_err());
        if durability == Durability::Stable {
            self.until_recorded().await;
        }
        result
    }

    /// Makes every completed write stable on every usable child.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub async fn flush(&self) -> Result<(), VdevError> {
        let start = self.env.now();
        let _in_flight = self.ledger.stats.begin();
        let result = self.on_all(|leaf| leaf.flush()).await;
        if result.is_err() {
            self.fault_suspects();
        }
        self.count(IoKind::Flush, 0, start, result.is_err());
        self.until_recorded().await;
        result
    }

    /// Waits until the pool has recorded which leaves lack data, so that no write is reported as
    /// stable before that record exists.
    async fn until_recorded(&self) {
        if let Some(leaf) = self.leaves.first() {
            leaf.until_recorded().await;
        }
    }

    /// Unflushed writes may be lost on too many children: those are not to be trusted until
    /// reopened.
    fn fault_suspects(&self) {
        for leaf in self.leaves.iter().filter(|leaf| leaf.is_usable() && leaf.is_suspect()) {
            leaf.set_state(VdevState::Faulted, VdevAux::IoFailure);
            self.mark_changed();
        }
    }

    /// Runs one I/O on all usable children at once.
    pub(crate) async fn on_all<'a, F, R>(&'a self, io: F) -> Result<(), VdevError>
    where
        F: Fn(&'a Leaf) -> R,
        R: Future<Output = Result<(), VdevError>>,
    {
        let usable: Vec<_> = self.leaves.iter().filter(|leaf| leaf.is_usable()).collect();
        let results = match usable.as_slice() {
            [only] => vec![io(only).await],
            several => join_all(several.iter().map(|leaf| io(leaf))).await,
        };
        let usable: Vec<_> = usable.into_iter().cloned().collect();
        self.settle(&usable, results)
    }

    /// What follows from an I/O that these leaves were asked for. If the vdev can do without
    /// those that failed, and those that were out before, it is done, and those that failed are
    /// out, unless they have what no other has ([`crate::Node::requires`]). If not, they stay, for they
    /// are the best there is.
    ///
    /// # Errors
    /// The last failure, when the vdev cannot do without.
    pub(crate) fn settle(
        &self,
        asked: &[Arc<Leaf>],
        results: Vec<Result<(), VdevError>>,
    ) -> Result<(), VdevError> {
        assert_eq!(asked.len(), results.len(), "each leaf that was asked answers once");
        let current = self.ledger.settling.lock();
        let node = current.node.as_ref().unwrap_or(&self.node);
        let failed: Vec<_> = asked.iter().zip(results).filter_map(|(l, r)| Some((l, r.err()?))).collect();
        // Who came into the vdev since does not have it either.
        let is_late = |leaf: &Leaf| {
            current.shape != self.shape && !self.leaves.iter().any(|known| std::ptr::eq(&**known, leaf))
        };
        let has_failed = |leaf: &Leaf| failed.iter().any(|(lost, _)| std::ptr::eq(&***lost, leaf));
        let is_done = node.survives(&|leaf| !leaf.is_usable() || has_failed(leaf) || is_late(leaf));
        let (mut last, mut news) = (self.no_replica(), Vec::new());
        for (leaf, error) in failed {
            let cause = match &error {
                VdevError::Leaf { source, .. } => source,
                _ => &DeviceError::Gone,
            };
            let told = match is_done {
                true if node.requires(leaf) => leaf.keep_owing(cause),
                true => leaf.fault(cause),
                false => leaf.degrade(cause),
            };
            news.push((leaf, told));
            if is_done {
                self.mark_changed();
            }
            last = error;
        }
        // Who is told looks at the tree, and who changes that waits for this lock.
        drop(current);
        news.into_iter().for_each(|(leaf, told)| leaf.tell_news(told));
        if is_done { Ok(()) } else { Err(last) }
    }

    fn count(&self, kind: IoKind, bytes: u64, start: Duration, failed: bool) {
        self.ledger.stats.done(kind, bytes, self.env.now().saturating_sub(start));
        if failed {
            self.ledger.stats.failed(kind);
        }
    }
}
