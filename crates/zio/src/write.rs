//! The way of a block to the disk.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use env::{BoxFuture, IoBuf, IoClass, boxed};
use futures::future::join_all;
use metaslab::{AllocError, Class, Hint};
use ondisk::{Blkptr, BlkptrParts, ByteOrder, ChecksumKind, CompressionKind, Dva};
use parking_lot::Mutex;
use units::{Lsize, Psize, SECTOR_BYTES, Txg, VdevId};
use vdev::{VdevError, VdevState};

use crate::gang::{DEPTH_MAX, places_of};
use crate::home::home;
use crate::pack::{PackJob, Packed, Ready};
use crate::stats::one_more;
use crate::suspension::is_of_devices;
use crate::{Bookmark, WritePolicy, Zio, ZioError};

/// The number of sets of places that are tried before a write waits for working devices.
const ATTEMPTS: usize = 16;

/// A block on its way to places of its own.
pub(crate) struct Placing<'a> {
    pub(crate) txg: Txg,
    pub(crate) bookmark: &'a Bookmark,
    pub(crate) checksum: ChecksumKind,
    /// Where the block should go; a gang all together.
    home: Class,
    /// Copies of the data.
    pub(crate) copies: usize,
    /// What was taken so far, headers and members of gangs included: all of it goes back when the
    /// block cannot be had whole.
    taken: Mutex<Vec<Dva>>,
}

impl<'a> Placing<'a> {
    pub(crate) fn new(
        zio: &Zio,
        txg: Txg,
        bookmark: &'a Bookmark,
        policy: &WritePolicy,
        psize: Psize,
    ) -> Self {
        let (checksum, copies) = (policy.checksum(), usize::from(policy.copies));
        let home = home(&zio.allocator.lock(), policy, psize);
        Self { txg, bookmark, checksum, home, copies, taken: Mutex::default() }
    }

    /// Copies of a gang's headers, as many as OpenZFS makes.
    pub(crate) fn header_copies(&self) -> usize {
        self.copies.max(2)
    }
}

impl Zio {
    /// Writes a block of `data.len()` bytes (whole sectors), born in `txg`, and gives its blkptr.
    /// It is stable once the vdevs it lies on are flushed. The pointer it replaces is the
    /// caller's to free, unless it was rewritten in place (see [`WritePolicy::rewrite`]) or is the
    /// result (see [`WritePolicy::unchanged`]). Where no
    /// free run is long enough the block becomes a gang. What compresses to 112 bytes comes back in
    /// the blkptr itself, where the pool has that feature.
    ///
    /// # Errors
    /// [`ZioError::NoSpace`], or [`ZioError::Write`] when every vdev tried failed. Nothing is
    /// allocated then, nor after [`ZioError::UnknownChecksum`].
    ///
    /// # Panics
    /// When `data` is not whole sectors, or the policy makes no sense.
    #[boxed]
    pub async fn write(
        &self,
        txg: Txg,
        bookmark: &Bookmark,
        data: Arc<IoBuf>,
        policy: &WritePolicy,
    ) -> Result<Blkptr, ZioError> {
        assert!(!data.is_empty() && (data.len() as u64).is_multiple_of(SECTOR_BYTES), "whole sectors");
        assert!((1..=3).contains(&policy.copies), "{} copies", policy.copies);
        let job = self.pack_job(txg, &data, policy);
        let (packed, checksum) = match self.packed(&job, bookmark).await? {
            Ready::Embedded(bp) => return Ok(bp),
            Ready::Packed(packed, checksum) => (packed, checksum),
        };
        let mut parts = parts_of(txg, data.len(), policy, &packed, checksum);
        if let Some(old) = policy.unchanged.filter(|old| is_unchanged(old, &parts, policy)) {
            let stored = (packed.compression != CompressionKind::Off).then_some(&packed.bytes);
            self.cache.insert(&old, policy.keep, &data, stored);
            return Ok(old);
        }
        let placing = Placing::new(self, txg, bookmark, policy, parts.psize);
        parts.dvas = match self.rewrite(&placing, policy, &packed).await {
            Some(dvas) => dvas,
            None => self.place_however_long(&placing, &packed.bytes).await?,
        };
        let bp = parts.to_blkptr();
        let is_packed = packed.compression != CompressionKind::Off;
        // What a file's block is made of is in memory until the txg is stable; metadata is made for a sync.
        match (policy.is_file_data(), is_packed) {
            (false, _) => self.unstable.keep_readable(&bp, &packed.bytes),
            (true, true) => self.unstable.keep_source(&bp, &packed.bytes, job),
            (true, false) => {}
        }
        self.cache.insert(&bp, policy.keep, &data, is_packed.then_some(&packed.bytes));
        Ok(bp)
    }

    /// The block as it goes to the disk. Transaction groups have long work done elsewhere: their
    /// thread has disks to keep busy. Who waits for a single block would only wait for two threads.
    async fn packed(&self, job: &PackJob, bookmark: &Bookmark) -> Result<Ready, ZioError> {
        let ready = if job.is_long() && IoClass::current() == IoClass::Async {
            let job = job.clone();
            self.packers.run(&**self.vdevs.env(), move || job.run()).await
        } else {
            job.run()
        };
        ready.map_err(|source| ZioError::UnknownChecksum { bookmark: *bookmark, source })
    }

    pub(crate) fn pack_job(&self, txg: Txg, data: &Arc<IoBuf>, policy: &WritePolicy) -> PackJob {
        PackJob {
            txg,
            data: data.clone(),
            policy: *policy,
            forms: self.pointer_forms(),
            sector: self.vdevs.min_ashift(),
            salt: *self.salt.lock(),
        }
    }

    /// The checksum of bytes as they are stored.
    pub(crate) fn checksum(
        &self,
        kind: ChecksumKind,
        bytes: &[u8],
        bookmark: &Bookmark,
    ) -> Result<[u64; 4], ZioError> {
        let salt = *self.salt.lock();
        codec::checksum(kind, bytes, salt.as_ref())
            .map_err(|source| ZioError::UnknownChecksum { bookmark: *bookmark, source })
    }

    /// Writes over the places of an earlier pass, when the new bytes take as much room. Nothing
    /// stable refers to them yet.
    async fn rewrite(&self, job: &Placing<'_>, policy: &WritePolicy, packed: &Packed) -> Option<[Dva; 3]> {
        let (old, txg) = (policy.rewrite?, job.txg);
        assert!(old.birth() == txg, "a block of txg {} cannot be rewritten in txg {txg}", old.birth());
        if old.is_embedded() || old.psize().get() != packed.bytes.len() as u64 {
            return None;
        }
        let dvas = places_of(&old);
        if old.is_gang() {
            // Of a file's block nobody has kept what the gang's members hold.
            (!policy.is_file_data()).then_some(())?;
            self.cache.forget(&old);
            self.rewrite_gang(job, old, &packed.bytes, DEPTH_MAX).await?;
            return Some(dvas);
        }
        (old.dvas().count() == job.copies).then_some(())?;
        self.unstable.keep_replaced(&old);
        self.cache.forget(&old);
        let failed = self.write_copies(&dvas, &packed.bytes).await;
        failed.is_empty().then_some(dvas)
    }

    /// Places a block, and waits for vdevs that are out where nothing else is left.
    async fn place_however_long(&self, job: &Placing<'_>, bytes: &Arc<IoBuf>) -> Result<[Dva; 3], ZioError> {
        let mut tries = self.suspension.tries();
        loop {
            let error = match self.place_or_give_back(job, bytes).await {
                Err(error) if self.may_go_better(&error) => error,
                placed => return placed,
            };
            if !tries.next(&error).await {
                return Err(error);
            }
        }
    }

    /// Whether devices are to blame: also for room that is wanting while a vdev is out.
    fn may_go_better(&self, error: &ZioError) -> bool {
        let lacks_vdev = || self.vdevs.state().0 == VdevState::Unavail;
        is_of_devices(error) || (matches!(error, ZioError::NoSpace { .. }) && lacks_vdev())
    }

    async fn place_or_give_back(&self, job: &Placing<'_>, bytes: &Arc<IoBuf>) -> Result<[Dva; 3], ZioError> {
        let placed = self.place(job, bytes).await;
        if placed.is_err() {
            let mut allocator = self.allocator.lock();
            for dva in job.taken.lock().drain(..) {
                self.unstable.forget(&dva);
                allocator.unalloc(job.txg, &dva);
            }
        }
        placed
    }

    fn may_split(&self, bytes: u64) -> bool {
        bytes > self.vdevs.min_ashift().sector_bytes()
    }

    /// Whether a block is to be a gang though there may be room for it.
    pub(crate) fn is_too_long(&self, bytes: u64) -> bool {
        self.may_split(bytes) && bytes > self.longest_run.load(Relaxed)
    }

    /// Writes bytes to places of their own: in one piece, or if there is no room for that, as a gang.
    pub(crate) fn place<'a>(
        &'a self,
        job: &'a Placing<'a>,
        bytes: &'a Arc<IoBuf>,
    ) -> BoxFuture<'a, Result<[Dva; 3], ZioError>> {
        Box::pin(async move {
            let size = bytes.len() as u64;
            let may_split = self.may_split(size);
            if self.is_too_long(size) {
                return self.place_gang(job, bytes).await;
            }
            let whole = self.place_and_write(job, size, job.copies, &|_: &[Dva; 3]| bytes.clone()).await;
            match whole {
                Err(ZioError::NoSpace { ref source, .. }) if may_split && source.may_fit_in_pieces() => {
                    self.place_gang(job, bytes).await
                }
                other => other,
            }
        })
    }

    /// Allocates `copies` places and writes what `contents` returns for them. After a failure, the
    /// block is written elsewhere at once: to other vdevs, or if they have no room, to other places
    /// of the same vdevs. No place that has failed is tried again.
    pub(crate) async fn place_and_write(
        &self,
        job: &Placing<'_>,
        bytes: u64,
        copies: usize,
        contents: &(dyn Fn(&[Dva; 3]) -> Arc<IoBuf> + Sync),
    ) -> Result<[Dva; 3], ZioError> {
        let mut failed_places = FailedPlaces { zio: self, txg: job.txg, dvas: Vec::new() };
        let mut avoid = self.vdevs.unusable();
        let mut last: Option<VdevError> = None;
        for _ in 0..ATTEMPTS {
            let elsewhere = self.allocate(job, Psize::new(bytes), copies, &avoid);
            let dvas = elsewhere.or_else(|_| {
                avoid = self.vdevs.unusable();
                self.allocate(job, Psize::new(bytes), copies, &avoid)
            });
            let dvas = dvas.map_err(|source| no_room(job.bookmark, job.txg, last.take(), source))?;
            let failed = self.write_copies(&dvas, &contents(&dvas)).await;
            let valid = dvas.iter().filter(|dva| dva.is_valid());
            if failed.is_empty() {
                job.taken.lock().extend(valid);
                self.counters.block_was_written(bytes);
                return Ok(dvas);
            }
            one_more(&self.counters.moved_writes);
            failed_places.dvas.extend(valid);
            for (vdev, error) in failed {
                avoid.insert(vdev);
                last = Some(error);
            }
        }
        let source = last.expect("every attempt failed");
        Err(ZioError::Write { bookmark: *job.bookmark, txg: job.txg, source })
    }

    /// Records a place that could not be written, unless the whole vdev has failed. Later blocks
    /// are placed elsewhere.
    pub(crate) fn note_failed_write(&self, dva: Dva, error: &VdevError) {
        if !error.is_absence() && !self.vdevs.unusable().contains(&dva.vdev) {
            self.allocator.lock().shun(&dva);
        }
    }

    /// Allows places that could not be written to be used again, because the devices are reported
    /// to work.
    pub fn forget_failed_writes(&self) {
        self.allocator.lock().forget_shunned();
    }

    pub(crate) fn allocate(
        &self,
        job: &Placing<'_>,
        psize: Psize,
        copies: usize,
        avoid: &BTreeSet<VdevId>,
    ) -> Result<[Dva; 3], AllocError> {
        let avoid: Vec<_> = avoid.iter().copied().collect();
        let hint = Hint { prefer: None, avoid: &avoid };
        let mut allocator = self.allocator.lock();
        if job.home != Class::Normal
            && let Ok(dvas) = allocator.allocate(job.home, psize, copies, job.txg, hint)
        {
            return Ok(dvas);
        }
        allocator.allocate(Class::Normal, psize, copies, job.txg, hint)
    }

    /// Writes the same bytes to all these places at once; says which vdevs failed.
    pub(crate) async fn write_copies(&self, dvas: &[Dva; 3], bytes: &Arc<IoBuf>) -> Vec<(VdevId, VdevError)> {
        let copy = |dva: Dva| async move {
            let result = self.write_unstable(dva, bytes).await;
            result.err().map(|error| (dva.vdev, error))
        };
        let valid = dvas.iter().filter(|dva| dva.is_valid()).copied();
        join_all(valid.map(copy)).await.into_iter().flatten().collect()
    }
}

/// Places that failed for a block. They stay allocated until the block has a place.
struct FailedPlaces<'a> {
    zio: &'a Zio,
    txg: Txg,
    dvas: Vec<Dva>,
}

impl Drop for FailedPlaces<'_> {
    fn drop(&mut self) {
        let mut allocator = self.zio.allocator.lock();
        for dva in &self.dvas {
            self.zio.unstable.forget(dva);
            allocator.unalloc(self.txg, dva);
        }
    }
}

/// The blkptr of a packed block of `data_bytes` bytes, but for its places.
pub(crate) fn parts_of(
    txg: Txg,
    data_bytes: usize,
    policy: &WritePolicy,
    packed: &Packed,
    checksum: [u64; 4],
) -> BlkptrParts {
    BlkptrParts {
        lsize: Lsize::new(data_bytes as u64),
        psize: Psize::new(packed.bytes.len() as u64),
        compression: packed.compression,
        checksum_kind: policy.checksum(),
        checksum,
        birth: txg,
        physical_birth: txg,
        ..policy.parts()
    }
}

/// True if a block that is to be written is the same as the one that is on disk, as far as a checksum can say that no
/// two blocks share. The conditions are those of OpenZFS.
fn is_unchanged(old: &Blkptr, new: &BlkptrParts, policy: &WritePolicy) -> bool {
    let is_plain = !old.is_hole() && !old.is_embedded() && !old.is_encrypted() && !old.dedup();
    is_plain
        && policy.compression.kind != CompressionKind::Off
        && new.checksum_kind.is_nopwrite_grade()
        && old.checksum_kind().ok() == Some(new.checksum_kind)
        && old.compression().ok() == Some(new.compression)
        && (old.lsize(), old.psize()) == (new.lsize, new.psize)
        && old.dvas().count() == usize::from(policy.copies)
        && old.byte_order() == ByteOrder::Little
        && old.checksum() == new.checksum
}

/// Why there is no room: for want of space, or because the vdevs that have it failed.
fn no_room(bookmark: &Bookmark, txg: Txg, failed: Option<VdevError>, source: AllocError) -> ZioError {
    match failed {
        Some(source) => ZioError::Write { bookmark: *bookmark, txg, source },
        None => ZioError::NoSpace { bookmark: *bookmark, txg, source },
    }
}
