//! Parity columns: up to three sums over data columns, from which as many lost ones come back.
//!
//! Bytes are elements of the field of 256 elements that the polynomial `x^8 + x^4 + x^3 + x^2 + 1`
//! makes: addition is XOR, and doubling shifts left and folds the bit that falls out back in as
//! 0x1d. With data columns D0 … Dn-1, and 2 generating all elements but zero:
//! ```text
//!   P =         D0 +  …  +      Dn-2 + Dn-1      "parity 0"
//!   Q = 2^(n-1) D0 +  …  +  2 · Dn-2 + Dn-1      "parity 1"
//!   R = 4^(n-1) D0 +  …  +  4 · Dn-2 + Dn-1      "parity 2"
//! ```
//! Each is computed by Horner's rule: double (or not, or twice), add the next column. Columns may
//! end early; what is not there counts as zeros.
//!
//! Lost columns are the unknowns of linear equations, one for each parity at hand: the parity less
//! what the columns that are left contribute (the *syndrome*) is a sum of lost columns with known
//! weights. Any one, two or three of P, Q, R can be solved for as many unknowns among up to 255
//! columns. Weights of P, Q and R are powers of three different elements, so the matrix is a
//! Vandermonde one, or can be scaled to be.
//!
//! Invariants
//! - Whichever columns are lost, and whichever parities are left, if there are enough the same
//!   bytes come back. (test: `every_loss_that_can_be_repaired_is`)
//! - The fast kernels equal their plain twins.
//!   (test: `parity_kernels_agree_with_the_field_s_definition`)

mod field;
mod kernel;
mod solve;

/// Most parity columns there can be.
pub const PARITIES_MAX: usize = 3;
/// Most data columns whose weights all differ.
pub const DATA_COLUMNS_MAX: usize = 255;

/// Fills `parities` (P, or P and Q, or P, Q and R) from `data`.
///
/// # Panics
/// When there are no parities or more than three, they are not of one length, or a column of
/// data is longer.
pub fn generate(parities: &mut [&mut [u8]], data: &[&[u8]]) {
    check(parities.iter().map(|parity| parity.len()), data);
    kernel::generate(parities, data);
}

/// A lost data column, to be filled in.
#[derive(Debug)]
pub struct Lost<'a> {
    /// Which of the data columns.
    pub index: usize,
    /// Where its bytes go; as long as the column is.
    pub bytes: &'a mut [u8],
}

/// A parity column that is at hand.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// 0 for P, 1 for Q, 2 for R.
    pub parity: usize,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// Fills in the lost columns. In `data` these are empty; as many parities as are lost are used,
/// the first ones, and `known` must hold at least so many different ones.
///
/// # Panics
/// When more is lost than parities are known, or lengths make no sense.
pub fn reconstruct(lost: &mut [Lost<'_>], data: &[&[u8]], known: &[Known<'_>]) {
    assert!(known.len() >= lost.len(), "{} columns from {} parities", lost.len(), known.len());
    if lost.is_empty() {
        return;
    }
    let used = &known[..lost.len()];
    check(used.iter().map(|known| known.bytes.len()), data);
    assert!(lost.iter().all(|lost| data[lost.index].is_empty()), "a column is lost or it is not");
    solve::reconstruct(lost, data, used);
}

fn check(mut parities: impl ExactSizeIterator<Item = usize>, data: &[&[u8]]) {
    let count = parities.len();
    assert!((1..=PARITIES_MAX).contains(&count), "{count} parity columns");
    assert!(data.len() <= DATA_COLUMNS_MAX, "{} data columns", data.len());
    let len = parities.next().expect("at least one");
    assert!(parities.all(|other| other == len), "parity columns are equally long");
    assert!(data.iter().all(|column| column.len() <= len), "a column is longer than its parity");
}

#[cfg(test)]
mod tests;
