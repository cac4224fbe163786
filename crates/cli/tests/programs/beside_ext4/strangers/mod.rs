//! Users who distrust one another do anything with each other's files: two users, root of a container, root of a user
//! namespace, and root of the host, who gives files away. Each deed has the same result on a mount of a pool as on
//! ext4, and leaves the same tree. None of the strangers changes anything below `.zfs`.
//!
//! ```text
//!  driver ─┬─► actor: the deed of this number, here   ─► result ─┐ equal?
//!          └─► actor: the same deed on ext4           ─► result ─┘
//!  after each run: the tree here, the tree on ext4 ─► equal?
//! ```
//! `SAWMILL_STRANGERS=N` tries N runs in place of a few; `SAWMILL_STRANGERS_SEED=N` tries one run again.

mod actor;
mod deed;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use actor::{Actor, REFUSED, Who, is_actor};
use deed::StrangerDeed;

use super::probes::{GROUP, OTHER, OWNER};
use super::stage::Ext4Stage;
use super::tree;

const NAME: &str = "beside_ext4::strangers::strangers_can_do_to_each_others_files_what_they_can_on_ext4";
/// The user who makes a user namespace.
const GUEST: u32 = 12_004;
/// A group that one of the actors is in.
const MEMBER_GROUP: u32 = 12_012;
/// The number of a scene: what is in a snapshot, and the directory of snapshots.
const IN_SNAPSHOT: usize = 2;
const IN_SNAPDIR: usize = 3;
const RUNS: u64 = 40;
const DEEDS: u64 = 300;
/// When a deed has two different results, so many deeds before it are printed.
const SHOWN: u64 = 12;
/// At least this percentage of all deeds must succeed, and at least as many must fail.
const SHARE_MIN: u64 = 10;

#[test]
fn strangers_can_do_to_each_others_files_what_they_can_on_ext4() {
    if is_actor() {
        return;
    }
    match Ext4Stage::inside() {
        Some(stage) => drive(&stage),
        None => Ext4Stage::around(NAME, &[]),
    }
}

/// The actors, each of whom has a process.
struct Cast(Vec<(Who, Actor)>);

impl Cast {
    fn start(stage: &Ext4Stage, scenes: &[PathBuf]) -> Self {
        let all = Who::STRANGERS.into_iter().chain([Who::Root]);
        Self(all.map(|who| (who, Actor::start(stage, who, scenes))).collect())
    }

    fn perform(&mut self, who: Who, scene: usize, seed: u64, number: u64) -> String {
        let (_, actor) = self.0.iter_mut().find(|(one, _)| *one == who).expect("all are there");
        actor.perform(scene, seed, number)
    }
}

fn drive(stage: &Ext4Stage) {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let runs = match number("SAWMILL_STRANGERS_SEED") {
        Some(seed) => seed..=seed,
        None => 1..=number("SAWMILL_STRANGERS").unwrap_or(RUNS),
    };
    let narrated = number("SAWMILL_STRANGERS_SEED").is_some();
    let scenes = scenes(stage);
    let mut cast = Cast::start(stage, &scenes);
    let (mut deeds, mut successes) = (0, 0);
    for seed in runs {
        for scene in &scenes[..IN_SNAPSHOT] {
            let dir = scene.join(seed.to_string());
            fs::create_dir(&dir).expect("a directory");
            prepare(&dir);
            let mode = [0o1777, 0o777, 0o3777][seed as usize % 3];
            fs::set_permissions(&dir, Permissions::from_mode(mode)).expect("a mode");
        }
        for number in 0..DEEDS {
            let (who, _) = StrangerDeed::drawn(seed, number);
            let [here, there] = [0, 1].map(|scene| cast.perform(who, scene, seed, number));
            if narrated {
                println!("{seed} {number}: {who:?}: {:?}: {here}", StrangerDeed::of(seed, number));
            }
            assert!(here == there, "here: {here}\next4: {there}\n{}", story(seed, number));
            deeds += 1;
            successes += u64::from(!here.starts_with(REFUSED));
        }
        let [here, there] = [0, 1].map(|scene| census(&scenes[scene].join(seed.to_string())));
        assert!(here == there, "seed {seed}, what is left\nhere:\n{here}\next4:\n{there}");
        // The first two are in the snapshots.
        for scene in scenes[..IN_SNAPSHOT].iter().filter(|_| seed > 2) {
            fs::remove_dir_all(scene.join(seed.to_string())).expect("root removes all");
        }
    }
    println!("{deeds} deeds, {successes} successes");
    let least = successes.min(deeds - successes);
    assert!(least * 100 >= deeds * SHARE_MIN, "{successes} of {deeds} deeds succeed");
    snapshots_stay(stage, &mut cast);
}

/// The directories of all scenes. A scene has a directory for each run in it.
fn scenes(stage: &Ext4Stage) -> [PathBuf; 4] {
    let [ours, ext4, snapdirs] =
        [stage.ours.join("scenes"), stage.ext4.join("scenes"), stage.ext4.join("snapdirs")];
    for scene in [&ours, &ext4, &snapdirs] {
        fs::create_dir(scene).expect("a directory");
    }
    let snapdir = stage.ours.join(".zfs/snapshot");
    for run in 1..=2 {
        symlink(&snapdir, snapdirs.join(run.to_string())).expect("a link");
    }
    [ours, ext4, snapdir.join("a/scenes"), snapdirs]
}

/// Makes what the first deeds are done to.
fn prepare(dir: &Path) {
    for (name, mode) in [("a", 0o777), ("b", 0o1777), ("a/a", 0o755), ("a/b", 0o2777)] {
        fs::create_dir(dir.join(name)).expect("a directory");
        fs::set_permissions(dir.join(name), Permissions::from_mode(mode)).expect("a mode");
    }
    for (name, owner) in [("c", OWNER), ("a/c", OWNER), ("b/a", OTHER), ("b/b", GUEST), ("a/b/c", OWNER)] {
        fs::write(dir.join(name), name).expect("written");
        chown(dir.join(name), Some(owner), Some(GROUP)).expect("given");
    }
}

/// Lists the last deeds before a deed that had two different results.
fn story(seed: u64, number: u64) -> String {
    let deeds = (number.saturating_sub(SHOWN)..=number).map(|number| {
        let (who, deed) = StrangerDeed::drawn(seed, number);
        format!("seed {seed}, {number}: {who:?}: {deed:?}")
    });
    deeds.collect::<Vec<_>>().join("\n")
}

/// All below a directory, with rights, contents and attributes.
fn census(dir: &Path) -> String {
    let mut text = String::new();
    for (name, path) in tree::all(dir) {
        let found = fs::symlink_metadata(&path).expect("it is there");
        text += &format!("{name} {} {}", tree::rights(&found), tree::kind(&path, &found));
        if found.is_file() {
            let bytes = fs::read(&path).expect("root reads");
            text += &format!(" sum {}", bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>());
        }
        if !found.is_symlink() {
            text += &tree::attributes(&path);
        }
        text.push('\n');
    }
    text
}

/// Nobody but root of the host changes a snapshot, or makes, destroys or renames one.
fn snapshots_stay(stage: &Ext4Stage, cast: &mut Cast) {
    let snapdir = stage.ours.join(".zfs/snapshot");
    for name in ["a", "b"] {
        fs::create_dir(snapdir.join(name)).expect("root takes a snapshot");
    }
    let before = census(&snapdir);
    let (mut deeds, mut successes) = (0, 0);
    for (scene, seed) in [(IN_SNAPSHOT, 1), (IN_SNAPSHOT, 2), (IN_SNAPDIR, 1), (IN_SNAPDIR, 2)] {
        for number in 0..DEEDS {
            let (who, deed) = StrangerDeed::drawn(seed, number);
            if who != Who::Root {
                let result = cast.perform(who, scene, seed, number);
                let is_refused = result.starts_with(REFUSED);
                assert!(is_refused || !deed.is_change(), "{who:?}: {deed:?}: {result}");
                deeds += 1;
                successes += u64::from(!is_refused);
            }
        }
    }
    println!("{deeds} deeds in snapshots, {successes} successes");
    assert!(successes > 0, "snapshots can be read");
    assert_eq!(census(&snapdir), before);
}
