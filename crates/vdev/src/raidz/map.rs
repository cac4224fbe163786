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
//! When a raidz has been given another child, its sectors are dealt out anew, to one child more:
//! ```text
//!   child      0    1    2    3    4    5     the same block, in the same order of sectors, but with its
//!   row 2    [12   13   14   15   16   17     parity still over rows of five: P0 D0 D2 D4 D6, and
//!   row 3     18   19   20   21]  22   23     P1 D1 D3 D5
//! ```
//! So a block of before is a stripe for each of its rows, a sector high, and no two sectors of a stripe are on one
//! child. A last row that is not full has columns of no length in its stripe, because Q and R depend on how many
//! columns there are. What is written from then on has rows of six.
//!
//! With single parity, blocks in every second MiB have the children of P and the first data column
//! exchanged, to spread the load of parity: a habit of old that has become part of the format.
//!
//! Invariants
//! - A block's sectors are where they were in the order of all sectors, whatever has been added.
//!   (test: `a_widened_raidz_has_every_sector_where_it_was_in_their_order`)
//! - No two columns of a stripe are on one child. (test: `no_child_has_two_columns_of_a_stripe`)

use units::{Ashift, Spread, VdevOffset};

/// One child's part of a stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    /// Which child.
    pub(crate) child: usize,
    /// Where on it.
    pub(crate) offset: VdevOffset,
    /// How many bytes.
    pub(crate) len: usize,
    /// So many zeros behind them are part of the stripe.
    pub(crate) pad: usize,
    /// Where they belong in the block, if they are data.
    pub(crate) at: usize,
}

impl Column {
    /// What it takes on its child.
    pub(crate) fn taken(&self) -> usize {
        self.len + self.pad
    }
}

/// Where a block lies: stripes, one after another, each with its parity first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Of all stripes.
    pub(crate) columns: Vec<Column>,
    /// Columns of each stripe.
    pub(crate) width: usize,
    /// How many of them are parity: as many may be lost.
    pub(crate) parity: usize,
}

impl Layout {
    /// Columns of each stripe.
    pub(crate) fn stripes(&self) -> impl Iterator<Item = &[Column]> {
        self.columns.chunks(self.width)
    }

    /// How long the block is.
    pub(crate) fn data_bytes(&self) -> usize {
        self.stripes()
            .flat_map(|stripe| &stripe[self.parity.min(stripe.len())..])
            .map(|column| column.len)
            .sum()
    }

    /// The data columns of the stripe that begins with column `start`, with their numbers.
    pub(crate) fn data_of(&self, start: usize) -> impl Iterator<Item = (usize, &Column)> {
        let stripe = self.columns.iter().enumerate().skip(start).take(self.width);
        stripe.skip(self.parity)
    }
}

/// How many sectors the columns of a stripe have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dealt {
    /// Each column.
    each: u64,
    /// So many of the first have one more.
    longer: u64,
}

impl Dealt {
    /// Those of one column.
    pub(crate) fn of(self, column: u64) -> u64 {
        self.each + u64::from(column < self.longer)
    }

    /// The rows of sectors that are begun.
    fn rows(self) -> u64 {
        self.of(0)
    }
}

/// Deals `sectors` of data out to columns.
pub(crate) fn deal(sectors: u64, data_columns: u64, parity: u64) -> Dealt {
    let rest = sectors % data_columns;
    Dealt { each: sectors / data_columns, longer: if rest == 0 { 0 } else { rest + parity } }
}

/// Blocks that begin where this bit of their offset is set have P and the first data exchanged.
const EXCHANGE_BIT: u64 = 1 << 20;

/// Where a block of `len` bytes lies, whole sectors, that was written when the raidz was as wide as `spread` says;
/// now it has so many `children`. It is one stripe, if the raidz has not been widened since.
pub(crate) fn layout(
    spread: Spread,
    children: usize,
    ashift: Ashift,
    offset: VdevOffset,
    len: u64,
) -> Layout {
    let (shift, parity) = (ashift.get(), spread.parity());
    let dealt = deal(len >> shift, spread.data_columns(), parity as u64);
    let count = if dealt.each == 0 { dealt.longer } else { spread.children() as u64 };
    let begins: Vec<u64> = starts(dealt, spread, count).collect();
    let is_widened = spread.children() != children;
    let column = |row: u64, index: u64, begin: u64| {
        let sector = (offset.get() >> shift) + index + row * spread.children() as u64;
        let sectors = if is_widened { u64::from(row < dealt.of(index)) } else { dealt.of(index) };
        Column {
            child: usize::try_from(sector % children as u64).expect("a raidz has at most 255 children"),
            offset: VdevOffset::new(sector / children as u64 * ashift.sector_bytes()),
            len: usize::try_from(sectors << shift).expect("a part of a block that is in memory"),
            pad: 0,
            at: usize::try_from((begin + row) << shift).expect("within a block that is in memory"),
        }
    };
    let stripe = |row: u64| {
        let columns = (0..count).zip(&begins).map(|(index, &begin)| column(row, index, begin));
        let mut columns: Vec<_> = columns.collect();
        exchange(spread, offset, &mut columns);
        columns
    };
    let stripes = if is_widened { dealt.rows() } else { 1 };
    Layout { columns: (0..stripes).flat_map(stripe).collect(), width: begins.len().max(1), parity }
}

/// Sectors of the block before each column's.
fn starts(dealt: Dealt, spread: Spread, count: u64) -> impl Iterator<Item = u64> {
    let parity = spread.parity() as u64;
    let mut before = 0;
    (0..count).map(move |index| {
        let start = before;
        before += if index < parity { 0 } else { dealt.of(index) };
        start
    })
}

/// Where a habit of old has it so, P and the first data change places.
fn exchange(spread: Spread, offset: VdevOffset, columns: &mut [Column]) {
    if let (1, [p, data, ..]) = (spread.parity(), columns)
        && offset.get() & EXCHANGE_BIT != 0
    {
        std::mem::swap(&mut p.child, &mut data.child);
        std::mem::swap(&mut p.offset, &mut data.offset);
    }
}
