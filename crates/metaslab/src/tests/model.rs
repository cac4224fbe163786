//! Every history, compared with a plain array of sectors.

use proptest::prelude::*;

use super::*;
use crate::{Change, ChangeKind, NextFree, RangeTree, Segment, SpaceFigures};

const SECTOR: u64 = 512;
const VDEVS: u32 = 2;
const VDEV_SECTORS: usize = 128;
const MS_SHIFT: u8 = 14;
const FIRST_TXG: u64 = 10;

#[derive(Clone, Copy, Debug)]
enum Op {
    Allocate {
        sectors: u64,
        copies: usize,
        syncing: bool,
    },
    Free {
        pick: usize,
        syncing: bool,
    },
    /// The txg being synced frees what the checkpoint may need.
    FreeOrKeep {
        pick: usize,
    },
    Checkpoint,
    Discard,
    Unalloc,
    Claim {
        sector: u64,
        sectors: u64,
    },
    Hold {
        vdev: u32,
        sector: u64,
        sectors: u64,
    },
    GiveBack {
        pick: usize,
    },
    Take,
    OpenNext,
    SyncOldest,
}

/// Who a sector belongs to, as the model sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sector {
    Free,
    Allocated {
        by: u64,
    },
    Freed {
        allocated: u64,
        freed: u64,
    },
    /// Freed, and the checkpoint needs it.
    Kept {
        allocated: u64,
    },
}

struct World {
    space: Allocator,
    sectors: [[Sector; VDEV_SECTORS]; VDEVS as usize],
    /// What the space maps on disk say is allocated.
    disk: [RangeTree; VDEVS as usize],
    /// What the maps of kept space on disk say.
    kept: [RangeTree; VDEVS as usize],
    checkpoint: Option<u64>,
    live: Vec<Dva>,
    held: Vec<(VdevId, Segment)>,
    open: u64,
    oldest: u64,
}

fn span(dva: &Dva) -> std::ops::Range<usize> {
    let start = (dva.offset.get() / SECTOR) as usize;
    start..start + (dva.asize.get() / SECTOR) as usize
}

/// The parts of a run in each metaslab: maps of kept space have runs of one metaslab each, which the model puts together.
fn by_metaslab(run: Segment) -> impl Iterator<Item = Segment> {
    let size = 1 << MS_SHIFT;
    (run.start / size..run.end.div_ceil(size)).filter_map(move |metaslab| {
        let (start, end) = (run.start.max(metaslab * size), run.end.min((metaslab + 1) * size));
        Segment::new(start, end - start)
    })
}

impl World {
    fn new() -> Self {
        let space = normal(VDEVS, VDEV_SECTORS as u64 * SECTOR, MS_SHIFT);
        let sectors = [[Sector::Free; VDEV_SECTORS]; VDEVS as usize];
        Self {
            space,
            sectors,
            disk: Default::default(),
            kept: Default::default(),
            checkpoint: None,
            live: Vec::new(),
            held: Vec::new(),
            open: FIRST_TXG,
            oldest: FIRST_TXG,
        }
    }

    fn of(&mut self, dva: &Dva) -> &mut [Sector] {
        &mut self.sectors[dva.vdev.get() as usize][span(dva)]
    }

    /// The txg that is syncing, or the one that is open: they may be the same.
    fn txg(&self, syncing: bool) -> u64 {
        if syncing { self.oldest } else { self.open }
    }

    fn allocated(&mut self, by: u64, dva: Dva) {
        for sector in self.of(&dva) {
            assert_eq!(*sector, Sector::Free, "{dva:?} was handed out in txg {by}");
            *sector = Sector::Allocated { by };
        }
        assert!(!self.is_held(&dva), "{dva:?} was handed out while it was held");
        self.live.push(dva);
    }

    fn is_held(&self, dva: &Dva) -> bool {
        let segment = Segment::new(dva.offset.get(), dva.asize.get()).unwrap();
        self.held.iter().any(|(vdev, held)| *vdev == dva.vdev && held.overlaps(segment))
    }

    fn hold(&mut self, vdev: u32, sector: u64, sectors: u64) {
        let (id, from) = (VdevId::new(vdev), sector * SECTOR);
        let own = &self.sectors[vdev as usize];
        let next = (sector as usize..VDEV_SECTORS).find(|&at| own[at] == Sector::Free);
        let first = match self.space.hold_free(id, units::VdevOffset::new(from), sectors * SECTOR) {
            NextFree::None => None,
            NextFree::Busy(held) => {
                let is_of = |(of, segment): &&(VdevId, Segment)| *of == id && segment.overlaps(held);
                assert!(self.held.iter().any(|other| is_of(&other)), "{held:?} is held by somebody");
                Some(held.start)
            }
            NextFree::Held(held) => {
                assert!(held.len() <= sectors * SECTOR);
                let range = (held.start / SECTOR) as usize..(held.end / SECTOR) as usize;
                assert!(own[range].iter().all(|sector| *sector == Sector::Free), "{held:?} is free");
                self.held.push((id, held));
                Some(held.start)
            }
        };
        assert_eq!(first, next.map(|at| at as u64 * SECTOR), "what is free next from {from} on");
    }

    fn give_back(&mut self, pick: usize) {
        if !self.held.is_empty() {
            let (vdev, held) = self.held.swap_remove(pick % self.held.len());
            self.space.give_back(vdev, held);
        }
    }

    fn free(&mut self, by: u64, pick: usize) {
        let pick = pick % self.live.len();
        let dva = self.live[pick];
        let Sector::Allocated { by: allocated } = self.of(&dva)[0] else { panic!("{dva:?} is live") };
        assert_eq!(self.space.check_allocated(txg(by), &dva).is_ok(), allocated <= by, "{dva:?} in txg {by}");
        if allocated > by {
            return;
        }
        self.space.free(txg(by), &dva);
        self.of(&dva).fill(Sector::Freed { allocated, freed: by });
        self.live.swap_remove(pick);
    }

    /// Frees in the txg being synced, what is older than the checkpoint stays.
    fn free_or_keep(&mut self, pick: usize) {
        let (by, pick) = (self.oldest, pick % self.live.len());
        let dva = self.live[pick];
        let Sector::Allocated { by: allocated } = self.of(&dva)[0] else { panic!("{dva:?} is live") };
        if allocated > by {
            return;
        }
        self.space.free_or_keep(txg(by), txg(allocated), &dva);
        let is_kept = self.checkpoint.is_some_and(|checkpoint| allocated <= checkpoint);
        let now = if is_kept { Sector::Kept { allocated } } else { Sector::Freed { allocated, freed: by } };
        self.of(&dva).fill(now);
        self.live.swap_remove(pick);
        assert!(self.space.check_allocated(txg(by), &dva).is_err());
    }

    /// Frees what was kept, in the txg being synced, and has no checkpoint any more.
    fn discard(&mut self) {
        self.take(self.oldest);
        self.checkpoint = None;
        self.space.set_checkpoint(None);
        for (vdev, kept) in std::mem::take(&mut self.kept).iter().enumerate() {
            let runs: Vec<Change> =
                kept.iter().flat_map(by_metaslab).map(|run| Change::new(ChangeKind::Free, run)).collect();
            self.space.release(txg(self.oldest), VdevId::new(vdev as u32), &runs).unwrap();
        }
        let freed = self.oldest;
        for sector in self.sectors.iter_mut().flatten() {
            if let Sector::Kept { allocated } = *sector {
                *sector = Sector::Freed { allocated, freed };
            }
        }
    }

    fn unalloc(&mut self) {
        let Some(dva) = self.live.last().copied() else { return };
        let own = Sector::Allocated { by: self.open };
        if self.of(&dva)[0] != own {
            return;
        }
        self.live.pop();
        let resting = self.space.space(Class::Normal).resting;
        self.space.unalloc(txg(self.open), &dva);
        let by = self.open;
        let at_once = self.space.space(Class::Normal).resting == resting;
        let now = if at_once { Sector::Free } else { Sector::Freed { allocated: by, freed: by } };
        self.of(&dva).fill(now);
    }

    fn claim(&mut self, sector: u64, sectors: u64) {
        let dva = Dva {
            vdev: VdevId::new(0),
            offset: units::VdevOffset::new(sector * SECTOR),
            asize: Asize::new(sectors * SECTOR),
            gang: false,
        };
        let per_metaslab = (1 << MS_SHIFT) / SECTOR;
        let inside = sector / per_metaslab == (sector + sectors - 1) / per_metaslab;
        let free =
            inside && !self.is_held(&dva) && self.of(&dva).iter().all(|sector| *sector == Sector::Free);
        assert_eq!(self.space.claim(txg(self.open), &dva).is_ok(), free, "{dva:?}");
        if free {
            self.allocated(self.open, dva);
        }
    }

    fn take(&mut self, at: u64) {
        for (vdev, runs) in self.space.take_kept(txg(at)) {
            let kept = &mut self.kept[vdev.get() as usize];
            runs.iter().for_each(|run| kept.add(Segment::new(run.offset.get(), run.len.get()).unwrap()));
        }
        for ((vdev, _), changes) in self.space.take_changes(txg(at)) {
            let disk = &mut self.disk[vdev.get() as usize];
            for change in changes {
                let segment = Segment::new(change.offset.get(), change.len.get()).unwrap();
                match change.kind {
                    ChangeKind::Alloc => disk.add(segment),
                    ChangeKind::Free => disk.remove(segment),
                }
            }
        }
    }

    fn sync_oldest(&mut self) {
        let done = self.oldest;
        self.take(done);
        self.check_disk(done);
        self.space.sync_done(txg(done));
        for sector in self.sectors.iter_mut().flatten() {
            if let Sector::Freed { freed, .. } = *sector
                && freed + units::TXG_DEFER <= done
            {
                *sector = Sector::Free;
            }
        }
        self.oldest += 1;
        self.open = self.open.max(self.oldest);
    }

    /// Once a txg is synced, the space maps hold what txgs up to it allocated and have not freed.
    fn check_disk(&self, done: u64) {
        let recorded = |sector: Sector| match sector {
            Sector::Free => false,
            Sector::Allocated { by } => by <= done,
            Sector::Freed { allocated, freed } => allocated <= done && freed > done,
            Sector::Kept { allocated } => allocated <= done,
        };
        for (vdev, disk) in self.disk.iter().enumerate() {
            let expected = (0..VDEV_SECTORS).filter(|&at| recorded(self.sectors[vdev][at]));
            let found = (0..VDEV_SECTORS).filter(|&at| disk.run_at(at as u64 * SECTOR).is_some());
            assert!(expected.eq(found), "space maps of vdev {vdev} after txg {done}");
            let condensed: RangeTree = self
                .space
                .metaslabs(VdevId::new(vdev as u32))
                .iter()
                .flat_map(|metaslab| metaslab.condensed())
                .map(|change| Segment::new(change.offset.get(), change.len.get()).unwrap())
                .collect();
            assert_eq!(condensed, *disk, "condensed maps of vdev {vdev} after txg {done}");
        }
    }

    fn check_memory(&self) {
        let count = |which: fn(Sector) -> bool| {
            Asize::new(self.sectors.iter().flatten().filter(|&&sector| which(sector)).count() as u64 * SECTOR)
        };
        let expected = SpaceFigures {
            capacity: Asize::new(u64::from(VDEVS) * VDEV_SECTORS as u64 * SECTOR),
            free: count(|sector| sector == Sector::Free),
            allocated: count(|sector| matches!(sector, Sector::Allocated { .. })),
            resting: count(|sector| matches!(sector, Sector::Freed { .. })),
            kept: count(|sector| matches!(sector, Sector::Kept { .. })),
        };
        assert_eq!(self.space.space(Class::Normal), expected);
    }

    fn run(&mut self, op: Op) {
        match op {
            Op::Allocate { sectors, copies, syncing } => {
                let (by, psize) = (self.txg(syncing), Psize::new(sectors * SECTOR));
                let dvas = self.space.allocate(Class::Normal, psize, copies, txg(by), Hint::default());
                let dvas = dvas.into_iter().flat_map(|dvas| dvas.into_iter().take(copies));
                dvas.for_each(|dva| self.allocated(by, dva));
            }
            Op::Free { pick, syncing } if !self.live.is_empty() => self.free(self.txg(syncing), pick),
            Op::FreeOrKeep { pick } if !self.live.is_empty() => self.free_or_keep(pick),
            Op::Free { .. } | Op::FreeOrKeep { .. } => {}
            Op::Checkpoint if self.kept.iter().all(RangeTree::is_empty) => {
                self.checkpoint = Some(self.oldest - 1);
                self.space.set_checkpoint(self.checkpoint.map(txg));
            }
            Op::Checkpoint => {}
            Op::Discard => self.discard(),
            Op::Unalloc => self.unalloc(),
            Op::Claim { sector, sectors } => self.claim(sector, sectors),
            Op::Hold { vdev, sector, sectors } => self.hold(vdev, sector, sectors),
            Op::GiveBack { pick } => self.give_back(pick),
            Op::Take => self.take(self.oldest),
            Op::OpenNext if self.open < self.oldest + 2 => self.open += 1,
            Op::OpenNext => {}
            Op::SyncOldest => self.sync_oldest(),
        }
        self.check_memory();
    }

    /// Syncs all; then the space maps alone rebuild the same allocator.
    fn end(mut self) {
        let last = self.open + 3;
        while self.oldest <= last {
            self.sync_oldest();
            self.check_memory();
        }
        let mut loaded = normal(VDEVS, VDEV_SECTORS as u64 * SECTOR, MS_SHIFT);
        for id in (0..VDEVS).map(VdevId::new) {
            for (index, metaslab) in self.space.metaslabs(id).iter().enumerate() {
                loaded.load(id, ms(index as u32), metaslab.condensed()).unwrap();
            }
            let kept = self.kept[id.get() as usize].iter().flat_map(by_metaslab);
            let kept: Vec<Change> = kept.map(|run| Change::new(ChangeKind::Free, run)).collect();
            loaded.load_kept(id, &kept).unwrap();
            assert_eq!(loaded.vdev_space(id), self.space.vdev_space(id));
        }
        self.live.iter().for_each(|dva| loaded.free(txg(99), dva));
        assert_eq!(loaded.space(Class::Normal).allocated.get(), 0, "all that is allocated is live");
    }
}

fn replay(history: &[Op]) {
    let mut world = World::new();
    history.iter().for_each(|&op| world.run(op));
    world.end();
}

fn any_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (1u64..12, 1usize..=3, any::<bool>())
            .prop_map(|(sectors, copies, syncing)| Op::Allocate { sectors, copies, syncing }),
        6 => (any::<usize>(), any::<bool>()).prop_map(|(pick, syncing)| Op::Free { pick, syncing }),
        1 => Just(Op::Unalloc),
        1 => (0u64..120, 1u64..8).prop_map(|(sector, sectors)| Op::Claim { sector, sectors }),
        4 => any::<usize>().prop_map(|pick| Op::FreeOrKeep { pick }),
        2 => Just(Op::Checkpoint),
        1 => Just(Op::Discard),
        2 => (0..VDEVS, 0u64..120, 1u64..40)
            .prop_map(|(vdev, sector, sectors)| Op::Hold { vdev, sector, sectors }),
        1 => any::<usize>().prop_map(|pick| Op::GiveBack { pick }),
        2 => Just(Op::Take),
        2 => Just(Op::OpenNext),
        2 => Just(Op::SyncOldest),
    ]
}

proptest! {
    #[test]
    fn any_history_keeps_space_in_exactly_one_place(history in prop::collection::vec(any_op(), 0..160)) {
        replay(&history);
    }
}

/// All histories of five operations, which is where the order of takes, frees and txgs is decided.
#[test]
fn changes_taken_replay_to_what_is_allocated() {
    let ops = [
        Op::Allocate { sectors: 3, copies: 1, syncing: false },
        Op::Free { pick: 0, syncing: false },
        Op::Free { pick: 0, syncing: true },
        Op::FreeOrKeep { pick: 0 },
        Op::Checkpoint,
        Op::Discard,
        Op::Unalloc,
        Op::Claim { sector: 0, sectors: 2 },
        Op::Take,
        Op::OpenNext,
        Op::SyncOldest,
    ];
    for history in 0..ops.len().pow(5) {
        let digits = (0..5).map(|place| ops[history / ops.len().pow(place) % ops.len()]);
        replay(&digits.collect::<Vec<_>>());
    }
}
