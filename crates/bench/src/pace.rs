//! When calls are due: the open loop of those who ask for so many a second, whatever the last one takes.

use std::time::{Duration, Instant};

/// The calls of one of several threads, in even steps; or one after the other, when no rate is asked for.
pub(crate) struct Pace {
    step: Option<Duration>,
    first: Instant,
    calls: u64,
}

impl Pace {
    /// Of thread `number` of so many. `rate` is what all of them ask for together, calls a second, one after another; 0
    /// for as many as they can.
    pub fn new(rate: f64, threads: usize, number: usize) -> Self {
        let step = (rate > 0.0).then(|| Duration::from_secs(threads as u64).div_f64(rate));
        let turn = step.map_or(Duration::ZERO, |step| step.mul_f64(number as f64 / threads as f64));
        Self { step, first: Instant::now() + turn, calls: 0 }
    }

    /// Waits until the next call is due. Its time counts from then, so that those kept waiting behind a slow one tell
    /// of it, too.
    pub fn wait(&mut self) -> Instant {
        let due = self.step.map(|step| self.first + step.mul_f64(self.calls as f64));
        self.calls += 1;
        let due = due.unwrap_or_else(Instant::now);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_held_up_counts_from_when_it_was_due() {
        let long = Duration::from_secs(10);
        let first = Instant::now() - long;
        let mut pace = Pace { first, ..Pace::new(100.0, 2, 0) };
        let due: Vec<Duration> = (0..3).map(|_| pace.wait() - first).collect();
        // Two threads, 100 a second together: each has one every 20 ms.
        assert_eq!(due, [0, 20, 40].map(Duration::from_millis));
    }

    #[test]
    fn threads_do_not_march_in_step() {
        let [one, other] = [0, 1].map(|number| Pace::new(100.0, 2, number));
        let apart = other.first - one.first;
        // The second is due in the middle of the first one's 20 ms; it was made a moment later.
        assert!((Duration::from_millis(10)..Duration::from_millis(19)).contains(&apart), "{apart:?}");
    }

    #[test]
    fn without_a_rate_a_call_is_due_at_once() {
        let mut pace = Pace { first: Instant::now() - Duration::from_secs(10), ..Pace::new(0.0, 2, 1) };
        let begun = Instant::now();
        assert!(pace.wait() >= begun);
    }
}
