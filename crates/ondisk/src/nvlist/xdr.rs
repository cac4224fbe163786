//! Nvlists in XDR, the encoding that lies on disk.
//!
//! ```text
//!  packed: | 1 (XDR) | 1 (little-endian host) | 0 0 | list |            the four bytes come once
//!  list:   | version i32 = 0 | flags u32 = 1 (unique names) | pair ... | 0 i32 | 0 i32 |
//!  pair:   | encoded size i32 | decoded size i32 | name | type i32 | elements i32 | value |
//!  string: | length u32 | bytes | zeroes up to a multiple of 4 |
//! ```
//! All numbers are big-endian and at least four bytes. *Encoded size* counts the pair's bytes
//! here; *decoded size* is what it takes in the memory of OpenZFS, which refuses other values.
//! Byte arrays lie packed and without a length; other arrays repeat their length first, except
//! arrays of strings and of lists, which only follow each other.

use super::{NvList, NvValue, native};
use crate::error::{OndiskError, bad};
use crate::reader::Reader;

/// Longest name: its length with a NUL fits 16 bits in the native encoding.
const NAME_MAX_BYTES: usize = 32_766;
/// How deeply lists within lists are followed.
pub const DEPTH_MAX: usize = 20;

pub(super) const WHAT: &str = "nvlist";
pub(super) const ENCODING_NATIVE: u8 = 0;
const ENCODING_XDR: u8 = 1;
pub(super) const HOST_LITTLE: u8 = 1;
pub(super) const VERSION: i32 = 0;
pub(super) const UNIQUE_NAME: u32 = 1;

/// The format's type numbers.
pub(super) mod code {
    pub const FLAG: u32 = 1;
    pub const BYTE: u32 = 2;
    pub const I16: u32 = 3;
    pub const U16: u32 = 4;
    pub const I32: u32 = 5;
    pub const U32: u32 = 6;
    pub const I64: u32 = 7;
    pub const U64: u32 = 8;
    pub const STR: u32 = 9;
    pub const BYTE_ARRAY: u32 = 10;
    pub const I16_ARRAY: u32 = 11;
    pub const U16_ARRAY: u32 = 12;
    pub const I32_ARRAY: u32 = 13;
    pub const U32_ARRAY: u32 = 14;
    pub const I64_ARRAY: u32 = 15;
    pub const U64_ARRAY: u32 = 16;
    pub const STR_ARRAY: u32 = 17;
    pub const HRTIME: u32 = 18;
    pub const LIST: u32 = 19;
    pub const LIST_ARRAY: u32 = 20;
    pub const BOOL: u32 = 21;
    pub const I8: u32 = 22;
    pub const U8: u32 = 23;
    pub const BOOL_ARRAY: u32 = 24;
    pub const I8_ARRAY: u32 = 25;
    pub const U8_ARRAY: u32 = 26;
    pub const DOUBLE: u32 = 27;
}

impl NvList {
    /// Decodes a packed list from the start of `bytes`; what follows it is ignored.
    ///
    /// # Errors
    /// When it is neither XDR nor native little-endian, or breaks off, or holds anything the format
    /// does not have.
    pub fn decode(bytes: &[u8]) -> Result<Self, OndiskError> {
        let mut from = Reader::new(WHAT, bytes);
        match from.take(4)? {
            [ENCODING_XDR, ..] => decode_list(&mut from, DEPTH_MAX),
            [ENCODING_NATIVE, HOST_LITTLE, ..] => native::decode_list(&mut from, DEPTH_MAX),
            [ENCODING_NATIVE, 0, ..] => Err(OndiskError::ForeignByteOrder { what: WHAT }),
            other => Err(bad(WHAT, "encoding", other.first().copied().unwrap_or_default())),
        }
    }

    /// Encodes the list with its four-byte header.
    ///
    /// # Panics
    /// When it nests more than [`DEPTH_MAX`] deep or takes 2 GiB.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![ENCODING_XDR, HOST_LITTLE, 0, 0];
        encode_list(&mut out, self, DEPTH_MAX);
        out
    }
}

fn decode_list(from: &mut Reader<'_>, depth: usize) -> Result<NvList, OndiskError> {
    let depth = depth.checked_sub(1).ok_or(OndiskError::TooDeep { what: WHAT, limit: DEPTH_MAX })?;
    let version = u32_be(from)?;
    if version != VERSION.cast_unsigned() {
        return Err(bad(WHAT, "version", version));
    }
    let _flags = u32_be(from)?;
    let mut list = NvList::new();
    loop {
        let (encoded, decoded) = (u32_be(from)?, u32_be(from)?);
        if encoded == 0 && decoded == 0 {
            return Ok(list);
        }
        let len = usize::try_from(encoded).ok().and_then(|len| len.checked_sub(8));
        let len = len.ok_or_else(|| bad(WHAT, "encoded size", encoded))?;
        let mut pair = Reader::new(WHAT, from.take(len)?);
        let name = string(&mut pair)?;
        if name.len() > NAME_MAX_BYTES {
            return Err(OndiskError::BadText { what: WHAT, field: "name" });
        }
        let value = decode_value(&mut pair, depth)?;
        if !pair.is_empty() {
            return Err(bad(WHAT, "encoded size", encoded));
        }
        list.push(name, value);
    }
}

fn decode_value(from: &mut Reader<'_>, depth: usize) -> Result<NvValue, OndiskError> {
    let (kind, count) = (u32_be(from)?, u32_be(from)?);
    let scalar = |value: NvValue| if count == 1 { Ok(value) } else { Err(bad(WHAT, "elements", count)) };
    match kind {
        code::FLAG if count == 0 => Ok(NvValue::Flag),
        code::FLAG => Err(bad(WHAT, "elements", count)),
        code::BYTE => scalar(NvValue::Byte(u8_be(from)?)),
        code::I16 => scalar(NvValue::I16(u16_be(from)?.cast_signed())),
        code::U16 => scalar(NvValue::U16(u16_be(from)?)),
        code::I32 => scalar(NvValue::I32(u32_be(from)?.cast_signed())),
        code::U32 => scalar(NvValue::U32(u32_be(from)?)),
        code::I64 => scalar(NvValue::I64(u64_be(from)?.cast_signed())),
        code::U64 => scalar(NvValue::U64(u64_be(from)?)),
        code::HRTIME => scalar(NvValue::HrTime(u64_be(from)?.cast_signed())),
        code::DOUBLE => scalar(NvValue::Double(u64_be(from)?)),
        code::BOOL => scalar(NvValue::Bool(u32_be(from)? != 0)),
        code::I8 => scalar(NvValue::I8(u8_be(from)?.cast_signed())),
        code::U8 => scalar(NvValue::U8(u8_be(from)?)),
        code::STR => scalar(NvValue::Str(string(from)?)),
        code::LIST => scalar(NvValue::List(decode_list(from, depth)?)),
        _ => decode_array(from, kind, count, depth),
    }
}

fn decode_array(from: &mut Reader<'_>, kind: u32, count: u32, depth: usize) -> Result<NvValue, OndiskError> {
    match kind {
        code::BYTE_ARRAY => Ok(NvValue::ByteArray(padded(from, count)?.to_vec())),
        code::STR_ARRAY => repeat(from, count, string).map(NvValue::StrArray),
        code::LIST_ARRAY => repeat(from, count, |from| decode_list(from, depth)).map(NvValue::ListArray),
        code::I16_ARRAY => array(from, count, |r| u16_be(r).map(u16::cast_signed)).map(NvValue::I16Array),
        code::U16_ARRAY => array(from, count, u16_be).map(NvValue::U16Array),
        code::I32_ARRAY => array(from, count, |r| u32_be(r).map(u32::cast_signed)).map(NvValue::I32Array),
        code::U32_ARRAY => array(from, count, u32_be).map(NvValue::U32Array),
        code::I64_ARRAY => array(from, count, |r| u64_be(r).map(u64::cast_signed)).map(NvValue::I64Array),
        code::U64_ARRAY => array(from, count, u64_be).map(NvValue::U64Array),
        code::BOOL_ARRAY => array(from, count, |r| u32_be(r).map(|v| v != 0)).map(NvValue::BoolArray),
        code::I8_ARRAY => array(from, count, |r| u8_be(r).map(u8::cast_signed)).map(NvValue::I8Array),
        code::U8_ARRAY => array(from, count, u8_be).map(NvValue::U8Array),
        _ => Err(bad(WHAT, "type", kind)),
    }
}

/// `count` values in a row. Memory grows only with bytes that are there: no value is empty.
fn repeat<T>(
    from: &mut Reader<'_>,
    count: u32,
    mut one: impl FnMut(&mut Reader<'_>) -> Result<T, OndiskError>,
) -> Result<Vec<T>, OndiskError> {
    (0..count).map(|_| one(from)).collect()
}

/// An XDR array: its length once more, unless it is empty.
fn array<T>(
    from: &mut Reader<'_>,
    count: u32,
    one: impl FnMut(&mut Reader<'_>) -> Result<T, OndiskError>,
) -> Result<Vec<T>, OndiskError> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let repeated = u32_be(from)?;
    if repeated != count {
        return Err(bad(WHAT, "array length", repeated));
    }
    repeat(from, count, one)
}

fn u32_be(from: &mut Reader<'_>) -> Result<u32, OndiskError> {
    Ok(from.read::<zerocopy::big_endian::U32>()?.get())
}

fn u64_be(from: &mut Reader<'_>) -> Result<u64, OndiskError> {
    Ok(from.read::<zerocopy::big_endian::U64>()?.get())
}

/// The low half of a word, as C's conversion has it.
fn u16_be(from: &mut Reader<'_>) -> Result<u16, OndiskError> {
    let [_, _, high, low] = u32_be(from)?.to_be_bytes();
    Ok(u16::from_be_bytes([high, low]))
}

fn u8_be(from: &mut Reader<'_>) -> Result<u8, OndiskError> {
    let [.., low] = u32_be(from)?.to_be_bytes();
    Ok(low)
}

fn padded<'a>(from: &mut Reader<'a>, len: u32) -> Result<&'a [u8], OndiskError> {
    let len = usize::try_from(len).map_err(|_| bad(WHAT, "length", len))?;
    let all = len.checked_next_multiple_of(4).ok_or_else(|| bad(WHAT, "length", len as u64))?;
    let bytes = from.take(all)?;
    Ok(bytes.get(..len).unwrap_or_default())
}

fn string(from: &mut Reader<'_>) -> Result<String, OndiskError> {
    let len = u32_be(from)?;
    let bytes = padded(from, len)?;
    let text = std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
    text.map(str::to_owned).ok_or(OndiskError::BadText { what: WHAT, field: "string" })
}

fn encode_list(out: &mut Vec<u8>, list: &NvList, depth: usize) {
    let depth = depth.checked_sub(1).expect("lists nest less than 20 deep");
    put_u32(out, VERSION.cast_unsigned());
    put_u32(out, UNIQUE_NAME);
    for (name, value) in list.iter() {
        encode_pair(out, name, value, depth);
    }
    put_u32(out, 0);
    put_u32(out, 0);
}

fn encode_pair(out: &mut Vec<u8>, name: &str, value: &NvValue, depth: usize) {
    let mut body = Vec::new();
    put_string(&mut body, name);
    put_u32(&mut body, type_code(value));
    put_u32(&mut body, length(elements(value)));
    encode_value(&mut body, value, depth);
    put_u32(out, length(body.len().checked_add(8).expect("fits memory")));
    put_u32(out, length(decoded_bytes(name, value)));
    out.extend_from_slice(&body);
}

fn encode_value(out: &mut Vec<u8>, value: &NvValue, depth: usize) {
    match value {
        NvValue::Flag => {}
        NvValue::Byte(v) | NvValue::U8(v) => put_u32(out, (*v).into()),
        NvValue::I8(v) => put_u32(out, i32::from(*v).cast_unsigned()),
        NvValue::I16(v) => put_u32(out, i32::from(*v).cast_unsigned()),
        NvValue::U16(v) => put_u32(out, (*v).into()),
        NvValue::I32(v) => put_u32(out, v.cast_unsigned()),
        NvValue::U32(v) => put_u32(out, *v),
        NvValue::I64(v) | NvValue::HrTime(v) => put_u64(out, v.cast_unsigned()),
        NvValue::U64(v) | NvValue::Double(v) => put_u64(out, *v),
        NvValue::Bool(v) => put_u32(out, (*v).into()),
        NvValue::Str(v) => put_string(out, v),
        NvValue::ByteArray(v) => put_padded(out, v),
        NvValue::StrArray(v) => v.iter().for_each(|text| put_string(out, text)),
        NvValue::List(v) => encode_list(out, v, depth),
        NvValue::ListArray(v) => v.iter().for_each(|list| encode_list(out, list, depth)),
        NvValue::I16Array(v) => put_array(out, v, |o, n| put_u32(o, i32::from(*n).cast_unsigned())),
        NvValue::U16Array(v) => put_array(out, v, |o, n| put_u32(o, (*n).into())),
        NvValue::I32Array(v) => put_array(out, v, |o, n| put_u32(o, n.cast_unsigned())),
        NvValue::U32Array(v) => put_array(out, v, |o, n| put_u32(o, *n)),
        NvValue::I64Array(v) => put_array(out, v, |o, n| put_u64(o, n.cast_unsigned())),
        NvValue::U64Array(v) => put_array(out, v, |o, n| put_u64(o, *n)),
        NvValue::BoolArray(v) => put_array(out, v, |o, n| put_u32(o, (*n).into())),
        NvValue::I8Array(v) => put_array(out, v, |o, n| put_u32(o, i32::from(*n).cast_unsigned())),
        NvValue::U8Array(v) => put_array(out, v, |o, n| put_u32(o, (*n).into())),
    }
}

fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&zerocopy::big_endian::U32::new(value).to_bytes());
}

fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&zerocopy::big_endian::U64::new(value).to_bytes());
}

fn put_array<T>(out: &mut Vec<u8>, values: &[T], one: impl Fn(&mut Vec<u8>, &T)) {
    if !values.is_empty() {
        put_u32(out, length(values.len()));
        values.iter().for_each(|value| one(out, value));
    }
}

fn put_string(out: &mut Vec<u8>, text: &str) {
    put_u32(out, length(text.len()));
    put_padded(out, text.as_bytes());
}

fn put_padded(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(bytes);
    out.resize(out.len().next_multiple_of(4), 0);
}

/// A length as the format writes it: it must fit a signed word.
pub(super) fn length(len: usize) -> u32 {
    i32::try_from(len).expect("an nvlist is smaller than 2 GiB").cast_unsigned()
}

/// Size of an nvpair header in the memory of OpenZFS.
const PAIR_HEADER_BYTES: usize = 16;
/// Size of an nvlist header in the memory of OpenZFS.
const LIST_HEADER_BYTES: usize = 24;
const POINTER_BYTES: usize = 8;

/// What the pair takes once decoded by OpenZFS: header and name, then the value, each rounded up
/// to 8 bytes.
pub(super) fn decoded_bytes(name: &str, value: &NvValue) -> usize {
    let head = PAIR_HEADER_BYTES.saturating_add(name.len()).saturating_add(1);
    head.next_multiple_of(8).saturating_add(value_bytes(value).next_multiple_of(8))
}

fn value_bytes(value: &NvValue) -> usize {
    let times = |count: usize, each: usize| count.saturating_mul(each);
    match value {
        NvValue::Flag => 0,
        NvValue::Byte(_) | NvValue::I8(_) | NvValue::U8(_) => 1,
        NvValue::I16(_) | NvValue::U16(_) => 2,
        NvValue::I32(_) | NvValue::U32(_) | NvValue::Bool(_) => 4,
        NvValue::I64(_) | NvValue::U64(_) | NvValue::HrTime(_) | NvValue::Double(_) => 8,
        NvValue::Str(v) => v.len().saturating_add(1),
        NvValue::ByteArray(v) | NvValue::U8Array(v) => v.len(),
        NvValue::I8Array(v) => v.len(),
        NvValue::I16Array(v) => times(v.len(), 2),
        NvValue::U16Array(v) => times(v.len(), 2),
        NvValue::I32Array(v) => times(v.len(), 4),
        NvValue::U32Array(v) => times(v.len(), 4),
        NvValue::BoolArray(v) => times(v.len(), 4),
        NvValue::I64Array(v) => times(v.len(), 8),
        NvValue::U64Array(v) => times(v.len(), 8),
        NvValue::StrArray(v) => v.iter().fold(times(v.len(), POINTER_BYTES), |sum, text| {
            sum.saturating_add(text.len()).saturating_add(1)
        }),
        NvValue::List(_) => LIST_HEADER_BYTES,
        NvValue::ListArray(v) => times(v.len(), LIST_HEADER_BYTES.saturating_add(POINTER_BYTES)),
    }
}

pub(super) fn elements(value: &NvValue) -> usize {
    match value {
        NvValue::Flag => 0,
        NvValue::ByteArray(v) | NvValue::U8Array(v) => v.len(),
        NvValue::I8Array(v) => v.len(),
        NvValue::I16Array(v) => v.len(),
        NvValue::U16Array(v) => v.len(),
        NvValue::I32Array(v) => v.len(),
        NvValue::U32Array(v) => v.len(),
        NvValue::BoolArray(v) => v.len(),
        NvValue::I64Array(v) => v.len(),
        NvValue::U64Array(v) => v.len(),
        NvValue::StrArray(v) => v.len(),
        NvValue::ListArray(v) => v.len(),
        _ => 1,
    }
}

pub(super) const fn type_code(value: &NvValue) -> u32 {
    match value {
        NvValue::Flag => code::FLAG,
        NvValue::Byte(_) => code::BYTE,
        NvValue::I16(_) => code::I16,
        NvValue::U16(_) => code::U16,
        NvValue::I32(_) => code::I32,
        NvValue::U32(_) => code::U32,
        NvValue::I64(_) => code::I64,
        NvValue::U64(_) => code::U64,
        NvValue::Str(_) => code::STR,
        NvValue::ByteArray(_) => code::BYTE_ARRAY,
        NvValue::I16Array(_) => code::I16_ARRAY,
        NvValue::U16Array(_) => code::U16_ARRAY,
        NvValue::I32Array(_) => code::I32_ARRAY,
        NvValue::U32Array(_) => code::U32_ARRAY,
        NvValue::I64Array(_) => code::I64_ARRAY,
        NvValue::U64Array(_) => code::U64_ARRAY,
        NvValue::StrArray(_) => code::STR_ARRAY,
        NvValue::HrTime(_) => code::HRTIME,
        NvValue::List(_) => code::LIST,
        NvValue::ListArray(_) => code::LIST_ARRAY,
        NvValue::Bool(_) => code::BOOL,
        NvValue::I8(_) => code::I8,
        NvValue::U8(_) => code::U8,
        NvValue::BoolArray(_) => code::BOOL_ARRAY,
        NvValue::I8Array(_) => code::I8_ARRAY,
        NvValue::U8Array(_) => code::U8_ARRAY,
        NvValue::Double(_) => code::DOUBLE,
    }
}
