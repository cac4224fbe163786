//! Taking fixed-size structures off the front of bytes, with every length checked.

use zerocopy::{FromBytes, Immutable, KnownLayout};

use crate::error::{OndiskError, short};

/// Copies the structure at the start of `bytes`; what follows it is ignored.
pub(crate) fn prefix<T: FromBytes + KnownLayout + Immutable>(
    what: &'static str,
    bytes: &[u8],
) -> Result<T, OndiskError> {
    T::read_from_prefix(bytes).map(|(value, _)| value).map_err(|_| short(what, size_of::<T>(), bytes.len()))
}

/// A place in bytes that only moves forward and never past the end.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    what: &'static str,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(what: &'static str, bytes: &'a [u8]) -> Self {
        Self { what, rest: bytes }
    }

    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], OndiskError> {
        let (head, tail) =
            self.rest.split_at_checked(len).ok_or_else(|| short(self.what, len, self.rest.len()))?;
        self.rest = tail;
        Ok(head)
    }

    pub(crate) fn read<T: FromBytes + KnownLayout + Immutable>(&mut self) -> Result<T, OndiskError> {
        let (value, rest) =
            T::read_from_prefix(self.rest).map_err(|_| short(self.what, size_of::<T>(), self.rest.len()))?;
        self.rest = rest;
        Ok(value)
    }

    /// A string up to its NUL, which is taken too.
    pub(crate) fn c_string(&mut self) -> Result<&'a [u8], OndiskError> {
        let error = OndiskError::BadText { what: self.what, field: "name" };
        let end = self.rest.iter().position(|&byte| byte == 0).ok_or(error)?;
        let text = self.take(end)?;
        self.take(1)?;
        Ok(text)
    }
}
