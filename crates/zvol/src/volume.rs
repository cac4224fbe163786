//! A volume that is open.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use dmu::zap::Zap;
use dmu::{Dnode, Objset, SeekTo};
use env::{BufSlice, boxed};
use journal::{DataPolicy, IMMEDIATE_WRITE_BYTES, Journal, LogBias, RangeLock, Span, SyncPolicy, Target};
use parking_lot::RwLock;
use units::ObjectId;
use zil::{Claimed, IntentLog, Live, ReplayStopped};

use crate::ZvolError;

/// The object that has a volume's bytes.
pub const DATA: ObjectId = ObjectId::new(1);
pub(crate) const FACTS: ObjectId = ObjectId::new(2);
pub(crate) const SIZE: &[u8] = b"size";

/// How a volume behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeOptions {
    /// When writes become stable, and how their data go to the log.
    pub policy: DataPolicy,
    /// It takes no changes.
    pub read_only: bool,
}

impl VolumeOptions {
    /// Of one that is only looked at.
    pub(crate) const LOOKING: Self = Self {
        policy: DataPolicy {
            sync: SyncPolicy::Standard,
            log_bias: LogBias::Latency,
            immediate_write_bytes: IMMEDIATE_WRITE_BYTES,
        },
        read_only: true,
    };
}

/// A volume, or what a snapshot holds of one. One opened for looking only shows the bytes of the last synced txg, and a
/// log that waits for its replay is not in them.
pub struct Volume {
    pub(crate) objset: Arc<Objset>,
    pub(crate) data: Arc<Dnode>,
    pub(crate) journal: Journal,
    pub(crate) lock: RangeLock,
    size_bytes: AtomicU64,
    options: RwLock<VolumeOptions>,
    is_closed: AtomicBool,
}

impl Volume {
    /// The volume whose objects are in `objset`. It takes no changes before it has been told how
    /// ([`Volume::set_options`]).
    ///
    /// # Errors
    /// [`ZvolError::Damaged`]; when its objects cannot be read.
    #[boxed]
    pub async fn open(objset: &Arc<Objset>) -> Result<Self, ZvolError> {
        let size = Zap::hold(objset, FACTS).await?.lookup_u64(SIZE).await?;
        let size_bytes = size.ok_or(ZvolError::Damaged { objset: objset.id(), what: "no size" })?;
        Ok(Self {
            objset: Arc::clone(objset),
            data: objset.hold(DATA).await?,
            journal: Journal::new(Arc::clone(objset)),
            lock: RangeLock::default(),
            size_bytes: AtomicU64::new(size_bytes),
            options: RwLock::new(VolumeOptions::LOOKING),
            is_closed: AtomicBool::new(false),
        })
    }

    /// Its size.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes.load(Ordering::Acquire)
    }

    pub(crate) fn set_size_bytes(&self, bytes: u64) {
        self.size_bytes.store(bytes, Ordering::Release);
    }

    /// Its unit of storage (`volblocksize`), in bytes.
    #[must_use]
    pub fn block_bytes(&self) -> u32 {
        self.data.block_bytes()
    }

    /// How it behaves.
    #[must_use]
    pub fn options(&self) -> VolumeOptions {
        *self.options.read()
    }

    /// It behaves otherwise from now on.
    pub fn set_options(&self, options: VolumeOptions) {
        *self.options.write() = options;
    }

    /// Fills `into` from byte `offset`; returns how many bytes there were before the end.
    ///
    /// # Errors
    /// When a block cannot be read.
    #[boxed]
    pub async fn read(&self, offset: u64, into: &mut [u8]) -> Result<usize, ZvolError> {
        let _shared = self.lock.shared(Span::new(offset, into.len() as u64)).await;
        let there = self.there(offset, into.len());
        self.data.read(offset, &mut into[..there]).await?;
        self.objset.uses().note_read(there);
        Ok(there)
    }

    /// The same as up to `len` bytes where they lie in memory, in order: nothing is copied. They stay as they are,
    /// whatever is written meanwhile.
    ///
    /// # Errors
    /// When a block cannot be read.
    #[boxed]
    pub async fn read_shared(&self, offset: u64, len: usize) -> Result<Vec<BufSlice>, ZvolError> {
        let _shared = self.lock.shared(Span::new(offset, len as u64)).await;
        let there = self.there(offset, len);
        let read = self.data.read_shared(offset, there).await?;
        self.objset.uses().note_read(there);
        Ok(read)
    }

    /// How many of `len` bytes from `offset` come before the end.
    fn there(&self, offset: u64, len: usize) -> usize {
        self.size_bytes().saturating_sub(offset).min(len as u64) as usize
    }

    /// The first byte at or after `offset` that is stored, or that is not; `None` when there is
    /// none.
    ///
    /// # Errors
    /// When an indirect block cannot be read.
    #[boxed]
    pub async fn seek(&self, offset: u64, to: SeekTo) -> Result<Option<u64>, ZvolError> {
        Ok(self.data.seek(offset, to).await?.filter(|&found| found < self.size_bytes()))
    }

    /// Its log, once there is one.
    #[must_use]
    pub fn log(&self) -> Option<&IntentLog<Live>> {
        self.journal.log()
    }

    /// Uses a log that has nothing to replay.
    pub fn start_log(&self, log: IntentLog<Live>) {
        self.journal.start(log);
    }

    /// Replays the log before anybody uses the volume, and uses it from then on.
    ///
    /// # Errors
    /// The log is handed back when a record cannot be applied.
    #[boxed]
    pub async fn replay_log(&self, log: IntentLog<Claimed>) -> Result<(), Box<ReplayStopped>> {
        let (log, _) = log.replay(self).await?;
        self.journal.start(log);
        Ok(())
    }

    /// Takes no change any more, once those that are under way have ended; its log is given back.
    ///
    /// # Errors
    /// When what is in the log cannot be made stable.
    #[boxed]
    pub async fn close(&self) -> Result<(), ZvolError> {
        let _nobody_changes_it = self.lock.whole().await;
        self.is_closed.store(true, Ordering::Release);
        match self.journal.log() {
            Some(log) => Ok(log.close().await?),
            None => Ok(()),
        }
    }

    /// Whether bytes of it may be changed; the caller holds a lock.
    pub(crate) fn check_change(&self, offset: u64, length: u64) -> Result<(), ZvolError> {
        if self.is_closed.load(Ordering::Acquire) {
            return Err(ZvolError::Closed);
        }
        if self.options().read_only {
            return Err(ZvolError::ReadOnly);
        }
        self.check_within(offset, length)
    }

    /// Whether a range lies in it.
    pub(crate) fn check_within(&self, offset: u64, length: u64) -> Result<(), ZvolError> {
        let size_bytes = self.size_bytes();
        match offset.checked_add(length) {
            Some(end) if end <= size_bytes => Ok(()),
            _ => Err(ZvolError::TooFar { size_bytes }),
        }
    }
}

impl Target for Volume {
    fn dnode(&self) -> &Arc<Dnode> {
        &self.data
    }

    fn size_bytes(&self) -> Option<u64> {
        Some(self.size_bytes())
    }
}
