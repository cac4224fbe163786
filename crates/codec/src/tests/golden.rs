//! Blocks that OpenZFS wrote.

use ondisk::{ChecksumKind, CompressionKind, ZstdLevel};

use crate::{Salt, checksum, decompress, zstd_level};

const BLOCKS: &str = include_str!("openzfs_blocks.txt");

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect()
}

struct Golden {
    compression: CompressionKind,
    checksum: ChecksumKind,
    lsize: usize,
    sums: Vec<u64>,
    content: u64,
    stored: Vec<u8>,
}

fn golden(line: &str) -> Golden {
    let [_, _, compression, checksum, lsize, sums, content, stored] =
        line.split(' ').collect::<Vec<_>>()[..].try_into().unwrap();
    let word = |hex| u64::from_str_radix(hex, 16).unwrap();
    Golden {
        compression: CompressionKind::ALL.into_iter().find(|kind| kind.name() == compression).unwrap(),
        checksum: ChecksumKind::ALL.into_iter().find(|kind| kind.name() == checksum).unwrap(),
        lsize: lsize.parse().unwrap(),
        sums: sums.split(':').map(word).collect(),
        content: word(content),
        stored: bytes(stored),
    }
}

#[test]
fn blocks_written_by_openzfs_check_and_decompress() {
    let salt = BLOCKS.lines().find_map(|line| line.strip_prefix("# salt ")).map(bytes).unwrap();
    let salt = Salt::new(salt.try_into().unwrap());
    let lines: Vec<_> = BLOCKS.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(lines.len(), 16, "nine compressions, seven checksums");
    for line in lines {
        let golden = golden(line);
        let what = &line[..40];
        assert_eq!(
            checksum(golden.checksum, &golden.stored, Some(&salt)).unwrap()[..],
            golden.sums,
            "{what}"
        );
        let block = decompress(golden.compression, &golden.stored, golden.lsize).unwrap();
        let digest = checksum(ChecksumKind::Sha256, &block, None).unwrap();
        assert_eq!(digest[0], golden.content, "{what}");
    }
}

#[test]
fn the_levels_of_blocks_written_by_openzfs_are_read_back() {
    for (dataset, level) in [("whirl/zstd ", 3), ("whirl/zstd-19 ", 19), ("whirl/zstd-fast-10 ", -10)] {
        let line = BLOCKS.lines().find(|line| line.starts_with(dataset)).unwrap();
        let stored = golden(line).stored;
        assert_eq!(zstd_level(&stored).and_then(ZstdLevel::level), Some(level), "{dataset}");
    }
}
