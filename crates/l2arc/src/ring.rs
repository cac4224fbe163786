//! Where the next bytes go: round and round, over what came first.
//!
//! ```text
//!   start                hand         evict                    end
//!     │ this lap's        │ forgotten │ the last lap's          │        and on the first lap
//!     └───────────────────┴───────────┴─────────────────────────┘        nothing behind the hand
//! ```

use std::ops::Range;

/// The places of a cache device, in bytes of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ring {
    start: u64,
    end: u64,
    hand: u64,
    evict: u64,
    is_first_lap: bool,
}

impl Ring {
    /// Nothing has been written.
    pub(crate) fn new(start: u64, end: u64) -> Self {
        assert!(start < end, "a ring has room");
        Self { start, end, hand: start, evict: start, is_first_lap: true }
    }

    /// Something has; `None` for what cannot be.
    pub(crate) fn resumed(start: u64, end: u64, hand: u64, evict: u64, is_first_lap: bool) -> Option<Self> {
        let is_sound = start < end
            && (start..=end).contains(&hand)
            && (start..=end).contains(&evict)
            && (is_first_lap || hand <= evict);
        is_sound.then_some(Self { start, end, hand, evict, is_first_lap })
    }

    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    pub(crate) fn hand(&self) -> u64 {
        self.hand
    }

    pub(crate) fn evict(&self) -> u64 {
        self.evict
    }

    pub(crate) fn is_first_lap(&self) -> bool {
        self.is_first_lap
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.end - self.start
    }

    /// Makes room for `len` bytes in a row at the hand, and a little ahead of that; gives what is to be forgotten for
    /// it, and whether the hand went back to the start.
    ///
    /// # Panics
    /// When that is more than there is.
    pub(crate) fn make_room(&mut self, len: u64, ahead: u64) -> (Vec<Range<u64>>, bool) {
        assert!(len <= self.bytes(), "{len} bytes on a ring of {}", self.bytes());
        let mut forgotten = Vec::new();
        let goes_back = self.hand + len > self.end;
        if goes_back {
            forgotten.push(self.hand..self.end);
            (self.hand, self.evict, self.is_first_lap) = (self.start, self.start, false);
        }
        let needed = self.hand + len;
        if !self.is_first_lap && needed > self.evict {
            let target = (needed + ahead).min(self.end);
            forgotten.push(self.evict..target);
            self.evict = target;
        }
        (forgotten, goes_back)
    }

    /// So many bytes were written at the hand.
    pub(crate) fn advance(&mut self, len: u64) {
        self.hand += len;
        assert!(self.hand <= self.end && (self.is_first_lap || self.hand <= self.evict), "{self:?}");
    }

    /// Whether bytes `from..to`, round the end if `to` comes first, are what was written there, as far as it is known: a
    /// lap may have ended before the end, and what is behind that is of an earlier one.
    pub(crate) fn holds(&self, from: u64, to: u64) -> bool {
        let is_inside = |at| (self.start..=self.end).contains(&at);
        if !is_inside(from) || !is_inside(to) || from == to {
            return false;
        }
        let is_written = |range: Range<u64>| match self.is_first_lap {
            true => range.end <= self.hand,
            false => range.end <= self.hand || range.start >= self.evict,
        };
        match from < to {
            true => is_written(from..to),
            // Nothing goes round the end before it was reached.
            false => !self.is_first_lap && is_written(from..self.end) && is_written(self.start..to),
        }
    }
}

/// Whether bytes `from..to`, round the end if `to` comes first, and `range` have any in common.
pub(crate) fn meets(from: u64, to: u64, range: &Range<u64>) -> bool {
    match from < to {
        true => from < range.end && range.start < to,
        false => range.start < range.end && (range.end > from || range.start < to),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_overwritten_was_forgotten_and_what_is_held_was_not() {
        // A plain twin: which lap each of 100 bytes is of, and what may be read.
        let mut ring = Ring::new(10, 110);
        let mut is_held = [false; 120];
        let (mut hand, mut lap_end) = (10, 110);
        for step in 0_u64..500 {
            let len = 1 + step * 7 % 30;
            let (forgotten, went_back) = ring.make_room(len, step % 5);
            forgotten.into_iter().flatten().for_each(|at| is_held[at as usize] = false);
            if went_back {
                (lap_end, hand) = (hand, 10);
            }
            assert_eq!(ring.hand(), hand);
            for at in hand..hand + len {
                assert!(!is_held[at as usize], "step {step}: byte {at} is overwritten and was not forgotten");
                is_held[at as usize] = true;
            }
            ring.advance(len);
            hand += len;
            for at in 10..110 {
                let is_unknown = at >= lap_end && at >= hand;
                let (is_held, holds) = (is_held[at as usize], ring.holds(at, at + 1));
                assert!(holds == is_held || is_unknown && holds, "step {step}, byte {at}: {holds}");
            }
        }
    }

    #[test]
    fn a_stretch_round_the_end_meets_both_ends() {
        assert!(meets(90, 20, &(95..96)) && meets(90, 20, &(10..11)) && !meets(90, 20, &(20..90)));
        assert!(meets(20, 90, &(89..99)) && !meets(20, 90, &(90..99)) && !meets(20, 90, &(10..20)));
    }

    #[test]
    fn no_header_makes_a_ring_that_cannot_be() {
        assert_eq!(Ring::resumed(10, 110, 5, 10, true), None);
        assert_eq!(Ring::resumed(10, 110, 50, 40, false), None);
        assert_eq!(Ring::resumed(10, 110, 50, 111, false), None);
        assert!(Ring::resumed(10, 110, 50, 10, true).is_some());
    }
}
