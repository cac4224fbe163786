//! A leaf's dirty time log (DTL): the txgs in which it missed writes.
//!
//! A leaf that is out of use, or fails a write, lacks blocks that were born meanwhile and nothing
//! else. So the txgs are noted, and only blocks born in them have to be written again when the
//! leaf is back ("resilver"), also in another program that imports the pool.
//!
//! ```text
//!   whole ──write or flush failed, taken out, not found──► misses ──back──► stale ──resilver──► whole
//!                                                         └ each txg is added to the DTL
//! ```
//! A failure may come when its txg's DTL has been written down already; so the txg before the one that
//! is being noted counts as missed, too. What is not written down yet is known by the leaf's labels,
//! which stay older than its siblings' until it is.
//!
//! What a group of leaves lacks follows from its children's DTLs: a txg that more of them missed than
//! the group can do without ([`Dtl::in_more_than`]).

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use units::Txg;

/// A set of txgs: ranges, none touching another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dtl(BTreeMap<u64, u64>);

impl Dtl {
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

    /// Every txg: the DTL of a leaf that is not there.
    pub(crate) fn everything() -> Self {
        Self(BTreeMap::from([(0, u64::MAX)]))
    }

    /// The txgs that more than `most` of `dtls` hold.
    pub(crate) fn in_more_than(most: usize, dtls: &[Self]) -> Self {
        let mut edges = BTreeMap::<u64, isize>::new();
        for (&first, &last) in dtls.iter().flat_map(|dtl| &dtl.0) {
            *edges.entry(first).or_default() += 1;
            // A range that ends with the last txg there can be has no edge behind it.
            if let Some(behind) = last.checked_add(1) {
                *edges.entry(behind).or_default() -= 1;
            }
        }
        let (mut held, mut since, mut out) = (0_isize, None, Self::default());
        for (txg, change) in edges {
            held += change;
            match (held.unsigned_abs() > most, since) {
                (true, None) => since = Some(txg),
                (false, Some(first)) => {
                    out.0.insert(first, txg - 1);
                    since = None;
                }
                _ => {}
            }
        }
        out.0.extend(since.map(|first| (first, u64::MAX)));
        out
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
            let (mut ranges, mut plain) = (Dtl::default(), BTreeSet::new());
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
    fn a_txg_that_too_many_missed_is_found_whatever_the_ranges() {
        let mut word = 11_u64;
        let mut draw = |below: u64| {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (word >> 33) % below
        };
        for _ in 0..500 {
            let mut dtls = vec![Dtl::default(); draw(5) as usize];
            for dtl in &mut dtls {
                for _ in 0..draw(4) {
                    let first = draw(30);
                    dtl.add(txgs(first, first + draw(8)));
                }
                if draw(8) == 0 {
                    *dtl = Dtl::everything();
                }
            }
            for most in 0..4 {
                let found = Dtl::in_more_than(most, &dtls);
                for txg in (0..50).chain([u64::MAX - 1, u64::MAX]).map(Txg::new) {
                    let missed = dtls.iter().filter(|dtl| dtl.contains(txg)).count();
                    assert_eq!(found.contains(txg), missed > most, "{txg} in more than {most} of {dtls:?}");
                }
            }
        }
    }

    #[test]
    fn an_empty_range_adds_nothing() {
        let mut ranges = Dtl::default();
        ranges.add(txgs(5, 4));
        assert!(ranges.is_empty() && ranges.bounds().is_none());
        ranges.add(txgs(5, 5));
        ranges.add(txgs(8, 9));
        assert_eq!(ranges.bounds(), Some(txgs(5, 9)));
    }
}
