//! Replays of intent logs that are under way: how far they are.

use zil::ReplayProgress;

use crate::Pool;

/// One that is under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// The dataset whose log it is.
    pub dataset: String,
    /// How far it has got.
    pub progress: ReplayProgress,
}

impl Pool {
    /// The replays that are under way, by name of their datasets. An import begins them all; one that
    /// failed goes on when somebody uses the dataset.
    #[must_use]
    pub fn replays(&self) -> Vec<Replay> {
        let under_way = self
            .open_datasets()
            .into_iter()
            .filter_map(|open| Some(Replay { progress: open.replay_progress()?, dataset: open.name().name }));
        let mut replays: Vec<Replay> = under_way.collect();
        replays.sort_by(|a, b| a.dataset.cmp(&b.dataset));
        replays
    }
}
