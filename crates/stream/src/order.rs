//! What is to be sent, from where on, and in which form.

use ondisk::dsl::{DslDatasetPhys, dataset_flags};
use ondisk::send::{StreamFeatures, begin_flags};
use units::{ObjectId, Txg};

use crate::Redaction;

/// A stream to be written.
#[derive(Clone, Debug)]
pub struct SendOrder {
    /// The snapshot.
    pub target: Target,
    /// What the receiver has already; `None` for a full stream.
    pub origin: Option<Origin>,
    /// How blocks are sent.
    pub form: Form,
    /// Where a stream that was cut off is to go on.
    pub resume: Option<Resume>,
    /// What is left out, and what was left out before.
    pub redaction: Redaction,
    /// It breaks off behind this object, and has no end: what was itself received in part leads no further, and is for its
    /// receiver a part, too. `None`: it is whole.
    pub cut_after: Option<ObjectId>,
}

/// The snapshot that is sent.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its name, `pool/dir@snapshot`: at most 255 bytes of it are told.
    pub name: String,
    /// Its name for good.
    pub guid: u64,
    /// When it was taken, in seconds since 1970.
    pub creation_time: u64,
    /// Whether names are looked up without regard to case.
    pub ignores_case: bool,
    /// Features in use.
    pub features: Features,
}

impl Target {
    /// A snapshot by its dataset's numbers.
    #[must_use]
    pub fn of(name: &str, dataset: &DslDatasetPhys, features: Features) -> Self {
        Self {
            name: name.to_owned(),
            guid: dataset.guid.get(),
            creation_time: dataset.creation_time.get(),
            ignores_case: dataset.flags.get() & dataset_flags::CI_DATASET != 0,
            features,
        }
    }
}

/// Features of the pool format that a stream depends on, as far as they are in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// By the dataset: `large_blocks`.
    pub large_blocks: bool,
    /// By the dataset: `zstd_compress`.
    pub zstd: bool,
    /// By the dataset: `large_dnode`.
    pub large_dnode: bool,
    /// By the dataset: `longname`.
    pub longname: bool,
    /// By the dataset: `large_microzap`.
    pub large_microzap: bool,
    /// Anywhere in the pool: `embedded_data`.
    pub embedded_data: bool,
    /// Anywhere in the pool: `lz4_compress`.
    pub lz4: bool,
}

/// The snapshot, or bookmark, that a stream starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Its name for good.
    pub guid: u64,
    /// When it was taken: blocks born later are sent.
    pub creation_txg: Txg,
    /// Whether the snapshot that is sent is one of a clone of it.
    pub is_of_clone: bool,
}

/// How blocks are sent. By default each is sent as its contents, in pieces of 128 KiB at most, which every
/// receiver understands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Form {
    /// Blocks above 128 KiB whole (`-L`).
    pub large_blocks: bool,
    /// Blocks that lie in their pointers so (`-e`).
    pub embedded: bool,
    /// Blocks of data as they are stored, compressed (`-c`).
    pub compressed: bool,
}

/// A place in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resume {
    /// The object to begin with.
    pub object: ObjectId,
    /// Bytes of it that the receiver has.
    pub offset: u64,
}

impl SendOrder {
    /// What a receiver must know. `has_attributes`: files have system attributes.
    pub(crate) fn stream_features(&self, has_attributes: bool) -> StreamFeatures {
        use StreamFeatures as S;
        let (form, used) = (self.form, self.target.features);
        let features = S::NONE
            .with_if(has_attributes, S::SA_SPILL)
            .with_if(form.large_blocks && used.large_blocks, S::LARGE_BLOCKS)
            .with_if(form.embedded && used.embedded_data, S::EMBED_DATA)
            .with_if(form.compressed, S::COMPRESSED);
        features
            .with_if(features.has_any(S::EMBED_DATA.with(S::COMPRESSED)) && used.lz4, S::LZ4)
            .with_if(form.compressed && used.zstd, S::ZSTD)
            .with_if(self.resume.is_some(), S::RESUMING)
            .with_if(self.redaction.snaps.is_some(), S::REDACTED)
            .with_if(used.large_dnode, S::LARGE_DNODE)
            .with_if(used.longname, S::LONGNAME)
            .with_if(used.large_microzap, S::LARGE_MICROZAP)
    }

    /// See [`begin_flags`].
    pub(crate) fn begin_flags(&self) -> u32 {
        let clone = if self.origin.is_some_and(|origin| origin.is_of_clone) { begin_flags::CLONE } else { 0 };
        let case = if self.target.ignores_case { begin_flags::CI_DATA } else { 0 };
        clone | case | begin_flags::FREERECORDS | begin_flags::SPILL_BLOCK
    }

    /// Blocks born later are sent.
    pub(crate) fn born_after(&self) -> Txg {
        self.origin.map_or(Txg::ZERO, |origin| origin.creation_txg)
    }
}
