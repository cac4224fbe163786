use std::pin::Pin;
use std::task::{Context, Poll};

use futures::executor::block_on;
use ondisk::send::{BEGIN_PAYLOAD_MAX_BYTES, DrrFree, StreamFeatures};

use super::*;

fn begin(payload_len: u32) -> DrrRecord {
    let begin = DrrBegin::new(HeaderType::Substream, StreamFeatures::NONE);
    DrrRecord { payload_len, ..DrrRecord::new(DrrBody::Begin(begin)) }
}

/// A source that gives some bytes at a time and knows how many it was asked for at most.
struct Dripping<'a> {
    bytes: &'a [u8],
    asked_most: usize,
}

impl AsyncRead for Dripping<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<std::io::Result<usize>> {
        self.asked_most = self.asked_most.max(into.len());
        let len = into.len().min(self.bytes.len()).min(100);
        let (head, tail) = self.bytes.split_at(len);
        into[..len].copy_from_slice(head);
        self.bytes = tail;
        Poll::Ready(Ok(len))
    }
}

#[test]
fn a_payload_that_does_not_come_takes_no_memory() {
    let stream = [&begin(BEGIN_PAYLOAD_MAX_BYTES as u32).encode()[..], &[0; 1000]].concat();
    let mut reader = Reader::new(Dripping { bytes: &stream, asked_most: 0 });
    match block_on(reader.next_record()) {
        Err(ReadError::Truncated { offset }) => assert_eq!(offset, stream.len() as u64),
        other => panic!("{other:?}"),
    }
    assert_eq!(reader.into_source().asked_most as u64, STEP_BYTES);
}

#[test]
fn a_payload_longer_than_any_is_refused() {
    let stream = begin(BEGIN_PAYLOAD_MAX_BYTES as u32 + 4).encode();
    let mut reader = Reader::new(&stream[..]);
    assert!(matches!(block_on(reader.next_record()), Err(ReadError::BadRecord { offset: 0, .. })));
}

/// As the first versions sent: without checksums but for END's.
fn old_stream() -> Vec<u8> {
    let free = DrrRecord::new(DrrBody::Free(DrrFree { object: 7.into(), ..DrrFree::default() }));
    let mut stream = [begin(0).encode(), free.encode()].concat();
    let mut sum = RunningSum::new(ByteOrder::Little);
    sum.update(&stream);
    let end = DrrEnd { checksum: sum.words().map(Into::into), ..DrrEnd::default() };
    stream.extend_from_slice(&DrrRecord::new(DrrBody::End(end)).encode());
    stream
}

#[test]
fn a_stream_with_one_checksum_is_judged_by_that() {
    let read = |stream: &[u8]| {
        let mut reader = Reader::new(stream);
        let mut count = 0;
        while block_on(reader.next_record())?.is_some() {
            count += 1;
        }
        Ok::<_, ReadError>(count)
    };
    let sound = old_stream();
    assert_eq!(read(&sound).expect("sound"), 3);
    for at in 0..sound.len() {
        let mut damaged = sound.clone();
        damaged[at] ^= 0x40;
        assert!(read(&damaged).is_err(), "byte {at}");
    }
}

#[test]
fn a_source_that_fails_is_told_with_the_place() {
    struct Failing;
    impl AsyncRead for Failing {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &mut [u8],
        ) -> Poll<std::io::Result<usize>> {
            Poll::Ready(Err(std::io::ErrorKind::ConnectionReset.into()))
        }
    }
    let stream = begin(0).encode();
    let mut reader = Reader::new((&stream[..]).chain(Failing));
    assert!(matches!(block_on(reader.next_record()), Err(ReadError::Io { offset: 312, .. })));
}
