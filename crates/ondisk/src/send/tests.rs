use proptest::prelude::*;

use super::*;
use crate::ByteOrder;

/// Where the words of a type's own are, counted from the record's start: of 64 bits, of 32 bits. By hand, from the
/// pictures at the structures.
fn words(drr_type: DrrType) -> (Vec<usize>, Vec<usize>, usize) {
    let (quads, words, len): (&[usize], &[usize], usize) = match drr_type {
        DrrType::Begin => (&[0, 8, 16, 32, 40], &[24, 28], 304),
        DrrType::Object => (&[0, 32, 48], &[8, 12, 16, 20, 28], 56),
        DrrType::Freeobjects => (&[0, 8, 16], &[], 24),
        DrrType::Write => (&[0, 16, 24, 32, 48, 56, 64, 72, 80, 88], &[8, 12], 136),
        DrrType::Free | DrrType::Redact => (&[0, 8, 16, 24], &[], 32),
        DrrType::End => (&[0, 8, 16, 24, 32], &[], 40),
        DrrType::WriteByref => (&[0, 8, 16, 24, 32, 40, 48, 64, 72, 80, 88, 96], &[], 104),
        DrrType::Spill => (&[0, 8, 16, 32], &[76], 80),
        DrrType::WriteEmbedded => (&[0, 8, 16, 24], &[40, 44], 48),
        DrrType::ObjectRange => (&[0, 8, 16], &[], 64),
    };
    let at = |list: &[usize]| list.iter().map(|at| at + 8).collect::<Vec<_>>();
    (at(quads), at(words), len + 8)
}

/// A record of any bytes where its type has fields, and zeros elsewhere.
fn record(drr_type: DrrType, noise: &[u8]) -> [u8; RECORD_BYTES] {
    let mut bytes = [0; RECORD_BYTES];
    bytes.copy_from_slice(&noise[..RECORD_BYTES]);
    bytes[..4].copy_from_slice(&drr_type.raw().to_le_bytes());
    if drr_type == DrrType::Begin {
        bytes[8..16].copy_from_slice(&BACKUP_MAGIC.to_le_bytes());
    } else {
        bytes[words(drr_type).2..CHECKSUM_AT].fill(0);
    }
    bytes
}

/// The same record as a big-endian machine sends it.
fn foreign(drr_type: DrrType, record: &[u8; RECORD_BYTES]) -> [u8; RECORD_BYTES] {
    let mut bytes = *record;
    let (mut quads, mut halves, _) = words(drr_type);
    halves.extend([0, 4]);
    if drr_type != DrrType::Begin {
        quads.extend((CHECKSUM_AT..RECORD_BYTES).step_by(8));
    }
    quads.into_iter().for_each(|at| bytes[at..at + 8].reverse());
    halves.into_iter().for_each(|at| bytes[at..at + 4].reverse());
    bytes
}

proptest! {
    #[test]
    fn a_record_survives_in_both_orders(noise in prop::collection::vec(any::<u8>(), RECORD_BYTES)) {
        for drr_type in DrrType::ALL {
            let bytes = record(drr_type, &noise);
            let ours = DrrRecord::decode(&bytes, ByteOrder::Little).expect("a known type");
            prop_assert_eq!(ours.encode(), bytes);
            prop_assert_eq!(ours.body.drr_type(), drr_type);
            let theirs = DrrRecord::decode(&foreign(drr_type, &bytes), ByteOrder::Big);
            prop_assert_eq!(theirs, Ok(ours));
        }
    }

    #[test]
    fn any_bytes_decode_or_are_refused(noise in prop::collection::vec(any::<u8>(), RECORD_BYTES), kind in 0_u8..16) {
        let mut bytes = [0; RECORD_BYTES];
        bytes.copy_from_slice(&noise);
        bytes[..4].copy_from_slice(&[kind, 0, 0, 0]);
        for order in [ByteOrder::Little, ByteOrder::Big] {
            if let Ok(record) = DrrRecord::decode(&bytes, order)
                && let Ok(len) = record.payload_bytes() {
                prop_assert!(len <= BLOCK_PAYLOAD_MAX_BYTES || record.body.drr_type() == DrrType::Begin);
            }
        }
    }
}

#[test]
fn types_have_the_formats_numbers() {
    for (raw, drr_type) in (0..).zip(DrrType::ALL) {
        assert_eq!((drr_type.raw(), DrrType::from_raw(raw)), (raw, Ok(drr_type)));
    }
    assert!(DrrType::from_raw(11).is_err() && DrrType::from_raw(u32::MAX).is_err());
}

#[test]
fn the_order_of_a_stream_is_told_by_its_magic() {
    let begin = DrrRecord::new(DrrBody::Begin(DrrBegin::new(HeaderType::Substream, StreamFeatures::NONE)));
    let bytes = begin.encode();
    assert_eq!(DrrRecord::order_of(&bytes), Ok(ByteOrder::Little));
    assert_eq!(DrrRecord::order_of(&foreign(DrrType::Begin, &bytes)), Ok(ByteOrder::Big));
    let mut bad = bytes;
    bad[8] ^= 1;
    assert!(DrrRecord::order_of(&bad).is_err());
    assert!(DrrRecord::decode(&bad, ByteOrder::Little).is_err());
}

#[test]
fn a_begin_says_what_it_was_given() {
    let features = StreamFeatures::SA_SPILL.with(StreamFeatures::ZSTD);
    let begin = DrrBegin::new(HeaderType::Compound, features).named("whirl/fs@1");
    assert_eq!((begin.header_type(), begin.features()), (Ok(HeaderType::Compound), features));
    assert_eq!(begin.name(), Ok("whirl/fs@1"));
    assert_eq!(begin.named(&"n".repeat(300)).name().map(str::len), Ok(255));
    let endless = DrrBegin { toname: [b'n'; TONAME_BYTES], ..begin };
    assert!(endless.name().is_err());
    assert!(!features.has_any(StreamFeatures::RAW) && features.unknown() == StreamFeatures::NONE);
    assert_eq!(StreamFeatures::DEDUP.with(features).unknown(), StreamFeatures::DEDUP);
    assert!(DrrBegin { version_info: 3.into(), ..begin }.header_type().is_err());
}

#[test]
fn payloads_are_as_long_as_their_records_say() {
    let len = |body| DrrRecord::new(body).payload_bytes().ok();
    let object = DrrObject { bonus_bytes: 177.into(), ..DrrObject::default() };
    assert_eq!(len(DrrBody::Object(object)), Some(184));
    let raw = DrrObject { raw_bonus_bytes: 320.into(), ..object };
    assert_eq!(len(DrrBody::Object(raw)), Some(320));
    let write = DrrWrite { logical_bytes: 4096.into(), compressed_bytes: 512.into(), ..DrrWrite::default() };
    assert_eq!(len(DrrBody::Write(write)), Some(4096));
    assert_eq!(len(DrrBody::Write(DrrWrite { compression: 15, ..write })), Some(512));
    let spill = DrrSpill { length: 1024.into(), ..DrrSpill::default() };
    assert_eq!(len(DrrBody::Spill(spill)), Some(1024));
    assert_eq!(len(DrrBody::Spill(DrrSpill { compressed_bytes: 512.into(), ..spill })), Some(512));
    let embedded = DrrWriteEmbedded { physical_bytes: 33.into(), ..DrrWriteEmbedded::default() };
    assert_eq!(len(DrrBody::WriteEmbedded(embedded)), Some(40));
    assert_eq!(len(DrrBody::Free(DrrFree { length: 1_u64.into(), ..DrrFree::default() })), Some(0));
}

#[test]
fn payloads_beyond_the_largest_block_are_refused() {
    let refused = |body| DrrRecord::new(body).payload_bytes().is_err();
    let huge = (BLOCK_PAYLOAD_MAX_BYTES + 512).into();
    assert!(refused(DrrBody::Write(DrrWrite { logical_bytes: huge, ..DrrWrite::default() })));
    let unpacked_huge = DrrWrite {
        logical_bytes: huge,
        compression: 15,
        compressed_bytes: 512.into(),
        ..DrrWrite::default()
    };
    assert!(refused(DrrBody::Write(unpacked_huge)));
    assert!(refused(DrrBody::Spill(DrrSpill { length: huge, ..DrrSpill::default() })));
    assert!(refused(DrrBody::Object(DrrObject { bonus_bytes: 20_000.into(), ..DrrObject::default() })));
    assert!(refused(DrrBody::Object(DrrObject { raw_bonus_bytes: u32::MAX.into(), ..DrrObject::default() })));
    let embedded = DrrWriteEmbedded { physical_bytes: 113.into(), ..DrrWriteEmbedded::default() };
    assert!(refused(DrrBody::WriteEmbedded(embedded)));
    let odd = DrrWrite { logical_bytes: 513.into(), ..DrrWrite::default() };
    assert!(refused(DrrBody::Write(odd)), "no checksum can be computed of it");
    let begin = DrrBody::Begin(DrrBegin::new(HeaderType::Substream, StreamFeatures::NONE));
    let endless = DrrRecord { payload_len: u32::MAX, ..DrrRecord::new(begin) };
    assert!(endless.payload_bytes().is_err());
}
