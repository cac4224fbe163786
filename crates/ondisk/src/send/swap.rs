//! Records of machines of the other byte order.

use crate::error::{OndiskError, short};

/// Some fields in a row.
#[derive(Clone, Copy, Debug)]
pub(super) enum Field {
    /// So many words of 64 bits.
    Words64(usize),
    /// So many words of 32 bits.
    Words32(usize),
    /// So many bytes, which have no order.
    Bytes(usize),
}

impl Field {
    const fn len(self) -> usize {
        match self {
            Self::Words64(count) => count.saturating_mul(8),
            Self::Words32(count) => count.saturating_mul(4),
            Self::Bytes(count) => count,
        }
    }

    const fn width(self) -> usize {
        match self {
            Self::Words64(_) => 8,
            Self::Words32(_) => 4,
            Self::Bytes(_) => 1,
        }
    }
}

/// A structure that says how it is swapped.
pub(super) trait Swapped: Sized {
    /// All of its fields.
    const FIELDS: &'static [Field];
    /// Their bytes, which are all of the structure's.
    const WHOLE: () = {
        let (mut sum, mut at) = (0_usize, 0_usize);
        let mut rest = Self::FIELDS;
        while let Some((field, others)) = rest.split_first() {
            sum = sum.saturating_add(field.len());
            at = at.saturating_add(1);
            rest = others;
        }
        assert!(at > 0 && sum == size_of::<Self>(), "fields are all of the structure");
    };
}

/// Swaps the structure at the start of `bytes`.
pub(super) fn swap<T: Swapped>(bytes: &mut [u8]) -> Result<(), OndiskError> {
    let () = T::WHOLE;
    swap_fields(bytes, T::FIELDS)
}

/// Swaps `fields` at the start of `bytes`.
pub(super) fn swap_fields(bytes: &mut [u8], fields: &[Field]) -> Result<(), OndiskError> {
    let mut rest = bytes;
    for field in fields {
        let have = rest.len();
        let (part, after) =
            rest.split_at_mut_checked(field.len()).ok_or_else(|| short("record", field.len(), have))?;
        part.chunks_exact_mut(field.width()).for_each(<[u8]>::reverse);
        rest = after;
    }
    Ok(())
}
