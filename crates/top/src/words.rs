//! Figures in few columns.

/// `262us`, `1.05ms`, `12.3s`: six columns at most.
pub fn micros(us: f64) -> String {
    let (value, unit) = match us {
        us if us < 999.5 => (us, "us"),
        us if us < 999_500.0 => (us / 1e3, "ms"),
        us => (us / 1e6, "s"),
    };
    format!("{}{unit}", short(value))
}

/// Three digits that count.
fn short(value: f64) -> String {
    match value {
        value if value < 9.995 => format!("{value:.2}"),
        value if value < 99.95 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

/// The same of what may not be there.
pub fn micros_or_none(us: Option<f64>) -> String {
    us.map_or_else(|| "-".to_owned(), micros)
}

/// A second's: `0`, `0.50`, `12.5`, `1.50K`.
pub fn rate(rate: f64) -> String {
    match rate {
        rate if rate <= 0.0 => "0".to_owned(),
        rate if rate < 99.95 => short(rate),
        rate if rate < 999.5 => format!("{rate:.0}"),
        rate if rate < 999_500.0 => format!("{}K", short(rate / 1e3)),
        rate => format!("{}M", short(rate / 1e6)),
    }
}

/// Bytes: `0`, `512`, `4.00K`, `1.50M`; powers of 1024.
pub fn bytes(bytes: f64) -> String {
    let (mut value, mut units) = (bytes.max(0.0), ["", "K", "M", "G", "T", "P"].into_iter());
    let mut unit = units.next().unwrap_or_default();
    while value >= 1_023.5
        && let Some(next) = units.next()
    {
        (value, unit) = (value / 1_024.0, next);
    }
    if unit.is_empty() { format!("{value:.0}") } else { format!("{}{unit}", short(value)) }
}

/// How long a device lives: `12.5 y`, `40 d`.
pub fn years(years: Option<f64>) -> String {
    match years {
        None => "-".to_owned(),
        Some(years) if years >= 1_000.0 => ">1000y".to_owned(),
        Some(years) if years >= 2.0 => format!("{}y", short(years)),
        Some(years) => format!("{}d", short(years * 365.25)),
    }
}

/// The beginning of a text, or its end where that tells more; `~` stands for what is left out. Control characters,
/// which a path may have, are shown as `?`.
pub fn cut(text: &str, width: usize, keep_end: bool) -> String {
    let letters: Vec<char> =
        text.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect();
    if letters.len() <= width {
        return letters.into_iter().collect();
    }
    let kept = width.saturating_sub(1);
    match keep_end {
        true => {
            std::iter::once('~').chain(letters[letters.len() - kept..].iter().copied()).take(width).collect()
        }
        false => letters[..kept].iter().copied().chain(std::iter::once('~')).take(width).collect(),
    }
}
