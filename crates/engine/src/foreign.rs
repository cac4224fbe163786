//! Telling what a device holds that is no pool, from its first bytes.

/// How much of a device has to be looked at.
pub const LOOK_BYTES: usize = 128 << 10;

/// Where something has its mark, and what the mark is.
const MARKS: [(usize, &[u8], &str); 8] = [
    (0, b"XFSB", "xfs"),
    (0x10040, b"_BHRfS_M", "btrfs"),
    (0x1_0000 + 0x34, b"ReIsEr", "reiserfs"),
    (3, b"NTFS    ", "ntfs"),
    (0x52, b"FAT32   ", "vfat"),
    (4086, b"SWAPSPACE2", "swap"),
    (512, b"LABELONE", "LVM2_member"),
    (0, b"LUKS\xba\xbe", "crypto_LUKS"),
];

const EXT_MAGIC: (usize, [u8; 2]) = (0x438, [0x53, 0xef]);
const EXT_COMPATIBLE: usize = 0x45c;
const EXT_INCOMPATIBLE: usize = 0x460;
const HAS_JOURNAL: u32 = 4;
/// Extents, 64 bits, flexible groups: what only ext4 has.
const ONLY_EXT4: u32 = 0x40 | 0x80 | 0x200;

/// The type of the file system (or swap, or volume group) that begins with these bytes.
pub fn file_system(start: &[u8]) -> Option<&'static str> {
    let has = |at: usize, mark: &[u8]| start.get(at..at + mark.len()) == Some(mark);
    if has(EXT_MAGIC.0, &EXT_MAGIC.1) {
        return Some(ext(start));
    }
    MARKS.iter().find(|(at, mark, _)| has(*at, mark)).map(|(_, _, name)| *name)
}

fn ext(start: &[u8]) -> &'static str {
    let word =
        |at: usize| start.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes);
    match (word(EXT_INCOMPATIBLE) & ONLY_EXT4, word(EXT_COMPATIBLE) & HAS_JOURNAL) {
        (0, 0) => "ext2",
        (0, _) => "ext3",
        _ => "ext4",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_told_apart_and_zeros_have_none() {
        let with = |at: usize, mark: &[u8]| {
            let mut start = vec![0; LOOK_BYTES];
            start[at..at + mark.len()].copy_from_slice(mark);
            start
        };
        assert_eq!(file_system(&[0; LOOK_BYTES]), None);
        assert_eq!(file_system(b"XFS"), None);
        for (at, mark, name) in MARKS {
            assert_eq!(file_system(&with(at, mark)), Some(name));
        }
        let mut ext = with(0x438, &[0x53, 0xef]);
        assert_eq!(file_system(&ext), Some("ext2"));
        ext[EXT_COMPATIBLE] = 4;
        assert_eq!(file_system(&ext), Some("ext3"));
        ext[EXT_INCOMPATIBLE] = 0x40;
        assert_eq!(file_system(&ext), Some("ext4"));
    }
}
