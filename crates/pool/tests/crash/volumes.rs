//! Volumes that are written, freed, resized, kept and rolled back, and what a power cut leaves of them.
//!
//! What is done to a volume is one row of steps, in the log as in txgs. So a power cut leaves each of its blocks as it was
//! after one of them: the last that was promised, or a later one. (Data that the log takes from the volume when they are
//! asked for may be of a later write than their record.)

use std::collections::BTreeSet;
use std::sync::Arc;

use dmu::{Objset, Place, Reach};
use pool::{Pool, VolumeSpec};
use units::{ObjectId, ObjsetId, Txg};
use vdev::PoolState;

use crate::checkpoints::{each_image, world};
use crate::dice::Dice;
use crate::ground::quiet;
use crate::shape::{LOG, MIRRORED_LOG, RAIDZ, SINGLE, Shape, brisk};
use crate::space;
use crate::story::{Tell, run};

const NAME: &str = "whirl/v";
/// The object that holds a volume's blocks.
const DATA: ObjectId = ObjectId::new(1);
const BLOCK: usize = 4096;
const BLOCKS_MAX: u64 = 48;
const STEPS: usize = 70;

/// What each block holds: the number of the step that wrote it, 0 for a hole.
type State = Vec<u64>;
const WORD: usize = 8;
const STEP_BITS: u32 = 16;

/// A word of a block: the step that wrote it, and noise that only that step writes there.
const fn word(step: u64, at: u64) -> u64 {
    match step {
        0 => 0,
        _ => (step * 1000 + at).wrapping_mul(0x9e37_79b9_7f4a_7c15) << STEP_BITS | step,
    }
}

fn block_of(step: u64) -> Vec<u8> {
    (0..(BLOCK / WORD) as u64).flat_map(|at| word(step, at).to_le_bytes()).collect()
}

/// The steps that wrote the words of each block of a volume. A write that was not promised may be there in part, as with
/// OpenZFS: the log cuts a long one where a block of the log ends.
async fn steps_of(pool: &Arc<Pool>) -> Vec<BTreeSet<u64>> {
    let volume = pool.open_volume(NAME).await.expect("its log is whole");
    let mut bytes = vec![0; volume.size_bytes() as usize];
    volume.read(0, &mut bytes).await.expect("it reads");
    let step = |(at, bytes): (usize, &[u8])| {
        let found = u64::from_le_bytes(bytes.try_into().expect("a word"));
        let step = found & ((1 << STEP_BITS) - 1);
        assert_eq!(found, word(step, at as u64), "nobody wrote that");
        step
    };
    bytes.chunks(BLOCK).map(|block| block.chunks(WORD).enumerate().map(step).collect()).collect()
}

/// What a smaller size has cut off is not there any more.
async fn check_end(pool: &Arc<Pool>) {
    let blocks = pool.open_volume(NAME).await.expect("it is open").size_bytes() / BLOCK as u64;
    pool.sync_now().await.expect("txgs turn");
    let object = pool.dsl().resolve(NAME).await.expect("it is there").dataset;
    let root = pool.dsl().dataset(object).await.expect("it reads").bp;
    let all = Reach { from: Place::START, born_after: Txg::ZERO, limit: usize::MAX };
    let seen = Objset::visit(pool.zio(), ObjsetId::new(object.get()), &root, all).await;
    for (bookmark, _) in seen.blocks.iter().filter(|(of, _)| of.object == DATA && of.level.get() == 0) {
        assert!(bookmark.block.get() < blocks, "{bookmark:?} is past the end of {blocks} blocks");
    }
}

/// Does something to the volume; says whether it, and all before it, is promised then.
async fn step(
    pool: &Arc<Pool>,
    state: &mut State,
    kept: &mut Option<(String, State)>,
    number: u64,
    dice: &mut Dice,
) -> bool {
    let volume = pool.open_volume(NAME).await.expect("it is open");
    let first = dice.below(state.len() as u64) as usize;
    let count = (1 + dice.below(9) as usize).min(state.len() - first);
    let (at, sync) = ((first * BLOCK) as u64, dice.one_in(2));
    match dice.below(12) {
        0..=6 => {
            volume.write(at, &block_of(number).repeat(count), sync).await.expect("written");
            state[first..first + count].fill(number);
            sync
        }
        7 | 8 => {
            volume.free(at, (count * BLOCK) as u64, sync).await.expect("freed");
            state[first..first + count].fill(0);
            sync
        }
        9 => {
            let blocks = 1 + dice.below(BLOCKS_MAX);
            pool.resize_volume(NAME, blocks * BLOCK as u64).await.expect("resized");
            state.resize(blocks as usize, 0);
            true
        }
        10 => {
            let name = format!("{NAME}@{number}");
            pool.snapshot(vec![name.clone()], Vec::new()).await.expect("kept");
            *kept = Some((name, state.clone()));
            true
        }
        _ => {
            let Some((name, then)) = kept.clone() else { return false };
            pool.rollback(NAME.into(), name).await.expect("rolled back");
            *state = then;
            true
        }
    }
}

fn record(shape: &Shape, seed: u64) {
    let sim = world(shape, seed);
    let (mut states, mut promised) = (Vec::new(), Vec::new());
    run(&sim, async {
        let pool = shape.create(&sim, brisk()).await;
        let spec = VolumeSpec { size_bytes: 32 * BLOCK as u64, block_bytes: BLOCK as u32 };
        pool.create_volume(NAME, spec, Vec::new()).await.expect("made");
        let mut state = vec![0; 32];
        states.push(state.clone());
        sim.start_recording();
        let (mut dice, mut kept) = (Dice::new(seed, 3), None);
        for number in 1..=STEPS as u64 {
            let is_promised = step(&pool, &mut state, &mut kept, number, &mut dice).await;
            states.push(state.clone());
            if is_promised {
                promised.push(number as usize);
                sim.mark(number.to_string());
            }
        }
    });
    let mut seen = BTreeSet::new();
    each_image(&sim, seed, |image, sim, with_zdb| {
        if with_zdb {
            space::judged_by_zdb(shape, &sim);
        }
        let least = promised.iter().copied().filter(|step| image.is_after(&step.to_string())).max();
        run(&sim, async {
            let pool = shape.import(&sim, brisk(), false).await.expect("every crash state imports");
            let found = steps_of(&pool).await;
            let from = least.unwrap_or(0);
            let later = &states[from..];
            let is_one = later.iter().any(|state| state.len() == found.len());
            assert!(is_one, "after step {from} was promised it has {} blocks", found.len());
            for (block, steps) in found.iter().enumerate() {
                let allowed: BTreeSet<u64> =
                    later.iter().filter_map(|state| state.get(block).copied()).collect();
                let is_one = steps.is_subset(&allowed);
                assert!(is_one, "after step {from} was promised block {block} is of steps {steps:?}");
            }
            seen.insert(found);
            check_end(&pool).await;
            space::check(&pool).await;
            pool.close(PoolState::Exported).await.expect("it closes");
        });
    });
    assert!(seen.len() > STEPS / 4, "{} states were seen", seen.len());
}

#[test]
fn a_power_cut_leaves_a_volume_with_all_that_was_promised() {
    let _tell = Tell;
    for (shape, seed) in [(&SINGLE, 95_000), (&LOG, 95_001), (&MIRRORED_LOG, 95_002), (&RAIDZ, 95_003)] {
        record(shape, seed);
    }
}

#[test]
fn a_rollback_gives_back_the_log_of_a_volume_that_nobody_has_opened() {
    let sim = world(&SINGLE, 95_100);
    run(&sim, async {
        let pool = SINGLE.create(&sim, quiet()).await;
        let spec = VolumeSpec { size_bytes: 32 * BLOCK as u64, block_bytes: BLOCK as u32 };
        pool.create_volume(NAME, spec, Vec::new()).await.expect("made");
        pool.snapshot(vec!["whirl/v@a".to_owned()], Vec::new()).await.expect("kept");
        let volume = pool.open_volume(NAME).await.expect("it opens");
        volume.write(0, &block_of(1), true).await.expect("written");
        pool.sync_now().await.expect("stable");
        volume.write(0, &block_of(2), true).await.expect("written");
    });
    let sim = sim.power_cut(1).boot(1);
    run(&sim, async {
        let pool = SINGLE.import(&sim, quiet(), false).await.expect("it imports");
        pool.rollback(NAME.to_owned(), "whirl/v@a".to_owned()).await.expect("it is the latest");
        assert!(steps_of(&pool).await.iter().flatten().all(|step| *step == 0), "rolled back");
        space::check(&pool).await;
        pool.close(PoolState::Exported).await.expect("it closes");
    });
    space::judged_by_zdb(&SINGLE, &sim);
}
