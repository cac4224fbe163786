//! Names and word keys, and how they hash.
//!
//! The hash is CRC-64 (ECMA-182, reflected) begun with the ZAP's salt, over the name without
//! its NUL, or over the words in little-endian bytes. Only its top bits count: 28, or 48 with
//! [`ZAP_FLAG_HASH64`](super::ZAP_FLAG_HASH64); the others are cleared.

use ondisk::zap::{LONG_NAME_MAX_BYTES, NAME_MAX_BYTES};
use units::ObjectId;

use super::error::ZapError;
use super::header::{Params, ZAP_FLAG_PRE_HASHED_KEY};

/// Normalisation flag: names that differ only in case hash alike (`U8_TEXTPREP_TOUPPER`).
pub const NORM_TOUPPER: u64 = 2;

const POLYNOMIAL: u64 = 0xC96C_5795_D787_0F42;

static CRC64: [u64; 256] = crc64_table();

const fn crc64_table() -> [u64; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut crc = index as u64;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
}

fn crc64(start: u64, bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(start, |crc, byte| crc >> 8 ^ CRC64[usize::from(crc as u8 ^ byte)])
}

/// The name under which the format files a number in a ZAP: lower-case hexadecimal.
#[must_use]
pub fn int_name(number: u64) -> String {
    format!("{number:x}")
}

/// A key ready for use: hashed, and in the bytes that a leaf stores.
#[derive(Clone, Debug)]
pub(super) struct Key {
    /// The hash, bits that do not count cleared.
    pub(super) hash: u64,
    /// The name with its NUL, or words in big-endian bytes.
    pub(super) bytes: Vec<u8>,
    /// Length in integers: bytes of a name (with the NUL), or words.
    pub(super) ints: u16,
}

impl Key {
    /// A name, as long as the feature `longname` allows: entries that other systems made are found. Who
    /// makes names keeps them to 255 bytes.
    pub(super) fn name(object: ObjectId, params: &Params, name: &[u8]) -> Result<Self, ZapError> {
        let usable = !name.is_empty() && name.len() < LONG_NAME_MAX_BYTES && !name.contains(&0);
        if !usable || params.word_keys() {
            return Err(ZapError::BadName { object, bytes: name.len() });
        }
        if !normalisation_known(params, name) {
            return Err(ZapError::Unsupported { object, what: "Unicode normalisation" });
        }
        let mut bytes = Vec::with_capacity(name.len() + 1);
        bytes.extend_from_slice(name);
        bytes.push(0);
        Ok(Self { hash: hash_name(params, name), ints: bytes.len() as u16, bytes })
    }

    /// A name whose hash is known.
    pub(super) fn rehashed(name: &[u8], hash: u64) -> Self {
        let mut bytes = name.to_vec();
        bytes.push(0);
        Self { hash, ints: bytes.len() as u16, bytes }
    }

    /// An array of words, for a ZAP with `u64` keys.
    pub(super) fn words(object: ObjectId, params: &Params, words: &[u64]) -> Result<Self, ZapError> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        if words.is_empty() || bytes.len() > NAME_MAX_BYTES || !params.word_keys() {
            return Err(ZapError::BadName { object, bytes: bytes.len() });
        }
        let hash = if params.flags & ZAP_FLAG_PRE_HASHED_KEY != 0 {
            words[0]
        } else {
            crc64(params.salt, words.iter().flat_map(|word| word.to_le_bytes()))
        };
        Ok(Self { hash: params.cut(hash), ints: words.len() as u16, bytes })
    }

    /// The name without its NUL, for errors.
    pub(super) fn shown(&self) -> String {
        let bytes = self.bytes.strip_suffix(&[0]).unwrap_or(&self.bytes);
        String::from_utf8_lossy(bytes).into_owned()
    }
}

/// Hash of a name, folded first where the ZAP folds case. Other normalisations and letters
/// outside ASCII are taken as they are: callers that look up by hash refuse them first.
pub(super) fn hash_name(params: &Params, name: &[u8]) -> u64 {
    let crc = if params.normflags & NORM_TOUPPER != 0 {
        crc64(params.salt, name.iter().map(u8::to_ascii_uppercase))
    } else {
        crc64(params.salt, name.iter().copied())
    };
    params.cut(crc)
}

fn normalisation_known(params: &Params, name: &[u8]) -> bool {
    params.normflags == 0 || name.is_ascii()
}
