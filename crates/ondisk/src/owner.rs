//! Whose an object is: the ids that its space is accounted to; and which of those that had its number.
//!
//! A file's bonus says it, either as an old znode or as system attributes. Of the latter the first
//! ones lie where every writer of file-system version 5 puts them, so that the owner can be read
//! without the dataset's tables:
//!
//! ```text
//!  header | 0 mode  8 size  16 gen  24 user  32 group  40 parent  48 flags  56 times .. 120 links
//!         | 128 project, if the flags say so
//! ```

use crate::bits;
use crate::object_type::ObjectType;
use crate::sa::SA_MAGIC;
use crate::znode::{ZnodePhys, flags};

const GENERATION_OFFSET: usize = 16;
const USER_OFFSET: usize = 24;
const GROUP_OFFSET: usize = 32;
const FLAGS_OFFSET: usize = 48;
const PROJECT_OFFSET: usize = 128;

/// The ids that an object's space is accounted to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// User, or an index into the table of foreign ids.
    pub user: u64,
    /// Group, likewise.
    pub group: u64,
    /// Project; 0 for what has none.
    pub project: u64,
}

impl Owner {
    /// The owner that a bonus of this type names; `None` for what is not a file's.
    #[must_use]
    pub fn of_bonus(kind: ObjectType, bonus: &[u8]) -> Option<Self> {
        match kind {
            ObjectType::ZNODE => {
                let znode = ZnodePhys::decode(bonus).ok()?;
                Some(Self { user: znode.uid.get(), group: znode.gid.get(), project: 0 })
            }
            ObjectType::SA => Self::of_attributes(bonus),
            _ => None,
        }
    }

    fn of_attributes(bonus: &[u8]) -> Option<Self> {
        if u32::from_le_bytes(*bonus.first_chunk()?) == 0 {
            // A new file whose attributes are still to come.
            return Some(Self::default());
        }
        let attributes = Attributes::of(bonus)?;
        let has_project = attributes.word(FLAGS_OFFSET)? & flags::PROJID != 0;
        let project = if has_project { attributes.word(PROJECT_OFFSET)? } else { 0 };
        Some(Self { user: attributes.word(USER_OFFSET)?, group: attributes.word(GROUP_OFFSET)?, project })
    }
}

/// Which file an object is, of those that had its number one after the other: a bonus of this type names the txg that
/// made it. `None` for what is not a file's.
#[must_use]
pub fn generation_of_bonus(kind: ObjectType, bonus: &[u8]) -> Option<u64> {
    match kind {
        ObjectType::ZNODE => Some(ZnodePhys::decode(bonus).ok()?.generation.get()),
        ObjectType::SA => Attributes::of(bonus)?.word(GENERATION_OFFSET),
        _ => None,
    }
}

/// System attributes in a bonus.
struct Attributes<'a> {
    bonus: &'a [u8],
    header_bytes: usize,
    is_foreign: bool,
}

impl<'a> Attributes<'a> {
    fn of(bonus: &'a [u8]) -> Option<Self> {
        let magic = u32::from_le_bytes(*bonus.first_chunk()?);
        let is_foreign = magic.swap_bytes() == SA_MAGIC;
        if magic != SA_MAGIC && !is_foreign {
            return None;
        }
        let info = u16::from_le_bytes(*bonus.get(4..)?.first_chunk()?);
        let info = if is_foreign { info.swap_bytes() } else { info };
        let header_bytes = usize::try_from(bits::get(info.into(), 10, 6)).ok()?.saturating_mul(8);
        Some(Self { bonus, header_bytes, is_foreign })
    }

    fn word(&self, offset: usize) -> Option<u64> {
        let at = self.header_bytes.saturating_add(offset);
        let word = u64::from_le_bytes(*self.bonus.get(at..)?.first_chunk()?);
        Some(if self.is_foreign { word.swap_bytes() } else { word })
    }
}
