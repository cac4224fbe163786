//! Zero-length encoding: for data that compresses no further, but has runs of zeros.
//!
//! ```text
//! byte n < 64:   n + 1 bytes follow as they are       (1 to 64)
//! byte n >= 64:  n - 63 zero bytes                    (1 to 192)
//! ```

use super::Reason;

const LITERALS_MAX: usize = 64;
const ZEROS_MAX: usize = 256 - LITERALS_MAX;
/// A shorter run of zeros amid other bytes costs more as a run than as it is.
const ZEROS_WORTHWHILE: usize = 3;

pub(super) fn compress(block: &[u8], out: &mut [u8]) -> Option<usize> {
    let (mut at, mut len) = (0, 0);
    while at < block.len() {
        let zeros = zeros_at(block, at);
        if zeros > 0 {
            *out.get_mut(len)? = (LITERALS_MAX + zeros - 1) as u8;
            at += zeros;
            len += 1;
        } else {
            let literals = literals_at(block, at);
            *out.get_mut(len)? = (literals - 1) as u8;
            let data = out.get_mut(len + 1..len + 1 + literals)?;
            data.copy_from_slice(&block[at..at + literals]);
            at += literals;
            len += 1 + literals;
        }
    }
    Some(len)
}

fn zeros_at(block: &[u8], at: usize) -> usize {
    block[at..].iter().take(ZEROS_MAX).take_while(|&&byte| byte == 0).count()
}

/// Bytes up to the next run of zeros that is worth a run.
fn literals_at(block: &[u8], at: usize) -> usize {
    let rest = &block[at..block.len().min(at + LITERALS_MAX)];
    let run = rest.windows(ZEROS_WORTHWHILE).position(|window| window.iter().all(|&byte| byte == 0));
    run.unwrap_or(rest.len())
}

pub(super) fn decompress(stored: &[u8], block: &mut [u8]) -> Result<(), Reason> {
    let (mut stored, mut block) = (stored, block);
    while !block.is_empty() {
        let (&first, rest) = stored.split_first().ok_or("the data ends early")?;
        let n = usize::from(first);
        let len = if n < LITERALS_MAX { n + 1 } else { n + 1 - LITERALS_MAX };
        let (run, behind) = std::mem::take(&mut block).split_at_mut_checked(len).ok_or("a longer block")?;
        if n < LITERALS_MAX {
            let (literals, rest) = rest.split_at_checked(len).ok_or("the data ends early")?;
            run.copy_from_slice(literals);
            stored = rest;
        } else {
            run.fill(0);
            stored = rest;
        }
        block = behind;
    }
    Ok(())
}
