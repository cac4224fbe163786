//! The tables of deduplicated blocks, as `zpool status -D` shows them.

use control::DedupInfo;
use engine::nice;
use std::fmt::Write as _;

/// The lines behind a pool's errors.
pub fn dedup(info: &DedupInfo, exact: bool) -> String {
    if info.entries == 0 {
        return "\n dedup: no DDT entries\n".to_owned();
    }
    let (disk, core) = (number(info.disk_bytes, exact), number(info.core_bytes, exact));
    let mut text = format!("\n dedup: DDT entries {}, size {disk} on disk, {core} in core\n\n", info.entries);
    text.push_str("bucket              allocated                       referenced          \n");
    text.push_str("______   ______________________________   ______________________________\n");
    let names = ["blocks", "LSIZE", "PSIZE", "DSIZE"];
    put(&mut text, "refcnt", &names.repeat(2));
    let rules = ["------", "-----", "-----", "-----"];
    put(&mut text, "------", &rules.repeat(2));
    let mut total = [0_u64; 8];
    for (n, row) in info.rows.iter().enumerate().filter(|(_, row)| row[0] > 0) {
        total.iter_mut().zip(row).for_each(|(sum, figure)| *sum = sum.saturating_add(*figure));
        put_row(&mut text, &number(1 << n.min(63), exact), row, exact);
    }
    put_row(&mut text, "Total", &total, exact);
    text.push('\n');
    text
}

fn put_row(text: &mut String, name: &str, row: &[u64; 8], exact: bool) {
    let cell = |(at, figure): (usize, &u64)| match at % 4 {
        0 => number(*figure, exact),
        _ if exact => figure.to_string(),
        _ => nice::bytes(*figure),
    };
    put(text, name, &row.iter().enumerate().map(cell).collect::<Vec<_>>());
}

fn put(text: &mut String, name: &str, cells: &[impl AsRef<str>]) {
    _ = write!(text, "{name:>6}");
    for (at, cell) in cells.iter().enumerate() {
        let width = if at % 4 == 0 { 6 } else { 5 };
        _ = write!(text, "   {:>width$}", cell.as_ref());
    }
    text.push('\n');
}

fn number(number: u64, exact: bool) -> String {
    if exact { number.to_string() } else { nice::number(number) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_without_entries_says_so() {
        assert_eq!(dedup(&DedupInfo::default(), false), "\n dedup: no DDT entries\n");
    }

    #[test]
    fn entries_are_shown_by_references_with_their_sum() {
        let once = [3, 3 << 17, 3 << 16, 3 << 16, 3, 3 << 17, 3 << 16, 3 << 16];
        let twice = [1, 1 << 17, 512, 512, 2, 2 << 17, 1024, 1024];
        let info =
            DedupInfo { entries: 4, disk_bytes: 1536, core_bytes: 320, rows: vec![once, [0; 8], twice] };
        let expected = "
 dedup: DDT entries 4, size 1.50K on disk, 320 in core

bucket              allocated                       referenced          \n\
______   ______________________________   ______________________________
refcnt   blocks   LSIZE   PSIZE   DSIZE   blocks   LSIZE   PSIZE   DSIZE
------   ------   -----   -----   -----   ------   -----   -----   -----
     1        3    384K    192K    192K        3    384K    192K    192K
     4        1    128K    512B    512B        2    256K      1K      1K
 Total        4    512K    192K    192K        5    640K    193K    193K

";
        assert_eq!(dedup(&info, false), expected);
        assert!(dedup(&info, true).contains("size 1536 on disk, 320 in core"));
        assert!(dedup(&info, true).contains("\n     4        1   131072     512     512        2"));
    }
}
