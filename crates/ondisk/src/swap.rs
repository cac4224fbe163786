//! Blocks of big-endian writers, turned into ours: once, after the checksum held over the bytes as
//! stored, and after decompression.
//!
//! An indirect block is blkptrs, which are words of 64 bits throughout. What a block at level 0 is,
//! its object's type says. Bytes that have no order (names, file data, packed nvlists, the values in
//! ZAP leaves, which are big-endian everywhere) stay as they are. So do system attributes: each
//! is swapped as it is registered, by who reads them.
//!
//! Swapping twice gives what was there before: what leads through a structure are single bytes.
//! (test: `swapped_twice_is_as_before`) Only ACLs are led by numbers, which is why these want to know
//! what order they come from.

use std::ops::Range;

use units::Level;

use crate::acl;
use crate::blkptr::{BLKPTR_BYTES, ByteOrder};
use crate::dnode::{DNODE_HEADER_BYTES, DNODE_SLOT_BYTES, flags};
use crate::error::{OndiskError, short};
use crate::object_type::{ByteSwap, ObjectType};
use crate::zap::{
    BLOCK_LEAF, BLOCK_MICRO, CHUNK_ARRAY, CHUNK_BYTES, CHUNK_ENTRY, CHUNK_FREE, MZAP_ENTRY_BYTES,
};
use crate::znode::ZNODE_BYTES;

#[cfg(test)]
mod tests;

/// Where the other dnodes of an objset's block are, if it is long enough to have them.
const OBJSET_ACCOUNTS: [Range<usize>; 3] = [1024..1536, 1536..2048, 2048..2560];

/// Swaps a whole block of an object.
///
/// # Errors
/// For unknown types, and for structures that leave their block. `bytes` hold anything then.
pub fn swap_block(object_type: ObjectType, level: Level, bytes: &mut [u8]) -> Result<(), OndiskError> {
    turn_block(object_type, level, bytes, ByteOrder::Big)
}

/// The same for a block that has the byte order `from`.
///
/// # Errors
/// As there.
pub fn turn_block(
    object_type: ObjectType,
    level: Level,
    bytes: &mut [u8],
    from: ByteOrder,
) -> Result<(), OndiskError> {
    if level.get() > 0 {
        words::<8>(bytes);
        return Ok(());
    }
    match object_type.props().map(|props| props.byte_swap) {
        Some(ByteSwap::Uint8) => {}
        Some(ByteSwap::Uint16) => words::<2>(bytes),
        Some(ByteSwap::Uint32) => words::<4>(bytes),
        Some(ByteSwap::Uint64) => words::<8>(bytes),
        Some(ByteSwap::Zap) => swap_zap(bytes)?,
        Some(ByteSwap::Dnode) => swap_dnodes(bytes, from)?,
        Some(ByteSwap::Objset) => swap_objset(bytes, from)?,
        Some(ByteSwap::Znode) => swap_znode(bytes, from)?,
        Some(ByteSwap::Oldacl) => acl::swap_old(bytes, from),
        Some(ByteSwap::Acl) => acl::swap(bytes, from),
        None => return Err(foreign("unknown type")),
    }
    Ok(())
}

fn foreign(detail: &'static str) -> OndiskError {
    OndiskError::Unsupported { what: "big-endian block", detail }
}

/// Turns each word of `N` bytes around; a piece of one at the end stays.
pub fn words<const N: usize>(bytes: &mut [u8]) {
    let (words, _) = bytes.as_chunks_mut::<N>();
    words.iter_mut().for_each(|word| word.reverse());
}

fn part(bytes: &mut [u8], range: Range<usize>) -> Result<&mut [u8], OndiskError> {
    let have = bytes.len();
    bytes.get_mut(range.clone()).ok_or_else(|| short("big-endian block", range.end, have))
}

/// A single byte, which has no order: all that leads through these structures.
fn byte_at(bytes: &[u8], at: usize) -> usize {
    bytes.get(at).copied().unwrap_or(0).into()
}

fn swap_dnodes(bytes: &mut [u8], from: ByteOrder) -> Result<(), OndiskError> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let is_used = byte_at(rest, 0) != 0;
        let slots = if is_used { byte_at(rest, 12).saturating_add(1) } else { 1 };
        let (len, have) = (slots.saturating_mul(DNODE_SLOT_BYTES), rest.len());
        let (dnode, behind) =
            rest.split_at_mut_checked(len).ok_or_else(|| short("big-endian dnode", len, have))?;
        if is_used {
            swap_dnode(dnode, from)?;
        }
        rest = behind;
    }
    Ok(())
}

fn swap_dnode(dnode: &mut [u8], from: ByteOrder) -> Result<(), OndiskError> {
    let (pointers, bonus_type) = (byte_at(dnode, 3), byte_at(dnode, 4));
    let has_spill = byte_at(dnode, 7) & usize::from(flags::SPILL_BLKPTR) != 0;
    words::<2>(part(dnode, 8..12)?);
    words::<8>(part(dnode, 16..32)?);
    let bonus = DNODE_HEADER_BYTES.saturating_add(pointers.saturating_mul(BLKPTR_BYTES));
    words::<8>(part(dnode, DNODE_HEADER_BYTES..bonus)?);
    let spill = dnode.len().saturating_sub(if has_spill { BLKPTR_BYTES } else { 0 });
    if bonus_type != 0 {
        let bonus_type = ObjectType::new(u8::try_from(bonus_type).unwrap_or(0));
        turn_block(bonus_type, Level::new(0), part(dnode, bonus..spill.max(bonus))?, from)?;
    }
    words::<8>(part(dnode, spill..spill.saturating_add(if has_spill { BLKPTR_BYTES } else { 0 }))?);
    Ok(())
}

/// A file of an old file system: words, then the ACL, whose version says how it is laid out. A
/// link's text or a scan stamp may follow, which have no order.
fn swap_znode(bytes: &mut [u8], from: ByteOrder) -> Result<(), OndiskError> {
    let acl_at = ZNODE_BYTES.saturating_sub(size_of::<acl::AclPhys>());
    words::<8>(part(bytes, 0..acl_at.saturating_add(8))?);
    let version = part(bytes, acl_at.saturating_add(12)..acl_at.saturating_add(14))?;
    let version = version.first_chunk().copied().unwrap_or_default();
    let version =
        if from == ByteOrder::Big { u16::from_be_bytes(version) } else { u16::from_le_bytes(version) };
    words::<4>(part(bytes, acl_at.saturating_add(8)..acl_at.saturating_add(12))?);
    words::<2>(part(bytes, acl_at.saturating_add(12)..acl_at.saturating_add(16))?);
    let entries = part(bytes, acl_at.saturating_add(16)..ZNODE_BYTES)?;
    if version == acl::ACL_VERSION_FUID {
        acl::swap(entries, from)
    } else {
        acl::swap_old(entries, from)
    }
    Ok(())
}

/// Meta-dnode, log header, type and flags; MACs are bytes.
fn swap_objset(bytes: &mut [u8], from: ByteOrder) -> Result<(), OndiskError> {
    swap_dnodes(part(bytes, 0..DNODE_SLOT_BYTES)?, from)?;
    words::<8>(part(bytes, 512..720)?);
    for dnode in OBJSET_ACCOUNTS {
        if bytes.len() >= dnode.end {
            swap_dnodes(part(bytes, dnode)?, from)?;
        }
    }
    Ok(())
}

fn swap_zap(bytes: &mut [u8]) -> Result<(), OndiskError> {
    let first: [u8; 8] = part(bytes, 0..8)?.try_into().map_err(|_| foreign("ZAP"))?;
    let is = |kind: u64| u64::from_be_bytes(first) == kind || u64::from_le_bytes(first) == kind;
    if is(BLOCK_MICRO) {
        swap_micro_zap(bytes);
    } else if is(BLOCK_LEAF) {
        swap_zap_leaf(bytes)?;
    } else {
        // The header of a fat ZAP, or a part of its table of leaves: words throughout.
        words::<8>(bytes);
    }
    Ok(())
}

fn swap_micro_zap(bytes: &mut [u8]) {
    let (entries, _) = bytes.as_chunks_mut::<MZAP_ENTRY_BYTES>();
    let mut entries = entries.iter_mut();
    if let Some((head, _)) = entries.next().and_then(|head| head.split_first_chunk_mut::<24>()) {
        words::<8>(head);
    }
    for entry in entries {
        let Some((value, rest)) = entry.split_first_chunk_mut::<8>() else { continue };
        value.reverse();
        if let Some(cd) = rest.first_chunk_mut::<4>() {
            cd.reverse();
        }
    }
}

fn swap_zap_leaf(bytes: &mut [u8]) -> Result<(), OndiskError> {
    let hash_end = 48_usize.saturating_add((bytes.len() / 32).saturating_mul(2));
    words::<8>(part(bytes, 0..24)?);
    words::<4>(part(bytes, 24..28)?);
    words::<2>(part(bytes, 28..36)?);
    words::<2>(part(bytes, 48..hash_end)?);
    let end = bytes.len();
    let (chunks, _) = part(bytes, hash_end..end)?.as_chunks_mut::<CHUNK_BYTES>();
    for chunk in chunks {
        match byte_at(chunk, 0) as u8 {
            CHUNK_ENTRY => {
                words::<2>(part(chunk, 2..12)?);
                words::<4>(part(chunk, 12..16)?);
                words::<8>(part(chunk, 16..24)?);
            }
            CHUNK_ARRAY | CHUNK_FREE => words::<2>(part(chunk, 22..24)?),
            _ => {}
        }
    }
    Ok(())
}
