//! How far a replay has got, when records end in any order.
//!
//! ```text
//!   header.replay_seq   4    5    6    7    8
//!                  3    t9   t8   …    t9   t8     what became of each record, and in which txg
//!                       └───┘
//!   txg 8 syncs: 3   txg 9 syncs: 5, for 6 is still under way
//! ```
//! The header says one number: all records up to it are in the pool. A crash may bring back some
//! records behind it that are in the pool too, which does no harm: they change contents of
//! objects only, to what the log says, in the order of the log (see [`crate::replay`]).
//!
//! Invariants
//! - The header never covers a record that is not stable with it
//!   (test: `the_header_covers_only_what_is_stable_with_it`).

use std::collections::VecDeque;

use units::{Txg, ZilSeq};

/// What became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// Parts of it may be in the pool, the newest with this txg.
    UnderWay(Option<Txg>),
    /// It is stable when this txg is.
    Done(Txg),
    /// There was nothing to do, or no such record.
    Nothing,
}

/// What became of the records behind the one that the header covers.
#[derive(Debug, Default)]
pub struct Progress {
    covered: ZilSeq,
    marks: VecDeque<Mark>,
}

impl Progress {
    /// Everything up to `covered` is in the pool, nothing behind it.
    pub fn new(covered: ZilSeq) -> Self {
        Self { covered, marks: VecDeque::new() }
    }

    /// A record is begun; those between it and the one before do not exist.
    pub fn begin(&mut self, seq: ZilSeq) {
        let index = self.index(seq).expect("records are begun in order");
        if self.marks.len() <= index {
            self.marks.resize(index + 1, Mark::Nothing);
        }
        self.marks[index] = Mark::UnderWay(None);
    }

    /// A part of a record is in the pool once `txg` is stable; or, when it `is_all`, the record.
    pub fn note(&mut self, seq: ZilSeq, txg: Txg, is_all: bool) {
        let index = self.index(seq).expect("a record is under way until all of it is noted");
        self.marks[index] = if is_all { Mark::Done(txg) } else { Mark::UnderWay(Some(txg)) };
    }

    /// Nothing of a record is left to do.
    pub fn end(&mut self, seq: ZilSeq) {
        // One that was noted as a whole may be covered by now.
        let mark = self.index(seq).and_then(|index| self.marks.get_mut(index));
        if let Some(mark) = mark
            && let Mark::UnderWay(noted) = *mark
        {
            *mark = noted.map_or(Mark::Nothing, Mark::Done);
        }
    }

    /// What the header may say once `txg`, which nobody notes any more, is stable.
    pub fn sync(&mut self, txg: Txg) -> ZilSeq {
        while let Some(mark) = self.marks.front() {
            match *mark {
                Mark::Nothing => {}
                Mark::Done(done) if done <= txg => {}
                Mark::Done(_) | Mark::UnderWay(_) => break,
            }
            self.marks.pop_front();
            self.covered = self.covered.next();
        }
        self.covered
    }

    /// Begins again behind the first record that is not done: the newest before it.
    pub fn restart(&mut self) -> ZilSeq {
        let whole = self.marks.iter().take_while(|mark| !matches!(mark, Mark::UnderWay(_))).count();
        self.marks.truncate(whole);
        ZilSeq::new(self.covered.get() + whole as u64)
    }

    /// Where a record's mark is; `None` when the header covers it.
    fn index(&self, seq: ZilSeq) -> Option<usize> {
        Some(seq.get().checked_sub(self.covered.get() + 1)? as usize)
    }
}

#[cfg(test)]
mod tests;
