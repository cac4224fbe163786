//! Numbers as `zilstat` shortens them: one decimal below ten of a unit, none above. Four digits and the unit at most,
//! padded to the column's width.

use crate::Scale;

const UNITS: [char; 6] = [' ', 'K', 'M', 'G', 'T', 'P'];

/// A number in a cell of at least this width.
pub fn number(number: u64, scale: Scale, width: usize) -> String {
    let unit = match scale {
        Scale::Text => return format!("{number:>width$}"),
        Scale::Count | Scale::Micros => 1000.0,
        Scale::Bytes => 1024.0,
        Scale::Percent => 100.0,
    };
    // A number that equals the unit stays what it is.
    let (mut short, mut index) = (number as f64, 0);
    while short > unit && index + 1 < UNITS.len() {
        short /= unit;
        index += 1;
    }
    match index {
        0 => format!("{number:>width$}"),
        _ if short < 10.0 => format!("{short:>0$.1}{1}", width - 1, UNITS[index]),
        _ => format!("{:>1$}{2}", short.trunc(), width - 1, UNITS[index]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shortened_as_zilstat_does_it() {
        let count = |raw| number(raw, Scale::Count, 5);
        assert_eq!(
            [0, 999, 1000, 1001, 9999, 10_000, 123_456, 99_960_000].map(count),
            ["    0", "  999", " 1000", " 1.0K", "10.0K", "  10K", " 123K", "  99M"]
        );
        let bytes = |raw| number(raw, Scale::Bytes, 6);
        assert_eq!(
            [1024, 1025, 8192, 12_288, 1 << 20, 1 << 40].map(bytes),
            ["  1024", "  1.0K", "  8.0K", "   12K", " 1024K", " 1024G"]
        );
        assert_eq!([100, 7].map(|raw| number(raw, Scale::Percent, 3)), ["100", "  7"]);
        assert_eq!(number(1 << 62, Scale::Bytes, 5), "4096P");
    }
}
