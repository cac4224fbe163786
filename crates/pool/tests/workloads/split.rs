//! Pools are split, and `zdb` judges both halves.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use device::Options;
use device::RealEnv;
use env::Env;
use ondisk::config;
use oracle::zdb::Zdb;
use pool::{ImportSpec, Pool, PoolError, SplitRefusal, Tuning};
use units::Guid;
use vdev::PoolState;

use crate::dice::Dice;
use crate::tree::Tree;
use crate::world::{Layout, World};

const TWIN: &str = "twin";

fn tuning() -> Tuning {
    Tuning { cache_bytes: 64 << 20, ..Tuning::default() }
}

fn guid(world: &World, pool: &Pool, name: &str) -> Guid {
    let leaf = pool.vdevs().leaves().into_iter().find(|leaf| leaf.path() == world.path(name));
    leaf.unwrap_or_else(|| panic!("no {name}")).guid()
}

fn names(pool: &Pool) -> BTreeSet<String> {
    let name = |path: PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
    pool.vdevs().leaves().iter().map(|leaf| name(leaf.path())).collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Imports the other half, from the files that are named.
fn import_twin(world: &World, paths: &[&str]) -> Arc<Pool> {
    let paths = paths.iter().map(|name| world.path(name)).collect();
    let spec = ImportSpec { paths, name: Some(TWIN.into()), ..ImportSpec::default() };
    let env: Arc<dyn Env> = RealEnv::new(Options::default());
    world.run(Pool::import(env, &spec, tuning())).unwrap()
}

#[test]
fn both_halves_of_a_split_are_sound() {
    let two = Layout::new(&[&["a", "b"], &["c", "d"]], &[&["l"]], 12);
    let special = Layout { special: &[&["s", "t"]], ..Layout::new(&[&["a", "b"]], &[&["l", "m"]], 9) };
    let wide = Layout::new(&[&["a", "b", "c"]], &[], 12);
    let (mut verdicts, mut twins) = (Vec::new(), Vec::new());
    for (layout, named, stays, goes) in [
        (two, &["c"][..], &["a", "d", "l"][..], &["b", "c"][..]),
        (special, &["s"], &["a", "l", "m", "t"], &["b", "s"]),
        (wide, &[], &["a", "b"], &["c"]),
    ] {
        let layout = Layout { device_mib: 256, special_mib: 256, ..layout };
        let (world, mut dice) = (World::new(layout), Dice::new(17));
        let pool = world.create();
        let zfs = world.zfs(&pool, "whirl");
        let mut tree = world.run(Tree::of_empty(&zfs));
        for _ in 0..4 {
            world.run(tree.steps(&zfs, &mut dice, 40));
            world.run(pool.sync_now()).unwrap();
        }
        world.run(tree.steps(&zfs, &mut dice, 30));
        // What is unlinked and open is nobody's after the other half's import.
        world.run(tree.close_orphans(&zfs));
        let named: Vec<_> = named.iter().map(|name| guid(&world, &pool, name)).collect();
        let twin = world.run(pool.split(TWIN, &named, tuning())).unwrap();
        assert_eq!((names(&pool), names(&twin)), (set(stays), set(goes)));
        assert_ne!(pool.guid(), twin.guid());
        world.run(twin.close(PoolState::Exported)).unwrap();
        // What is written now is not in the other half.
        let mut later = tree.clone();
        world.run(later.steps(&zfs, &mut dice, 40));
        world.run(later.close_orphans(&zfs));
        drop(zfs);
        world.export(&pool);
        verdicts.push(world.copy().check_aside("the half that stays"));
        twins.push(twin_aside(world.copy(), "split off"));
        let config = Zdb::new(world.dir(), TWIN).run(&["-C"], &[]).unwrap();
        assert!(config.contains(&format!("split_guid: {}", pool.guid().get())), "{config}");
        let twin = import_twin(&world, goes);
        let stored = world.run(twin.stored_config()).unwrap();
        assert!(!stored.contains(config::SPLIT) && !stored.contains(config::SPLIT_GUID));
        let history = world.run(twin.history()).unwrap();
        let noted = |list: &ondisk::NvList| list.get_str("history internal str") == Some("from pool whirl");
        assert!(history.iter().any(noted), "{history:?}");
        let zfs = world.zfs(&twin, TWIN);
        world.run(tree.check(&zfs));
        world.run(tree.steps(&zfs, &mut dice, 40));
        world.run(tree.close_orphans(&zfs));
        drop(zfs);
        world.export(&twin);
        twins.push(twin_aside(world.copy(), "worked on"));
        let pool = world.import();
        let stored = world.run(pool.stored_config()).unwrap();
        assert!(!stored.contains(config::SPLIT));
        let zfs = world.zfs(&pool, "whirl");
        world.run(later.check(&zfs));
        drop(zfs);
        world.export(&pool);
        verdicts.push(world.check_aside("worked on"));
    }
    verdicts.into_iter().for_each(|verdict| drop(verdict.wait()));
    twins.into_iter().for_each(|twin| twin.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
}

/// Has `zdb` judge the other half, while the test goes on.
fn twin_aside(world: World, when: &'static str) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let judged = Zdb::new(world.dir(), TWIN).check_closely();
        drop(judged.unwrap_or_else(|error| panic!("twin, {when}: {error}")));
    })
}

#[test]
fn what_cannot_be_split_is_refused_and_stays_as_it_was() {
    let world = World::new(Layout { device_mib: 128, ..Layout::new(&[&["a", "b"], &["c", "d"]], &[], 12) });
    let pool = world.create();
    let split = |named: &[&str]| {
        let named: Vec<_> = named.iter().map(|name| guid(&world, &pool, name)).collect();
        match world.run(pool.split(TWIN, &named, tuning())) {
            Err(PoolError::Split(refusal)) => refusal,
            other => panic!("{other:?}", other = other.map(|_| ())),
        }
    };
    assert_eq!(split(&["a", "b"]), SplitRefusal::NotOneOfEach);
    world.run(pool.take_offline(guid(&world, &pool, "d"), pool::Absence::Offline, false)).unwrap();
    assert_eq!(split(&[]), SplitRefusal::Unfit);
    assert_eq!(split(&["c"]), SplitRefusal::Busy);
    world.run(pool.bring_online(guid(&world, &pool, "d"))).unwrap();
    world.run(pool.make_checkpoint()).unwrap();
    assert!(matches!(world.run(pool.split(TWIN, &[], tuning())), Err(PoolError::Checkpoint(_))));
    assert_eq!(names(&pool), set(&["a", "b", "c", "d"]));
    world.export(&pool);
    let world = World::new(Layout { device_mib: 128, ..Layout::new(&[&["a", "b"], &["c"]], &[], 12) });
    let pool = world.create();
    let refused = world.run(pool.split(TWIN, &[], tuning()));
    assert!(matches!(refused, Err(PoolError::Split(SplitRefusal::NotMirrors))));
    world.export(&pool);
    world.check("refused");
}
