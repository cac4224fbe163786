//! Numbers as people read them. Scripts parse these, so the rounding is part of the
//! interface: at most five characters, powers of 1024, as many decimals (2, 1, 0) as fit,
//! none for exact multiples.

const UNITS: [&str; 7] = ["", "K", "M", "G", "T", "P", "E"];

/// Splits a number into its unit's index and the unit's size.
fn unit_of(number: u64) -> (usize, u64) {
    let index = if number == 0 { 0 } else { (number.ilog2() / 10) as usize };
    (index, 1u64 << (10 * index))
}

fn nice(number: u64, units: &[&str; 7]) -> String {
    let (index, unit) = unit_of(number);
    let suffix = units[index];
    if number.is_multiple_of(unit) {
        return format!("{}{suffix}", number / unit);
    }
    let value = number as f64 / unit as f64;
    let mut text = String::new();
    for decimals in [2, 1, 0] {
        text = format!("{value:.decimals$}{suffix}");
        if text.len() <= 5 {
            break;
        }
    }
    text
}

/// A plain number: `0`, `1.50K`, `12.3M`, `727K`.
pub fn number(number: u64) -> String {
    nice(number, &UNITS)
}

/// A number of bytes: as [`number`], but `B` follows where no unit would: `0B`.
pub fn bytes(number: u64) -> String {
    nice(number, &["B", "K", "M", "G", "T", "P", "E"])
}

/// A time in nanoseconds: `0ns`, `36us`, `2ms`, `137s`; whole units, rounded down.
pub fn time(nanos: u64) -> String {
    let (mut number, mut units) = (nanos, ["ns", "us", "ms"].iter());
    let unit = units.find(|_| {
        let fits = number < 1000;
        number /= if fits { 1 } else { 1000 };
        fits
    });
    format!("{number}{}", unit.unwrap_or(&"s"))
}

/// Why a number that a user typed is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseNumberError {
    /// Does not start as a number does.
    #[error("bad numeric value '{0}'")]
    Bad(String),
    /// What follows the digits is no unit.
    #[error("invalid numeric suffix '{0}'")]
    Suffix(String),
    /// Needs more than 64 bits.
    #[error("numeric value is too large")]
    TooLarge,
}

/// The power of two a suffix stands for: `K`, `k`, `KB`, `KiB`, `B` or nothing.
fn shift_of(suffix: &str) -> Result<u32, ParseNumberError> {
    let bad = || ParseNumberError::Suffix(suffix.to_owned());
    let Some(first) = suffix.chars().next() else { return Ok(0) };
    let index = "BKMGTPEZ".find(first.to_ascii_uppercase()).ok_or_else(bad)?;
    let rest = &suffix[first.len_utf8()..];
    let plain = rest.is_empty();
    let long = index > 0 && (rest.eq_ignore_ascii_case("B") || rest.eq_ignore_ascii_case("iB"));
    if plain || long { Ok(10 * index as u32) } else { Err(bad()) }
}

/// A number as users type it: `4096`, `128K`, `1.5GiB`.
///
/// # Errors
/// When it is no number, has an unknown unit, or does not fit 64 bits.
pub fn parse(text: &str) -> Result<u64, ParseNumberError> {
    if !text.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return Err(ParseNumberError::Bad(text.to_owned()));
    }
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (digits, suffix) = text.split_at(end);
    let shift = shift_of(suffix)?;
    if digits.contains('.') {
        let value: f64 = digits.parse().map_err(|_| ParseNumberError::Bad(text.to_owned()))?;
        let scaled = value * 2f64.powi(shift as i32);
        return if scaled < 2f64.powi(64) { Ok(scaled as u64) } else { Err(ParseNumberError::TooLarge) };
    }
    let value: u64 = digits.parse().map_err(|_| ParseNumberError::TooLarge)?;
    1u64.checked_shl(shift).and_then(|unit| value.checked_mul(unit)).ok_or(ParseNumberError::TooLarge)
}

#[cfg(test)]
mod tests;
