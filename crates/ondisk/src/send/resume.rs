//! Where a receive that broke off is to go on.
//!
//! ```text
//!  dataset object (a ZAP)                  nvlist of a token
//!  com.delphix:resume_toguid  ...   ◄───►  toguid ...         which snapshot, in which form
//!  com.delphix:resume_object  ...          object, offset     what came last: it is sent once more
//!  com.delphix:resume_bytes                bytes              of the stream so far, its BEGIN not counted
//! ```
//! Source: `dsl_dataset.c` (`get_receive_resume_token_impl`), `dmu_recv.c` (`save_resume_state`).

use super::{DrrBegin, StreamFeatures};
use crate::{NvList, OndiskError};

/// How far a receive is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResumePoint {
    /// The object of the last record that was taken, of those that a stream can begin with.
    pub object: u64,
    /// Where in it that record was, in bytes.
    pub offset: u64,
    /// Bytes of the stream after its first record, up to the end of that one.
    pub bytes: u64,
}

impl ResumePoint {
    /// Nothing was received: the first object that there can be.
    pub const START: Self = Self { object: 1, offset: 0, bytes: 0 };
}

/// In which form a stream has blocks, so that the rest of it comes in the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResumeForm {
    /// Blocks above 128 KiB whole.
    pub large_blocks: bool,
    /// Blocks that lie in their pointers so.
    pub embedded: bool,
    /// Blocks as they are stored, compressed.
    pub compressed: bool,
    /// Blocks as they are stored, encrypted.
    pub raw: bool,
}

/// A stream that has been received in part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResumeState {
    /// Guid of the snapshot that it starts from; zero for none.
    pub fromguid: u64,
    /// Guid of the snapshot.
    pub toguid: u64,
    /// The name that the snapshot was sent with.
    pub toname: String,
    /// How far it is.
    pub point: ResumePoint,
    /// In which form.
    pub form: ResumeForm,
}

/// Names in a token's nvlist.
mod names {
    pub const FROMGUID: &str = "fromguid";
    pub const OBJECT: &str = "object";
    pub const OFFSET: &str = "offset";
    pub const BYTES: &str = "bytes";
    pub const TOGUID: &str = "toguid";
    pub const TONAME: &str = "toname";
    pub const LARGE_BLOCKS: &str = "largeblockok";
    pub const EMBEDDED: &str = "embedok";
    pub const COMPRESSED: &str = "compressok";
    pub const RAW: &str = "rawok";
}

impl ResumeState {
    /// What a stream that begins so leaves before its first record has come.
    ///
    /// # Errors
    /// When its name is no text.
    pub fn of(begin: &DrrBegin) -> Result<Self, OndiskError> {
        let features = begin.features();
        let form = ResumeForm {
            large_blocks: features.has(StreamFeatures::LARGE_BLOCKS),
            embedded: features.has(StreamFeatures::EMBED_DATA),
            compressed: features.has(StreamFeatures::COMPRESSED),
            raw: features.has(StreamFeatures::RAW),
        };
        Ok(Self {
            fromguid: begin.fromguid.get(),
            toguid: begin.toguid.get(),
            toname: begin.name()?.to_owned(),
            point: ResumePoint::START,
            form,
        })
    }

    /// As a token has it.
    #[must_use]
    pub fn list(&self) -> NvList {
        let mut list = NvList::new();
        if self.fromguid != 0 {
            list.add_u64(names::FROMGUID, self.fromguid);
        }
        list.add_u64(names::OBJECT, self.point.object)
            .add_u64(names::OFFSET, self.point.offset)
            .add_u64(names::BYTES, self.point.bytes)
            .add_u64(names::TOGUID, self.toguid)
            .add_str(names::TONAME, self.toname.as_str());
        let flags = [
            (self.form.large_blocks, names::LARGE_BLOCKS),
            (self.form.embedded, names::EMBEDDED),
            (self.form.compressed, names::COMPRESSED),
            (self.form.raw, names::RAW),
        ];
        for (_, name) in flags.into_iter().filter(|(is_so, _)| *is_so) {
            list.add_flag(name);
        }
        list
    }

    /// What a token's list says.
    ///
    /// # Errors
    /// When something is missing in it.
    pub fn from_list(list: &NvList) -> Result<Self, OndiskError> {
        let point = ResumePoint {
            object: list.lookup_u64(names::OBJECT)?,
            offset: list.lookup_u64(names::OFFSET)?,
            bytes: list.lookup_u64(names::BYTES)?,
        };
        let form = ResumeForm {
            large_blocks: list.contains(names::LARGE_BLOCKS),
            embedded: list.contains(names::EMBEDDED),
            compressed: list.contains(names::COMPRESSED),
            raw: list.contains(names::RAW),
        };
        Ok(Self {
            fromguid: list.get_u64(names::FROMGUID).unwrap_or(0),
            toguid: list.lookup_u64(names::TOGUID)?,
            toname: list.lookup_str(names::TONAME)?.to_owned(),
            point,
            form,
        })
    }
}
