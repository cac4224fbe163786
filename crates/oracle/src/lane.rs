//! What a lane of `cargo xtask` asks of a test: in variables of its environment.

/// What a variable is set to, or the default.
///
/// # Panics
/// When it is no number.
#[must_use]
pub fn number(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|e| panic!("{variable}: {e}")),
        Err(_) => default,
    }
}
