//! Values: arrays of integers of one size.

use super::error::Damage;

/// The value of an entry: integers of 1, 2, 4 or 8 bytes. Text is an array of bytes that ends
/// with a NUL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ZapValue {
    /// Bytes; text with its NUL.
    U8(Vec<u8>),
    /// 16-bit integers.
    U16(Vec<u16>),
    /// 32-bit integers.
    U32(Vec<u32>),
    /// 64-bit integers; a single one fits a micro ZAP.
    U64(Vec<u64>),
}

impl ZapValue {
    /// Text as the format stores it: with a closing NUL.
    #[must_use]
    pub fn text(text: &str) -> Self {
        let mut bytes = text.as_bytes().to_vec();
        bytes.push(0);
        Self::U8(bytes)
    }

    /// The single 64-bit integer this value is, if it is one.
    #[must_use]
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Self::U64(words) if words.len() == 1 => Some(words[0]),
            _ => None,
        }
    }

    /// The numbers, if they have 64 bits; none otherwise.
    #[must_use]
    pub fn as_u64s(&self) -> &[u64] {
        match self {
            Self::U64(words) => words,
            _ => &[],
        }
    }

    /// The text before the first NUL, if the value is bytes and that is UTF-8.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::U8(bytes) => {
                let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
                std::str::from_utf8(&bytes[..end]).ok()
            }
            _ => None,
        }
    }

    /// Size of one integer: 1, 2, 4 or 8 bytes.
    #[must_use]
    pub const fn int_bytes(&self) -> u8 {
        match self {
            Self::U8(_) => 1,
            Self::U16(_) => 2,
            Self::U32(_) => 4,
            Self::U64(_) => 8,
        }
    }

    /// How many integers.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self {
            Self::U8(ints) => ints.len(),
            Self::U16(ints) => ints.len(),
            Self::U32(ints) => ints.len(),
            Self::U64(ints) => ints.len(),
        }
    }

    /// No integers at all.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Length in bytes.
    pub(super) const fn bytes_len(&self) -> usize {
        self.len() * self.int_bytes() as usize
    }

    /// The big-endian bytes that a leaf stores.
    pub(super) fn be_bytes(&self) -> Vec<u8> {
        match self {
            Self::U8(ints) => ints.clone(),
            Self::U16(ints) => ints.iter().flat_map(|int| int.to_be_bytes()).collect(),
            Self::U32(ints) => ints.iter().flat_map(|int| int.to_be_bytes()).collect(),
            Self::U64(ints) => ints.iter().flat_map(|int| int.to_be_bytes()).collect(),
        }
    }

    /// From the big-endian bytes that a leaf stores.
    pub(super) fn from_be_bytes(int_bytes: u8, bytes: Vec<u8>) -> Result<Self, Damage> {
        match int_bytes {
            1 => Ok(Self::U8(bytes)),
            2 => Ok(Self::U16(ints(&bytes, u16::from_be_bytes))),
            4 => Ok(Self::U32(ints(&bytes, u32::from_be_bytes))),
            8 => Ok(Self::U64(ints(&bytes, u64::from_be_bytes))),
            _ => Err(Damage("a value's integers are not of 1, 2, 4 or 8 bytes")),
        }
    }
}

impl From<u64> for ZapValue {
    fn from(word: u64) -> Self {
        Self::U64(vec![word])
    }
}

fn ints<T, const N: usize>(bytes: &[u8], from: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks::<N>().0.iter().map(|chunk| from(*chunk)).collect()
}
