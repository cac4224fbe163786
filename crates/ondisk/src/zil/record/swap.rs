//! Records of the other byte order, turned around.
//!
//! A log block mixes words of 64, 32 and 16 bits with text and data, and only a record's type says
//! which is where; so a record is swapped by itself, before anything else looks at it. Numbers that
//! lead through a record are read in the order it has before.
//! (test: `a_record_swapped_twice_is_as_before`)

use std::ops::Range;

use super::body::{attr_mask, xattr_bits};
use super::phys::{
    ALIGN, AclSizesPhys, BITMAP_WORDS_MAX, CreatePhys, LrCommon, PairPhys, RenamePhys, SetattrPhys,
    TruncatePhys, WhiteoutPhys, WritePhys,
};
use super::{CASE_INSENSITIVE, TxType};
use crate::acl;
use crate::blkptr::ByteOrder;
use crate::error::{OndiskError, bad, short};
use crate::swap::words;

const WHAT: &str = "log record";
const COMMON: usize = size_of::<LrCommon>();
/// Bytes of the words that open an attribute section's end: flags and time of creation.
const ATTR_WORDS: usize = 24;
/// Bytes of the scan stamp that ends it.
const SCANSTAMP: usize = 32;

/// Swaps a whole record, which has the byte order `from`.
///
/// # Errors
/// For unknown types, and for lengths that leave the record. `bytes` hold anything then.
pub fn swap_record(bytes: &mut [u8], from: ByteOrder) -> Result<(), OndiskError> {
    let mut turn = Turn { bytes, from, at: 0 };
    let raw = turn.word(0)? & !CASE_INSENSITIVE;
    turn.fixed(COMMON)?;
    match TxType::from_raw(raw)? {
        TxType::Create | TxType::Mkdir | TxType::Mkxattr | TxType::Symlink => {
            turn.fixed(size_of::<CreatePhys>())
        }
        TxType::CreateAttr | TxType::MkdirAttr => {
            turn.fixed(size_of::<CreatePhys>())?;
            turn.attr()
        }
        TxType::CreateAcl | TxType::MkdirAcl => {
            turn.fixed(size_of::<CreatePhys>())?;
            let sizes = turn.acl_sizes()?;
            turn.acl(sizes)
        }
        TxType::CreateAclAttr | TxType::MkdirAclAttr => {
            turn.fixed(size_of::<CreatePhys>())?;
            let sizes = turn.acl_sizes()?;
            turn.attr()?;
            turn.acl(sizes)
        }
        TxType::Remove | TxType::Rmdir => turn.fixed(8),
        TxType::Link | TxType::SetSaXattr => turn.fixed(size_of::<PairPhys>()),
        TxType::Rename | TxType::RenameExchange => turn.fixed(size_of::<RenamePhys>()),
        TxType::RenameWhiteout => {
            turn.fixed(size_of::<RenamePhys>().saturating_add(size_of::<WhiteoutPhys>()))
        }
        TxType::Write | TxType::Write2 => turn.fixed(size_of::<WritePhys>()),
        TxType::Truncate => turn.fixed(size_of::<TruncatePhys>()),
        TxType::Setattr => {
            let mask = turn.word(COMMON.saturating_add(8))?;
            turn.fixed(size_of::<SetattrPhys>())?;
            if mask & attr_mask::XVATTR != 0 { turn.attr() } else { Ok(()) }
        }
        TxType::AclV0 => {
            let count = turn.word(COMMON.saturating_add(8))?;
            turn.fixed(size_of::<PairPhys>())?;
            let len =
                count.checked_mul(acl::OLD_ACE_BYTES as u64).ok_or_else(|| bad(WHAT, "entries", count))?;
            let range = turn.next(len)?;
            turn.aces(range)
        }
        TxType::Acl => {
            turn.fixed(8)?;
            let sizes = turn.acl_sizes()?;
            turn.acl(sizes)
        }
        TxType::CloneRange => {
            let rest = turn.bytes.len().saturating_sub(turn.at);
            turn.fixed(rest)
        }
    }
}

/// What [`AclSizesPhys`] says about what follows it.
struct AclSizes {
    fuids: u64,
    bytes: u64,
}

/// A record on its way.
struct Turn<'a> {
    bytes: &'a mut [u8],
    from: ByteOrder,
    /// What lies before is turned.
    at: usize,
}

impl Turn<'_> {
    fn part(&mut self, range: Range<usize>) -> Result<&mut [u8], OndiskError> {
        let have = self.bytes.len();
        self.bytes.get_mut(range.clone()).ok_or_else(|| short(WHAT, range.end, have))
    }

    /// The word at `at`, not turned yet.
    fn word(&mut self, at: usize) -> Result<u64, OndiskError> {
        let from = self.from;
        let word = self.part(at..at.saturating_add(8))?.first_chunk().copied().unwrap_or_default();
        Ok(if from == ByteOrder::Big { u64::from_be_bytes(word) } else { u64::from_le_bytes(word) })
    }

    fn half_word(&mut self, at: usize) -> Result<u32, OndiskError> {
        let from = self.from;
        let word = self.part(at..at.saturating_add(4))?.first_chunk().copied().unwrap_or_default();
        Ok(if from == ByteOrder::Big { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) })
    }

    /// The next `len` bytes, taken.
    fn next(&mut self, len: u64) -> Result<Range<usize>, OndiskError> {
        let end = usize::try_from(len).ok().and_then(|len| self.at.checked_add(len));
        let range = self.at..end.ok_or_else(|| bad(WHAT, "length", len))?;
        self.part(range.clone())?;
        self.at = range.end;
        Ok(range)
    }

    /// Words of 64 bits.
    fn fixed(&mut self, len: usize) -> Result<(), OndiskError> {
        let range = self.next(len as u64)?;
        words::<8>(self.part(range)?);
        Ok(())
    }

    /// Attributes: a count and a bitmap of 32-bit words, then words, then bytes, of which the first
    /// eight may be a project.
    fn attr(&mut self) -> Result<(), OndiskError> {
        let count = self.half_word(self.at)?;
        if count > BITMAP_WORDS_MAX {
            return Err(bad(WHAT, "attribute bitmap words", count));
        }
        let asked = if count > 0 { self.half_word(self.at.saturating_add(4))? } else { 0 };
        let bitmap = self.next(u64::from(count).saturating_add(1).saturating_mul(4))?;
        words::<4>(self.part(bitmap)?);
        self.fixed(ATTR_WORDS)?;
        let stamp = self.next(SCANSTAMP as u64)?;
        if asked & xattr_bits::PROJID != 0 && asked & xattr_bits::AV_SCANSTAMP == 0 {
            words::<8>(self.part(stamp.start..stamp.start.saturating_add(8))?);
        }
        Ok(())
    }

    fn acl_sizes(&mut self) -> Result<AclSizes, OndiskError> {
        let at = self.at;
        let sizes =
            AclSizes { fuids: self.word(at.saturating_add(16))?, bytes: self.word(at.saturating_add(24))? };
        self.fixed(size_of::<AclSizesPhys>())?;
        Ok(sizes)
    }

    fn acl(&mut self, sizes: AclSizes) -> Result<(), OndiskError> {
        let aces = self.next(sizes.bytes)?;
        self.aces(aces)?;
        let pad = self.at.next_multiple_of(ALIGN).saturating_sub(self.at);
        self.next(pad as u64)?;
        let fuids = sizes.fuids.checked_mul(8).ok_or_else(|| bad(WHAT, "fuids", sizes.fuids))?;
        let range = self.next(fuids)?;
        words::<8>(self.part(range)?);
        Ok(())
    }

    fn aces(&mut self, range: Range<usize>) -> Result<(), OndiskError> {
        let from = self.from;
        acl::swap_old(self.part(range)?, from);
        Ok(())
    }
}
