//! Where the columns of a block on a draid lie.
//!
//! ```text
//!            parts: 0    1    2    3    4    spare        5 of 6 children's space, groups of 3 (2 data, 1 parity)
//!   row 0       [ group 0  ] [group 1       row: 16 MiB of each child
//!   row 1     1] [ group 2    ] [group 3    a slice: as many rows as it takes until groups and rows come out
//!   row 2       3   ] [   group 4   ]                even; the next slice has another permutation
//! ```
//! The space of a draid is its groups, one after another: as many children's 16 MiB as a stripe has columns. In a group
//! blocks lie as in a raidz of that many children, but always take whole rows of sectors; sectors that nothing is
//! left for are zeros that are written and kept so ([`Column::pad`]): whoever rebuilds a child row by row, without knowing
//! of blocks, computes it from the others. A group that begins at the end of a row goes on in the next. A block that
//! begins at the end of a group goes on in the next, as a second stripe.
//!
//! Invariants
//! - Every sector of every child, but for the spares' part, belongs to one place at most.
//!   (test: `no_two_blocks_of_a_draid_overlap`)

use units::{Ashift, VdevOffset};

use super::Shape;
use super::permutation::Permutations;
use crate::raidz::map::{Column, Layout, deal};

/// What one child contributes to a row.
pub(crate) const ROW_BYTES: u64 = 16 << 20;

/// Where a block of `len` bytes lies, whole sectors. `None` for a place where no block can begin.
pub(crate) fn layout(
    shape: &Shape,
    permutations: &Permutations,
    ashift: Ashift,
    offset: VdevOffset,
    len: u64,
) -> Option<Layout> {
    let (start, group) = (offset.get(), shape.group_bytes());
    let is_aligned = start.is_multiple_of(ashift.sector_bytes());
    if !is_aligned || !((start % group) >> ashift.get()).is_multiple_of(shape.width() as u64) {
        return None;
    }
    let mut part = Part { start, at: 0, len: len.min(shape.data_in(group - start % group)) };
    let mut columns = Vec::with_capacity(shape.width());
    while part.len > 0 {
        columns.extend(part.stripe(shape, permutations, ashift));
        let at = part.at + part.len;
        let start = (part.start / group).checked_add(1)?.checked_mul(group)?;
        part = Part { start, at, len: (len - at).min(shape.data_in(group)) };
    }
    Some(Layout { columns, width: shape.width(), parity: shape.parity() })
}

/// Returns the place on the draid of the stripe whose first column of data begins at this place of a
/// child: the inverse of [`layout`]. `None` where another column or the space of a spare lies.
pub(crate) fn stripe_at(
    shape: &Shape,
    permutations: &Permutations,
    ashift: Ashift,
    child: usize,
    offset: VdevOffset,
) -> Option<VdevOffset> {
    let (width, parts) = (shape.width() as u64, shape.parts() as u64);
    let (row, within) = (offset.get() / ROW_BYTES, offset.get() % ROW_BYTES);
    let rows_of_slice = width * shape.groups() / parts;
    let slice = row / rows_of_slice;
    let part = (0..shape.parts()).find(|part| permutations.child(slice, *part) == child)? as u64;
    let number = row % rows_of_slice * parts + part;
    let (group, column) = (number / width, number % width);
    let group_start = (slice * shape.groups() + group).checked_mul(shape.group_bytes())?;
    let start = group_start.checked_add(((within >> ashift.get()) * width) << ashift.get())?;
    (column == shape.parity() as u64).then_some(VdevOffset::new(start))
}

/// As much of a block as lies in one group.
struct Part {
    /// Where on the draid.
    start: u64,
    /// Bytes of the block before it.
    at: u64,
    /// Bytes of the block in it.
    len: u64,
}

impl Part {
    fn stripe(&self, shape: &Shape, permutations: &Permutations, ashift: Ashift) -> Vec<Column> {
        let shift = ashift.get();
        let dealt = deal(self.len >> shift, shape.data() as u64, shape.parity() as u64);
        let mut at = self.at;
        let column = |index: usize| {
            let (child, offset) = self.place(shape, permutations, ashift, index);
            let len = dealt.of(index as u64) << shift;
            let pad = (dealt.of(0) << shift) - len;
            let column =
                Column { child, offset, len: in_memory(len), pad: in_memory(pad), at: in_memory(at) };
            at += if index < shape.parity() { 0 } else { len };
            column
        };
        (0..shape.width()).map(column).collect()
    }

    /// On which child a column begins, and where there.
    fn place(
        &self,
        shape: &Shape,
        permutations: &Permutations,
        ashift: Ashift,
        column: usize,
    ) -> (usize, VdevOffset) {
        let (width, parts) = (shape.width() as u64, shape.parts() as u64);
        let (group, within) = (self.start / shape.group_bytes(), self.start % shape.group_bytes());
        let (slice, group) = (group / shape.groups(), group % shape.groups());
        // Counted from the beginning of the slice, and across the ends of its rows.
        let part = group * width + column as u64;
        let row = slice * (width * shape.groups() / parts) + part / parts;
        let sector = (within >> ashift.get()) / width;
        let child = permutations.child(slice, in_memory(part % parts));
        (child, VdevOffset::new(row * ROW_BYTES + (sector << ashift.get())))
    }
}

fn in_memory(number: u64) -> usize {
    usize::try_from(number).expect("a part of a block that is in memory, or a child's number")
}
