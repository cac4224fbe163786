//! The way of a block from the disk.

use std::sync::Arc;

use codec::Salt;
use device::IoBuf;
use ondisk::{Blkptr, ByteOrder, ChecksumKind, OndiskError};
use vdev::VdevError;

use crate::pack::unpack;
use crate::stats::one_more;
use crate::{Bookmark, Zio, ZioError};

/// A checksum to be met.
#[derive(Clone, Copy)]
pub(crate) struct Check {
    kind: ChecksumKind,
    salt: Option<Salt>,
    words: [u64; 4],
}

impl Check {
    /// Whether these are the bytes.
    pub(crate) fn holds(&self, bytes: &[u8]) -> bool {
        matches!(self.kind, ChecksumKind::Off | ChecksumKind::Noparity)
            || codec::checksum(self.kind, bytes, self.salt.as_ref()) == Ok(self.words)
    }
}

impl Zio {
    /// The contents of a block: `bp.lsize()` bytes that the blkptr vouches for.
    ///
    /// # Errors
    /// [`ZioError::Hole`] for holes; [`ZioError::Checksum`] and [`ZioError::Read`] when no copy
    /// will do; [`ZioError::BadBlkptr`], [`ZioError::Decompress`] and [`ZioError::Unsupported`]
    /// for what was written wrongly, or newer than this code.
    pub async fn read(&self, bp: &Blkptr, bookmark: &Bookmark) -> Result<Arc<IoBuf>, ZioError> {
        bp.check().map_err(|source| ZioError::BadBlkptr { bookmark: *bookmark, source })?;
        if bp.is_hole() {
            return Err(ZioError::Hole { bookmark: *bookmark });
        }
        if bp.is_embedded() {
            return self.read_embedded(bp, bookmark).map(Arc::new);
        }
        if let Some(cached) = self.cache.get(bp) {
            return Ok(cached);
        }
        if bp.is_encrypted() {
            return Err(ZioError::Unsupported { bookmark: *bookmark, what: "encryption" });
        }
        let packed = self.read_packed(bp, bookmark).await;
        if let Err(error) = &packed {
            one_more(&self.counters.lost_reads);
            if matches!(error, ZioError::Checksum { .. } | ZioError::Read { .. }) {
                self.lost.note(bookmark);
            }
        }
        let data = self.unpacked(packed?, bp, bookmark)?;
        let data = Arc::new(data);
        self.cache.insert(bp, &data);
        Ok(data)
    }

    fn read_embedded(&self, bp: &Blkptr, bookmark: &Bookmark) -> Result<IoBuf, ZioError> {
        let payload =
            bp.embedded_payload().map_err(|source| ZioError::BadBlkptr { bookmark: *bookmark, source })?;
        self.unpacked(IoBuf::copy_of(&payload), bp, bookmark)
    }

    fn unpacked(&self, packed: IoBuf, bp: &Blkptr, bookmark: &Bookmark) -> Result<IoBuf, ZioError> {
        let bad = |source| ZioError::BadBlkptr { bookmark: *bookmark, source };
        let kind = bp.compression().map_err(bad)?;
        let lsize = usize::try_from(bp.lsize().get())
            .map_err(|_| bad(OndiskError::Unsupported { what: "blkptr", detail: "a size beyond memory" }))?;
        unpack(packed, kind, lsize).map_err(|source| ZioError::Decompress { bookmark: *bookmark, source })
    }

    /// The bytes of a block as they lie on disk, verified.
    pub(crate) async fn read_packed(&self, bp: &Blkptr, bookmark: &Bookmark) -> Result<IoBuf, ZioError> {
        if bp.is_gang() {
            return self.read_gang(bp, bookmark).await;
        }
        let check = self.check_of(bp, bookmark)?;
        self.read_copies(bp, bookmark, bp.psize().get(), &|bytes| check.holds(bytes)).await
    }

    /// How the bytes of a block are told from others.
    pub(crate) fn check_of(&self, bp: &Blkptr, bookmark: &Bookmark) -> Result<Check, ZioError> {
        let kind =
            bp.checksum_kind().map_err(|source| ZioError::BadBlkptr { bookmark: *bookmark, source })?;
        if kind.is_embedded() {
            return Err(ZioError::Unsupported { bookmark: *bookmark, what: "this checksum on a block" });
        }
        if bp.byte_order() == ByteOrder::Big {
            return Err(ZioError::Unsupported { bookmark: *bookmark, what: "big-endian order" });
        }
        let salt = *self.salt.lock();
        codec::checksum(kind, &[], salt.as_ref())
            .map_err(|source| ZioError::UnknownChecksum { bookmark: *bookmark, source })?;
        Ok(Check { kind, salt, words: bp.checksum() })
    }

    /// The first of a block's copies that satisfies `verify`.
    pub(crate) async fn read_copies(
        &self,
        bp: &Blkptr,
        bookmark: &Bookmark,
        len: u64,
        verify: &(dyn Fn(&[u8]) -> bool + Send + Sync),
    ) -> Result<IoBuf, ZioError> {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let mut is_damaged = false;
        let mut last: Option<VdevError> = None;
        for dva in bp.dvas() {
            match self.vdevs.read(dva.vdev, dva.offset, len, verify).await {
                Ok(buf) => {
                    if last.is_some() {
                        self.damage.note(bp, bookmark);
                    }
                    return Ok(buf);
                }
                Err(error) => {
                    is_damaged |= matches!(error, VdevError::Checksum { .. });
                    last = Some(error);
                }
            }
        }
        match last {
            Some(source) if !is_damaged => Err(ZioError::Read { bookmark: *bookmark, source }),
            _ => Err(ZioError::Checksum { bookmark: *bookmark }),
        }
    }
}
