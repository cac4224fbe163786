//! Reads environment variables as OpenZFS does.

/// Returns true if the value of a variable is a number other than 0, `yes` or `on`.
pub fn is_set(name: &str) -> bool {
    let Ok(value) = std::env::var(name) else { return false };
    let digits: String = value.trim().chars().take_while(char::is_ascii_digit).collect();
    let is_number = digits.chars().any(|digit| digit != '0');
    is_number || value.eq_ignore_ascii_case("yes") || value.eq_ignore_ascii_case("on")
}
