//! Which groups a leaf missed: what OpenZFS calls its dirty time log.
//!
//! A leaf that is out of use, or fails a write, lacks blocks that were born meanwhile and nothing
//! else. So the groups are noted, and only blocks born in them have to be written again when the
//! leaf is back ("resilver"), also in another program that imports the pool.
//!
//! ```text
//!   whole ──write or flush failed, taken out, not found──► misses ──back──► stale ──resilver──► whole
//!                                                         └ each group is added to the ranges
//! ```
//! A failure may come when its group's ranges have been written down already; so the group before
//! the one that is being noted counts as missed, too. What is not written down yet is known by the
//! leaf's labels, which stay older than its siblings' until it is.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use units::Txg;

/// Ranges of groups, none touching another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TxgRanges(BTreeMap<u64, u64>);

impl TxgRanges {
    /// Adds a range; one that is empty adds nothing.
    pub fn add(&mut self, range: RangeInclusive<Txg>) {
        let (mut first, mut last) = (range.start().get(), range.end().get());
        if first > last {
            return;
        }
        let touching = self.0.range(..=last.saturating_add(1)).rev();
        let touching: Vec<(u64, u64)> = touching
            .map(|(&first, &last)| (first, last))
            .take_while(|(_, end)| end.saturating_add(1) >= first)
            .collect();
        for (start, end) in touching {
            self.0.remove(&start);
            (first, last) = (first.min(start), last.max(end));
        }
        self.0.insert(first, last);
    }

    /// Takes away all groups up to `txg`.
    pub fn remove_up_to(&mut self, txg: Txg) {
        let rest = self.0.split_off(&txg.get().saturating_add(1));
        let cut = self.0.pop_last().filter(|(_, last)| *last > txg.get());
        self.0 = rest;
        if let Some((_, last)) = cut {
            self.0.insert(txg.get() + 1, last);
        }
    }

    /// Whether a group is among them.
    #[must_use]
    pub fn contains(&self, txg: Txg) -> bool {
        self.0.range(..=txg.get()).next_back().is_some_and(|(_, last)| *last >= txg.get())
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first and the last group.
    #[must_use]
    pub fn bounds(&self) -> Option<RangeInclusive<Txg>> {
        let (first, _) = self.0.first_key_value()?;
        let (_, last) = self.0.last_key_value()?;
        Some(Txg::new(*first)..=Txg::new(*last))
    }

    /// The ranges in order.
    pub fn iter(&self) -> impl Iterator<Item = RangeInclusive<Txg>> + '_ {
        self.0.iter().map(|(&first, &last)| Txg::new(first)..=Txg::new(last))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn txgs(first: u64, last: u64) -> RangeInclusive<Txg> {
        Txg::new(first)..=Txg::new(last)
    }

    #[test]
    fn ranges_hold_what_a_plain_set_holds() {
        let mut word = 7_u64;
        let mut draw = |below: u64| {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (word >> 33) % below
        };
        for _ in 0..200 {
            let (mut ranges, mut plain) = (TxgRanges::default(), BTreeSet::new());
            for _ in 0..12 {
                let (first, len) = (draw(40), draw(6));
                if draw(5) == 0 {
                    ranges.remove_up_to(Txg::new(first));
                    plain.retain(|txg| *txg > first);
                } else {
                    ranges.add(txgs(first, first + len));
                    plain.extend(first..=first + len);
                }
                let all: Vec<u64> = ranges.iter().flat_map(|r| r.start().get()..=r.end().get()).collect();
                assert_eq!(all, plain.iter().copied().collect::<Vec<_>>());
                assert!((0..50).all(|txg| ranges.contains(Txg::new(txg)) == plain.contains(&txg)));
                let touching =
                    |(a, b): (RangeInclusive<Txg>, RangeInclusive<Txg>)| a.end().next() >= *b.start();
                assert!(!ranges.iter().zip(ranges.iter().skip(1)).any(touching));
            }
        }
    }

    #[test]
    fn an_empty_range_adds_nothing() {
        let mut ranges = TxgRanges::default();
        ranges.add(txgs(5, 4));
        assert!(ranges.is_empty() && ranges.bounds().is_none());
        ranges.add(txgs(5, 5));
        ranges.add(txgs(8, 9));
        assert_eq!(ranges.bounds(), Some(txgs(5, 9)));
    }
}
