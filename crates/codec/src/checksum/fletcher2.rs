//! Fletcher, second order: two interleaved lanes of 64-bit words, each with a sum and a sum of sums.

/// Bytes of one word for each lane.
const PAIR_BYTES: usize = 16;

/// The checksum as (sum, sum, sum of sums, sum of sums). Whole pairs of words count; blocks, being
/// multiples of 512 bytes, have nothing else.
pub(crate) fn fletcher2(bytes: &[u8]) -> [u64; 4] {
    let (pairs, _) = bytes.as_chunks::<PAIR_BYTES>();
    let (mut sum, mut sums) = ([0u64; 2], [0u64; 2]);
    for pair in pairs {
        let (words, _) = pair.as_chunks::<8>();
        for lane in 0..2 {
            sum[lane] = sum[lane].wrapping_add(u64::from_le_bytes(words[lane]));
            sums[lane] = sums[lane].wrapping_add(sum[lane]);
        }
    }
    [sum[0], sum[1], sums[0], sums[1]]
}
