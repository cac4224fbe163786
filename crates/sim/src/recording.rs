//! A stretch of history, and the states that power cuts in it could have left.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use crate::count;
use crate::env::Sim;
use crate::fates::{self, Choice};
use crate::history::{Event, Mark, digest};
use crate::ledger::Ledger;
use crate::log::DiskCard;
use crate::pages::Pages;
use crate::rng::{Rng, mix};

/// At which moments the power is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cuts {
    /// Where most is at risk, and where something was just promised: before each flush or
    /// stable write takes effect, after each mark, and at the end.
    Boundaries,
    /// After every event: each beginning and end of a request.
    Everywhere,
}

/// Which crash states to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrashPlan {
    /// When the power is cut.
    pub cuts: Cuts,
    /// With at most that many writes at risk, all subsets of them are made, and each of
    /// them is torn in turn.
    pub exhaustive_up_to: usize,
    /// With more at risk: how many random subsets, beside all and none.
    pub subsets: usize,
    /// With more at risk: how many random tears.
    pub tears: usize,
    /// A torn write is cut at multiples of this, counted from its start; what lies between
    /// is never torn. 512, or 4096 for disks that promise it.
    pub tear_unit_bytes: u64,
    /// Decides everything random.
    pub seed: u64,
}

impl CrashPlan {
    /// Boundaries; all subsets of up to two writes; else three subsets and two tears.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { cuts: Cuts::Boundaries, exhaustive_up_to: 2, subsets: 3, tears: 2, tear_unit_bytes: 512, seed }
    }
}

/// What happened to all disks of a world, from some moment on.
#[derive(Clone)]
pub struct Recording {
    pub(crate) seed: u64,
    pub(crate) cards: Arc<[DiskCard]>,
    pub(crate) base: Ledger,
    pub(crate) base_marks: Vec<Mark>,
    pub(crate) events: Vec<Event>,
}

impl Recording {
    /// A number that two recordings share only if the same happened in both.
    #[must_use]
    pub fn digest(&self) -> u64 {
        digest(self.events.iter())
    }

    /// How many events it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether nothing happened.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// How many writes were begun, on all disks.
    #[must_use]
    pub fn writes(&self) -> usize {
        self.events.iter().filter(|event| matches!(event, Event::WriteBegun { .. })).count()
    }

    /// How many flushes were begun, on all disks.
    #[must_use]
    pub fn flushes(&self) -> usize {
        self.events.iter().filter(|event| matches!(event, Event::FlushBegun { .. })).count()
    }

    /// How many discards were begun, on all disks.
    #[must_use]
    pub fn discards(&self) -> usize {
        self.events.iter().filter(|event| matches!(event, Event::DiscardBegun { .. })).count()
    }

    /// Crash states by the usual plan, the world's seed deciding.
    pub fn crash_images(&self) -> impl Iterator<Item = CrashImage> + '_ {
        self.crash_images_by(CrashPlan::new(self.seed))
    }

    /// Crash states by that plan, in the order of the cuts.
    pub fn crash_images_by(&self, plan: CrashPlan) -> impl Iterator<Item = CrashImage> + '_ {
        CrashImages {
            recording: self,
            plan,
            ledger: self.base.clone(),
            marks: Arc::new(self.base_marks.clone()),
            cut: 0,
            has_news: true,
            is_over: false,
            waiting: VecDeque::new(),
        }
    }

    /// One state drawn from those that a cut at the very end could leave.
    pub(crate) fn any_image(&self, draw: u64) -> CrashImage {
        let plan = CrashPlan { subsets: 8, tears: 8, ..CrashPlan::new(draw) };
        let mut images: Vec<_> = self.crash_images_by(plan).collect();
        let last_cut = images.last().expect("there is a cut at the end").cut;
        images.retain(|image| image.cut == last_cut);
        let chosen = Rng::new(draw, 3).index(images.len());
        images.swap_remove(chosen)
    }
}

struct CrashImages<'a> {
    recording: &'a Recording,
    plan: CrashPlan,
    /// The state after `cut` events.
    ledger: Ledger,
    marks: Arc<Vec<Mark>>,
    cut: usize,
    /// Something happened since the last cut that was used.
    has_news: bool,
    is_over: bool,
    waiting: VecDeque<CrashImage>,
}

impl CrashImages<'_> {
    fn is_cut_here(&self) -> bool {
        let events = &self.recording.events;
        let before = self.cut.checked_sub(1).map(|last| &events[last]);
        let next = events.get(self.cut);
        self.has_news
            && match self.plan.cuts {
                Cuts::Everywhere => true,
                Cuts::Boundaries => {
                    next.is_none_or(Event::makes_durable) || matches!(before, Some(Event::Marked(_)))
                }
            }
    }

    fn make_images(&mut self) {
        self.has_news = false;
        let mut rng = Rng::new(self.plan.seed, self.cut as u64);
        for (variant, choice) in fates::choices(&self.ledger, &self.plan, &mut rng).into_iter().enumerate() {
            self.waiting.push_back(self.image(variant, &choice));
        }
    }

    fn image(&self, variant: usize, choice: &Choice) -> CrashImage {
        let disks = self.ledger.disks().iter().zip(&choice.fates);
        CrashImage {
            seed: self.recording.seed,
            cards: Arc::clone(&self.recording.cards),
            contents: disks.map(|(disk, fates)| disk.image(fates)).collect(),
            marks: Arc::clone(&self.marks),
            cut: self.cut,
            variant,
            story: format!(
                "cut after event {} of {}, seed {}, variant {variant}: {}",
                self.cut,
                self.recording.len(),
                self.plan.seed,
                choice.story(&self.ledger, &self.recording.cards)
            ),
        }
    }

    /// Goes on by one event.
    fn step(&mut self) {
        let Some(event) = self.recording.events.get(self.cut) else {
            self.is_over = true;
            return;
        };
        self.ledger.apply(event);
        self.cut += 1;
        match event {
            // The bytes that a cut could leave are the same before and after.
            Event::FlushBegun { .. } => {}
            Event::Marked(mark) => {
                Arc::make_mut(&mut self.marks).push(mark.clone());
                self.has_news = true;
            }
            _ => self.has_news = true,
        }
    }
}

impl Iterator for CrashImages<'_> {
    type Item = CrashImage;

    fn next(&mut self) -> Option<CrashImage> {
        while self.waiting.is_empty() && !self.is_over {
            if self.is_cut_here() {
                self.make_images();
            }
            self.step();
        }
        self.waiting.pop_front()
    }
}

/// What a power cut could have left of all disks, and what had been said before it.
pub struct CrashImage {
    /// Of the world that it comes from.
    seed: u64,
    cards: Arc<[DiskCard]>,
    contents: Vec<Pages>,
    marks: Arc<Vec<Mark>>,
    cut: usize,
    variant: usize,
    story: String,
}

impl CrashImage {
    /// A world in which the power is back: the same disks under the same paths. They keep
    /// nothing in their caches, and no orders to misbehave. Its random numbers are others than those of
    /// the world that the image comes from, by the same `seed` too: what that one took for unique
    /// is on the disks, and must not be drawn again.
    /// (test: `who_boots_an_image_draws_other_numbers`)
    #[must_use]
    pub fn boot(&self, seed: u64) -> Sim {
        count::one_more_state();
        let sim = Sim::seed(Rng::new(self.seed, seed).next());
        for (card, content) in self.cards.iter().zip(&self.contents) {
            sim.add_disk_with(card.path.clone(), card.spec, content.clone());
        }
        sim
    }

    /// What had been said before the cut, oldest first.
    #[must_use]
    pub fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// Whether that had been said before the cut.
    #[must_use]
    pub fn is_after(&self, label: &str) -> bool {
        self.marks.iter().any(|mark| mark.label == label)
    }

    /// After how many events of the recording the power was cut, and which of the states
    /// possible then this is.
    #[must_use]
    pub fn position(&self) -> (usize, usize) {
        (self.cut, self.variant)
    }

    /// For people: when the power was cut and what became of each write at risk.
    #[must_use]
    pub fn story(&self) -> &str {
        &self.story
    }

    /// A number that two images share only if all disks hold the same bytes: of states that many
    /// cuts could leave, one is enough to look at.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.contents.iter().fold(0, |digest, content| mix(digest.rotate_left(23) ^ content.digest()))
    }

    /// Bytes of the disk at `path`.
    ///
    /// # Panics
    /// When there is no such disk.
    #[must_use]
    pub fn peek(&self, path: impl AsRef<Path>, offset: u64, len: usize) -> Vec<u8> {
        let path = path.as_ref();
        let at = self.cards.iter().position(|card| card.path == path);
        let at = at.unwrap_or_else(|| panic!("{}: no such disk", path.display()));
        let mut bytes = vec![0; len];
        self.contents[at].read(offset, &mut bytes);
        bytes
    }
}

impl std::fmt::Debug for CrashImage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.story)
    }
}
