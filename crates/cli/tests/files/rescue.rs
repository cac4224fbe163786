//! `sawmill rescue` and `sawmill cp --partial` on damaged pools, and names that lead out of the
//! target.

use crate::world::{World, sha256};
use dmu::Estimate;
use dmu::zap::Zap;
use oracle::golden;
use sawmill::Vdev;
use sawmill::blocking::Engine;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

const DISK_BYTES: u64 = 128 << 20;
const BLOCK_BYTES: usize = 128 << 10;

/// Copies the first device of a golden pool and wipes its four labels.
fn without_labels(world: &World, pool: &str) {
    golden::copy(pool, world.path());
    let file = File::options().write(true).open(world.path().join("img/a.img")).expect("an image");
    let size = file.metadata().expect("just opened").len();
    for start in [0, 256 << 10, size - (512 << 10), size - (256 << 10)] {
        file.write_all_at(&vec![0; 256 << 10], start).expect("written");
    }
}

#[test]
fn a_pool_without_labels_is_listed_and_comes_out() {
    let world = World::new();
    without_labels(&world, "g02-single-default");
    let nowhere = world.path();
    assert_eq!(world.fails(nowhere, "ls -d W/img/a.img whirl", 1), "cannot open 'whirl': no such pool\n");
    let listed = world.ok(nowhere, "rescue --list W/img/a.img");
    let mut lines = listed.lines();
    assert_eq!(lines.next().map(|line| line.split_whitespace().count()), Some(5), "{listed}");
    assert!(lines.next().is_some_and(|line| line.contains('/') && line.ends_with(" 0")), "{listed}");
    let (out, err, code) = world.run(nowhere, "rescue W/img/a.img --to W/out");
    assert_eq!(code, 0, "{out}{err}");
    assert!(err.starts_with("pool 'whirl', state of txg "), "{err}");
    let path = world.path().join("out/whirl/fs/@/m1000000");
    assert_eq!(sha256(&path), crate::told("g02-single-default", "whirl/fs", "m1000000")["sha256"]);
    // A second run has nothing left to do.
    assert_eq!(world.run(nowhere, "rescue W/img/a.img --to W/out").2, 0);
}

#[test]
fn what_cannot_be_rescued_is_said() {
    let world = World::new();
    world.file("empty", DISK_BYTES);
    let nowhere = world.path();
    for line in
        ["rescue", "rescue W/empty", "rescue W/empty --to W/out --raidz 4", "rescue --list --txg x W/empty"]
    {
        assert!(world.fails(nowhere, line, 2).contains("usage:"), "{line}");
    }
    let said = "cannot rescue: no state of a pool can be read from these devices\n";
    assert_eq!(world.fails(nowhere, "rescue W/empty --to W/out", 1), said);
    let said = world.fails(nowhere, "rescue W/none --to W/out", 1);
    assert!(said.starts_with("cannot rescue: cannot open W/none"), "{said}");
    assert!(!world.path().join("out").exists());
}

/// Creates a file system with one file of three incompressible blocks, the second of which is
/// damaged.
fn with_damaged_file(world: &World) -> Vec<u8> {
    let disk = world.file("disk", DISK_BYTES);
    let engine = Engine::start();
    let pool = engine.create("tank", &[Vdev::disk(&disk)]).expect("a pool");
    let mut dice = fastrand::Rng::with_seed(1);
    let mut bytes = vec![0; 3 * BLOCK_BYTES];
    dice.fill(&mut bytes);
    let files = pool.filesystem("tank").expect("its files");
    files.write("file", &bytes).expect("written");
    files.write("whole", b"whole").expect("written");
    drop(files);
    pool.export().expect("exported");
    let file = File::options().read(true).write(true).open(&disk).expect("ours");
    let mut at = vec![0; 64];
    let is_it = |place: &u64| {
        file.read_exact_at(&mut at, *place).expect("within the disk");
        at == bytes[BLOCK_BYTES..BLOCK_BYTES + 64]
    };
    let place = (0..DISK_BYTES).step_by(512).find(is_it).expect("it lies there as it is");
    file.write_all_at(b"damage", place).expect("written");
    bytes[BLOCK_BYTES..2 * BLOCK_BYTES].fill(0);
    bytes
}

#[test]
fn of_a_damaged_file_all_that_is_readable_is_copied() {
    let world = World::new();
    let expected = with_damaged_file(&world);
    let nowhere = world.path();
    world.fails(nowhere, "cp -d W/disk tank:file W/plain", 1);
    let said = "cp: 'file': 131072 bytes are lost, and holes in the copy: 131072-262143\n";
    assert_eq!(world.fails(nowhere, "cp --partial -d W/disk tank:file W/part", 1), said);
    assert!(std::fs::read(world.path().join("part")).expect("a file") == expected);
    world.ok(nowhere, "cp --partial -d W/disk tank:whole W/whole");
    assert_eq!(std::fs::read(world.path().join("whole")).expect("a file"), b"whole");
    let (out, _, code) = world.run(nowhere, "rescue W/disk --to W/out");
    assert!(code == 1 && out.contains("report.jsonl"), "{out}");
    assert!(std::fs::read(world.path().join("out/tank/@/file")).expect("a file") == expected);
    let report =
        std::fs::read_to_string(world.path().join("out/.sawmill-rescue/report.jsonl")).expect("a report");
    assert!(report.contains("\"lost\":[[131072,262144]]"), "{report}");
    assert!(world.fails(nowhere, "cp --partial -d W/disk W/whole tank:", 2).contains("usage:"));
}

/// Adds entries to the root directory that no system would create: a file outside of it, a
/// directory behind a symbolic link, and names that mean other directories.
fn with_hostile_names(world: &World) {
    let disk = world.file("disk", DISK_BYTES);
    let engine = Engine::start();
    let pool = engine.create("tank", &[Vdev::disk(&disk)]).expect("a pool");
    let files = pool.filesystem("tank").expect("its files");
    files.write("file", b"evil").expect("written");
    files.create_dir("dir").expect("made");
    files.write("dir/below", b"evil").expect("written");
    files.symlink(world.path().join("outside").as_os_str().as_encoded_bytes(), "link").expect("made");
    drop(files);
    let inner = pool.inner().inner().clone();
    engine.inner().block_on(async {
        let fs = inner.filesystem("tank").await.expect("its files");
        let (os, root) = (fs.zfs.objset().clone(), fs.zfs.root());
        let zap = Zap::open(os.hold(root).await.expect("a directory")).await.expect("its names");
        let [file, dir] = [b"file".as_slice(), b"dir"].map(|name| zap.lookup_u64(name));
        let (file, dir) =
            (file.await.expect("asked").expect("there"), dir.await.expect("asked").expect("there"));
        for (name, word) in [
            (b"../evil".as_slice(), file),
            (b"link/evil", file),
            (b"..", dir),
            (b".", dir),
            (b"link/dir", dir),
        ] {
            let plan = os.plan(Estimate::default()).await.expect("room");
            zap.add_u64(&plan, name, word).await.expect("added");
            plan.apply().expect("applied");
        }
    });
    drop(inner);
    pool.export().expect("exported");
}

fn names_in(path: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(path).expect("a directory");
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn names_of_a_pool_lead_nowhere_but_below_the_target() {
    let world = World::new();
    with_hostile_names(&world);
    std::fs::create_dir(world.path().join("outside")).expect("a directory");
    let nowhere = world.path();
    let before = names_in(world.path());
    let said = world.fails(nowhere, "cp -a -d W/disk tank: W/copied", 1);
    // The names `.` and `..` are not listed.
    assert_eq!(said.lines().count(), 3, "{said}");
    assert_eq!(names_in(&world.path().join("copied")), ["dir", "file", "link"]);
    let (out, err, code) = world.run(nowhere, "rescue W/disk --to W/rescued");
    assert!(code == 0 || code == 1, "{out}{err}");
    assert!(names_in(&world.path().join("rescued/tank/@")).len() >= 3);
    assert_eq!(names_in(&world.path().join("outside")), [""; 0]);
    // The program also writes the hostid here.
    let new = ["copied", "rescued", "hostid"].map(str::to_owned);
    let expected: Vec<_> = [before.as_slice(), &new].concat();
    let after: Vec<_> = names_in(world.path()).into_iter().filter(|name| !expected.contains(name)).collect();
    assert!(after.is_empty(), "outside of the target: {after:?}");
    assert_eq!(names_in(&world.path().join("rescued/tank")), ["@"]);
}
