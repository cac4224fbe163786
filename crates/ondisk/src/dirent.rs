//! What a directory's ZAP holds for a name.
//!
//! ```text
//!  63      60 59           48 47                                0
//!  | type    | zero          | object                           |
//! ```

use units::ObjectId;

use crate::bits;

/// The value of a directory entry, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dirent {
    /// The file.
    pub object: ObjectId,
    /// Its type as in `d_type` of `readdir`: the mode's file type shifted right by 12. Zero in file
    /// systems of version 1.
    pub file_type: u8,
}

impl Dirent {
    /// Takes the value apart.
    #[must_use]
    pub fn from_word(word: u64) -> Self {
        let file_type = u8::try_from(bits::get(word, 60, 4)).unwrap_or(0);
        Self { object: ObjectId::new(bits::get(word, 0, 48)), file_type }
    }

    /// The entry of a file with this mode.
    ///
    /// # Panics
    /// Never: the file type of a mode has four bits.
    #[must_use]
    pub fn of_mode(object: ObjectId, mode: u64) -> Self {
        let file_type = u8::try_from(bits::get(mode, 12, 4)).expect("four bits");
        Self { object, file_type }
    }

    /// Puts the value together.
    ///
    /// # Panics
    /// When the object number takes more than 48 bits, or the type more than 4.
    #[must_use]
    pub const fn to_word(self) -> u64 {
        bits::set(bits::set(0, 0, 48, self.object.get()), 60, 4, self.file_type as u64)
    }
}
