//! `[interval [count]]` and `-T`: commands that print again and again.

use crate::session::{Stop, usage};
use engine::props::ctime;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How often to print.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Repeat {
    /// Between two times; none means once.
    pub interval: Option<Duration>,
    /// How many times; none means for ever.
    pub count: Option<u64>,
}

impl Repeat {
    /// Takes interval and count off the end of the operands.
    pub fn take(operands: &mut Vec<String>) -> Result<Self, Stop> {
        let mut numbers = Vec::new();
        while let Some(number) = operands.last().and_then(|w| w.parse::<f64>().ok()) {
            if numbers.len() == 2 {
                break;
            }
            operands.pop();
            numbers.insert(0, number);
        }
        if numbers.iter().any(|n| !n.is_finite() || *n <= 0.0) {
            return usage("interval cannot be zero");
        }
        Ok(Self {
            interval: numbers.first().map(|secs| Duration::from_secs_f64(secs.min(1e9))),
            count: numbers.get(1).map(|count| *count as u64),
        })
    }

    /// Calls `show` with the number of the round until done.
    pub fn run(self, mut show: impl FnMut(u64) -> Result<(), Stop>) -> Result<(), Stop> {
        let mut round = 0;
        loop {
            show(round)?;
            round += 1;
            match self.interval {
                Some(interval) if self.count.is_none_or(|count| round < count) => {
                    std::thread::sleep(interval)
                }
                _ => return Ok(()),
            }
        }
    }
}

/// The line of `-T d` or `-T u`.
pub fn stamp(format: Option<&str>) -> Result<Option<String>, Stop> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    match format {
        None => Ok(None),
        Some("u") => Ok(Some(format!("{now}\n"))),
        Some("d") => Ok(Some(format!("{}\n", ctime(now)))),
        Some(_) => usage(""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(words: &str) -> (Vec<String>, Repeat) {
        let mut operands = words.split_whitespace().map(str::to_owned).collect();
        let repeat = Repeat::take(&mut operands).expect("numbers");
        (operands, repeat)
    }

    #[test]
    fn interval_and_count_come_last() {
        let second = Some(Duration::from_secs(1));
        assert_eq!(take("p1 1 2"), (vec!["p1".into()], Repeat { interval: second, count: Some(2) }));
        assert_eq!(take("1"), (vec![], Repeat { interval: second, count: None }));
        assert_eq!(take("p1"), (vec!["p1".into()], Repeat { interval: None, count: None }));
        let half = Some(Duration::from_millis(500));
        assert_eq!(take("0.5 3").1, Repeat { interval: half, count: Some(3) });
    }

    #[test]
    fn zero_is_no_interval() {
        assert!(matches!(Repeat::take(&mut vec!["0".into()]), Err(Stop::Usage(_))));
    }

    #[test]
    fn a_count_ends_the_rounds() {
        let mut rounds = Vec::new();
        let repeat = Repeat { interval: Some(Duration::ZERO), count: Some(3) };
        repeat
            .run(|round| {
                rounds.push(round);
                Ok(())
            })
            .expect("runs");
        assert_eq!(rounds, [0, 1, 2]);
    }
}
