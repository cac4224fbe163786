//! The stored attributes of one object, indexed for reading and for changes in place.

use std::sync::Arc;

use super::{SaAttrs, SaTables, ZplAttr};
use crate::error::ZplError;
use crate::time::Timestamp;
use ondisk::sa::{
    HEADER_MIN_BYTES, LAYOUT_BITS, LAYOUT_EMPTY, LAYOUT_LEGACY, LENGTHS_OFFSET, SA_MAGIC, SaByteSwap,
    SaHeader,
};
use ondisk::swap::words;
use ondisk::{ByteOrder, ObjectType, OndiskError};

const WORD_BYTES: usize = 8;
const WHAT: &str = "system attributes";

/// Where a value lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot {
    in_spill: bool,
    offset: u32,
    length: u32,
}

/// Bonus and spill block of one object as they are (or will be) stored.
#[derive(Clone, Debug)]
pub struct SaImage {
    bonus_type: ObjectType,
    bonus: Vec<u8>,
    spill: Option<Vec<u8>>,
    /// Shared by all states of the object, until its attributes are built anew.
    places: Arc<Places>,
}

/// Where each attribute lies.
#[derive(Debug)]
struct Places {
    /// Every attribute in stored order, bonus first.
    order: Vec<(u16, Slot)>,
    slots: [Option<Slot>; ZplAttr::COUNT],
}

impl SaImage {
    /// Reads a bonus of type `kind` and a spill block.
    ///
    /// # Errors
    /// [`OndiskError`] when header, layout number or lengths do not fit the bytes.
    pub fn parse(
        tables: &SaTables,
        kind: ObjectType,
        mut bonus: Vec<u8>,
        mut spill: Option<Vec<u8>>,
    ) -> Result<Self, OndiskError> {
        if kind == ObjectType::SA {
            tables.canonical(&mut bonus)?;
        }
        if let Some(spill) = &mut spill {
            tables.canonical(spill)?;
        }
        let mut order = if kind == ObjectType::ZNODE {
            znode_slots(tables, &bonus)?
        } else if kind == ObjectType::SA {
            header_slots(tables, &bonus, ByteOrder::Little, false)?
        } else {
            return Err(OndiskError::BadValue { what: WHAT, field: "bonus type", value: kind.raw().into() });
        };
        if let Some(spill) = &spill {
            order.extend(header_slots(tables, spill, ByteOrder::Little, true)?);
        }
        let mut slots = [None; ZplAttr::COUNT];
        for (number, slot) in &order {
            if let Some(attr) = tables.known(*number) {
                slots[attr.index()] = Some(*slot);
            }
        }
        Ok(Self { bonus_type: kind, bonus, spill, places: Arc::new(Places { order, slots }) })
    }

    /// The value of `attr`.
    #[must_use]
    pub fn get(&self, attr: ZplAttr) -> Option<&[u8]> {
        self.places.slots[attr.index()].map(|slot| self.bytes(slot))
    }

    /// The value of `attr`, a word; 0 where it is absent.
    #[must_use]
    pub fn word(&self, attr: ZplAttr) -> u64 {
        self.get(attr).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }

    /// The value of `attr`, a time; the epoch where it is absent.
    #[must_use]
    pub fn time(&self, attr: ZplAttr) -> Timestamp {
        let word = |bytes: &[u8]| bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        match self.get(attr) {
            Some(bytes) if bytes.len() == 16 => Timestamp::from_words([word(bytes), word(&bytes[8..])]),
            _ => Timestamp::default(),
        }
    }

    /// Overwrites the value of `attr`; false when it is absent or of another length, and
    /// the attributes must be built anew.
    #[must_use]
    pub fn patch(&mut self, attr: ZplAttr, value: &[u8]) -> bool {
        let Some(slot) = self.places.slots[attr.index()] else { return false };
        if slot.length as usize != value.len() {
            return false;
        }
        let target = if slot.in_spill { self.spill.as_mut() } else { Some(&mut self.bonus) };
        let range = slot.offset as usize..(slot.offset + slot.length) as usize;
        match target.and_then(|bytes| bytes.get_mut(range)) {
            Some(bytes) => {
                bytes.copy_from_slice(value);
                true
            }
            None => false,
        }
    }

    /// Overwrites a word that is known to be there.
    ///
    /// # Panics
    /// When the object has no such attribute: every object we make has it, and objects
    /// without it are refused when they are read.
    pub fn set_word(&mut self, attr: ZplAttr, value: u64) {
        assert!(self.patch(attr, &value.to_le_bytes()), "no {} in this object", attr.name());
    }

    /// Overwrites a time that is known to be there.
    ///
    /// # Panics
    /// As [`SaImage::set_word`].
    pub fn set_time(&mut self, attr: ZplAttr, value: Timestamp) {
        assert!(self.patch(attr, &value.encode()), "no {} in this object", attr.name());
    }

    /// All values, to be changed and built anew. Those of an old znode are as system attributes have them.
    ///
    /// # Errors
    /// Of an old znode, whose ACL is damaged or lies in an object of its own.
    pub fn to_attrs(&self, tables: &SaTables) -> Result<SaAttrs, ZplError> {
        if self.bonus_type == ObjectType::ZNODE {
            return self.attrs_of_old(tables);
        }
        let mut attrs = SaAttrs::with_room();
        for (number, slot) in &self.places.order {
            attrs.set(*number, self.bytes(*slot));
        }
        Ok(attrs)
    }

    /// The type of the bonus: `SA`, or `ZNODE` of an old znode.
    #[must_use]
    pub fn bonus_type(&self) -> ObjectType {
        self.bonus_type
    }

    /// The bytes of the bonus.
    #[must_use]
    pub fn bonus(&self) -> &[u8] {
        &self.bonus
    }

    /// The bytes of the spill block.
    #[must_use]
    pub fn spill(&self) -> Option<&[u8]> {
        self.spill.as_deref()
    }

    /// Checks that the object has each attribute that a file needs, in the right length.
    ///
    /// # Errors
    /// [`ZplError::Decode`] naming the missing one.
    pub fn check_complete(&self) -> Result<(), ZplError> {
        const WORDS: [ZplAttr; 8] = [
            ZplAttr::Mode,
            ZplAttr::Size,
            ZplAttr::Gen,
            ZplAttr::Uid,
            ZplAttr::Gid,
            ZplAttr::Parent,
            ZplAttr::Flags,
            ZplAttr::Links,
        ];
        const TIMES: [ZplAttr; 4] = [ZplAttr::Atime, ZplAttr::Mtime, ZplAttr::Ctime, ZplAttr::Crtime];
        /// Words that not every object has.
        const OTHERS: [ZplAttr; 4] = [ZplAttr::Xattr, ZplAttr::Rdev, ZplAttr::Projid, ZplAttr::DaclCount];
        // A registry that was forged can give an attribute another length.
        let lacks = |attr, len| self.get(attr).is_none_or(|bytes| bytes.len() != len);
        let words = WORDS.into_iter().filter(|attr| lacks(*attr, WORD_BYTES));
        let times = TIMES.into_iter().filter(|attr| lacks(*attr, 2 * WORD_BYTES));
        let others = OTHERS.into_iter().filter(|attr| self.get(*attr).is_some() && lacks(*attr, WORD_BYTES));
        match words.chain(times).chain(others).next() {
            Some(attr) => Err(OndiskError::Missing { what: WHAT, name: attr.name().to_owned() }.into()),
            None => Ok(()),
        }
    }

    fn bytes(&self, slot: Slot) -> &[u8] {
        let from = if slot.in_spill { self.spill.as_deref().unwrap_or(&[]) } else { &self.bonus };
        from.get(slot.offset as usize..(slot.offset + slot.length) as usize).unwrap_or(&[])
    }
}

/// The slots of an old znode: fixed places from the first byte on, without a header.
fn znode_slots(tables: &SaTables, bonus: &[u8]) -> Result<Vec<(u16, Slot)>, OndiskError> {
    let layout = tables.layout(LAYOUT_LEGACY).expect("it is built in");
    place(tables, layout, &[], 0, bonus.len(), false)
}

impl SaTables {
    /// Turns attributes that a big-endian machine wrote into ours; ours stay.
    ///
    /// # Errors
    /// As [`SaImage::parse`].
    pub fn canonical(&self, bytes: &mut [u8]) -> Result<(), OndiskError> {
        match bytes.first_chunk().map(|magic| u32::from_be_bytes(*magic)) {
            Some(SA_MAGIC) => self.turn(bytes, ByteOrder::Big),
            _ => Ok(()),
        }
    }

    /// Turns attributes of the byte order `from` around: the header by its words, each value as it
    /// is registered.
    ///
    /// # Errors
    /// As [`SaImage::parse`].
    pub fn turn(&self, bytes: &mut [u8], from: ByteOrder) -> Result<(), OndiskError> {
        let slots = header_slots(self, bytes, from, false)?;
        let info = u16_at(bytes, 4, from);
        let header = usize::from(info >> LAYOUT_BITS) * 8;
        words::<4>(&mut bytes[..4]);
        words::<2>(&mut bytes[4..header]);
        for (number, slot) in slots {
            let value = &mut bytes[slot.offset as usize..(slot.offset + slot.length) as usize];
            match self.byte_swap(number) {
                Some(SaByteSwap::Uint64) => words::<8>(value),
                Some(SaByteSwap::Uint32) => words::<4>(value),
                Some(SaByteSwap::Uint16) => words::<2>(value),
                Some(SaByteSwap::Acl) => ondisk::acl::swap(value, from),
                Some(SaByteSwap::Uint8) | None => {}
            }
        }
        Ok(())
    }
}

fn u16_at(bytes: &[u8], at: usize, order: ByteOrder) -> u16 {
    let pair = bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default();
    if order == ByteOrder::Big { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) }
}

/// The slots that a header and its layout describe.
fn header_slots(
    tables: &SaTables,
    bytes: &[u8],
    order: ByteOrder,
    in_spill: bool,
) -> Result<Vec<(u16, Slot)>, OndiskError> {
    let short = OndiskError::Short { what: WHAT, need: HEADER_MIN_BYTES, have: bytes.len() };
    let magic = *bytes.first_chunk::<4>().ok_or(short.clone())?;
    let magic = if order == ByteOrder::Big { u32::from_be_bytes(magic) } else { u32::from_le_bytes(magic) };
    if magic != SA_MAGIC {
        return Err(OndiskError::BadMagic { what: WHAT, expected: SA_MAGIC.into(), found: magic.into() });
    }
    let info = u16_at(bytes, 4, order);
    let number = match info & ((1 << LAYOUT_BITS) - 1) {
        LAYOUT_LEGACY => LAYOUT_EMPTY,
        number => number,
    };
    let layout = tables.layout(number).ok_or(OndiskError::BadValue {
        what: WHAT,
        field: "layout",
        value: number.into(),
    })?;
    let variable = layout.iter().filter(|&&attr| tables.length(attr) == Some(0)).count();
    let header = SaHeader::bytes_for(variable);
    if bytes.len() < header {
        return Err(short);
    }
    if usize::from(info >> LAYOUT_BITS) * 8 != header {
        return Err(OndiskError::BadValue { what: WHAT, field: "header size", value: info.into() });
    }
    let lengths: Vec<u16> = bytes
        .get(LENGTHS_OFFSET..LENGTHS_OFFSET + 2 * variable)
        .ok_or(short)?
        .chunks_exact(2)
        .map(|pair| u16_at(pair, 0, order))
        .collect();
    place(tables, layout, &lengths, header, bytes.len(), in_spill)
}

fn place(
    tables: &SaTables,
    layout: &Arc<[u16]>,
    lengths: &[u16],
    start: usize,
    have: usize,
    in_spill: bool,
) -> Result<Vec<(u16, Slot)>, OndiskError> {
    let mut lengths = lengths.iter();
    let mut offset = start;
    let mut slots = Vec::with_capacity(layout.len());
    for &number in layout.iter() {
        let registered = tables.length(number).ok_or(OndiskError::BadValue {
            what: WHAT,
            field: "attribute number",
            value: number.into(),
        })?;
        let length = match registered {
            0 => usize::from(*lengths.next().unwrap_or(&0)),
            fixed => usize::from(fixed),
        };
        offset = offset.next_multiple_of(8);
        if offset + length > have {
            return Err(OndiskError::Short { what: WHAT, need: offset + length, have });
        }
        slots.push((number, Slot { in_spill, offset: offset as u32, length: length as u32 }));
        offset += length;
    }
    Ok(slots)
}
