//! `sawmill ls | cat | tree | cp | inspect` on pools that nobody has open: golden ones, and one of our own
//! that `zdb` judges after files were brought in.
#![forbid(unsafe_code)]

mod inspect;
mod logs;
mod rescue;
mod world;

use oracle::golden;
use oracle::zdb::Zdb;
use sawmill::Vdev;
use sawmill::blocking::Engine;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use world::{World, sha256};

const DISK_BYTES: u64 = 128 << 20;

/// What the manifest of a golden pool says of a place.
fn told(pool: &str, dataset: &str, path: &str) -> serde_json::Value {
    let manifest = golden::text(pool, "manifest.jsonl");
    let lines = manifest.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let is_it = |line: &serde_json::Value| {
        line["ds"] == dataset && line.get("path").and_then(|p| p.as_str()).unwrap_or("") == path
    };
    lines.into_iter().find(is_it).unwrap_or_else(|| panic!("{dataset}:{path} is in the manifest"))
}

#[test]
fn files_snapshots_and_volumes_of_golden_pools_go_to_standard_output() {
    let g = golden::path("g10-snapshots-clones");
    let world = World::new();
    for (dataset, path) in [
        ("whirl/fs", "m1000000"),
        ("whirl/promoted@s1", "t4096"),
        ("whirl/parent/kid@r", "sub/dir/hello"),
        ("whirl/clone", "c"),
    ] {
        let digest = world.sha256_of(&g, &format!("cat -d G/ {dataset}:{path}"));
        assert_eq!(digest, told("g10-snapshots-clones", dataset, path)["sha256"], "{dataset}:{path}");
    }
    for volume in ["whirl/vol", "whirl/vol@v", "whirl/volclone"] {
        let digest = world.sha256_of(&g, &format!("cat -d G/a.img {volume}"));
        assert_eq!(digest, told("g10-snapshots-clones", volume, "")["sha256"], "{volume}");
    }
    assert_eq!(world.ok(&g, "cat -d G/ whirl/clone:c whirl/clone:/sub/dir/hello"), "c\nhello\n");
}

#[test]
fn directories_are_listed_as_ls_and_tree_do() {
    let g = golden::path("g10-snapshots-clones");
    let world = World::new();
    assert_eq!(world.ok(&g, "ls -d G/ whirl"), "clone\nfs\nparent\npromoted\n");
    assert_eq!(world.ok(&g, "ls -a -d G/ whirl:/fs"), ".\n..\n");
    assert_eq!(
        world.ok(&g, "ls -d G/ whirl/clone:sub whirl/clone:c"),
        "whirl/clone:c\n\nwhirl/clone:sub:\ndir\nhard\nlnk\n"
    );
    assert_eq!(
        world.ok(&g, "ls -R -d G/ whirl/clone:sub"),
        "whirl/clone:sub:\ndir\nhard\nlnk\n\nwhirl/clone:sub/dir:\nhello\n"
    );
    let long = world.ok(&g, "ls -ln -d G/ whirl/clone:/sub");
    let lines: Vec<Vec<&str>> = long.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0][0], "total");
    assert_eq!(lines[1][..5], ["drwxr-xr-x", "2", "0", "0", "3"]);
    assert_eq!(lines[2][..5], ["-rw-r--r--", "2", "0", "0", "6"]);
    assert_eq!(lines[3][..5], ["lrwxrwxrwx", "1", "0", "0", "8"]);
    assert!(lines[3].ends_with(&["lnk", "->", "../hello"]), "{long}");
    let human = world.ok(&g, "ls -lh -d G/ whirl/clone:/m1000000");
    assert_eq!(human.split_whitespace().nth(4), Some("977K"), "{human}");
    assert_eq!(
        world.ok(&g, "tree -d G/ whirl/clone:sub"),
        "whirl/clone:sub\n├── dir\n│\u{a0}\u{a0} └── hello\n├── hard\n└── lnk -> ../hello\n\n1 directory, 3 files\n"
    );
    assert_eq!(
        world.ok(&g, "tree -L 1 -d G/ whirl/parent@r"),
        "whirl/parent@r\n└── kid\n\n1 directory, 0 files\n"
    );
}

#[test]
fn what_cannot_be_shown_is_said_with_an_exit_code() {
    let g = golden::path("g10-snapshots-clones");
    let world = World::new();
    for (line, code, said) in [
        ("cat -d G/ whirl/fs:no", 1, "cat: whirl/fs:no: No such file or directory\n"),
        ("cat -d G/ whirl/fs:sub", 1, "cat: whirl/fs:sub: Is a directory\n"),
        ("cat -d G/ whirl/fs", 1, "cannot open 'whirl/fs': whirl/fs is not a volume\n"),
        ("cat -d G/ whirl/vol:x", 1, "cannot open 'whirl/vol': whirl/vol is not a file system\n"),
        ("ls -d G/ whirl/fs:no", 2, "ls: cannot access 'whirl/fs:no': No such file or directory\n"),
        ("ls -d G/ whirl/no:", 1, "cannot open 'whirl/no': dataset does not exist\n"),
        ("ls -d G/ whirl/fs@no", 1, "cannot open 'whirl/fs@no': dataset does not exist\n"),
        ("tree -d G/ whirl/fs:no", 1, "tree: whirl/fs:no: No such file or directory\n"),
        ("ls -d G/ tank", 1, "cannot open 'tank': no such pool\n"),
        ("ls -d W/ whirl", 1, "cannot open 'whirl': no such pool\n"),
    ] {
        assert_eq!(world.fails(&g, line, code), said, "{line}");
    }
    for line in ["ls", "cat -d G/", "ls -x tank", "tree -L 0 tank", "cp a", "cp a b", "cp t:a t:b", "ls /x:y"]
    {
        assert!(world.fails(&g, line, 2).contains("usage:"), "{line}");
    }
}

#[test]
fn a_pool_that_another_system_may_have_open_is_not_touched_unless_forced() {
    let g = golden::path("g15-dirty-zil-nolog");
    let world = World::new();
    let said = world.fails(&g, "ls -d G/ whirl", 1);
    assert!(said.contains("previously in use from another system"), "{said}");
    assert_eq!(world.ok(&g, "ls -f -d G/ whirl"), "lat\nthr\nthr8k\n");
}

#[test]
fn what_waits_in_a_log_is_not_passed_over_in_silence() {
    let g = golden::path("g15-dirty-zil-nolog");
    let world = World::new();
    let said = "whirl/thr: the intent log holds newer changes, which an import replays; this is the state before them\n";
    for line in [
        "ls -f -d G/ whirl/thr",
        "ls -f -d G/ whirl/thr whirl/thr:old0",
        "tree -f -d G/ whirl/thr",
        "cat -f -d G/ whirl/thr:old0",
        "cp -f -r -d G/ whirl/thr:old0 W/out",
    ] {
        assert_eq!(world.fails(&g, line, 1), said, "{line}");
    }
    let out = world.path().join("out");
    assert_eq!(std::fs::metadata(out).expect("copied all the same").len(), 3000);
}

/// A pool of our own, exported: `tank` and `tank/fs` on the file `disk`.
fn with_tank() -> (World, Engine) {
    let world = World::new();
    world.file("disk", DISK_BYTES);
    let engine = Engine::start();
    let pool = engine.create("tank", &[Vdev::disk(world.path().join("disk"))]).expect("a pool");
    pool.create_filesystem("tank/fs").expect("a file system");
    pool.export().expect("exported");
    (world, engine)
}

#[test]
fn a_pool_in_use_is_refused_and_left_alone() {
    let (world, engine) = with_tank();
    let disk = world.path().join("disk");
    let pool = engine.import("tank", &[&disk]).expect("imported");
    world.file("new", 1 << 20);
    for line in ["ls -d W/disk tank", "cp -d W/disk W/new tank/fs:", "ls -f -d W/disk tank"] {
        let said = world.fails(world.path(), line, 1);
        assert!(said.starts_with("cannot open 'tank': pool is in use\n"), "{line}: {said}");
    }
    pool.export().expect("exported");
    assert_eq!(world.ok(world.path(), "ls -d W/disk tank/fs"), "");
}

/// A directory with something of everything.
fn make_tree(at: &Path) {
    let write = |name: &str, bytes: &[u8]| std::fs::write(at.join(name), bytes).expect("written");
    std::fs::create_dir_all(at.join("deep/er/empty")).expect("made");
    write("one", b"one");
    write("none", b"");
    write("deep/big", &(0..3_000_000_u32).map(|n| (n / 7 % 251) as u8).collect::<Vec<_>>());
    std::fs::hard_link(at.join("one"), at.join("deep/again")).expect("linked");
    symlink("../one", at.join("deep/link")).expect("linked");
    symlink("/nowhere", at.join("out")).expect("linked");
    let sparse = std::fs::File::create(at.join("sparse")).expect("made");
    sparse.set_len(1 << 30).expect("sized");
    sparse.write_all_at(b"middle", 500 << 20).expect("written");
    let mode =
        |name: &str, bits| std::fs::set_permissions(at.join(name), std::fs::Permissions::from_mode(bits));
    mode("one", 0o4751).and_then(|()| mode("deep", 0o750)).expect("set");
    for name in ["one", "deep/big", "deep"] {
        let touched =
            Command::new("touch").args(["-d", "2001-02-03 04:05:06.789"]).arg(at.join(name)).status();
        assert!(touched.expect("touch runs").success());
    }
}

/// Everything there is below a directory, one line each.
fn told_of(at: &Path) -> Vec<String> {
    let script = "find . -printf '%P %y %m %s %n %T@ %l\\n' | sed 's/ d \\([0-9]*\\) [0-9]* / d \\1 - /' | sort; \
                  find . -type f | sort | xargs sha256sum; getfattr -dR . 2>/dev/null | sort";
    let output = Command::new("sh").arg("-c").arg(script).current_dir(at).output().expect("find runs");
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn a_tree_that_was_copied_into_a_pool_and_out_again_is_the_same_and_zdb_agrees() {
    let (world, _) = with_tank();
    let tree = world.path().join("tree");
    make_tree(&tree);
    let attribute = |path: &str| {
        let arguments = ["-n", "user.note", "-v", "kept", path];
        Command::new("setfattr").args(arguments).current_dir(&tree).status().is_ok_and(|s| s.success())
    };
    assert!(attribute("one") && attribute("deep"), "the temporary directory keeps extended attributes");
    world.ok(world.path(), "cp -a -d W/disk W/tree tank/fs:/");
    world.ok(world.path(), "cp -a -d W/disk tank/fs:tree W/back");
    assert_eq!(told_of(&world.path().join("back")), told_of(&tree));
    let allocated = std::fs::metadata(world.path().join("back/sparse")).expect("there").blocks() * 512;
    assert!(allocated < 4 << 20, "{allocated} bytes for a file of holes");
    assert_eq!(world.ok(world.path(), "cat -d W/disk tank/fs:tree/deep/link"), "one");
    check(&world);
    // Once more, over what is there.
    std::fs::write(tree.join("one"), b"other").expect("written");
    world.ok(world.path(), "cp -r -d W/disk W/tree tank/fs:");
    assert_eq!(world.ok(world.path(), "cat -d W/disk tank/fs:/tree/one"), "other");
    check(&world);
}

fn check(world: &World) {
    let dir = tempfile::tempdir().expect("a directory");
    symlink(world.path().join("disk"), dir.path().join("disk")).expect("linked");
    if let Err(error) = Zdb::new(dir.path(), "tank").check() {
        panic!("{error}");
    }
}

#[test]
fn single_files_and_refusals_of_cp_are_as_those_of_coreutils() {
    let (world, _) = with_tank();
    std::fs::write(world.path().join("a"), b"aaa").expect("written");
    std::fs::write(world.path().join("b"), b"bb").expect("written");
    world.ok(world.path(), "cp -d W/disk W/a W/b tank/fs:");
    world.ok(world.path(), "cp -d W/disk W/a tank/fs:c");
    assert_eq!(world.ok(world.path(), "ls -d W/disk tank/fs"), "a\nb\nc\n");
    world.ok(world.path(), "cp -d W/disk tank/fs:c W/out");
    assert_eq!(sha256(&world.path().join("out")), sha256(&world.path().join("a")));
    for (line, said) in [
        ("cp -d W/disk W/no tank/fs:", "cp: 'W/no': No such file or directory\n"),
        ("cp -d W/disk W/a W/b tank/fs:c", "cp: 'c': target is not a directory\n"),
        ("cp -d W/disk W/a tank/fs:no/where", "cp: 'no/where': No such file or directory\n"),
        ("cp -d W/disk tank/fs:no W/x", "cp: 'no': No such file or directory\n"),
        ("cp -d W/disk tank/fs: W/x", "cp: '': -r not specified; omitting directory\n"),
        ("cp -d W/disk W/a tank/no:", "cannot open 'tank/no': dataset does not exist\n"),
    ] {
        assert_eq!(world.fails(world.path(), line, 1), said, "{line}");
    }
    check(&world);
}

#[test]
fn every_file_of_a_golden_pool_comes_out_as_its_manifest_says() {
    let g = golden::path("g02-single-default");
    let world = World::new();
    world.ok(&g, "cp -a -d G/ whirl/fs: W/out");
    let manifest = golden::text("g02-single-default", "manifest.jsonl");
    let mut compared = 0;
    for line in manifest.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON")) {
        if line["ds"] != "whirl/fs" || line["type"] != "f" {
            continue;
        }
        let path = world.path().join("out").join(line["path"].as_str().expect("a path"));
        assert_eq!(sha256(&path), line["sha256"], "{path:?}");
        let meta = std::fs::metadata(&path).expect("there");
        assert_eq!(format!("0o{:o}", meta.permissions().mode() & 0o7777), line["mode"]);
        assert_eq!(
            meta.mtime() * 1_000_000_000 + meta.mtime_nsec(),
            line["mtime_ns"].as_i64().expect("a time")
        );
        compared += 1;
    }
    assert!(compared > 10, "{compared}");
}
