//! How a block is to be written.

use ondisk::{Blkptr, BlkptrParts, ChecksumKind, Compression, CompressionKind, ObjectType};
use units::{Level, VdevId};

use crate::PointerForms;

/// Whether a block that is read or written stays in the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// It does, and may go to a cache device when it has to leave memory.
    #[default]
    Yes,
    /// It does, and is forgotten when it has to leave memory.
    InMemory,
    /// It does not, but is taken from there if it is there already.
    No,
}

/// How a block is to be written, and what its blkptr says of it.
#[derive(Clone, Copy, Debug)]
pub struct WritePolicy {
    /// Checksum; `On` is fletcher4. Never an embedded kind.
    pub checksum: ChecksumKind,
    /// Compression and its level; `On` is lz4, or lzjb in pools without it. Used only when it saves an eighth.
    pub compression: Compression,
    /// Copies, 1 to 3.
    pub copies: u8,
    /// What the block holds.
    pub object_type: ObjectType,
    /// Height in the object's tree.
    pub level: Level,
    /// Data that takes up to so many bytes may go to special vdevs; 0 for none.
    pub special_small_bytes: u64,
    /// See [`Blkptr::fill`].
    pub fill: u64,
    /// Whether it stays in the cache.
    pub keep: Keep,
    /// The block's pointer of an earlier pass of the same txg. Its places are used again
    /// when sizes match; the result then has the same first DVA, and is not to be freed.
    pub rewrite: Option<Blkptr>,
    /// The block's pointer of an earlier txg. If a strong checksum says that the block is the same as there, nothing is
    /// written, and this pointer is the result ("nopwrite").
    pub unchanged: Option<Blkptr>,
}

impl Default for WritePolicy {
    fn default() -> Self {
        Self {
            checksum: ChecksumKind::Fletcher4,
            compression: Compression::OFF,
            copies: 1,
            object_type: ObjectType::NONE,
            level: Level::new(0),
            special_small_bytes: 0,
            fill: 1,
            keep: Keep::Yes,
            rewrite: None,
            unchanged: None,
        }
    }
}

impl WritePolicy {
    /// The parts of a blkptr that are known before the block is packed.
    pub(crate) fn parts(&self) -> BlkptrParts {
        BlkptrParts {
            object_type: self.object_type,
            level: self.level,
            fill: self.fill,
            ..BlkptrParts::default()
        }
    }

    /// Whether the block may lie in its pointer: data, in one piece, whose pointer counts nothing.
    pub(crate) fn may_embed(&self) -> bool {
        self.level.get() == 0 && !self.object_type.counts_fill()
    }

    /// Whether it is a block of what users have written.
    pub(crate) fn is_file_data(&self) -> bool {
        self.level.get() == 0 && !self.object_type.is_metadata()
    }

    /// The checksum that `On` stands for.
    pub(crate) fn checksum(&self) -> ChecksumKind {
        let kind = if self.checksum == ChecksumKind::On { ChecksumKind::Fletcher4 } else { self.checksum };
        assert!(kind != ChecksumKind::Inherit && !kind.is_embedded(), "{} on a block", kind.name());
        kind
    }

    /// The compression; what `On` stands for depends on the pool.
    pub(crate) fn compression(&self, forms: PointerForms) -> Compression {
        let kind = self.compression.kind;
        assert!(
            !matches!(kind, CompressionKind::Inherit | CompressionKind::Empty),
            "compression {} on a block",
            kind.name()
        );
        match kind {
            CompressionKind::On if forms.no_lz4 => {
                Compression { kind: CompressionKind::Lzjb, ..Compression::LZ4 }
            }
            CompressionKind::On => Compression::LZ4,
            _ => self.compression,
        }
    }
}

/// Wishes about where a log block goes.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogHint<'a> {
    /// Not here: these failed a log write or flush. Data vdevs among them are used as a last
    /// resort all the same, log vdevs never.
    pub avoid: &'a [VdevId],
    /// Here, if there is room and it is a log vdev.
    pub prefer: Option<VdevId>,
}
