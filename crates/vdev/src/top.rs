//! A top-level vdev: what a DVA names. A leaf by itself, or a mirror of leaves.
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
//! - A good copy replaces bad ones. (test: `a_bad_copy_is_healed_from_its_sibling`)

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use device::{BufSlice, DeviceError, Durability, Env, IoBuf};
use futures::future::join_all;
use parking_lot::Mutex;
use units::{Ashift, Guid, LeafOffset, VdevId, VdevOffset};

use crate::leaf::{block_on_leaf, padded};
use crate::{IoKind, Leaf, VdevAux, VdevError, VdevState, VdevStats};

/// Decides whether bytes that were read are those that were written.
pub type Verify<'a> = &'a (dyn Fn(&[u8]) -> bool + Send + Sync);

/// Reads of neighbouring blocks go to the same child, so that it can read ahead: 2 MiB.
const ROTATION_SHIFT: u32 = 21;

/// How leaves make up a top-level vdev.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopKind {
    /// The vdev is its only leaf, and shares its guid.
    Leaf,
    /// Every leaf holds everything.
    Mirror,
    /// Nothing: a log device was removed here.
    Hole,
}

/// What the configuration says of a top-level vdev, beside its kind and leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TopConfig {
    /// Object that lists its space maps; 0 until its first txg has synced.
    pub metaslab_array: u64,
    /// Base-2 logarithm of a metaslab's size.
    pub metaslab_shift: u64,
    /// Bytes that can be allocated.
    pub asize: u64,
    /// A log device.
    pub is_log: bool,
    /// Group in which it joined.
    pub create_txg: u64,
    /// Object of its own properties; 0 for none.
    pub top_zap: u64,
}

/// Who a top-level vdev is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopId {
    /// Its place in the pool.
    pub id: VdevId,
    /// Its guid.
    pub guid: Guid,
    /// How its leaves make it up.
    pub kind: TopKind,
    /// Its sector size.
    pub ashift: Ashift,
}

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

/// A top-level vdev.
pub struct Top {
    id: TopId,
    env: Arc<dyn Env>,
    leaves: Vec<Arc<Leaf>>,
    config: Mutex<TopConfig>,
    stats: VdevStats,
    /// Health changed since the configuration was last written.
    changed: AtomicBool,
}

impl Top {
    pub(crate) fn new(env: Arc<dyn Env>, id: TopId, config: TopConfig, leaves: Vec<Arc<Leaf>>) -> Self {
        let stats = VdevStats::default();
        Self { id, env, leaves, config: Mutex::new(config), stats, changed: AtomicBool::new(false) }
    }

    /// Its place in the pool.
    #[must_use]
    pub fn id(&self) -> VdevId {
        self.id.id
    }

    /// Its guid: that of its leaf when it is one.
    #[must_use]
    pub fn guid(&self) -> Guid {
        self.id.guid
    }

    /// How its leaves make it up.
    #[must_use]
    pub fn kind(&self) -> TopKind {
        self.id.kind
    }

    /// Its sector size.
    #[must_use]
    pub fn ashift(&self) -> Ashift {
        self.id.ashift
    }

    /// Its leaves, in the order of the configuration.
    #[must_use]
    pub fn leaves(&self) -> &[Arc<Leaf>] {
        &self.leaves
    }

    /// What the configuration says of it.
    #[must_use]
    pub fn config(&self) -> TopConfig {
        *self.config.lock()
    }

    /// Changes what the configuration says of it; its labels are to be written again.
    pub fn set_config(&self, change: impl FnOnce(&mut TopConfig)) {
        change(&mut self.config.lock());
        self.mark_changed();
    }

    /// A log device.
    #[must_use]
    pub fn is_log(&self) -> bool {
        self.config().is_log
    }

    /// Counters of what was asked of it; those of its leaves count what became of that.
    #[must_use]
    pub fn stats(&self) -> &VdevStats {
        &self.stats
    }

    /// Its health: that of its leaves taken together.
    #[must_use]
    pub fn state(&self) -> (VdevState, VdevAux) {
        if self.id.kind == TopKind::Hole {
            return (VdevState::Online, VdevAux::None);
        }
        if let [only] = self.leaves.as_slice()
            && self.id.kind == TopKind::Leaf
        {
            return only.state();
        }
        let usable = self.leaves.iter().filter(|leaf| leaf.is_usable()).count();
        let whole = self.leaves.iter().all(|leaf| leaf.state().0 == VdevState::Online);
        match usable {
            0 => (VdevState::Unavail, VdevAux::NoReplicas),
            _ if whole => (VdevState::Online, VdevAux::None),
            _ => (VdevState::Degraded, VdevAux::None),
        }
    }

    /// Whether I/O can be done there at all.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.leaves.iter().any(|leaf| leaf.is_usable())
    }

    /// Notes that the configuration on disk no longer says what is so.
    pub(crate) fn mark_changed(&self) {
        self.changed.store(true, Relaxed);
    }

    pub(crate) fn take_changed(&self) -> bool {
        self.changed.swap(false, Relaxed)
    }

    pub(crate) fn is_changed(&self) -> bool {
        self.changed.load(Relaxed)
    }

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
                Err(VdevError::LeafUnavailable { .. }) => {}
                Err(error) => {
                    asked.error = error;
                    silent.push(leaf);
                }
            }
        }
        if let Some(good) = asked.good.take() {
            asked.wrong.iter().for_each(|leaf| leaf.stats().bad_checksum());
            silent.append(&mut asked.wrong);
            asked.good = Some(if heal && !silent.is_empty() { self.heal(place, good, &silent).await } else { good });
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

    /// Writes the good copy over the bad ones, and gives it back.
    async fn heal(&self, place: LeafOffset, good: IoBuf, bad: &[Arc<Leaf>]) -> IoBuf {
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
