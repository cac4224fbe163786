//! Edon-R 512, with the feedback that its authors added after the SHA-3 contest ("Edon-R′").
//!
//! The state is a double pipe of 16 words, and so is a block. One quasigroup operation mixes two
//! rows of eight words:
//!
//! ```text
//!  row x ─► each of 8: five words added, rotated ─┐
//!                                                 ├─► out[i] = xor of three of x + xor of three of y
//!  row y ─► each of 8: five words added, rotated ─┘
//! ```
//! Which words go where are two Latin squares of order 8, here as tables. A block passes through
//! eight such operations; then old pipe, block and result are xored, which is the feedback.
//!
//! (D. Gligoroski et al., "Cryptographic Hash Function Edon-R′", 2009.)

/// Words of a row: half a block, half a pipe.
const ROW: usize = 8;
const BLOCK_WORDS: usize = 2 * ROW;
pub(super) const BLOCK_BYTES: usize = 8 * BLOCK_WORDS;
/// Bytes at the end of the last block that hold the length of the message in bits.
const LENGTH_BYTES: usize = 8;

type Row = [u64; ROW];
pub(super) type Pipe = [u64; BLOCK_WORDS];

/// The side of an operation that one of its rows takes.
struct Side {
    /// Added to the first sum.
    constant: u64,
    /// The five words of each sum.
    sums: [[usize; 5]; ROW],
    /// How far each sum is rotated.
    rotations: [u32; ROW],
    /// The three sums that each word of the result takes from this side.
    xors: [[usize; 3]; ROW],
}

const FIRST: Side = Side {
    constant: 0xaaaa_aaaa_aaaa_aaaa,
    sums: [
        [0, 1, 2, 4, 7],
        [0, 1, 3, 4, 7],
        [0, 1, 4, 6, 7],
        [2, 3, 5, 6, 7],
        [1, 2, 3, 5, 6],
        [0, 2, 3, 4, 5],
        [0, 1, 5, 6, 7],
        [2, 3, 4, 5, 6],
    ],
    rotations: [0, 5, 15, 22, 31, 40, 50, 59],
    xors: [[0, 1, 4], [0, 4, 7], [1, 6, 7], [2, 3, 4], [0, 1, 7], [3, 5, 6], [2, 5, 6], [2, 3, 5]],
};

const SECOND: Side = Side {
    constant: 0x5555_5555_5555_5555,
    sums: [
        [0, 1, 2, 5, 7],
        [0, 1, 3, 4, 6],
        [0, 1, 2, 3, 5],
        [2, 3, 4, 6, 7],
        [0, 1, 3, 4, 5],
        [2, 4, 5, 6, 7],
        [1, 2, 5, 6, 7],
        [0, 3, 4, 6, 7],
    ],
    rotations: [0, 10, 19, 29, 36, 44, 48, 55],
    xors: [[0, 1, 5], [2, 6, 7], [0, 1, 3], [0, 3, 4], [1, 2, 5], [3, 4, 6], [2, 5, 7], [4, 6, 7]],
};

impl Side {
    #[inline(always)]
    fn of(&self, row: &Row) -> Row {
        let sum = |at: usize| self.sums[at].iter().fold(0, |sum: u64, &word| sum.wrapping_add(row[word]));
        let sums: Row = std::array::from_fn(|at| {
            let constant = if at == 0 { self.constant } else { 0 };
            sum(at).wrapping_add(constant).rotate_left(self.rotations[at])
        });
        self.xors.map(|[a, b, c]| sums[a] ^ sums[b] ^ sums[c])
    }
}

/// The quasigroup operation.
#[inline(always)]
fn mix(x: &Row, y: &Row) -> Row {
    let (x, y) = (FIRST.of(x), SECOND.of(y));
    std::array::from_fn(|at| x[at].wrapping_add(y[at]))
}

fn reversed(row: &Row) -> Row {
    std::array::from_fn(|at| row[ROW - 1 - at])
}

fn halves(words: &Pipe) -> (Row, Row) {
    (std::array::from_fn(|at| words[at]), std::array::from_fn(|at| words[ROW + at]))
}

/// Takes one block into the pipe.
fn compress(pipe: &mut Pipe, block: &[u8; BLOCK_BYTES]) {
    let (bytes, _) = block.as_chunks::<8>();
    let words: Pipe = std::array::from_fn(|at| u64::from_le_bytes(bytes[at]));
    let ((low, high), (old_low, old_high)) = (halves(&words), halves(pipe));
    let mut p = mix(&reversed(&high), &low);
    let mut q = mix(&p, &high);
    p = mix(&old_high, &p);
    q = mix(&p, &q);
    p = mix(&p, &old_low);
    q = mix(&q, &p);
    p = mix(&reversed(&low), &p);
    q = mix(&p, &q);
    for at in 0..ROW {
        pipe[at] ^= high[at] ^ p[at];
        pipe[ROW + at] ^= low[at] ^ q[at];
    }
}

/// The pipe before the first block: the bytes 0x80, 0x81, … as words that start with the lowest.
fn initial() -> Pipe {
    std::array::from_fn(|at| {
        let first = 0x80 + 8 * at as u64;
        (0..8).fold(0, |word, byte| word << 8 | (first + byte))
    })
}

/// The digest's eight words: of `bytes` behind `done` bytes that made the pipe what it is.
fn finish(mut pipe: Pipe, done: u64, bytes: &[u8]) -> Row {
    let (blocks, rest) = bytes.as_chunks::<BLOCK_BYTES>();
    blocks.iter().for_each(|block| compress(&mut pipe, block));
    let mut tail = [0; 2 * BLOCK_BYTES];
    tail[..rest.len()].copy_from_slice(rest);
    tail[rest.len()] = 0x80;
    let len = if rest.len() < BLOCK_BYTES - LENGTH_BYTES { BLOCK_BYTES } else { 2 * BLOCK_BYTES };
    let bits = 8 * (done + bytes.len() as u64);
    tail[len - LENGTH_BYTES..len].copy_from_slice(&bits.to_le_bytes());
    let (blocks, _) = tail[..len].as_chunks::<BLOCK_BYTES>();
    blocks.iter().for_each(|block| compress(&mut pipe, block));
    halves(&pipe).1
}

/// The digest of `bytes`, as words.
pub(super) fn digest(bytes: &[u8]) -> Row {
    finish(initial(), 0, bytes)
}

/// The pipe after a block that is the salt's digest and that digest's: how ZFS makes a MAC of it.
pub(super) fn keyed(salt: &[u8; 32]) -> Pipe {
    let once = digest(salt).map(u64::to_le_bytes);
    let twice = digest(once.as_flattened()).map(u64::to_le_bytes);
    let mut block = [0; BLOCK_BYTES];
    block[..BLOCK_BYTES / 2].copy_from_slice(once.as_flattened());
    block[BLOCK_BYTES / 2..].copy_from_slice(twice.as_flattened());
    let mut pipe = initial();
    compress(&mut pipe, &block);
    pipe
}

/// The first half of the digest of `bytes` under a key.
pub(super) fn mac(key: &Pipe, bytes: &[u8]) -> [u64; 4] {
    let digest = finish(*key, BLOCK_BYTES as u64, bytes);
    std::array::from_fn(|at| digest[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What other programs (RHash, OpenZFS) say of the messages of FIPS 180's examples.
    #[test]
    fn digests_are_those_of_other_programs() {
        let hex = |bytes: &[u8]| {
            let digest = digest(bytes).map(u64::to_le_bytes);
            digest.as_flattened().iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        };
        assert_eq!(
            hex(b"abc"),
            "1b14db155f1d406594b8cef70a4362ec6b5de6a5daf50ec999e987c19d3049e2\
             de5977bb05b1bb220050a1ea5b46a9f1740acafbf6b45032adc90c628372c22b"
        );
        let long = b"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn\
                     hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu";
        assert_eq!(
            hex(long),
            "5351070dc51c3b2baca5a60d0252ccb4e4921a96fe5a69e76dad48fd21a0845a\
             d57f880b3e4a907bc503151842bb949e1cba7439a6409a34b8436cb46921583c"
        );
    }
}
