//! Every stream is read whole.

use futures::executor::block_on;
use ondisk::ByteOrder;
use ondisk::NvList;
use ondisk::send::{DrrBody, DrrRecord, DrrType, RECORD_BYTES, begin_names};
use stream::Reader;

use crate::world::{bytes, names, records, summary, told};

/// The part of a text that `zstream dump` printed of one stream.
fn told_of(all: &str, name: &str) -> String {
    let head = format!("== /host/img/{name}.zstream\n");
    let (_, rest) = all.split_once(&head).unwrap_or_else(|| panic!("{name} is told of"));
    rest.split("== /host").next().expect("the first part").to_owned()
}

#[test]
fn every_stream_has_the_records_that_zstream_counted() {
    let told = told();
    for name in names() {
        let records = records(&bytes(&name)).unwrap_or_else(|error| panic!("{name}: {error:?}"));
        let summary = summary(&records).to_string();
        assert!(told_of(&told, &name).ends_with(&summary), "{name}:\n{summary}");
    }
}

#[test]
fn every_record_is_written_back_as_it_was() {
    for name in names() {
        let stream = bytes(&name);
        let mut again = Vec::with_capacity(stream.len());
        for record in records(&stream).expect("a sound stream") {
            assert_eq!(record.offset, again.len() as u64, "{name}");
            again.extend_from_slice(&record.record.encode());
            again.extend_from_slice(&record.payload);
        }
        assert!(again == stream, "{name}");
    }
}

/// Names that lists have, of those we know.
#[test]
fn nvlists_of_begins_can_be_read() {
    let mut lists = Vec::new();
    for name in names() {
        for record in records(&bytes(&name)).expect("a sound stream") {
            if record.record.body.drr_type() == DrrType::Begin && !record.payload.is_empty() {
                lists.push((name.clone(), NvList::decode(&record.payload).expect("an nvlist")));
            }
        }
    }
    let has = |stream: &str, key: &str| lists.iter().any(|(name, list)| name == stream && list.contains(key));
    assert!(has("resumed", begin_names::RESUME_OBJECT) && has("resumed", begin_names::RESUME_OFFSET));
    assert!(has("redacted", begin_names::REDACT_SNAPS) && has("raw", begin_names::CRYPT_KEYDATA));
    assert!(has("repl", "fss") && has("props", "tosnap") && has("raw-repl", begin_names::CRYPT_KEYDATA));
}

/// What is behind a stream is for others.
#[test]
fn nothing_behind_a_stream_is_read() {
    for name in ["vol", "incr-all"] {
        let mut stream = bytes(name);
        let len = stream.len();
        stream.extend_from_slice(b"something else");
        let mut reader = Reader::new(stream.as_slice());
        while block_on(reader.next_record()).expect("a sound stream").is_some() {}
        assert_eq!(reader.offset(), len as u64);
        assert_eq!(block_on(reader.next_record()).expect("it has ended"), None);
        assert_eq!(reader.into_source(), b"something else");
    }
}

/// A stream as a big-endian machine would have sent it: headers, sums and nvlists; data are what they are.
fn foreign(name: &str) -> Vec<u8> {
    let mut out: Vec<u8> = Vec::new();
    let mut begin = 0;
    for record in records(&bytes(name)).expect("a sound stream") {
        if record.record.body.drr_type() == DrrType::Begin {
            begin = out.len();
        }
        let sum =
            |bytes: &[u8]| codec::checksum_of(ByteOrder::Big, ondisk::ChecksumKind::Fletcher4, bytes, None);
        let mut ours = record.record;
        if let DrrBody::End(end) = &mut ours.body
            && ours.checksum != [0; 4]
        {
            end.checksum = sum(&out[begin..]).expect("fletcher4 has no key").map(Into::into);
        }
        let mut header = swapped(&ours);
        if record.record.checksum != [0; 4] {
            let so_far: Vec<u8> = out[begin..].iter().chain(&header[..280]).copied().collect();
            ours.checksum = sum(&so_far).expect("fletcher4 has no key");
            header = swapped(&ours);
        }
        out.extend_from_slice(&header);
        out.extend_from_slice(&record.payload);
    }
    out
}

/// The only encoding in the other order that decodes to this record.
fn swapped(record: &DrrRecord) -> [u8; RECORD_BYTES] {
    let little = record.encode();
    let mut big = little;
    let mut reverse = |at: usize, len: usize| big[at..at + len].reverse();
    let (quads, halves): (&[usize], &[usize]) = match record.body {
        DrrBody::Begin(_) => (&[8, 16, 24, 40, 48], &[32, 36]),
        DrrBody::Object(_) => (&[8, 40, 56], &[16, 20, 24, 28, 36]),
        DrrBody::Freeobjects(_) => (&[8, 16, 24], &[]),
        DrrBody::Write(_) => (&[8, 24, 32, 40, 56, 64, 72, 80, 88, 96], &[16, 20]),
        DrrBody::Free(_) => (&[8, 16, 24, 32], &[]),
        DrrBody::End(_) => (&[8, 16, 24, 32, 40], &[]),
        _ => panic!("not in the streams that this is for"),
    };
    quads.iter().for_each(|&at| reverse(at, 8));
    halves.iter().chain(&[0, 4]).for_each(|&at| reverse(at, 4));
    if !matches!(record.body, DrrBody::Begin(_)) {
        (280..RECORD_BYTES).step_by(8).for_each(|at| reverse(at, 8));
    }
    big
}

#[test]
fn a_stream_of_the_other_byte_order_says_the_same() {
    for name in ["vol", "clone"] {
        let stream = foreign(name);
        let mut reader = Reader::new(stream.as_slice());
        for ours in records(&bytes(name)).expect("a sound stream") {
            let theirs = block_on(reader.next_record()).expect("its sums are right").expect("as many");
            assert_eq!(reader.order(), ByteOrder::Big);
            assert_eq!((theirs.offset, theirs.payload), (ours.offset, ours.payload));
            match (theirs.record.body, ours.record.body) {
                (DrrBody::End(_), DrrBody::End(_)) => {}
                (theirs, ours) => assert_eq!(theirs, ours),
            }
        }
        let mut damaged = stream;
        let middle = damaged.len() / 2;
        damaged[middle] ^= 0x10;
        assert!(records(&damaged).is_err());
    }
}
