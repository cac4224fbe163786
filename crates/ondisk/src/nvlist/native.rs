//! Nvlists as they lie in the memory of OpenZFS: how history records are written.
//!
//! ```text
//!  packed: | 0 (native) | 1 (little-endian) | 0 0 | version i32 | flags u32 | pair ... | 0 i32 |
//!  pair:   0 size i32   4 name len i16 (with NUL)   6 zero i16   8 elements i32   12 type i32
//!          16 name, NUL, up to a multiple of 8;  then the value, up to a multiple of 8
//!  list:   0 version i32   4 flags u32   8 zero u64   16 zero u32   20 zero i32   24
//! ```
//! A list within a list is its 24-byte header in the pair, then, after the pair, its own pairs and
//! four zero bytes. Arrays of texts and of lists start with a zero word (once a pointer) for each.

use zerocopy::little_endian::{I16, I32, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::xdr::{
    DEPTH_MAX, ENCODING_NATIVE, HOST_LITTLE, UNIQUE_NAME, VERSION, WHAT, code, decoded_bytes, elements,
    length, type_code,
};
use super::{NvList, NvValue};
use crate::error::{OndiskError, bad};
use crate::reader::Reader;

/// The start of a pair.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct PairPhys {
    size: I32,
    name_len: I16,
    reserved: I16,
    elements: I32,
    kind: U32,
}
const _: () = assert!(size_of::<PairPhys>() == 16);

/// The header of a list within a list.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct ListPhys {
    version: I32,
    flags: U32,
    private: U64,
    flag: U32,
    pad: I32,
}
const _: () = assert!(size_of::<ListPhys>() == 24);

impl NvList {
    /// Encodes the list in the native encoding, with its four-byte header: for history records.
    ///
    /// # Panics
    /// As [`NvList::encode`].
    #[must_use]
    pub fn encode_native(&self) -> Vec<u8> {
        let mut out = vec![ENCODING_NATIVE, HOST_LITTLE, 0, 0];
        out.extend_from_slice(I32::new(VERSION).as_bytes());
        out.extend_from_slice(U32::new(UNIQUE_NAME).as_bytes());
        encode_pairs(&mut out, self, DEPTH_MAX);
        out
    }
}

/// Decodes what follows the four-byte header.
pub(super) fn decode_list(from: &mut Reader<'_>, depth: usize) -> Result<NvList, OndiskError> {
    let (version, _flags): (I32, U32) = (from.read()?, from.read()?);
    check_version(version)?;
    decode_pairs(from, depth)
}

fn check_version(version: I32) -> Result<(), OndiskError> {
    if version.get() == VERSION { Ok(()) } else { Err(bad(WHAT, "version", version.get().cast_unsigned())) }
}

fn decode_pairs(from: &mut Reader<'_>, depth: usize) -> Result<NvList, OndiskError> {
    let depth = depth.checked_sub(1).ok_or(OndiskError::TooDeep { what: WHAT, limit: DEPTH_MAX })?;
    let mut list = NvList::new();
    loop {
        let size: I32 = Reader::new(WHAT, from.rest()).read()?;
        if size.get() == 0 {
            from.take(4)?;
            return Ok(list);
        }
        let len = usize::try_from(size.get()).map_err(|_| bad(WHAT, "size", size.get().cast_unsigned()))?;
        let mut pair = Reader::new(WHAT, from.take(len)?);
        let head: PairPhys = pair.read()?;
        let name = pair_name(&head, &mut pair)?;
        let value = decode_value(&head, &mut pair, from, depth)?;
        list.push(name, value);
    }
}

/// The name, and the padding that aligns the value.
fn pair_name(head: &PairPhys, pair: &mut Reader<'_>) -> Result<String, OndiskError> {
    let bad_name = || OndiskError::BadText { what: WHAT, field: "name" };
    let len = usize::try_from(head.name_len.get()).map_err(|_| bad_name())?;
    let (name, nul) = pair.take(len)?.split_at_checked(len.saturating_sub(1)).ok_or_else(bad_name)?;
    if nul != [0] || name.contains(&0) {
        return Err(bad_name());
    }
    // The header is 16 bytes, so aligning the name's end aligns the value.
    let padding = len.next_multiple_of(8).saturating_sub(len);
    pair.take(padding.min(pair.rest().len()))?;
    String::from_utf8(name.to_vec()).map_err(|_| bad_name())
}

fn decode_value(
    head: &PairPhys,
    pair: &mut Reader<'_>,
    after: &mut Reader<'_>,
    depth: usize,
) -> Result<NvValue, OndiskError> {
    let count = u32::try_from(head.elements.get()).unwrap_or(u32::MAX);
    let scalar = |value: NvValue| if count == 1 { Ok(value) } else { Err(bad(WHAT, "elements", count)) };
    match head.kind.get() {
        code::FLAG if count == 0 => Ok(NvValue::Flag),
        code::FLAG => Err(bad(WHAT, "elements", count)),
        code::BYTE => scalar(NvValue::Byte(pair.read()?)),
        code::I8 => scalar(NvValue::I8(pair.read()?)),
        code::U8 => scalar(NvValue::U8(pair.read()?)),
        code::I16 => scalar(NvValue::I16(pair.read::<I16>()?.get())),
        code::U16 => scalar(NvValue::U16(pair.read::<U16>()?.get())),
        code::I32 => scalar(NvValue::I32(pair.read::<I32>()?.get())),
        code::U32 => scalar(NvValue::U32(pair.read::<U32>()?.get())),
        code::BOOL => scalar(NvValue::Bool(pair.read::<U32>()?.get() != 0)),
        code::I64 => scalar(NvValue::I64(pair.read::<U64>()?.get().cast_signed())),
        code::HRTIME => scalar(NvValue::HrTime(pair.read::<U64>()?.get().cast_signed())),
        code::U64 => scalar(NvValue::U64(pair.read::<U64>()?.get())),
        code::DOUBLE => scalar(NvValue::Double(pair.read::<U64>()?.get())),
        code::STR => scalar(NvValue::Str(string(pair)?)),
        code::LIST => {
            check_version(pair.read::<ListPhys>()?.version)?;
            scalar(NvValue::List(decode_pairs(after, depth)?))
        }
        kind => decode_array(kind, count, pair, after, depth),
    }
}

fn decode_array(
    kind: u32,
    count: u32,
    pair: &mut Reader<'_>,
    after: &mut Reader<'_>,
    depth: usize,
) -> Result<NvValue, OndiskError> {
    match kind {
        code::BYTE_ARRAY => repeat(count, || pair.read()).map(NvValue::ByteArray),
        code::U8_ARRAY => repeat(count, || pair.read()).map(NvValue::U8Array),
        code::I8_ARRAY => repeat(count, || pair.read()).map(NvValue::I8Array),
        code::I16_ARRAY => repeat(count, || pair.read::<I16>().map(I16::get)).map(NvValue::I16Array),
        code::U16_ARRAY => repeat(count, || pair.read::<U16>().map(U16::get)).map(NvValue::U16Array),
        code::I32_ARRAY => repeat(count, || pair.read::<I32>().map(I32::get)).map(NvValue::I32Array),
        code::U32_ARRAY => repeat(count, || pair.read::<U32>().map(U32::get)).map(NvValue::U32Array),
        code::BOOL_ARRAY => repeat(count, || Ok(pair.read::<U32>()?.get() != 0)).map(NvValue::BoolArray),
        code::I64_ARRAY => {
            repeat(count, || Ok(pair.read::<U64>()?.get().cast_signed())).map(NvValue::I64Array)
        }
        code::U64_ARRAY => repeat(count, || pair.read::<U64>().map(U64::get)).map(NvValue::U64Array),
        code::STR_ARRAY => {
            repeat(count, || pair.read::<U64>().map(drop))?;
            repeat(count, || string(pair)).map(NvValue::StrArray)
        }
        code::LIST_ARRAY => {
            repeat(count, || pair.read::<U64>().map(drop))?;
            repeat(count, || check_version(pair.read::<ListPhys>()?.version))?;
            repeat(count, || decode_pairs(after, depth)).map(NvValue::ListArray)
        }
        _ => Err(bad(WHAT, "type", kind)),
    }
}

fn repeat<T>(count: u32, mut one: impl FnMut() -> Result<T, OndiskError>) -> Result<Vec<T>, OndiskError> {
    (0..count).map(|_| one()).collect()
}

fn string(pair: &mut Reader<'_>) -> Result<String, OndiskError> {
    let text = std::str::from_utf8(pair.c_string()?);
    text.map(str::to_owned).map_err(|_| OndiskError::BadText { what: WHAT, field: "string" })
}

fn encode_pairs(out: &mut Vec<u8>, list: &NvList, depth: usize) {
    let depth = depth.checked_sub(1).expect("lists nest less than 20 deep");
    for (name, value) in list.iter() {
        encode_pair(out, name, value, depth);
    }
    put(out, &I32::ZERO);
}

fn encode_pair(out: &mut Vec<u8>, name: &str, value: &NvValue, depth: usize) {
    let size = decoded_bytes(name, value);
    let end = out.len().saturating_add(size);
    let name_len = i16::try_from(name.len().saturating_add(1)).expect("names are short");
    put(
        out,
        &PairPhys {
            size: I32::new(length(size).cast_signed()),
            name_len: I16::new(name_len),
            reserved: I16::ZERO,
            elements: I32::new(length(elements(value)).cast_signed()),
            kind: U32::new(type_code(value)),
        },
    );
    let padded = name.len().saturating_add(1).next_multiple_of(8);
    put_padded(out, name.as_bytes(), padded);
    encode_value(out, value);
    out.resize(end, 0);
    match value {
        NvValue::List(list) => encode_pairs(out, list, depth),
        NvValue::ListArray(lists) => lists.iter().for_each(|list| encode_pairs(out, list, depth)),
        _ => {}
    }
}

fn encode_value(out: &mut Vec<u8>, value: &NvValue) {
    match value {
        NvValue::Flag => {}
        NvValue::Byte(v) | NvValue::U8(v) => out.push(*v),
        NvValue::I8(v) => out.push(v.cast_unsigned()),
        NvValue::I16(v) => put(out, &I16::new(*v)),
        NvValue::U16(v) => put(out, &U16::new(*v)),
        NvValue::I32(v) => put(out, &I32::new(*v)),
        NvValue::U32(v) => put(out, &U32::new(*v)),
        NvValue::Bool(v) => put(out, &U32::new((*v).into())),
        NvValue::I64(v) | NvValue::HrTime(v) => put(out, &U64::new(v.cast_unsigned())),
        NvValue::U64(v) | NvValue::Double(v) => put(out, &U64::new(*v)),
        NvValue::Str(v) => put_c_string(out, v),
        NvValue::ByteArray(v) | NvValue::U8Array(v) => out.extend_from_slice(v),
        NvValue::I8Array(v) => v.iter().for_each(|n| out.push(n.cast_unsigned())),
        NvValue::I16Array(v) => v.iter().for_each(|n| put(out, &I16::new(*n))),
        NvValue::U16Array(v) => v.iter().for_each(|n| put(out, &U16::new(*n))),
        NvValue::I32Array(v) => v.iter().for_each(|n| put(out, &I32::new(*n))),
        NvValue::U32Array(v) => v.iter().for_each(|n| put(out, &U32::new(*n))),
        NvValue::BoolArray(v) => v.iter().for_each(|n| put(out, &U32::new((*n).into()))),
        NvValue::I64Array(v) => v.iter().for_each(|n| put(out, &U64::new(n.cast_unsigned()))),
        NvValue::U64Array(v) => v.iter().for_each(|n| put(out, &U64::new(*n))),
        NvValue::StrArray(v) => {
            v.iter().for_each(|_| put(out, &U64::ZERO));
            v.iter().for_each(|text| put_c_string(out, text));
        }
        NvValue::List(_) => put(out, &list_header()),
        NvValue::ListArray(v) => {
            v.iter().for_each(|_| put(out, &U64::ZERO));
            v.iter().for_each(|_| put(out, &list_header()));
        }
    }
}

fn list_header() -> ListPhys {
    ListPhys {
        version: I32::new(VERSION),
        flags: U32::new(UNIQUE_NAME),
        private: U64::ZERO,
        flag: U32::ZERO,
        pad: I32::ZERO,
    }
}

fn put(out: &mut Vec<u8>, value: &(impl IntoBytes + Immutable)) {
    out.extend_from_slice(value.as_bytes());
}

fn put_padded(out: &mut Vec<u8>, bytes: &[u8], padded: usize) {
    let end = out.len().saturating_add(padded);
    out.extend_from_slice(bytes);
    out.resize(end, 0);
}

fn put_c_string(out: &mut Vec<u8>, text: &str) {
    assert!(!text.contains('\0'), "a native string holds no NUL");
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}
