//! What can be wrong with bytes that came from a disk.

/// Why bytes could not be decoded. Says what structure, which field and which value, but not
/// where on a disk: the layer that read the bytes knows that and adds it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OndiskError {
    /// Fewer bytes than the structure needs.
    #[error("{what}: needs {need} bytes, has {have}")]
    Short {
        /// The structure.
        what: &'static str,
        /// Bytes it needs.
        need: usize,
        /// Bytes there were.
        have: usize,
    },
    /// A field holds a value the format does not give it.
    #[error("{what}: {field} is {value:#x}")]
    BadValue {
        /// The structure.
        what: &'static str,
        /// The field.
        field: &'static str,
        /// What it held.
        value: u64,
    },
    /// The structure does not start (or end) with its magic number.
    #[error("{what}: magic {found:#x} is not {expected:#x}")]
    BadMagic {
        /// The structure.
        what: &'static str,
        /// What the format says.
        expected: u64,
        /// What was there.
        found: u64,
    },
    /// The structure was written by a machine of the other byte order.
    #[error("{what}: written in big-endian order")]
    ForeignByteOrder {
        /// The structure.
        what: &'static str,
    },
    /// Nested more deeply than we follow.
    #[error("{what}: nested more than {limit} deep")]
    TooDeep {
        /// The structure.
        what: &'static str,
        /// How deep we follow.
        limit: usize,
    },
    /// Text that is not text: no closing NUL, or bytes that are not UTF-8.
    #[error("{what}: {field} is not a proper string")]
    BadText {
        /// The structure.
        what: &'static str,
        /// The field.
        field: &'static str,
    },
    /// A name that is needed is not there.
    #[error("{what}: no {name}")]
    Missing {
        /// The structure.
        what: &'static str,
        /// The name looked for.
        name: String,
    },
    /// A name is there, but its value is of another type.
    #[error("{what}: {name} is of another type")]
    WrongType {
        /// The structure.
        what: &'static str,
        /// The name looked for.
        name: String,
    },
    /// A structure that the format knows and this code does not read.
    #[error("{what}: {detail} is not supported")]
    Unsupported {
        /// The structure.
        what: &'static str,
        /// What about it.
        detail: &'static str,
    },
}

pub(crate) fn bad(what: &'static str, field: &'static str, value: impl Into<u64>) -> OndiskError {
    OndiskError::BadValue { what, field, value: value.into() }
}

pub(crate) const fn short(what: &'static str, need: usize, have: usize) -> OndiskError {
    OndiskError::Short { what, need, have }
}
