//! What a receiver must know to take a stream.

/// Features of a stream, as bits. Those that OpenZFS reserves for others have no name here.
///
/// ```text
///  64      58                                             2     0
///   | zero  | feature flags                               |C|S|    DrrBegin::version_info
/// ```
/// `S` a substream, `C` a compound stream: see [`super::HeaderType`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StreamFeatures(u64);

impl StreamFeatures {
    /// None.
    pub const NONE: Self = Self(0);
    /// Blocks may be references to earlier ones of the stream (WRITE_BYREF); no longer sent.
    pub const DEDUP: Self = Self(1 << 0);
    /// The same, with checksums told by property; no longer sent.
    pub const DEDUPPROPS: Self = Self(1 << 1);
    /// System attributes, and with them spill blocks.
    pub const SA_SPILL: Self = Self(1 << 2);
    /// Blocks that lie in their pointers are sent so (WRITE_EMBEDDED).
    pub const EMBED_DATA: Self = Self(1 << 16);
    /// What is sent compressed may be so by lz4.
    pub const LZ4: Self = Self(1 << 17);
    /// Blocks above 128 KiB are sent whole.
    pub const LARGE_BLOCKS: Self = Self(1 << 19);
    /// Goes on with a stream that was cut off.
    pub const RESUMING: Self = Self(1 << 20);
    /// Some blocks were left out on purpose (REDACT).
    pub const REDACTED: Self = Self(1 << 21);
    /// Blocks are sent as they are stored, compressed.
    pub const COMPRESSED: Self = Self(1 << 22);
    /// Dnodes may take more than one slot.
    pub const LARGE_DNODE: Self = Self(1 << 23);
    /// Blocks are sent as they are stored, encrypted.
    pub const RAW: Self = Self(1 << 24);
    /// What is sent compressed may be so by zstd.
    pub const ZSTD: Self = Self(1 << 25);
    /// The nvlist of a compound stream has holds.
    pub const HOLDS: Self = Self(1 << 26);
    /// Large blocks may follow streams without them; never sent so far.
    pub const SWITCH_TO_LARGE_BLOCKS: Self = Self(1 << 27);
    /// Names above 255 bytes.
    pub const LONGNAME: Self = Self(1 << 28);
    /// Micro ZAPs above 128 KiB.
    pub const LARGE_MICROZAP: Self = Self(1 << 29);

    /// All that OpenZFS knows today and still takes: without the two of deduplicated streams.
    pub const KNOWN: Self = Self(
        Self::SA_SPILL.0
            | Self::EMBED_DATA.0
            | Self::LZ4.0
            | Self::LARGE_BLOCKS.0
            | Self::RESUMING.0
            | Self::REDACTED.0
            | Self::COMPRESSED.0
            | Self::LARGE_DNODE.0
            | Self::RAW.0
            | Self::ZSTD.0
            | Self::HOLDS.0
            | Self::SWITCH_TO_LARGE_BLOCKS.0
            | Self::LONGNAME.0
            | Self::LARGE_MICROZAP.0,
    );

    /// Bits as `zstream dump` shows them.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The bits.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// These and those.
    #[must_use]
    pub const fn with(self, more: Self) -> Self {
        Self(self.0 | more.0)
    }

    /// These, and `more` if so.
    #[must_use]
    pub const fn with_if(self, is_so: bool, more: Self) -> Self {
        if is_so { self.with(more) } else { self }
    }

    /// Whether all of `others` are among them.
    #[must_use]
    pub const fn has(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// Whether one of `others` is among them.
    #[must_use]
    pub const fn has_any(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }

    /// Those of them that are not among [`Self::KNOWN`]: whoever receives must refuse the stream for them.
    #[must_use]
    pub const fn unknown(self) -> Self {
        Self(self.0 & !Self::KNOWN.0)
    }
}
