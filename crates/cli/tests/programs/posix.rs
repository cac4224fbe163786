//! Test suites of others for POSIX file systems, on the mount: pjdfstest and fsx.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::mounted::{World, bounded};
use crate::shell::{find, sh};

/// What is left out, and why. Everything else must pass, and these must not.
const EXPECTED: &[(&str, &str)] = &[
    // They remount by themselves, as what they take for the type of the file system.
    ("chmod::erofs_named", "skipped"),
    ("chown::erofs_named", "skipped"),
    ("chown::lchown::erofs_named", "skipped"),
    ("link::erofs_named", "skipped"),
    ("mkdir::erofs_new_file", "skipped"),
    ("mkfifo::erofs_new_file", "skipped"),
    ("open::erofs_named", "skipped"),
    ("open::erofs_new_file", "skipped"),
    ("rename::erofs_named", "skipped"),
    ("rmdir::erofs_named", "skipped"),
    ("symlink::erofs_new_file", "skipped"),
    ("truncate::erofs_named", "skipped"),
    ("unlink::erofs_named", "skipped"),
    // The C library knows no such limit for the type; it is far above what a test can make.
    ("link::link_count_max", "skipped"),
];

const PJDFSTEST: &str = r#"
[features]
posix_fallocate = {}
rename_ctime = {}
stat_st_birthtime = {}
utime_now = {}
utimensat = {}
[settings]
naptime = 0.02
allow_remount = false
[dummy_auth]
entries = [["nobody", "nogroup"], ["bin", "bin"]]
"#;

pub const FSX: &str = "
flen = 1048576
[weights]
close_open = 1
read = 10
write = 10
mapread = 10
mapwrite = 10
truncate = 5
fsync = 1
fdatasync = 1
posix_fallocate = 1
punch_hole = 3
sendfile = 2
posix_fadvise = 1
copy_file_range = 3
";
const FSX_SEEDS: [u64; 3] = [1, 20_261, 3_141_592];
const FSX_OPERATIONS: u32 = 4_000;

#[test]
fn pjdfstest_finds_nothing_but_what_is_known() {
    let Some(world) = crate::world(&["pjdfstest"]) else { return };
    pjdfstest_passes(&world);
    world.finish();
}

pub fn pjdfstest_passes(world: &World) {
    let beside = tempfile::tempdir_in("/var/tmp").expect("another file system");
    let config = beside.path().join("pjdfstest.toml");
    fs::write(&config, PJDFSTEST).expect("written");
    let mut command = bounded(&find("pjdfstest").expect("it is installed"));
    command.args(["-c", &config.display().to_string(), "-p", &world.root().display().to_string()]);
    command.arg("-s").arg(beside.path()).env("NO_COLOR", "1");
    let output = command.output().expect("it runs");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let verdict = |line: &str| {
        let mut words = line.split_whitespace();
        let (name, verdict) = (words.next()?.to_owned(), words.next()?.to_owned());
        (name.contains("::") && words.next().is_none()).then_some((name, verdict))
    };
    let all: BTreeSet<_> = told.lines().filter(|line| !line.starts_with('\t')).filter_map(verdict).collect();
    let passed = all.iter().filter(|(_, verdict)| verdict == "ok").count();
    assert!(passed > 370, "{passed} passed: {told}\n{}", String::from_utf8_lossy(&output.stderr));
    let other: BTreeSet<_> = all.into_iter().filter(|(_, verdict)| verdict != "ok").collect();
    let expected: BTreeSet<_> =
        EXPECTED.iter().map(|(name, verdict)| ((*name).to_owned(), (*verdict).to_owned())).collect();
    assert_eq!(other, expected, "{told}");
}

#[test]
fn fsx_reads_what_it_wrote() {
    let Some(world) = crate::world(&["fsx"]) else { return };
    fsx_passes(&world);
    world.finish();
}

pub fn fsx_passes(world: &World) {
    let beside = tempfile::tempdir().expect("a directory");
    let config = beside.path().join("fsx.toml");
    fs::write(&config, FSX).expect("written");
    for (seed, recordsize) in FSX_SEEDS.into_iter().zip(["128K", "4K", "16K"]) {
        world.zfs(&format!("set recordsize={recordsize} {}", crate::mounted::POOL));
        let file = world.root().join(format!("fsx-{seed}"));
        let artifacts = beside.path().display();
        let line = format!(
            "fsx -q -f {} -S {seed} -N {FSX_OPERATIONS} -P {artifacts} {} 2>&1 | tail -n 40",
            config.display(),
            file.display()
        );
        sh(&line, Path::new("/"));
    }
}
