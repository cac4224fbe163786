//! Damaged streams are refused.

use ondisk::send::{DrrType, RECORD_BYTES};
use stream::{ReadError, StreamRecord};

use crate::world::{bytes, names, records};

/// Streams up to this size have each of their headers' bytes changed.
const SMALL_BYTES: usize = 30_000;
/// Places looked at in larger ones, beside those of each record.
const PLACES: usize = 40;

/// Reads as a consumer would that takes records one by one, and fails if it got one that never was.
fn read_damaged(name: &str, sound: &[StreamRecord], stream: &[u8]) -> ReadError {
    futures::executor::block_on(async {
        let mut reader = stream::Reader::new(stream);
        let mut sound = sound.iter();
        loop {
            match reader.next_record().await {
                Ok(Some(record)) => assert_eq!(Some(&record), sound.next(), "{name}: passed on"),
                Ok(None) => panic!("{name}: accepted"),
                Err(error) => return error,
            }
        }
    })
}

/// Where bytes are changed: in each part of records and payloads, and here and there.
fn places(records: &[StreamRecord], len: usize) -> Vec<usize> {
    if len <= SMALL_BYTES {
        return (0..len).collect();
    }
    let step = records.len().div_ceil(PLACES);
    let of_records = records.iter().step_by(step).enumerate().flat_map(|(turn, record)| {
        let payload = RECORD_BYTES + turn * 997 % record.payload.len().max(1);
        [turn % RECORD_BYTES, turn * 7 % RECORD_BYTES, 280 + turn % 32, payload]
            .map(|at| record.offset as usize + at)
    });
    let here_and_there = (0..PLACES).map(|place| len / PLACES * place);
    let last = (1..=RECORD_BYTES).step_by(5).map(|back| len - back);
    of_records.chain(here_and_there).chain(last).filter(|&at| at < len).collect()
}

#[test]
fn a_byte_changed_anywhere_is_an_error() {
    for name in names() {
        let mut stream = bytes(&name);
        let sound = records(&stream).expect("a sound stream");
        for (turn, at) in places(&sound, stream.len()).into_iter().enumerate() {
            let was = stream[at];
            stream[at] ^= 1 << (turn % 8);
            let error = read_damaged(&name, &sound, &stream);
            assert!(!matches!(error, ReadError::Io { .. }), "{name}, byte {at}: {error}");
            stream[at] = was;
        }
    }
}

#[test]
fn a_stream_cut_off_anywhere_is_an_error() {
    for name in names() {
        let stream = bytes(&name);
        let sound = records(&stream).expect("a sound stream");
        for at in places(&sound, stream.len()) {
            match read_damaged(&name, &sound, &stream[..at]) {
                ReadError::Truncated { offset } => assert_eq!(offset, at as u64, "{name}"),
                other => panic!("{name}, cut at {at}: {other}"),
            }
        }
    }
}

#[test]
fn a_record_that_is_missing_or_there_twice_is_an_error() {
    let name = "incr";
    let stream = bytes(name);
    let sound = records(&stream).expect("a sound stream");
    for (at, record) in sound.iter().enumerate() {
        let start = record.offset as usize;
        let end = start + RECORD_BYTES + record.payload.len();
        let without = [&stream[..start], &stream[end..]].concat();
        read_damaged(name, &sound, &without);
        if at + 1 < sound.len() {
            let twice = [&stream[..end], &stream[start..]].concat();
            read_damaged(name, &sound, &twice);
        }
    }
}

#[test]
fn what_is_no_stream_is_refused_with_its_place() {
    let error = records(&[7; 4096]).expect_err("no stream");
    assert!(matches!(error, ReadError::BadRecord { offset: 0, .. }), "{error}");
    assert!(matches!(records(&[]), Err(ReadError::Truncated { offset: 0 })));
    let mut stream = bytes("vol");
    stream.drain(..RECORD_BYTES);
    assert!(matches!(records(&stream), Err(ReadError::BadRecord { offset: 0, .. })));
    // A substream in a substream.
    let begin = bytes("vol")[..RECORD_BYTES].to_vec();
    let nested = [begin.clone(), begin].concat();
    let out_of_place = ReadError::OutOfPlace { offset: 312, found: DrrType::Begin };
    assert_eq!(records(&nested).expect_err("nested").to_string(), out_of_place.to_string());
}
