//! What of a run of bytes is worth telling a device to forget.

use metaslab::Segment;

/// Smaller pieces are left as they are: 32 KiB (`zfs_trim_extent_bytes_min`).
pub const PIECE_MIN_BYTES: u64 = 32 << 10;
/// Larger ones are cut, so that no command takes long: 64 MiB.
pub const PIECE_MAX_BYTES: u64 = 64 << 20;

/// A run in pieces, each a start and a length; none if it is too small.
pub fn pieces(run: Segment) -> impl Iterator<Item = (u64, u64)> {
    let end = if run.len() < PIECE_MIN_BYTES { run.start } else { run.end };
    let starts = (run.start..end).step_by(PIECE_MAX_BYTES as usize);
    starts.map(move |start| (start, PIECE_MAX_BYTES.min(run.end - start)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(start: u64, len: u64) -> Vec<(u64, u64)> {
        pieces(Segment::new(start, len).expect("some bytes")).collect()
    }

    #[test]
    fn small_runs_are_left_and_large_ones_are_cut() {
        assert_eq!(cut(4096, PIECE_MIN_BYTES - 512), []);
        assert_eq!(cut(4096, PIECE_MIN_BYTES), [(4096, PIECE_MIN_BYTES)]);
        assert_eq!(cut(0, PIECE_MAX_BYTES + 512), [(0, PIECE_MAX_BYTES), (PIECE_MAX_BYTES, 512)]);
    }
}
