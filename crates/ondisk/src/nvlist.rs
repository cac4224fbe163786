//! Name-value lists: how the format writes everything that people may add to later.
//!
//! Pool and vdev configurations, extended attributes in system attributes and the boot environment
//! are nvlists encoded in XDR ([`xdr`]): big-endian on every disk. History records alone are in the
//! native encoding of the machine that wrote them ([`NvList::encode_native`]).
//!
//! A list keeps the order in which its pairs were added, and writes them in that order. Names are
//! unique here: adding a name again replaces its value in place.
//!
//! Invariants
//! - What was decoded encodes to the same bytes
//!   (test: `labels_made_by_openzfs_encode_to_the_same_bytes`).
//! - Nesting is followed [`xdr::DEPTH_MAX`] deep and no count is believed before the bytes for it
//!   are seen (test: `hostile_counts_and_nesting_are_errors`).

mod native;
#[cfg(test)]
mod tests;
pub mod xdr;

use crate::error::OndiskError;

/// One list of named values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NvList {
    pairs: Vec<(String, NvValue)>,
}

/// A value, of one of the format's 27 types.
#[derive(Clone, Debug, PartialEq)]
pub enum NvValue {
    /// No value: being there says it.
    Flag,
    /// An opaque byte.
    Byte(u8),
    /// A signed 16-bit number.
    I16(i16),
    /// An unsigned 16-bit number.
    U16(u16),
    /// A signed 32-bit number.
    I32(i32),
    /// An unsigned 32-bit number.
    U32(u32),
    /// A signed 64-bit number.
    I64(i64),
    /// An unsigned 64-bit number.
    U64(u64),
    /// Text.
    Str(String),
    /// Opaque bytes.
    ByteArray(Vec<u8>),
    /// Signed 16-bit numbers.
    I16Array(Vec<i16>),
    /// Unsigned 16-bit numbers.
    U16Array(Vec<u16>),
    /// Signed 32-bit numbers.
    I32Array(Vec<i32>),
    /// Unsigned 32-bit numbers.
    U32Array(Vec<u32>),
    /// Signed 64-bit numbers.
    I64Array(Vec<i64>),
    /// Unsigned 64-bit numbers.
    U64Array(Vec<u64>),
    /// Texts.
    StrArray(Vec<String>),
    /// Nanoseconds of a monotonic clock.
    HrTime(i64),
    /// A list within the list.
    List(NvList),
    /// Lists within the list.
    ListArray(Vec<NvList>),
    /// True or false.
    Bool(bool),
    /// A signed 8-bit number.
    I8(i8),
    /// An unsigned 8-bit number.
    U8(u8),
    /// Truth values.
    BoolArray(Vec<bool>),
    /// Signed 8-bit numbers.
    I8Array(Vec<i8>),
    /// Unsigned 8-bit numbers.
    U8Array(Vec<u8>),
    /// A double, as its IEEE 754 bits.
    Double(u64),
}

/// Generates `lookup_x` (missing or of another type is an error), `get_x` (it is `None`) and `add_x`.
macro_rules! accessors {
    ($($variant:ident: $lookup:ident -> $out:ty, $get:ident, $add:ident($in:ty), |$v:ident| $view:expr, |$n:ident| $make:expr;)*) => {
        impl NvList {$(
            #[doc = concat!("The `", stringify!($variant), "` called `name`.")]
            ///
            /// # Errors
            /// When there is no such name, or its value is of another type.
            pub fn $lookup(&self, name: &str) -> Result<$out, OndiskError> {
                match self.get(name) {
                    Some(NvValue::$variant($v)) => Ok($view),
                    Some(_) => Err(OndiskError::WrongType { what: "nvlist", name: name.to_owned() }),
                    None => Err(OndiskError::Missing { what: "nvlist", name: name.to_owned() }),
                }
            }

            #[doc = concat!("The `", stringify!($variant), "` called `name`, if there is one.")]
            #[must_use]
            pub fn $get(&self, name: &str) -> Option<$out> {
                self.$lookup(name).ok()
            }

            #[doc = concat!("Adds or replaces a `", stringify!($variant), "`.")]
            pub fn $add(&mut self, name: &str, $n: $in) -> &mut Self {
                self.add(name, NvValue::$variant($make))
            }
        )*}
    };
}

accessors! {
    U64: lookup_u64 -> u64, get_u64, add_u64(u64), |v| *v, |n| n;
    I64: lookup_i64 -> i64, get_i64, add_i64(i64), |v| *v, |n| n;
    U32: lookup_u32 -> u32, get_u32, add_u32(u32), |v| *v, |n| n;
    Bool: lookup_bool -> bool, get_bool, add_bool(bool), |v| *v, |n| n;
    Str: lookup_str -> &str, get_str, add_str(impl Into<String>), |v| v.as_str(), |n| n.into();
    List: lookup_nvlist -> &NvList, get_nvlist, add_nvlist(NvList), |v| v, |n| n;
    ListArray: lookup_nvlist_array -> &[NvList], get_nvlist_array, add_nvlist_array(Vec<NvList>), |v| v.as_slice(), |n| n;
    U64Array: lookup_u64_array -> &[u64], get_u64_array, add_u64_array(Vec<u64>), |v| v.as_slice(), |n| n;
    StrArray: lookup_str_array -> &[String], get_str_array, add_str_array(Vec<String>), |v| v.as_slice(), |n| n;
    ByteArray: lookup_bytes -> &[u8], get_bytes, add_bytes(Vec<u8>), |v| v.as_slice(), |n| n;
    U8Array: lookup_u8_array -> &[u8], get_u8_array, add_u8_array(Vec<u8>), |v| v.as_slice(), |n| n;
}

impl NvList {
    /// An empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self { pairs: Vec::new() }
    }

    /// The value called `name`, of any type.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&NvValue> {
        self.pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// The same, to change it in place.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut NvValue> {
        self.pairs.iter_mut().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// The list called `name`, to change it in place.
    pub fn get_nvlist_mut(&mut self, name: &str) -> Option<&mut Self> {
        match self.get_mut(name) {
            Some(NvValue::List(list)) => Some(list),
            _ => None,
        }
    }

    /// Whether there is a value called `name`.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Adds a value at the end, or replaces the one of that name where it stands.
    ///
    /// # Panics
    /// When the name holds a NUL, which the format cannot write.
    pub fn add(&mut self, name: &str, value: NvValue) -> &mut Self {
        assert!(!name.contains('\0'), "a name holds no NUL");
        match self.get_mut(name) {
            Some(old) => *old = value,
            None => self.pairs.push((name.to_owned(), value)),
        }
        self
    }

    /// Adds a name without a value.
    pub fn add_flag(&mut self, name: &str) -> &mut Self {
        self.add(name, NvValue::Flag)
    }

    /// Takes a value out.
    pub fn remove(&mut self, name: &str) -> Option<NvValue> {
        let at = self.pairs.iter().position(|(key, _)| key == name)?;
        Some(self.pairs.remove(at).1)
    }

    /// All pairs, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &NvValue)> {
        self.pairs.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// How many pairs there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Appends a decoded pair as it came, keeping duplicates.
    fn push(&mut self, name: String, value: NvValue) {
        self.pairs.push((name, value));
    }
}
