//! Promises of the codec.

mod checksums;
mod compressions;
mod golden;

use proptest::prelude::*;

/// Bytes with runs, repeats and noise, so that every compressor has something to do.
fn blocks() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        (any::<u8>(), 1usize..300).prop_map(|(byte, len)| vec![byte; len]),
        (0usize..700).prop_map(|len| vec![0; len]),
        prop::collection::vec(any::<u8>(), 0..200),
        (prop::collection::vec(any::<u8>(), 1..20), 1usize..30).prop_map(|(word, times)| word.repeat(times)),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}
