//! Makes records of what a walk finds.
//!
//! ```text
//!  Object ─► OBJECT + bonus, FREE from its end on          Hole, Free, Redacted ─► FREE, FREEOBJECTS, REDACT
//!  Data   ─► WRITE_EMBEDDED, WRITE, or WRITEs of 128 KiB   Spill      ─► SPILL
//! ```
//! The last run of holes, or of free numbers, is kept until something else comes. The stream's features decide in which
//! form a block goes: a receiver that does not know a feature must never meet what needs it.

use std::sync::Arc;

use env::{IoBuf, boxed};
use ondisk::send::{
    DrrBody, DrrEnd, DrrFree, DrrFreeobjects, DrrObject, DrrRecord, DrrRedact, DrrSpill, DrrWrite,
    DrrWriteEmbedded, StreamFeatures, TO_THE_END, record_flags,
};
use ondisk::{Blkptr, ByteOrder, ChecksumKind, CompressionKind, DnodeImage, ddt};
use units::ObjectId;

use crate::SendError;
use crate::free_run::FreeRun;
use crate::walk::{Found, FoundBlock};
use crate::write::{Output, Payload};

/// The largest block that every receiver understands.
const OLD_BLOCK_MAX_BYTES: u64 = 128 << 10;
/// What payloads are padded to.
const PAD_BYTES: usize = 8;

/// How a block of data is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// As it lies in its pointer.
    Embedded,
    /// As it is stored, compressed.
    Stored,
    /// As what it contains.
    Contents,
}

/// Whether a receiver knows how a block is compressed that it gets so.
fn knows(features: StreamFeatures, compression: CompressionKind) -> bool {
    match compression {
        CompressionKind::Zstd => features.has(StreamFeatures::ZSTD.with(StreamFeatures::LZ4)),
        CompressionKind::Lz4 => features.has(StreamFeatures::LZ4),
        _ => true,
    }
}

/// Whether a block of that size is sent in pieces.
fn is_split(features: StreamFeatures, bytes: u64) -> bool {
    bytes > OLD_BLOCK_MAX_BYTES && !features.has(StreamFeatures::LARGE_BLOCKS)
}

impl How {
    /// How a block of data is sent. Metadata goes as its contents, which a receiver of the other byte order can swap.
    pub fn of(features: StreamFeatures, bp: &Blkptr) -> Self {
        let Ok(compression) = bp.compression() else { return Self::Contents };
        if bp.is_embedded() {
            let is_sent = features.has(StreamFeatures::EMBED_DATA) && knows(features, compression);
            return if is_sent { Self::Embedded } else { Self::Contents };
        }
        let is_compressed = compression != CompressionKind::Off && features.has(StreamFeatures::COMPRESSED);
        let is_ours = bp.byte_order() == ByteOrder::Little && !bp.object_type().is_metadata();
        if is_compressed && is_ours && !is_split(features, bp.lsize().get()) {
            Self::Stored
        } else {
            Self::Contents
        }
    }
}

/// What was found, and what is in it.
#[derive(Debug)]
pub(crate) struct Piece {
    pub found: Found,
    pub contents: Contents,
}

/// The bytes that are sent of a block.
#[derive(Debug)]
pub(crate) enum Contents {
    None,
    Read(Arc<IoBuf>),
    /// Only how many they are.
    Unread(usize),
}

impl Contents {
    fn payload(&self) -> Payload<'_> {
        match self {
            Self::None => Payload::NONE,
            Self::Read(bytes) => Payload::Bytes(bytes),
            Self::Unread(len) => Payload::Unread(*len),
        }
    }
}

/// See the module.
pub(crate) struct Composer<O> {
    out: O,
    features: StreamFeatures,
    toguid: u64,
    /// No object has this number, or a higher one.
    end_of_objects: u64,
    run: Option<FreeRun>,
}

impl<O: Output> Composer<O> {
    /// Begins with this record.
    pub async fn begin(
        mut out: O,
        begin: DrrRecord,
        payload: &[u8],
        features: StreamFeatures,
        toguid: u64,
        end_of_objects: u64,
    ) -> Result<Self, SendError> {
        out.put(begin, Payload::Bytes(payload)).await?;
        Ok(Self { out, features, toguid, end_of_objects, run: None })
    }

    /// Ends the stream.
    pub async fn end(mut self) -> Result<crate::Summary, SendError> {
        let end = DrrEnd { toguid: self.toguid.into(), ..DrrEnd::default() };
        self.put(DrrBody::End(end), Payload::NONE).await?;
        self.out.finish().await
    }

    /// Ends a stream that has no end.
    pub async fn cut(mut self) -> Result<crate::Summary, SendError> {
        self.put_run().await?;
        self.out.finish().await
    }

    /// Tells of what was found next.
    #[boxed]
    pub async fn take(&mut self, piece: &Piece) -> Result<(), SendError> {
        let payload = piece.contents.payload();
        match &piece.found {
            Found::Object { object, image } => self.object(*object, image).await,
            Found::Free { first, objects } => self.free_objects(*first, *objects).await,
            Found::Data(block) => self.data(block, payload).await,
            Found::Hole { object, block_bytes, first_block, end_block } => {
                self.hole(*object, *block_bytes, *first_block, *end_block).await
            }
            Found::Redacted { object, block_bytes, first_block, end_block } => {
                let bytes = |blocks: u64| blocks.saturating_mul(*block_bytes);
                let (offset, length) = (bytes(*first_block), bytes(end_block.saturating_sub(*first_block)));
                self.free(FreeRun::Redacted { object: object.get(), offset, length }).await
            }
            Found::Spill { block, is_old } => self.spill(block, *is_old, payload).await,
        }
    }

    /// Writes a record, behind the run of free things before it.
    async fn put(&mut self, body: DrrBody, payload: Payload<'_>) -> Result<(), SendError> {
        self.put_run().await?;
        self.out.put(DrrRecord::new(body), payload).await
    }

    async fn put_run(&mut self) -> Result<(), SendError> {
        let toguid = self.toguid.into();
        let body = match self.run.take() {
            None => return Ok(()),
            Some(FreeRun::Bytes { object, offset, length }) => DrrBody::Free(DrrFree {
                object: object.into(),
                offset: offset.into(),
                length: length.into(),
                toguid,
            }),
            Some(FreeRun::Redacted { object, offset, length }) => DrrBody::Redact(DrrRedact {
                object: object.into(),
                offset: offset.into(),
                length: length.into(),
                toguid,
            }),
            Some(FreeRun::Objects { first, objects }) => DrrBody::Freeobjects(DrrFreeobjects {
                first_object: first.into(),
                objects: objects.into(),
                toguid,
            }),
        };
        self.out.put(DrrRecord::new(body), Payload::NONE).await
    }

    async fn free(&mut self, run: FreeRun) -> Result<(), SendError> {
        match self.run.and_then(|before| before.joined(run)) {
            Some(joined) => self.run = Some(joined),
            None => {
                self.put_run().await?;
                self.run = Some(run);
            }
        }
        Ok(())
    }

    /// Numbers that the receiver cannot have either are left out.
    async fn free_objects(&mut self, first: u64, objects: u64) -> Result<(), SendError> {
        let objects = objects.min(self.end_of_objects.saturating_sub(first));
        if objects == 0 {
            return Ok(());
        }
        self.free(FreeRun::Objects { first, objects }).await
    }

    async fn object(&mut self, object: ObjectId, image: &DnodeImage) -> Result<(), SendError> {
        let block_bytes = image.data_block_bytes();
        let sent_block_bytes =
            if is_split(self.features, block_bytes) { OLD_BLOCK_MAX_BYTES } else { block_bytes };
        let body = DrrObject {
            object: object.get().into(),
            object_type: u32::from(image.object_type.raw()).into(),
            bonus_type: u32::from(image.bonus_type.raw()).into(),
            block_bytes: (sent_block_bytes as u32).into(),
            bonus_bytes: (image.bonus.len() as u32).into(),
            checksum: image.checksum.raw(),
            compression: image.compression.raw(),
            slots: image.slots() as u8,
            flags: if image.spill.is_some() { record_flags::OBJECT_SPILL } else { 0 },
            toguid: self.toguid.into(),
            ..DrrObject::default()
        };
        let mut bonus = image.bonus.clone();
        bonus.resize(bonus.len().next_multiple_of(PAD_BYTES), 0);
        self.put(DrrBody::Object(body), Payload::Bytes(&bonus)).await?;
        // What an older one has beyond its end. Nothing joins this run.
        let end = image.max_block_id.get().saturating_add(1).saturating_mul(block_bytes);
        self.run = Some(FreeRun::Bytes { object: object.get(), offset: end, length: TO_THE_END });
        self.put_run().await
    }

    async fn hole(
        &mut self,
        object: ObjectId,
        block_bytes: u64,
        first_block: u64,
        end_block: Option<u64>,
    ) -> Result<(), SendError> {
        // Behind what an object can reach nothing was ever written.
        let Some(offset) = first_block.checked_mul(block_bytes) else { return Ok(()) };
        let end = end_block.and_then(|end| end.checked_mul(block_bytes)).unwrap_or(u64::MAX);
        self.free(FreeRun::Bytes { object: object.get(), offset, length: end - offset }).await
    }

    async fn data(&mut self, block: &FoundBlock, payload: Payload<'_>) -> Result<(), SendError> {
        let how = How::of(self.features, &block.bp);
        if how == How::Embedded {
            return self.embedded(block).await;
        }
        let bytes = block.bp.lsize().get();
        let write = DrrWrite {
            object: block.bookmark.object.get().into(),
            object_type: u32::from(block.object_type.raw()).into(),
            offset: block.bookmark.block.get().saturating_mul(bytes).into(),
            logical_bytes: bytes.into(),
            toguid: self.toguid.into(),
            checksum: ChecksumKind::Off.raw(),
            ..DrrWrite::default()
        };
        if is_split(self.features, bytes) {
            return self.pieces(write, payload).await;
        }
        let mut write = with_key(write, &block.bp);
        if how == How::Stored {
            write.compression = block.bp.compression().map_or(0, CompressionKind::raw);
            write.compressed_bytes = block.bp.psize().get().into();
        }
        self.put(DrrBody::Write(write), payload).await
    }

    async fn pieces(&mut self, whole: DrrWrite, payload: Payload<'_>) -> Result<(), SendError> {
        let (mut offset, mut rest) = (whole.offset.get(), payload);
        while rest.len() > 0 {
            let (piece, after) = rest.split_at(rest.len().min(OLD_BLOCK_MAX_BYTES as usize));
            let len = piece.len() as u64;
            let write = DrrWrite { offset: offset.into(), logical_bytes: len.into(), ..whole };
            self.put(DrrBody::Write(write), piece).await?;
            (offset, rest) = (offset + len, after);
        }
        Ok(())
    }

    async fn embedded(&mut self, block: &FoundBlock) -> Result<(), SendError> {
        let (bp, bookmark) = (&block.bp, block.bookmark);
        let damaged =
            |source| SendError::Damaged { objset: bookmark.objset, object: bookmark.object, source };
        let mut payload = bp.embedded_payload().map_err(damaged)?;
        let bytes = bp.lsize().get();
        let write = DrrWriteEmbedded {
            object: bookmark.object.get().into(),
            offset: bookmark.block.get().saturating_mul(bytes).into(),
            length: bytes.into(),
            toguid: self.toguid.into(),
            compression: bp.compression().map_err(damaged)?.raw(),
            embedded_type: bp.embedded_type(),
            logical_bytes: (bytes as u32).into(),
            physical_bytes: (payload.len() as u32).into(),
            ..DrrWriteEmbedded::default()
        };
        payload.resize(payload.len().next_multiple_of(PAD_BYTES), 0);
        self.put(DrrBody::WriteEmbedded(write), Payload::Bytes(&payload)).await
    }

    async fn spill(
        &mut self,
        block: &FoundBlock,
        is_old: bool,
        payload: Payload<'_>,
    ) -> Result<(), SendError> {
        let spill = DrrSpill {
            object: block.bookmark.object.get().into(),
            length: block.bp.lsize().get().into(),
            toguid: self.toguid.into(),
            flags: if is_old { record_flags::SPILL_UNMODIFIED } else { 0 },
            ..DrrSpill::default()
        };
        self.put(DrrBody::Spill(spill), payload).await
    }
}

/// The same with what the block's pointer knows of it.
fn with_key(write: DrrWrite, bp: &Blkptr) -> DrrWrite {
    let Some(kind) = bp.checksum_kind().ok().filter(|_| !bp.is_embedded()) else { return write };
    DrrWrite {
        checksum: kind.raw(),
        flags: if kind.is_dedup_grade() { record_flags::CHECKSUM_DEDUP } else { 0 },
        key: ddt::key(bp).map(Into::into),
        ..write
    }
}
