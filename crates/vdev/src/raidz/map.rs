//! Where the columns of a block lie.
//!
//! The space of a raidz is dealt out to its children sector by sector, row by row:
//! ```text
//!   child      0    1    2    3    4          a block of 7 data sectors at sector 12,
//!   row 2     10   11  [12   13   14          single parity:
//!   row 3     15   16   17   18   19
//!   row 4     20   21]  22   23   24            P0 D0 D2
//!                                             D4 D6 P1 D1 D3       columns, beginning at P
//!                                             D5  x                 x: skipped
//! ```
//! A block takes whole sectors one after the other, at least one more than its parity in each row,
//! and is cut into columns: sectors below each other on one child. Parity comes first, then the
//! data: its first column the first bytes, and so on. When the rows do not come out even, parity and
//! the first data columns are one sector longer. Sectors that only pad the block to a multiple of
//! `parity + 1` are never read.
//!
//! With single parity, blocks in every second MiB have the children of P and the first data column
//! exchanged, to spread the load of parity: a habit of old that has become part of the format.

use units::{Ashift, Spread, VdevOffset};

/// One child's part of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    /// Which child.
    pub(crate) child: usize,
    /// Where on it.
    pub(crate) offset: VdevOffset,
    /// How many bytes.
    pub(crate) len: usize,
}

/// Blocks that begin where this bit of their offset is set have P and the first data exchanged.
const EXCHANGE_BIT: u64 = 1 << 20;

/// The columns of a block of `len` bytes, whole sectors: parity first.
pub(crate) fn columns(spread: Spread, ashift: Ashift, offset: VdevOffset, len: u64) -> Vec<Column> {
    let (shift, children) = (ashift.get(), spread.children() as u64);
    let (first, sectors) = (offset.get() >> shift, len >> shift);
    let (rows, rest) = (sectors / spread.data_columns(), sectors % spread.data_columns());
    let longer = if rest == 0 { 0 } else { rest + spread.parity() as u64 };
    let count = if rows == 0 { longer } else { children };
    let column = |index: u64| {
        let at = first % children + index;
        let row = first / children + at / children;
        let len = (rows + u64::from(index < longer)) << shift;
        Column {
            child: usize::try_from(at % children).expect("a raidz has at most 255 children"),
            offset: VdevOffset::new(row << shift),
            len: usize::try_from(len).expect("a part of a block that is in memory"),
        }
    };
    let mut columns: Vec<_> = (0..count).map(column).collect();
    if let (1, [p, data, ..]) = (spread.parity(), columns.as_mut_slice())
        && offset.get() & EXCHANGE_BIT != 0
    {
        std::mem::swap(p, data);
    }
    columns
}
