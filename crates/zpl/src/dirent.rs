//! The value of a directory entry: an object number and a file type in one word.
//!
//! ```text
//!  63  60 59      48 47                    0
//! +------+----------+-----------------------+
//! | DT_* |  unused  |     object number     |
//! +------+----------+-----------------------+
//! ```

use units::ObjectId;

use crate::mode::FileKind;

const OBJECT_BITS: u32 = 48;
const KIND_SHIFT: u32 = 60;

/// The longest name, in bytes.
pub const NAME_MAX: usize = 255;
/// The longest name that other systems may have made, with the feature `longname`.
pub const LONG_NAME_MAX: usize = 1023;

/// What a name in a directory refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dirent {
    /// The object.
    pub object: ObjectId,
    /// Its type as the entry has it; `None` where the entry has none (very old datasets).
    pub kind: Option<FileKind>,
}

impl Dirent {
    /// The stored word.
    #[must_use]
    pub fn encode(self) -> u64 {
        let code = self.kind.map_or(0, FileKind::dirent_code);
        u64::from(code) << KIND_SHIFT | self.object.get()
    }

    /// From the stored word.
    #[must_use]
    pub fn decode(word: u64) -> Self {
        Self {
            object: ObjectId::new(word & ((1 << OBJECT_BITS) - 1)),
            kind: FileKind::of_dirent((word >> KIND_SHIFT) as u32),
        }
    }
}
