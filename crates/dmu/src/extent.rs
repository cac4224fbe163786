//! Sets of block numbers kept as runs: what a truncate has freed.

use std::collections::BTreeMap;
use std::ops::Range;

/// A set of `u64`, as disjoint, non-adjacent, half-open runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RunSet(BTreeMap<u64, u64>);

impl RunSet {
    /// Adds `run`, joining whatever it touches.
    pub fn insert(&mut self, run: Range<u64>) {
        if run.is_empty() {
            return;
        }
        let (mut start, mut end) = (run.start, run.end);
        let touching: Vec<u64> =
            self.0.range(..=end).rev().take_while(|&(_, &e)| e >= start).map(|(&s, _)| s).collect();
        for s in touching {
            let e = self.0.remove(&s).expect("the run was just seen");
            start = start.min(s);
            end = end.max(e);
        }
        self.0.insert(start, end);
    }

    pub fn contains(&self, n: u64) -> bool {
        self.end_of(n).is_some()
    }

    /// The end of the run that `n` is in.
    pub fn end_of(&self, n: u64) -> Option<u64> {
        self.0.range(..=n).next_back().map(|(_, &end)| end).filter(|&end| n < end)
    }

    /// The lowest number in the set at or above `from`.
    pub fn next_at(&self, from: u64) -> Option<u64> {
        if self.contains(from) {
            return Some(from);
        }
        self.0.range(from..).next().map(|(&start, _)| start)
    }

    /// Whether any number of `range` is in the set.
    pub fn intersects(&self, range: &Range<u64>) -> bool {
        self.0.range(..range.end).next_back().is_some_and(|(_, &end)| end > range.start)
    }

    /// Whether all of `range` is in the set.
    pub fn covers(&self, range: &Range<u64>) -> bool {
        self.0.range(..=range.start).next_back().is_some_and(|(_, &end)| end >= range.end)
    }
}

#[cfg(test)]
mod tests {
    use super::RunSet;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn a_run_set_is_a_plain_set(runs in prop::collection::vec((0u64..60, 0u64..12), 0..20), lo in 0u64..70, n in 1u64..10) {
            let (mut set, mut plain) = (RunSet::default(), BTreeSet::new());
            for (start, len) in runs {
                set.insert(start..start + len);
                plain.extend(start..start + len);
            }
            for i in 0..80 {
                prop_assert_eq!(set.contains(i), plain.contains(&i));
                let end = plain.contains(&i).then(|| (i..).find(|n| !plain.contains(n))).flatten();
                prop_assert_eq!(set.end_of(i), end);
            }
            let range = lo..lo + n;
            prop_assert_eq!(set.intersects(&range), range.clone().any(|i| plain.contains(&i)));
            prop_assert_eq!(set.covers(&range), range.clone().all(|i| plain.contains(&i)));
        }
    }
}
