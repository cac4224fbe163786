//! `sanoid` and `syncoid`, unchanged: snapshots taken and pruned by policy, trees replicated from pool to pool and from
//! daemon to daemon, and a replication that was interrupted.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use oracle::zdb::Zdb;

use crate::mounted::World;
use crate::shell::{sh, until};

/// Another pool in the same world.
const BACK: &str = "back";

/// `syncoid` names snapshots by the second, and what it makes in a second that has one already fails.
const SYNCOID: &str = "sleep 1.05; syncoid";

/// A world, and a directory of programs that scripts find first.
pub struct Place {
    pub world: World,
    /// Beside the disks' directory, which `zdb` searches.
    dir: tempfile::TempDir,
    /// Held while it lives.
    _turn: Option<fs::File>,
}

/// `sanoid` and `syncoid` leave datasets alone that are sent or received by any process of the machine, by their names: so
/// one test that uses them runs at a time.
fn turn() -> fs::File {
    let path = std::env::temp_dir().join("sawmill-test-of-sanoid.lock");
    let lock = fs::OpenOptions::new().create(true).append(true).open(path).expect("a file");
    lock.lock().expect("held");
    lock
}

impl Place {
    fn new() -> Option<Self> {
        Self::with(&["sanoid", "syncoid", "pv", "mbuffer", "lzop", "ps"])
    }

    /// The same, with the machine to itself as far as `sanoid` looks.
    fn alone() -> Option<Self> {
        let turn = Some(turn());
        Some(Self { _turn: turn, ..Self::new()? })
    }

    pub fn with(programs: &[&'static str]) -> Option<Self> {
        let world = crate::world(programs)?;
        let place = Self { world, dir: tempfile::tempdir().expect("a directory"), _turn: None };
        fs::create_dir(place.path("back")).expect("a directory");
        fs::File::create(place.path("back/b")).and_then(|file| file.set_len(512 << 20)).expect("a file");
        place.world.zpool(&format!("create -m none {BACK} {}", place.path("back/b").display()));
        Some(place)
    }

    fn path(&self, below: &str) -> PathBuf {
        self.dir.path().join(below)
    }

    /// Puts a script where the world's own programs are.
    pub fn program(&self, name: &str, script: &str) {
        let bin = self.bin();
        fs::write(bin.join(name), script).expect("a script");
        fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).expect("permissions");
    }

    fn bin(&self) -> PathBuf {
        self.world.run_dir().with_file_name("bin")
    }

    /// A line of the shell that asks this world's daemon.
    fn line(&self, line: &str) -> String {
        let (bin, run) = (self.bin(), self.world.run_dir());
        format!("export PATH={}:$PATH SAWMILL_RUN={}; {line}", bin.display(), run.display())
    }

    pub fn sh(&self, line: &str) -> String {
        sh(&self.line(line), &self.world.root())
    }

    pub fn fails(&self, line: &str) -> String {
        self.sh(&format!("if {line} 2>&1; then exit 1; fi"))
    }

    /// A tree of three file systems, whose files change with every `turn`.
    fn change(&self, turn: usize) {
        for (dataset, files) in [("src", 40), ("src/a", 10), ("src/a/deep", 3)] {
            let dir = self.world.root().join(dataset);
            for file in (turn..files).step_by(turn + 1) {
                let bytes = (0..40_000 + file * 7).map(|at| (at * (turn + 3) + file) as u8 ^ (at >> 8) as u8);
                fs::write(dir.join(format!("f{file}")), bytes.collect::<Vec<_>>()).expect("written");
            }
            _ = fs::remove_file(dir.join(format!("f{}", turn * 3)));
        }
    }

    pub fn make_tree(&self) {
        ["src", "src/a", "src/a/deep"].iter().for_each(|name| self.world.zfs(&format!("create tank/{name}")));
        self.change(0);
    }

    /// Files of the copy are those of the tree.
    fn assert_same(&self, copy: &Path) {
        let root = self.world.root().join("src");
        sh(&format!("diff -r {} {}", root.display(), copy.display()), &self.world.root());
    }

    pub fn finish(self) {
        self.world.zpool(&format!("export {BACK}"));
        Zdb::new(&self.path("back"), BACK).check().unwrap_or_else(|damage| panic!("{damage}"));
        self.world.finish();
    }
}

#[test]
fn sanoid_takes_and_prunes_snapshots() {
    let Some(place) = Place::alone() else { return };
    place.make_tree();
    let conf = |hourly: usize| {
        let conf = format!(
            "[tank/src]\nuse_template = short\nrecursive = yes\n[template_short]\nfrequently = 0\n\
             hourly = {hourly}\ndaily = 1\nmonthly = 0\nyearly = 0\nautosnap = yes\nautoprune = yes\n"
        );
        fs::create_dir_all(place.path("conf")).expect("a directory");
        fs::write(place.path("conf/sanoid.conf"), conf).expect("written");
    };
    let dir = place.dir.path().display();
    let sanoid = |words: &str| {
        place.sh(&format!(
            "sanoid --configdir {dir}/conf --cache-dir {dir}/cache --run-dir {dir}/run {words} 2>&1"
        ))
    };
    let snapshots = |kind: &str| {
        let all = place.world.zfs_prints("list -Ho name -t snapshot -r tank/src");
        all.lines().filter(|name| name.ends_with(kind)).count()
    };
    conf(2);
    let said = sanoid("--cron --verbose");
    assert_eq!((snapshots("_hourly"), snapshots("_daily")), (3, 3), "{said}");
    sanoid("--cron --verbose");
    assert_eq!((snapshots("_hourly"), snapshots("_daily")), (3, 3), "none is due");
    assert!(sanoid("--monitor-snapshots").starts_with("OK"));
    assert!(sanoid("--monitor-health").starts_with("OK"));
    assert!(sanoid("--monitor-capacity").starts_with("OK"));
    conf(0);
    // A snapshot is old once it is a second old.
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    let said = sanoid("--prune-snapshots --force-update --verbose");
    assert_eq!((snapshots("_hourly"), snapshots("_daily")), (0, 3), "{said}");
    place.finish();
}

#[test]
fn syncoid_replicates_a_tree_and_goes_on_with_what_was_interrupted() {
    let Some(place) = Place::alone() else { return };
    place.make_tree();
    let copy = place.path("copy");
    let sync = format!("{SYNCOID} --no-privilege-elevation --recursive tank/src {BACK}/dst 2>&1");
    place.world.zfs(&format!("set mountpoint={} {BACK}", copy.display()));
    for turn in 1..4 {
        place.sh(&sync);
        place.assert_same(&copy.join("dst"));
        place.change(turn);
    }
    // What carries the stream gives up in the middle of it.
    place.program("mbuffer", "#!/bin/sh\nexec head -c 300000\n");
    let said = place.fails(&sync);
    assert!(said.contains("zfs send -t 1-") && said.contains("CRITICAL ERROR"), "{said}");
    let token = place.world.zfs_prints(&format!("get -Ho value receive_resume_token {BACK}/dst"));
    assert!(token.starts_with("1-"), "{token}");
    fs::remove_file(place.bin().join("mbuffer")).expect("there");
    let said = place.sh(&sync);
    assert!(said.contains("Resuming interrupted zfs send/receive from tank/src to back/dst"), "{said}");
    place.assert_same(&copy.join("dst"));
    // The snapshot that it was begun with is gone: the part is given up.
    place.change(4);
    place.program("mbuffer", "#!/bin/sh\nexec head -c 300000\n");
    place.fails(&sync);
    fs::remove_file(place.bin().join("mbuffer")).expect("there");
    let newest = place.sh("zfs list -Ho name -t snapshot tank/src | tail -n 1");
    place.world.zfs(&format!("destroy {}", newest.trim()));
    let said = place.sh(&sync);
    assert!(said.contains("resetting partially receive state"), "{said}");
    place.assert_same(&copy.join("dst"));
    place.finish();
}

#[test]
fn syncoid_replicates_from_daemon_to_daemon_over_ssh() {
    let Some(place) = Place::alone() else { return };
    let Some(other) = Place::new() else { return };
    place.make_tree();
    // Options, a host, and a line for its shell, where the other daemon is.
    place.program(
        "ssh",
        &format!(
            "#!/bin/bash\nwhile :; do case $1 in -M|-n) shift;; -O) exit 0;; -[Socpi]) shift 2;; *) break;; esac; done\n\
             shift\n{}\nexec sh -c \"$*\"\n",
            other.line("true")
        ),
    );
    for turn in 1..4 {
        let said = place.sh(&format!("{SYNCOID} --recursive tank/src root@there:tank/dst 2>&1"));
        assert!(!said.contains("WARN"), "{said}");
        place.assert_same(&other.world.root().join("dst"));
        place.change(turn);
    }
    // And back again.
    let copy = place.path("copy");
    place.world.zfs(&format!("set mountpoint={} {BACK}", copy.display()));
    place.sh(&format!("syncoid --no-sync-snap --recursive root@there:tank/dst {BACK}/home 2>&1"));
    sh(
        &format!("diff -r {} {}", other.world.root().join("dst").display(), copy.join("home").display()),
        &copy,
    );
    until(|| place.sh("ps -Ao args= | grep -c '[z]fs receive' || true").trim() == "0", "all have ended");
    other.finish();
    place.finish();
}
