//! The word for a draid, `draid[1-3]` and then in any order `:<number>d`, `:<number>c`, `:<number>s`: columns of data
//! in a group, children, spares.

use super::{Layout, refuse};
use control::{Failure, FailureKind};

/// Columns of data in a group where nobody says how many, if there are so many.
const USUAL_DATA: u64 = 8;
/// Most spares that a draid can have room for.
const SPARES_MAX: u64 = 100;

/// The columns and spares of a draid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DraidNumbers {
    /// Columns of parity in a group: 1 to 3.
    pub parity: u8,
    /// Columns of data in a group.
    pub data: u64,
    /// Children's space that is left for spares.
    pub spares: u64,
}

/// What the words after a draid's parity say.
struct Numbers {
    data: Option<u64>,
    children: Option<u64>,
    spares: u64,
}

/// The parity, if the word is one for a draid.
pub(super) fn parity(word: &str) -> Option<u8> {
    let parity = word.strip_prefix("draid")?.split(':').next()?;
    match parity {
        "" => Some(1),
        _ if parity.starts_with('0') => None,
        _ => parity.parse().ok().filter(|parity| (1..=3).contains(parity)),
    }
}

/// Reads the word for a draid of so many devices. `None` if the word does not begin as the one for a
/// draid does.
///
/// # Errors
/// The words that scripts know for a draid that cannot be.
pub fn parse_draid(word: &str, devices: usize) -> Option<Result<DraidNumbers, Failure>> {
    Some(read(word, parity(word)?, devices))
}

/// The layout that the word stands for, of so many devices.
///
/// # Errors
/// The words that scripts know for a draid that cannot be, and for one that is not made yet.
pub(super) fn layout(word: &str, parity: u8, devices: usize) -> Result<Layout, Failure> {
    let DraidNumbers { data, spares, .. } = read(word, parity, devices)?;
    if spares > 0 {
        return Err(refuse("distributed spares are not supported yet".into()));
    }
    let data = u8::try_from(data).map_err(|_| refuse(format!("{word}: groups of {data}")))?;
    Ok(Layout::Draid { parity, data })
}

fn read(word: &str, parity: u8, devices: usize) -> Result<DraidNumbers, Failure> {
    let Numbers { data, children, spares } = numbers(word)?;
    let (devices, redundant) = (devices as u64, u64::from(parity));
    let refused = |reason: String| Failure::new(FailureKind::Invalid, reason);
    if let Some(children) = children.filter(|children| *children != devices) {
        let what = "invalid number of dRAID children";
        return Err(refused(format!("{what}; {children} required but {devices} provided")));
    }
    let left = devices.saturating_sub(spares).saturating_sub(redundant);
    let data = match data {
        Some(data) => data,
        None if left > 0 => left.min(USUAL_DATA),
        None => {
            let what = format!("request number of distributed spares {spares} and parity level {parity}");
            return Err(refused(format!("{what}\nleaves no disks available for data")));
        }
    };
    if data == 0 || data > left {
        let what = format!("requested number of dRAID data disks per group {data} is too high,");
        return Err(refused(format!("{what}\nat most {left} disks are available for data")));
    }
    if spares > SPARES_MAX {
        let what = format!("invalid number of dRAID spares {spares}");
        return Err(refused(format!("{what}; additional disks would be required")));
    }
    Ok(DraidNumbers { parity, data, spares })
}

fn numbers(word: &str) -> Result<Numbers, Failure> {
    let mut numbers = Numbers { data: None, children: None, spares: 0 };
    for part in word.split(':').skip(1) {
        let suffix = part.chars().last().map(|last| last.to_ascii_lowercase());
        let number = part.get(..part.len().saturating_sub(1)).and_then(|digits| digits.parse().ok());
        match (number, suffix) {
            (Some(number), Some('d')) => numbers.data = Some(number),
            (Some(number), Some('c')) => numbers.children = Some(number),
            (Some(number), Some('s')) => numbers.spares = number,
            _ => {
                let what = "invalid dRAID syntax; expected [:<number><c|d|s>] not";
                return Err(Failure::new(FailureKind::Invalid, format!("{what} '{word}'")));
            }
        }
    }
    Ok(numbers)
}
