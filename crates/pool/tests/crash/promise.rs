//! What was acknowledged: written into the history of the disks as marks, read back from images.

use std::collections::BTreeMap;

use sim::{CrashImage, SimEnv};

/// A thing that has numbered versions, one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The names below a client's directory.
    Names(u64),
    /// A file's content and attributes.
    File(u64),
    /// A slot of the shared file.
    Slot(u64),
}

impl Subject {
    fn words(self) -> [u64; 2] {
        match self {
            Self::Names(n) => [0, n],
            Self::File(n) => [1, n],
            Self::Slot(n) => [2, n],
        }
    }

    fn from_words([kind, n]: [u64; 2]) -> Self {
        match kind {
            0 => Self::Names(n),
            1 => Self::File(n),
            _ => Self::Slot(n),
        }
    }
}

/// The oldest version of each subject that may still be found; of others, the first.
#[derive(Clone, Debug, Default)]
pub struct Promise(BTreeMap<Subject, usize>);

impl Promise {
    pub fn new(versions: impl IntoIterator<Item = (Subject, usize)>) -> Self {
        let mut promise = Self::default();
        promise.extend(versions);
        promise
    }

    pub fn extend(&mut self, versions: impl IntoIterator<Item = (Subject, usize)>) {
        for (subject, version) in versions {
            let oldest = self.0.entry(subject).or_default();
            *oldest = version.max(*oldest);
        }
    }

    pub fn oldest(&self, subject: Subject) -> usize {
        self.0.get(&subject).copied().unwrap_or(0)
    }

    /// Has it said in the history of the disks.
    pub fn mark(&self, sim: &SimEnv) {
        let mut payload = Vec::new();
        for (subject, &version) in &self.0 {
            for word in subject.words().into_iter().chain([version as u64]) {
                payload.extend(word.to_le_bytes());
            }
        }
        sim.mark_with("promise", payload);
    }

    /// All that had been promised when the power was cut.
    pub fn of_image(image: &CrashImage) -> Self {
        let mut promise = Self::default();
        for mark in image.marks().iter().filter(|mark| mark.label == "promise") {
            promise.extend(mark.payload.chunks_exact(24).map(|entry| {
                let word =
                    |n: usize| u64::from_le_bytes(entry[8 * n..8 * n + 8].try_into().expect("eight bytes"));
                (Subject::from_words([word(0), word(1)]), word(2) as usize)
            }));
        }
        promise
    }
}
