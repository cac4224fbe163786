//! Which snapshots of a dataset `zfs destroy` means: `a`, `a%c` for these two and all made between them, `%c`, `a%`,
//! `%`, and lists of such with `,`.

/// Those that `spec` means of `snapshots`, which are what stands behind the `@`, the oldest first; in that order, each
/// once. What `spec` names and is not there means nothing.
pub fn pick<'a>(spec: &str, snapshots: &[&'a str]) -> Vec<&'a str> {
    let ranges: Vec<_> = spec.split(',').filter_map(|word| range(word, snapshots)).collect();
    let is_meant = |place: &usize| ranges.iter().any(|range| range.contains(place));
    (0..snapshots.len()).filter(is_meant).map(|place| snapshots[place]).collect()
}

/// The places that one word of a list means.
fn range(word: &str, snapshots: &[&str]) -> Option<std::ops::RangeInclusive<usize>> {
    let place = |name: &str| snapshots.iter().position(|snapshot| *snapshot == name);
    let (first, last) = word.split_once('%').unwrap_or((word, word));
    let is_open = |end: &str| end.is_empty() && word.contains('%');
    let first = if is_open(first) { 0 } else { place(first)? };
    let last = if is_open(last) { snapshots.len().checked_sub(1)? } else { place(last)? };
    Some(first..=last)
}

/// Rows of snapshots that nothing lies between, as their first and last: of `all`, the oldest first, those that are
/// `picked`, in the same order.
pub fn runs<'a>(all: &[&'a str], picked: &[&str]) -> Vec<(&'a str, &'a str)> {
    let rows = all.chunk_by(|a, b| picked.contains(a) == picked.contains(b));
    let ends = |row: &[&'a str]| Some((*row.first()?, *row.last()?));
    rows.filter_map(ends).filter(|(first, _)| picked.contains(first)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [&str; 5] = ["a", "b", "c", "d", "e"];

    #[test]
    fn a_name_means_itself_and_what_is_not_there_means_nothing() {
        assert_eq!(pick("c", &ALL), ["c"]);
        for nothing in ["", "x", "x,y", ",", "@"] {
            assert!(pick(nothing, &ALL).is_empty(), "{nothing}");
        }
    }

    #[test]
    fn a_range_has_its_ends_and_may_be_open() {
        assert_eq!(pick("b%d", &ALL), ["b", "c", "d"]);
        assert_eq!(pick("c%c", &ALL), ["c"]);
        assert_eq!(pick("%b", &ALL), ["a", "b"]);
        assert_eq!(pick("d%", &ALL), ["d", "e"]);
        assert_eq!(pick("%", &ALL), ALL);
        assert!(pick("%", &[]).is_empty());
    }

    #[test]
    fn a_range_with_an_end_that_is_not_there_or_the_wrong_way_round_means_nothing() {
        for nothing in ["b%x", "x%b", "x%", "%x", "d%b", "a%b%c"] {
            assert!(pick(nothing, &ALL).is_empty(), "{nothing}");
        }
    }

    #[test]
    fn lists_are_in_order_of_age_and_have_nothing_twice() {
        assert_eq!(pick("e,a,x,a", &ALL), ["a", "e"]);
        assert_eq!(pick("d%,b%d,%a", &ALL), ALL);
        assert_eq!(pick("e%b,c", &ALL), ["c"]);
    }

    #[test]
    fn runs_end_where_a_snapshot_stays() {
        assert_eq!(runs(&ALL, &["a", "b", "d"]), [("a", "b"), ("d", "d")]);
        assert_eq!(runs(&ALL, &ALL), [("a", "e")]);
        assert!(runs(&ALL, &[]).is_empty());
    }
}
