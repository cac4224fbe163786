//! Which fates of the writes at risk are worth an image.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::ledger::{AtRisk, Fate, Ledger};
use crate::log::DiskCard;
use crate::recording::CrashPlan;
use crate::rng::Rng;

/// Places at which one write is torn when all are asked for; longer writes are sampled.
const TEARS_PER_WRITE_MAX: u64 = 16;

/// More writes than that are told of in sums.
const STORY_MAX: usize = 12;

/// One fate for each write at risk of each disk.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Choice {
    pub(crate) fates: Vec<Vec<Fate>>,
}

impl Choice {
    fn all(ledger: &Ledger, fate: Fate) -> Self {
        Self::by(ledger, |_, _| fate)
    }

    fn by(ledger: &Ledger, mut fate: impl FnMut(usize, &AtRisk) -> Fate) -> Self {
        let disks = ledger.disks().iter().enumerate();
        Self { fates: disks.map(|(n, disk)| disk.at_risk().map(|write| fate(n, write)).collect()).collect() }
    }

    fn with(mut self, (disk, write): (usize, usize), fate: Fate) -> Self {
        self.fates[disk][write] = fate;
        self
    }

    /// What became of each write; of many, only how many were lost and which were torn.
    pub(crate) fn story(&self, ledger: &Ledger, cards: &[DiskCard]) -> String {
        let count = |wanted| self.fates.iter().flatten().filter(|&&fate| fate == wanted).count();
        let (kept, lost) = (count(Fate::Kept), count(Fate::Lost));
        let mut story = format!("{kept} kept, {lost} lost");
        let tells_all = kept + lost <= STORY_MAX;
        for ((disk, card), fates) in ledger.disks().iter().zip(cards).zip(&self.fates) {
            for (write, fate) in disk.at_risk().zip(fates) {
                if tells_all || !matches!(fate, Fate::Kept | Fate::Lost) {
                    let (path, offset, len) = (card.path.display(), write.offset, write.data.len());
                    let _ = write!(story, "; {path}+{offset:#x}/{len} {fate:?}");
                }
            }
        }
        story
    }
}

/// The choices for one cut, each once, the plainest first.
pub(crate) fn choices(ledger: &Ledger, plan: &CrashPlan, rng: &mut Rng) -> Vec<Choice> {
    let places = places(ledger);
    let mut choices = vec![Choice::all(ledger, Fate::Kept), Choice::all(ledger, Fate::Lost)];
    one_disk_apart(ledger, &mut choices);
    if places.len() <= plan.exhaustive_up_to {
        all_subsets(ledger, &places, &mut choices);
        all_tears(ledger, &places, plan, rng, &mut choices);
    } else {
        for _ in 0..plan.subsets {
            choices.push(random_subset(ledger, rng));
        }
        for _ in 0..plan.tears {
            choices.extend(random_tear(ledger, &places, plan, rng));
        }
    }
    let mut seen = BTreeSet::new();
    choices.retain(|choice| seen.insert(choice.clone()));
    choices
}

/// All writes at risk: disk, and index among that disk's.
fn places(ledger: &Ledger) -> Vec<(usize, usize)> {
    let disks = ledger.disks().iter().enumerate();
    disks.flat_map(|(n, disk)| (0..disk.at_risk().len()).map(move |write| (n, write))).collect()
}

/// Disks that were quicker or slower than all others: mirrors whose halves differ, logs
/// that are ahead of their pool.
fn one_disk_apart(ledger: &Ledger, choices: &mut Vec<Choice>) {
    let busy = (0..ledger.disks().len()).filter(|&n| ledger.disk(n).at_risk().len() > 0);
    let busy: Vec<usize> = busy.collect();
    if busy.len() < 2 {
        return;
    }
    for &apart in &busy {
        for (its, others) in [(Fate::Kept, Fate::Lost), (Fate::Lost, Fate::Kept)] {
            choices.push(Choice::by(ledger, |disk, _| if disk == apart { its } else { others }));
        }
    }
}

fn all_subsets(ledger: &Ledger, places: &[(usize, usize)], choices: &mut Vec<Choice>) {
    assert!(places.len() < 20, "all subsets of {} writes are too many", places.len());
    for kept in 0..1_u32 << places.len() {
        let mut choice = Choice::all(ledger, Fate::Lost);
        for (n, &place) in places.iter().enumerate() {
            if kept & (1 << n) != 0 {
                choice = choice.with(place, Fate::Kept);
            }
        }
        choices.push(choice);
    }
}

fn all_tears(
    ledger: &Ledger,
    places: &[(usize, usize)],
    plan: &CrashPlan,
    rng: &mut Rng,
    choices: &mut Vec<Choice>,
) {
    for &place in places {
        for at in tear_points(write_at(ledger, place), plan, rng) {
            for fate in [Fate::Head(at), Fate::Tail(at)] {
                for others in [Fate::Kept, Fate::Lost] {
                    choices.push(Choice::all(ledger, others).with(place, fate));
                }
            }
        }
    }
}

fn write_at(ledger: &Ledger, (disk, write): (usize, usize)) -> &AtRisk {
    ledger.disk(disk).at_risk().nth(write).expect("places are those of writes")
}

/// Places inside a write at which it could be torn.
fn tear_count(write: &AtRisk, plan: &CrashPlan) -> u64 {
    (write.data.len() as u64).div_ceil(plan.tear_unit_bytes).saturating_sub(1)
}

fn tear_points(write: &AtRisk, plan: &CrashPlan, rng: &mut Rng) -> Vec<u64> {
    let count = tear_count(write, plan);
    let numbers: Vec<u64> = if count <= TEARS_PER_WRITE_MAX {
        (0..count).collect()
    } else {
        (0..TEARS_PER_WRITE_MAX).map(|_| rng.below(count)).collect()
    };
    numbers.into_iter().map(|number| (number + 1) * plan.tear_unit_bytes).collect()
}

fn random_subset(ledger: &Ledger, rng: &mut Rng) -> Choice {
    // Mostly kept, mostly lost, or half and half: even odds alone would hardly ever lose
    // just one of many.
    let odds = [2, 8, 8][rng.index(3)];
    let rare = if rng.one_in(2) { (Fate::Lost, Fate::Kept) } else { (Fate::Kept, Fate::Lost) };
    Choice::by(ledger, |_, _| if rng.one_in(odds) { rare.0 } else { rare.1 })
}

fn random_tear(
    ledger: &Ledger,
    places: &[(usize, usize)],
    plan: &CrashPlan,
    rng: &mut Rng,
) -> Option<Choice> {
    let others = match rng.index(3) {
        0 => Choice::all(ledger, Fate::Kept),
        1 => Choice::all(ledger, Fate::Lost),
        _ => random_subset(ledger, rng),
    };
    let place = places[rng.index(places.len())];
    let count = tear_count(write_at(ledger, place), plan);
    if count == 0 {
        return None;
    }
    let at = (rng.below(count) + 1) * plan.tear_unit_bytes;
    let fate = if rng.one_in(2) { Fate::Head(at) } else { Fate::Tail(at) };
    Some(others.with(place, fate))
}
