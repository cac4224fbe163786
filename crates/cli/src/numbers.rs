//! Numbers that are values of flags.

use crate::args::Args;
use crate::session::{Stop, usage};

/// A number above zero.
pub fn positive(args: &Args, name: &str, most: f64) -> Result<Option<f64>, Stop> {
    let Some(word) = args.long_values(name).last() else { return Ok(None) };
    match word.parse::<f64>() {
        Ok(number) if number > 0.0 && number <= most => Ok(Some(number)),
        _ => usage(format!("bad number '{word}' for --{name}")),
    }
}

/// A whole number.
pub fn whole(args: &Args, name: &str) -> Result<Option<u64>, Stop> {
    let Some(word) = args.long_values(name).last() else { return Ok(None) };
    word.parse().map(Some).or_else(|_| usage(format!("bad number '{word}' for --{name}")))
}
