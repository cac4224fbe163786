use ondisk::{Compression, CompressionKind, ZstdLevel, props};
use proptest::prelude::*;

use super::blocks;
use crate::{CodecError, compress, compress_into, decompress, worthwhile_limit, zstd_level};

/// All that compress something.
fn kinds() -> impl Iterator<Item = CompressionKind> {
    let functions = |kind: &CompressionKind| {
        !matches!(kind, CompressionKind::Inherit | CompressionKind::On | CompressionKind::Empty)
    };
    CompressionKind::ALL.into_iter().filter(functions)
}

/// Room for any block, however badly it compresses.
fn room(block: &[u8]) -> usize {
    block.len() * 2 + 64
}

proptest! {
    #[test]
    fn compressed_blocks_come_back_padded_or_not(block in blocks()) {
        for kind in kinds() {
            let mut stored = compress(kind, &block, room(&block)).unwrap();
            prop_assert_eq!(&decompress(kind, &stored, block.len()).unwrap(), &block, "{}", kind.name());
            stored.resize(stored.len().next_multiple_of(4096), 0);
            prop_assert_eq!(&decompress(kind, &stored, block.len()).unwrap(), &block, "{} padded", kind.name());
        }
    }

    #[test]
    fn no_bytes_panic_a_decompressor(stored in blocks(), lsize in 0usize..5000) {
        for kind in CompressionKind::ALL {
            if let Ok(block) = decompress(kind, &stored, lsize) {
                prop_assert_eq!(block.len(), lsize);
            }
        }
    }

    #[test]
    fn no_damage_panics_a_decompressor(
        block in blocks(), damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4), cut in any::<prop::sample::Index>()
    ) {
        for kind in kinds() {
            let mut stored = compress(kind, &block, room(&block)).unwrap();
            for (at, byte) in &damage {
                if !stored.is_empty() {
                    let at = at.index(stored.len());
                    stored[at] = *byte;
                }
            }
            stored.truncate(cut.index(stored.len() + 1));
            if let Ok(back) = decompress(kind, &stored, block.len()) {
                prop_assert_eq!(back.len(), block.len());
            }
        }
    }

    #[test]
    fn compression_never_passes_the_room_it_has(block in blocks(), room in 0usize..2000) {
        for kind in kinds() {
            let mut out = vec![0xa5; room + 8];
            let len = compress_into(kind, &block, &mut out[..room]);
            prop_assert!(len.is_none_or(|len| len <= room));
            prop_assert_eq!(&out[room..], &[0xa5; 8]);
            if let Some(len) = len {
                prop_assert_eq!(&decompress(kind, &out[..len], block.len()).unwrap(), &block);
            }
        }
    }

    #[test]
    fn compressing_twice_gives_the_same_bytes(first in blocks(), second in blocks()) {
        for kind in kinds() {
            let once = compress(kind, &first, room(&first));
            let _ = compress(kind, &second, room(&second));
            prop_assert_eq!(once, compress(kind, &first, room(&first)), "{}", kind.name());
        }
    }
}

#[test]
fn every_kind_but_zle_saves_space_on_repeats() {
    let block = b"where the next block goes ".repeat(700);
    for kind in kinds().filter(|&kind| kind != CompressionKind::Off) {
        let stored = compress(kind, &block, worthwhile_limit(block.len()));
        assert_eq!(stored.is_some(), kind != CompressionKind::Zle, "{}", kind.name());
    }
    let mut holes = vec![0; 16 << 10];
    holes.iter_mut().step_by(500).for_each(|byte| *byte = 1);
    assert!(compress(CompressionKind::Zle, &holes, 1000).is_some());
}

#[test]
fn noise_is_not_worth_compressing() {
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    let noise: Vec<u8> = (0..32 << 10).map(|_| next()).collect();
    for kind in kinds() {
        assert_eq!(compress(kind, &noise, worthwhile_limit(noise.len())), None, "{}", kind.name());
    }
}

#[test]
fn an_eighth_must_be_saved() {
    assert_eq!(worthwhile_limit(128 << 10), 112 << 10);
    assert_eq!(worthwhile_limit(512), 448);
    assert_eq!(worthwhile_limit(0), 0);
}

#[test]
fn only_zeros_compress_to_nothing() {
    assert_eq!(compress(CompressionKind::Empty, &[0; 512], 448), Some(vec![]));
    assert_eq!(compress(CompressionKind::Empty, &[1; 512], 448), None);
    assert_eq!(decompress(CompressionKind::Empty, &[], 3), Ok(vec![0; 3]));
}

#[test]
fn property_values_are_no_functions() {
    for kind in [CompressionKind::Inherit, CompressionKind::On] {
        assert_eq!(compress(kind, &[0; 512], 512), None);
        assert_eq!(decompress(kind, &[0; 512], 512), Err(CodecError::UnsupportedCompression(kind)));
    }
}

#[test]
fn lz4_starts_with_its_big_endian_length() {
    // One literal run of five bytes: what any LZ4 encoder makes of a block too short for matches.
    let stored = compress(CompressionKind::Lz4, b"hello", 64).unwrap();
    assert_eq!(stored, b"\0\0\0\x06\x50hello");
    let past_the_end = decompress(CompressionKind::Lz4, b"\0\0\0\x07\x50hello", 5);
    assert!(matches!(past_the_end, Err(CodecError::Corrupt { psize: 10, lsize: 5, .. })));
    assert!(decompress(CompressionKind::Lz4, &stored, 4).is_err(), "a longer block");
    assert!(decompress(CompressionKind::Lz4, &stored, 6).is_err(), "a shorter block");
}

#[test]
fn zle_and_lzjb_read_as_the_format_says() {
    assert_eq!(decompress(CompressionKind::Zle, b"\x01ab\x40\x42\x00c", 7), Ok(b"ab\0\0\0\0c".to_vec()));
    assert_eq!(decompress(CompressionKind::Zle, b"\xff", 192), Ok(vec![0; 192]));
    assert!(decompress(CompressionKind::Zle, b"\xff", 191).is_err());
    // Two bytes as they are, then a copy of 3 + 1 bytes from 2 bytes back.
    assert_eq!(decompress(CompressionKind::Lzjb, b"\x04ab\x04\x02", 6), Ok(b"ababab".to_vec()));
    assert!(decompress(CompressionKind::Lzjb, b"\x04ab\x04\x03", 6).is_err(), "from before the start");
    assert!(decompress(CompressionKind::Lzjb, b"\x04ab\x04\x00", 6).is_err(), "from itself");
}

#[test]
fn zstd_frames_have_a_header_and_no_magic() {
    let block = [7; 4096];
    let stored = compress(CompressionKind::Zstd, &block, 512).unwrap();
    assert_eq!(usize::from(stored[3]) + 8, stored.len());
    assert_eq!(stored[..3], [0, 0, 0]);
    assert_eq!(stored[4], 3, "the level");
    assert_ne!(stored[8..12], [0x28, 0xb5, 0x2f, 0xfd], "the magic of a zstd file");
}

#[test]
fn every_level_of_zstd_is_written_as_such() {
    let block: Vec<u8> = (0..40_000u32).flat_map(|at| (at * at / 7 % 1000).to_le_bytes()).collect();
    let values = props::dataset_index("compression").expect("a property").values;
    let mut sizes = std::collections::BTreeMap::new();
    for &(name, word) in values.iter().filter(|(name, _)| name.starts_with("zstd")) {
        let how = Compression::from_word(word).unwrap();
        let stored = compress(how, &block, room(&block)).unwrap();
        assert_eq!(
            decompress(CompressionKind::Zstd, &stored, block.len()).as_deref(),
            Ok(&block[..]),
            "{name}"
        );
        let level = if how.level == ZstdLevel::DEFAULT { ZstdLevel::new(3) } else { how.level };
        assert_eq!(zstd_level(&stored), Some(level), "{name}");
        sizes.insert(level.level().unwrap(), stored.len());
    }
    assert_eq!(sizes.len(), 19 + 21, "levels of the format");
    assert!(sizes[&19] < sizes[&1] && sizes[&1] < sizes[&-10], "{sizes:?}");
    let unknown = Compression { kind: CompressionKind::Zstd, level: ZstdLevel::new(60) };
    assert_eq!(compress(unknown, &block, room(&block)), None);
}
