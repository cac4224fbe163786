//! Corrective receive: blocks of a snapshot that cannot be read any more, put right from a stream of that snapshot.
//!
//! ```text
//!  WRITE ─► the snapshot's block ─┬─ reads, from every copy ─► nothing to do
//!                                 └─ does not ─► stream's bytes, stored as the block was ─► its checksum? ─► written over it
//! ```
//! Nothing of the pool changes but bytes that were wrong. Only data is in a stream so that it can be put right: what leads to it,
//! and directories, cannot.
//!
//! Invariants
//! - What is written over a block is what its pointer vouches for.
//!   (test: `what_is_not_the_damaged_block_is_not_written_over_it`)
//! - The snapshot stays as long as it is healed: it is open.

use std::sync::Arc;

use dmu::{DmuError, Objset};
use env::IoBuf;
use futures::io::AsyncRead;
use ondisk::send::{DrrBegin, DrrBody, DrrWrite};
use ondisk::{Blkptr, ByteOrder, Compression, CompressionKind, ZstdLevel};
use stream::{Reader, ReceiveError, StreamRecord};
use units::{BlockId, Level, ObjectId};
use zio::{Bookmark, ZioError};

use super::{ReceiveRefusal, check_kind, unsupported};
use crate::{Pool, PoolError};

/// Levels of zstd that are not fast ones: which it was is tried out.
const ZSTD_LEVEL_MAX: u8 = 19;

impl Pool {
    /// Puts blocks of a snapshot right that are damaged, from a stream of it whose BEGIN was read; gives how many there were.
    ///
    /// # Errors
    /// [`ReceiveRefusal::NotThatSnapshot`], [`ReceiveRefusal::CannotReconstruct`], [`PoolError::Stream`]; when a snapshot cannot be
    /// read for another reason than damage. What was put right before stays so.
    pub async fn heal_snapshot<R: AsyncRead + Unpin + Send>(
        self: &Arc<Self>,
        begin: &DrrBegin,
        snapshot: &str,
        source: &mut Reader<R>,
    ) -> Result<u64, PoolError> {
        check_kind(begin.features())?;
        if source.order() != ByteOrder::Little {
            return Err(unsupported("a stream of the other byte order"));
        }
        let dataset = self.dsl.resolve(snapshot).await?;
        if self.dsl.dataset(dataset.dataset).await?.guid.get() != begin.toguid.get() {
            return Err(ReceiveRefusal::NotThatSnapshot.into());
        }
        let objset = self.open_frozen(&dataset).await?;
        let mut healed = 0;
        loop {
            let record = source.next_record().await.map_err(ReceiveError::from)?;
            let Some(StreamRecord { offset, record, payload }) = record else { break };
            match (record.body, &objset) {
                (DrrBody::End(_), _) => break,
                (DrrBody::Write(write), Some(objset)) => {
                    healed += u64::from(self.heal_block(objset, offset, &write, payload).await?);
                }
                _ => {}
            }
        }
        Ok(healed)
    }

    /// Puts a block right if it is damaged.
    async fn heal_block(
        &self,
        objset: &Arc<Objset>,
        offset: u64,
        write: &DrrWrite,
        payload: IoBuf,
    ) -> Result<bool, PoolError> {
        let object = ObjectId::new(write.object.get());
        let bad = |what| PoolError::from(ReceiveError::BadRecord { offset, object, what });
        let dnode = match objset.hold(object).await {
            Ok(dnode) => dnode,
            Err(DmuError::NoSuchObject { .. }) => return Err(bad("there is no such object")),
            Err(error) => return Err(error.into()),
        };
        let block = BlockId::new(write.offset.get() / u64::from(dnode.block_bytes()));
        if block > dnode.max_block() {
            return Err(bad("it is behind the object's end"));
        }
        let bp = dnode.synced_blkptr(block).await?;
        let bookmark = Bookmark::new(objset.id(), object, Level::new(0), block);
        if bp.is_hole() || bp.is_embedded() {
            return Ok(false);
        }
        match self.zio.scrub(&bp, &bookmark).await {
            Ok(found) => return Ok(found.bad_copies > 0),
            Err(ZioError::Checksum { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let is_whole = write.offset.get().is_multiple_of(bp.lsize().get())
            && write.logical_bytes.get() == bp.lsize().get();
        let stored = match is_whole {
            true => self.reconstructed(&bp, &bookmark, write, payload)?,
            // In pieces, of which none is the block.
            false => None,
        };
        let stored = stored.ok_or(ReceiveRefusal::CannotReconstruct)?;
        self.zio.mend(&bp, &bookmark, stored).await?;
        self.zio.scrub(&bp, &bookmark).await?;
        tracing::info!(block = %bookmark, "put right from a stream");
        Ok(true)
    }

    /// A block as it was stored: as it came, or packed again as it was.
    fn reconstructed(
        &self,
        bp: &Blkptr,
        bookmark: &Bookmark,
        write: &DrrWrite,
        payload: IoBuf,
    ) -> Result<Option<IoBuf>, PoolError> {
        let (lsize, psize) = (bp.lsize().get() as usize, bp.psize().get() as usize);
        let Ok(kind) = bp.compression() else { return Ok(None) };
        let sent = CompressionKind::from_raw(write.compression).unwrap_or(CompressionKind::Off);
        let padded = |bytes: &[u8]| {
            let mut stored = IoBuf::zeroed(psize);
            stored[..bytes.len()].copy_from_slice(bytes);
            stored
        };
        let mut level = None;
        let contents = if write.compression == 0 {
            payload
        } else {
            if sent == kind && payload.len() <= psize {
                let stored = padded(&payload);
                if self.zio.is_block(bp, bookmark, &stored)? {
                    return Ok(Some(stored));
                }
            }
            level = codec::zstd_level(&payload).filter(|_| sent == CompressionKind::Zstd);
            match codec::decompress(sent, &payload, lsize) {
                Ok(contents) => IoBuf::copy_of(&contents),
                Err(_) => return Ok(None),
            }
        };
        if kind == CompressionKind::Off {
            return Ok(self.zio.is_block(bp, bookmark, &contents)?.then_some(contents));
        }
        for how in ways(kind, level) {
            if let Some(packed) = codec::compress(how, &contents, psize) {
                let stored = padded(&packed);
                if self.zio.is_block(bp, bookmark, &stored)? {
                    return Ok(Some(stored));
                }
            }
        }
        Ok(None)
    }
}

/// How a block may have been packed; `level` is known of what came.
fn ways(kind: CompressionKind, level: Option<ZstdLevel>) -> Vec<Compression> {
    let of = |level| Compression { kind, level };
    if kind != CompressionKind::Zstd {
        return vec![kind.into()];
    }
    let levels = (0..=ZSTD_LEVEL_MAX).map(ZstdLevel::new);
    level.into_iter().chain(levels).map(of).collect()
}
