//! The field of 256 elements: what its operations mean, one byte at a time.

/// What doubling folds back in: the polynomial without its highest term.
pub(super) const FOLD: u8 = 0x1d;

/// Twice `x`.
#[inline(always)]
pub(super) const fn double(x: u8) -> u8 {
    (x << 1) ^ if x & 0x80 == 0 { 0 } else { FOLD }
}

/// Powers of 2, over and over: `POWERS[i + 255] == POWERS[i]`.
const POWERS: [u8; 510] = {
    let mut powers = [1; 510];
    let mut at = 1;
    while at < powers.len() {
        powers[at] = double(powers[at - 1]);
        at += 1;
    }
    powers
};

/// Which power of 2 an element is; zero is none.
const LOGS: [u8; 256] = {
    let mut logs = [0; 256];
    let mut power = 0;
    while power < 255 {
        logs[POWERS[power] as usize] = power as u8;
        power += 1;
    }
    logs
};

/// `2^power`.
pub(super) fn power_of_two(power: usize) -> u8 {
    POWERS[power % 255]
}

/// The product.
pub(super) fn multiply(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    POWERS[usize::from(LOGS[usize::from(a)]) + usize::from(LOGS[usize::from(b)])]
}

/// What gives 1 when multiplied by `x`.
///
/// # Panics
/// For zero.
pub(super) fn inverse(x: u8) -> u8 {
    assert!(x != 0, "zero has no inverse");
    POWERS[255 - usize::from(LOGS[usize::from(x)])]
}
