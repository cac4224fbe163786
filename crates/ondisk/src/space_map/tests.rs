use proptest::prelude::*;

use super::*;

fn run(two_words: bool, with_vdev: bool) -> impl Strategy<Value = Run> {
    let offset = if two_words { 0_u64..1 << 62 } else { 0_u64..1 << 46 };
    let length =
        prop_oneof![1_u64..100, 1_u64..1 << 20, if two_words { 1_u64..1 << 38 } else { 1_u64..1 << 20 }];
    (any::<bool>(), offset, length, 0_u32..1 << 24).prop_map(move |(free, offset, length, vdev)| Run {
        map_type: MapType::of(free),
        offset,
        length,
        vdev: with_vdev.then(|| VdevId::new(vdev)),
    })
}

/// Runs in pieces, joined again where one goes on where the last ended.
fn joined(entries: impl Iterator<Item = Result<SpaceMapEntry, OndiskError>>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for entry in entries {
        let SpaceMapEntry::Run(run) = entry.expect("our own entries") else { continue };
        match runs.last_mut() {
            Some(last)
                if last.map_type == run.map_type
                    && last.offset + last.length == run.offset
                    && last.vdev == run.vdev =>
            {
                last.length += run.length;
            }
            _ => runs.push(run),
        }
    }
    runs
}

fn encoded(runs: &[Run], length: u64, two_words: bool) -> Vec<u8> {
    let mut encoder = Encoder::new(length, 512, two_words);
    for run in runs {
        encoder.debug(run.map_type, 1, Txg::new(77));
        encoder.run(run);
    }
    encoder.finish()
}

/// What the runs read back as: long ones in two words name vdev 0, and neighbours join.
fn expected(runs: &[Run]) -> Vec<(MapType, u64, u64)> {
    runs.iter().map(|run| (run.map_type, run.offset, run.length)).collect()
}

fn sum(runs: &[Run]) -> u128 {
    runs.iter().map(|run| u128::from(run.length)).sum()
}

proptest! {
    #[test]
    fn runs_survive_encoding(run in run(false, false), two in any::<bool>(), start in 0_u64..64) {
        let read = joined(decode(&encoded(&[run], start * 8, two)));
        let said: Vec<_> = read.iter().map(|run| (run.map_type, run.offset, run.length)).collect();
        prop_assert_eq!(said, expected(&[run]));
    }

    #[test]
    fn runs_of_all_vdevs_survive_encoding(runs in proptest::collection::vec(run(true, true), 0..40), start in 0_u64..64) {
        let bytes = encoded(&runs, start * 8, true);
        let read = joined(decode(&bytes));
        prop_assert_eq!(sum(&read), sum(&runs));
        prop_assert!(read.iter().all(|piece| runs.iter().any(|run| run.vdev == piece.vdev && run.offset <= piece.offset)));
    }

    #[test]
    fn no_entry_crosses_a_block(runs in proptest::collection::vec(run(true, true), 0..60), start in 0_u64..64) {
        let length = start * 8;
        let bytes = encoded(&runs, length, true);
        // Each block decodes alone to as much as all together.
        let first = (512 - length % 512) as usize;
        let (head, tail) = bytes.split_at(first.min(bytes.len()));
        let pieces = std::iter::once(head).chain(tail.chunks(512));
        let alone: u128 = pieces.map(|block| sum(&joined(decode(block)))).sum();
        prop_assert_eq!(alone, sum(&runs));
    }

    #[test]
    fn any_bytes_decode_or_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let entries: Vec<_> = decode(&bytes).collect();
        prop_assert!(entries.len() <= bytes.len().div_ceil(8));
        prop_assert!(entries.iter().rev().skip(1).all(Result::is_ok));
        let _ = SpaceMapPhys::decode(&bytes);
    }
}

#[test]
fn words_have_the_formats_bits() {
    let run = Run { map_type: MapType::Free, offset: 5, length: 3, vdev: None };
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
    let mut encoder = Encoder::new(0, 4096, true);
    encoder.run(&run);
    encoder.run(&Run { vdev: Some(VdevId::new(9)), ..run });
    encoder.debug(MapType::Free, 2, Txg::new(100));
    let bytes = encoder.finish();
    assert_eq!(word(&bytes[..8]), 5 << 16 | 1 << 15 | 2);
    assert_eq!(word(&bytes[8..16]), 0b11 << 62 | 2 << 24 | 9);
    assert_eq!(word(&bytes[16..24]), 1 << 63 | 5);
    assert_eq!(word(&bytes[24..]), 0b10 << 62 | 1 << 60 | 2 << 50 | 100);
}

#[test]
fn a_two_word_entry_that_breaks_off_is_an_error() {
    let mut encoder = Encoder::new(0, 4096, true);
    encoder.run(&Run { map_type: MapType::Alloc, offset: 0, length: 1, vdev: Some(VdevId::new(0)) });
    let bytes = encoder.finish();
    let entries: Vec<_> = decode(&bytes[..8]).collect();
    assert!(matches!(entries[..], [Err(_)]));
}

#[test]
fn without_two_word_entries_long_runs_are_split() {
    let run = Run { map_type: MapType::Alloc, offset: 7, length: 100_000, vdev: None };
    assert_eq!(encoded(&[run], 0, false).len(), 8 + 4 * 8);
    assert_eq!(encoded(&[run], 0, true).len(), 8 + 2 * 8);
}

#[test]
fn segments_count_in_the_bucket_of_their_size() {
    let mut phys = SpaceMapPhys::default();
    for bytes in [512, 1023, 1024, 1 << 40, 1 << 42, 100] {
        phys.count_free(bytes, 9);
    }
    let counted: Vec<_> =
        phys.histogram.iter().enumerate().filter(|(_, n)| n.get() != 0).map(|(i, n)| (i, n.get())).collect();
    // Four times 2^40 bytes stand for the segment of 2^42 that has no bucket of its own.
    assert_eq!(counted, [(0, 2), (1, 1), (31, 5)]);
}

#[test]
fn an_old_bonus_reads_without_a_histogram() {
    let phys = SpaceMapPhys { length: U64::new(8), allocated: I64::new(-512), ..SpaceMapPhys::default() };
    assert_eq!(SpaceMapPhys::decode(&phys.as_bytes()[..SPACE_MAP_BYTES_V0]), Ok(phys));
    assert!(SpaceMapPhys::decode(&phys.as_bytes()[..23]).is_err());
}
