//! `zfs diff` of file systems with all kinds of changes, and of random ones against a plain model.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::mounted::{POOL, World};
use crate::shell::sh;

fn diff(world: &World, words: &str) -> BTreeSet<String> {
    world.zfs_prints(&format!("diff {words}")).lines().map(str::to_owned).collect()
}

fn lines(root: &Path, wanted: &[&str]) -> BTreeSet<String> {
    let root = root.to_str().expect("text");
    wanted.iter().map(|line| line.replace("ROOT", root)).collect()
}

#[test]
fn each_kind_of_change_is_told() {
    let Some(world) = crate::world(&["setfattr"]) else { return };
    let root = world.root();
    sh(
        "mkdir d d/sub; echo 1 > kept; echo 1 > changed; echo 1 > old; echo 1 > gone; echo 1 > linked; echo 1 > d/two
         ln d/two again; ln -s kept link; mkfifo pipe; echo 1 > 'a b'; echo 1 > d/replaced; mkdir empty",
        &root,
    );
    world.zfs(&format!("snapshot {POOL}@1"));
    sh(
        "echo 2 > changed; mv old new; rm gone; ln linked d/more; rm again; rm pipe; ln -s x link2; echo 2 >> 'a b'
         chmod 600 kept; rmdir empty; mkdir d/fresh; mv d/sub d/sub2; echo 3 > d/fresh/$'\\xc3\\xa4\\\\'",
        &root,
    );
    world.zfs(&format!("snapshot {POOL}@2"));
    let told = diff(&world, &format!("-F {POOL}@1 {POOL}@2"));
    let wanted = lines(
        &root,
        &[
            "M\t/\tROOT/",
            "M\t/\tROOT/d",
            "M\tF\tROOT/changed",
            "R\tF\tROOT/old -> ROOT/new",
            "-\tF\tROOT/gone",
            "M\tF\tROOT/linked\t(+1)",
            "M\tF\tROOT/d/two\t(-1)",
            "-\t|\tROOT/pipe",
            "+\t@\tROOT/link2",
            "M\tF\tROOT/a\\0040b",
            "M\tF\tROOT/kept",
            "-\t/\tROOT/empty",
            "+\t/\tROOT/d/fresh",
            "R\t/\tROOT/d/sub -> ROOT/d/sub2",
            "+\tF\tROOT/d/fresh/\\0303\\0244\\0134",
        ],
    );
    // Of a file with two names that lost one, either may be the one that its directory told.
    let strip = |all: &BTreeSet<String>| -> BTreeSet<String> {
        all.iter().filter(|line| !line.contains("(-1)")).cloned().collect()
    };
    assert_eq!(strip(&told), strip(&wanted));
    assert_eq!(told.iter().filter(|line| line.ends_with("\t(-1)")).count(), 1, "{told:?}");
    // The same by other words, and against what is there now.
    assert_eq!(diff(&world, &format!("-F {POOL}@1 @2")), told);
    assert_eq!(diff(&world, &format!("-F @1 {POOL}")), told);
    assert_eq!(diff(&world, &format!("-F {POOL}@1")), told);
    assert_eq!(world.zfs_prints("list -Ho name -t snapshot"), format!("{POOL}@1\n{POOL}@2\n"));
    assert_eq!(diff(&world, &format!("{POOL}@2 {POOL}")), BTreeSet::new());
    let raw = diff(&world, &format!("-Hh {POOL}@1 {POOL}@2"));
    let root_text = root.to_str().expect("text");
    assert!(raw.contains(&format!("R\t{root_text}/old\t{root_text}/new")), "{raw:?}");
    assert!(raw.contains(&format!("+\t{root_text}/d/fresh/\u{e4}\\")), "{raw:?}");
    let stat = fs::metadata(root.join("new")).expect("it is there");
    let timed = diff(&world, &format!("-t {POOL}@1"));
    let time = format!("{:>10}.{:09}\tR\t{root_text}/old -> ", stat.ctime(), stat.ctime_nsec());
    assert!(timed.iter().any(|line| line.starts_with(&time)), "{time}: {timed:?}");
    // Without a mount.
    world.zfs(&format!("unmount {POOL}"));
    assert_eq!(diff(&world, &format!("-F {POOL}@1 {POOL}@2")), told);
    world.zfs(&format!("mount {POOL}"));
    let refused = |words: &str| world.zfs_refuses(&format!("diff {words}")).expect("refused");
    assert_eq!(
        refused(&format!("{POOL}@2 {POOL}@1")),
        "Unable to obtain diffs: \n   Not an earlier snapshot from the same fs\n"
    );
    assert_eq!(
        refused(&format!("{POOL}@nope {POOL}@1")),
        format!("cannot open '{POOL}@nope': dataset does not exist\n")
    );
    assert_eq!(
        refused(POOL),
        format!("Badly formed snapshot name {POOL}: missing '@' delimiter in snapshot name\n")
    );
    world.finish();
}

#[test]
fn a_file_whose_newest_name_is_gone_is_found_by_its_older_names() {
    let Some(world) = crate::world(&[]) else { return };
    let root = world.root();
    sh(
        "mkdir a b c; echo 1 > a/kept; echo 1 > a/moved; echo 1 > a/lost; ln a/lost b/newest; rm b/newest",
        &root,
    );
    world.zfs(&format!("snapshot {POOL}@1"));
    sh(
        "ln a/kept b/x; rm b/x
         mv a/moved c/moved; ln c/moved b/x; rm b/x
         echo 1 > c/new; ln c/new b/x; rm b/x
         rm a/lost",
        &root,
    );
    world.zfs(&format!("snapshot {POOL}@2"));
    let told = diff(&world, &format!("-F {POOL}@1 {POOL}@2"));
    let wanted = [
        "M\t/\tROOT/a",
        "M\t/\tROOT/b",
        "M\t/\tROOT/c",
        "M\tF\tROOT/a/kept",
        "R\tF\tROOT/a/moved -> ROOT/c/moved",
        "+\tF\tROOT/c/new",
        "-\tF\tROOT/a/lost",
    ];
    assert_eq!(told, lines(&root, &wanted));
    world.finish();
}

/// What is known of files by their numbers in a plain model.
#[derive(Clone, Default)]
struct Model {
    paths: BTreeMap<u64, PathBuf>,
    next: u64,
}

/// Of each number: where it is, and when it was changed.
fn seen(top: &Path, model: &Model) -> BTreeMap<u64, (PathBuf, i64, i64)> {
    let look = |(&number, path): (&u64, &PathBuf)| {
        let stat = fs::symlink_metadata(top.join(path)).expect("it is there");
        (number, (path.clone(), stat.ctime(), stat.ctime_nsec()))
    };
    model.paths.iter().map(look).collect()
}

#[test]
fn random_changes_are_told_as_a_model_tells_them() {
    let Some(world) = crate::world(&[]) else { return };
    let root = world.root();
    let root_text = root.to_str().expect("text").to_owned();
    let mut dice = fastrand::Rng::with_seed(31);
    let mut model = Model::default();
    let mut states = Vec::new();
    for dir in 0..4 {
        fs::create_dir(root.join(format!("d{dir}"))).expect("made");
    }
    for round in 0..5 {
        for _ in 0..60 {
            let all: Vec<u64> = model.paths.keys().copied().collect();
            let pick = (!all.is_empty()).then(|| all[dice.usize(..all.len())]);
            match (dice.u8(..10), pick) {
                (0..=4, _) | (_, None) => {
                    model.next += 1;
                    let path = PathBuf::from(format!("d{}/f{}", dice.u8(..4), model.next));
                    fs::write(root.join(&path), "x").expect("written");
                    model.paths.insert(model.next, path);
                }
                (5..=6, Some(number)) => {
                    fs::write(root.join(&model.paths[&number]), "changed").expect("written");
                }
                (7, Some(number)) => {
                    let to = PathBuf::from(format!("d{}/r{}", dice.u8(..4), dice.u32(..)));
                    fs::rename(root.join(&model.paths[&number]), root.join(&to)).expect("moved");
                    model.paths.insert(number, to);
                }
                (_, Some(number)) => {
                    fs::remove_file(root.join(&model.paths[&number])).expect("removed");
                    model.paths.remove(&number);
                }
            }
        }
        world.zfs(&format!("snapshot {POOL}@r{round}"));
        states.push(seen(&root, &model));
    }
    for (first, last) in [(0, 1), (1, 3), (0, 4), (3, 4)] {
        let (before, after) = (&states[first], &states[last]);
        let mut wanted = BTreeSet::new();
        let shown = |path: &Path| format!("{root_text}/{}", path.display());
        for number in before.keys().chain(after.keys()) {
            let line = match (before.get(number), after.get(number)) {
                (Some((path, ..)), None) => format!("-\t{}", shown(path)),
                (None, Some((path, ..))) => format!("+\t{}", shown(path)),
                (Some(old), Some(new)) if old == new => continue,
                (Some((old, ..)), Some((new, ..))) if old == new => format!("M\t{}", shown(new)),
                (Some((old, ..)), Some((new, ..))) => format!("R\t{} -> {}", shown(old), shown(new)),
                (None, None) => unreachable!("it is in one of them"),
            };
            wanted.insert(line);
        }
        let told = diff(&world, &format!("{POOL}@r{first} {POOL}@r{last}"));
        let of_files: BTreeSet<String> = told
            .into_iter()
            .filter(|line| line.matches('/').count() > root_text.matches('/').count() + 1)
            .collect();
        assert_eq!(of_files, wanted, "@r{first} @r{last}");
    }
    world.finish();
}

/// Lines of a comparison that its pipe and the buffers on the way do not take: about one MiB.
const MANY_FILES: usize = 8_000;

/// Begins a comparison whose lines nobody reads.
fn begun(world: &World) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sawmill"));
    command.args(["zfs", "diff", &format!("{POOL}@1")]).env("SAWMILL_RUN", world.run_dir());
    command.stdout(Stdio::piped()).spawn().expect("the program runs")
}

/// Waits for the snapshot that a comparison makes.
fn made(world: &World) -> String {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let all = world.zfs_prints("list -Ho name -t snapshot");
        if let Some(name) = all.lines().find(|name| name.contains("@zfs-diff-")) {
            return name.to_owned();
        }
        assert!(Instant::now() < deadline, "no snapshot was made: {all}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until the snapshot of a comparison is gone, and says what else there is.
fn left(world: &World) -> String {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let all = world.zfs_prints("list -Ho name -t snapshot");
        if !all.contains("@zfs-diff-") || Instant::now() > deadline {
            return all;
        }
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_comparison_leaves_no_snapshot_when_somebody_reads_it_or_the_daemon_dies() {
    let Some(world) = crate::world(&[]) else { return };
    let root = world.root();
    world.zfs(&format!("snapshot {POOL}@1"));
    for file in 0..MANY_FILES {
        fs::write(root.join(format!("{file:0100}")), "x").expect("written");
    }
    let only = format!("{POOL}@1\n");

    let child = begun(&world);
    let now = made(&world);
    let (_, short) = now.split_once('@').expect("a snapshot");
    let reader = fs::File::open(root.join(".zfs/snapshot").join(short).join(format!("{:0100}", 1)));
    let reader = reader.expect("its files are read like those of any snapshot");
    assert_eq!(world.zfs_prints(&format!("get -Ho value defer_destroy,userrefs {now}")), "on\n1\n");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.stdout.iter().filter(|byte| **byte == b'\n').count(), MANY_FILES + 1);
    drop(reader);
    assert_eq!(left(&world), only);

    // Whoever reads the lines goes away in the middle.
    let mut child = begun(&world);
    made(&world);
    child.kill().expect("it is there");
    child.wait().expect("it ended");
    assert_eq!(left(&world), only);

    let mut child = begun(&world);
    made(&world);
    // A snapshot is seen before its txg is on disk.
    world.zpool(&format!("sync {POOL}"));
    world.kill_daemon();
    child.kill().expect("it is there");
    child.wait().expect("it ended");
    world.restart();
    assert_eq!(world.zfs_prints("list -Ho name -t snapshot"), only);
    world.finish();
}
