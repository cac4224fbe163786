//! Somebody who looks at a pool again and again.

use crate::{Interval, Look, Series};
use advise::Rating;
use serde::Serialize;

/// What is known of a pool that is watched.
#[derive(Clone, Debug, Serialize)]
pub struct Monitor {
    /// The last interval; none before the second look.
    pub now: Option<Interval>,
    /// The last ones.
    pub series: Series,
    #[serde(skip)]
    rating: Option<Rating>,
    #[serde(skip)]
    last: Option<Look>,
}

impl Monitor {
    /// Before the first look, with room for so many points; log devices are rated so.
    #[must_use]
    pub fn new(points: usize, rating: Option<Rating>) -> Self {
        Self { now: None, series: Series::of(points), rating, last: None }
    }

    /// Another look. One at a pool that was opened anew begins from nothing; one at the same moment as the last says
    /// nothing.
    pub fn look(&mut self, look: Look) {
        if self.last.as_ref().is_some_and(|last| !last.goes_on_in(&look)) {
            *self = Self::new(self.series.capacity(), self.rating);
        }
        if let Some(interval) =
            self.last.as_ref().and_then(|last| Interval::between(last, &look, self.rating))
        {
            self.series.push(interval.point());
            self.now = Some(interval);
        }
        self.last = Some(look);
    }

    /// The last look.
    #[must_use]
    pub fn last(&self) -> Option<&Look> {
        self.last.as_ref()
    }
}
