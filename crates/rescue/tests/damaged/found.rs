//! States that older uberblocks lead to, when the newest uberblocks are lost.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use env::Env;
use ondisk::label::{LABELS, UBERBLOCK_RING_OFFSET, label_offset, uberblock_slot_bytes};
use rescue::{FoundState, find_states, read_labels};
use units::{Ashift, LABEL_START_BYTES};

use crate::world::{NoProgress, World};

fn states(world: &World) -> Vec<FoundState> {
    let shared: Arc<dyn Env> = world.env.clone();
    world.env.block_on(find_states(&shared, &world.search.devices)).expect("readable")
}

/// Overwrites the uberblocks of the newest txgs, and the roots that they lead to.
fn overwrite_newest(world: &World, count: usize) {
    let shared: Arc<dyn Env> = world.env.clone();
    let path = &world.search.devices[0];
    let gone: Vec<u64> = states(world).iter().take(count).map(|state| state.txg).collect();
    let labels = world.env.block_on(read_labels(&shared, std::slice::from_ref(path))).expect("readable");
    let file = File::options().write(true).open(path).expect("the copy is ours");
    let size = file.metadata().expect("just opened").len();
    let config = labels[0].labels.config(None).expect("labels are whole");
    let ashift =
        config.get_nvlist("vdev_tree").and_then(|tree| tree.get_u64("ashift")).expect("a sector size");
    let slot_bytes = uberblock_slot_bytes(Ashift::new(u8::try_from(ashift).expect("small")));
    let noise = vec![0xa5; usize::try_from(slot_bytes).expect("small")];
    for found in labels[0].labels.uberblocks.iter().filter(|found| gone.contains(&found.uberblock.txg.get()))
    {
        assert!(found.label < LABELS);
        let start = label_offset(size, found.label).expect("room for labels").get() + UBERBLOCK_RING_OFFSET;
        file.write_all_at(&noise, start + found.slot * slot_bytes).expect("written");
        for dva in found.uberblock.rootbp.dvas() {
            file.write_all_at(&noise[..512], dva.offset.get() + LABEL_START_BYTES).expect("written");
        }
    }
}

#[test]
fn the_newest_state_that_is_left_comes_back_when_fifty_are_overwritten() {
    let world = World::copy("g11-many");
    let before = states(&world);
    let count = 50.min(before.len() - 1);
    overwrite_newest(&world, count);
    let left = states(&world);
    assert_eq!(left.len(), before.len() - count, "{count} states are gone");
    let root = world.open().expect("an older state");
    assert!(left.iter().any(|state| state == root.state()), "{:?}", root.state());
    let summary = world.rescue_from(&root);
    assert!(summary.files > 0, "{summary:?}");
    // Parts of the old state may have been overwritten since, and are then reported.
    let is_lost = world.report().iter().any(|line| line.what != "system");
    assert_eq!(summary.is_whole(), !is_lost, "{summary:?}");
}

#[test]
fn a_state_of_ones_choice_is_opened() {
    let mut world = World::copy("g10-snapshots-clones");
    let found = states(&world);
    let shared: Arc<dyn Env> = world.env.clone();
    let surveys = world.env.block_on(world.search.survey(&shared, &NoProgress)).expect("surveyed");
    assert_eq!(surveys.len(), found.len());
    assert!(surveys[0].unreadable.is_none() && surveys[0].lost_objects == 0, "{:?}", surveys[0]);
    assert!(
        surveys[0].datasets == surveys[0].readable_datasets && surveys[0].datasets > 10,
        "{:?}",
        surveys[0]
    );
    let older = surveys.iter().skip(1).find(|survey| survey.readable_datasets > 0).expect("an older state");
    world.search.txg = Some(older.state.txg);
    assert_eq!(world.open().expect("it is readable").state().txg, older.state.txg);
    world.search.txg = Some(found[0].txg + 1);
    assert!(world.open().is_err(), "no such state");
}
