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
//! A log's records are numbered for as long as its chain lives, and those of synced txgs are gone from its front:
//! the first record that replay meets may have any number. So a mark is kept for each record that was begun and is
//! not yet stable, and none for the numbers between records.
//!
//! Invariants
//! - The header never covers a record that is not stable with it
//!   (test: `the_header_covers_only_what_is_stable_with_it`).
//! - Memory is taken for records, not for numbers (test: `numbers_that_no_record_has_take_no_memory`).

use std::collections::VecDeque;

use units::{Txg, ZilSeq};

/// What became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// Parts of it may be in the pool, the newest with this txg.
    UnderWay(Option<Txg>),
    /// It is stable when this txg is.
    Done(Txg),
    /// There was nothing to do.
    Nothing,
}

/// What became of the records behind the one that the header covers.
#[derive(Debug, Default)]
pub struct Progress {
    covered: ZilSeq,
    /// The records begun behind that one, by their numbers, which rise.
    marks: VecDeque<(ZilSeq, Mark)>,
}

impl Progress {
    /// Everything up to `covered` is in the pool, nothing behind it.
    pub fn new(covered: ZilSeq) -> Self {
        Self { covered, marks: VecDeque::new() }
    }

    /// A record is begun; those between it and the one before do not exist.
    pub fn begin(&mut self, seq: ZilSeq) {
        assert!(self.newest() < seq, "records are begun in order");
        self.marks.push_back((seq, Mark::UnderWay(None)));
    }

    /// A part of a record is in the pool once `txg` is stable; or, when it `is_all`, the record.
    pub fn note(&mut self, seq: ZilSeq, txg: Txg, is_all: bool) {
        let mark = self.mark(seq).expect("a record is under way until all of it is noted");
        *mark = if is_all { Mark::Done(txg) } else { Mark::UnderWay(Some(txg)) };
    }

    /// Nothing of a record is left to do.
    pub fn end(&mut self, seq: ZilSeq) {
        // One that was noted as a whole may be covered by now.
        if let Some(mark) = self.mark(seq)
            && let Mark::UnderWay(noted) = *mark
        {
            *mark = noted.map_or(Mark::Nothing, Mark::Done);
        }
    }

    /// What the header may say once `txg`, which nobody notes any more, is stable.
    pub fn sync(&mut self, txg: Txg) -> ZilSeq {
        let is_stable = |mark: Mark| match mark {
            Mark::Nothing => true,
            Mark::Done(done) => done <= txg,
            Mark::UnderWay(_) => false,
        };
        while let Some(&(seq, mark)) = self.marks.front()
            && is_stable(mark)
        {
            self.marks.pop_front();
            self.covered = seq;
        }
        self.covered
    }

    /// Begins again behind the first record that is not done: the newest before it.
    pub fn restart(&mut self) -> ZilSeq {
        let whole = self.marks.iter().take_while(|(_, mark)| !matches!(mark, Mark::UnderWay(_))).count();
        self.marks.truncate(whole);
        self.newest()
    }

    /// The newest record that was begun, or that the header covers.
    fn newest(&self) -> ZilSeq {
        self.marks.back().map_or(self.covered, |(seq, _)| *seq)
    }

    /// A record's mark; `None` when the header covers it.
    fn mark(&mut self, seq: ZilSeq) -> Option<&mut Mark> {
        let index = self.marks.binary_search_by_key(&seq, |(of, _)| *of).ok()?;
        Some(&mut self.marks[index].1)
    }
}

#[cfg(test)]
mod tests;
