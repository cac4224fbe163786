//! What users, groups and projects use of a file system, and what keeps them from using more: as programs that run as
//! somebody see it, as `zfs userspace` and the like tell it, and as `zdb` finds it.

use std::collections::BTreeMap;
use std::path::Path;

use oracle::zdb::Zdb;

use crate::mounted::World;
use crate::shell::sh;

const USER: u32 = 65_432;

/// A program as a user.
fn as_user(line: &str) -> String {
    format!("setpriv --reuid {USER} --regid {USER} --clear-groups {line}")
}

/// Has the kernel ask again what files take: it believes for a moment what it was told before a txg wrote them.
fn mount_again(world: &World) {
    world.zfs("unmount tank/fs");
    world.zfs("mount tank/fs");
}

/// What files take by the kernel's word, by owner: `format` is what `find` prints of one.
fn by_du(root: &Path, format: &str) -> BTreeMap<u64, u64> {
    let listed = sh(&format!("find . -xdev -printf '{format} %b %n\\n'"), root);
    let mut sums = BTreeMap::new();
    for line in listed.lines() {
        let words: Vec<u64> = line.split(' ').map(|word| word.parse().expect("a number")).collect();
        let [owner, blocks, _] = words[..] else { panic!("{line}") };
        *sums.entry(owner).or_default() += blocks * 512;
    }
    sums
}

/// What a command tells, by number.
fn told(world: &World, line: &str) -> BTreeMap<u64, u64> {
    let printed = world.zfs_prints(line);
    let row = |line: &str| {
        let (id, used) = line.split_once('\t').unwrap_or_else(|| panic!("{line}"));
        (id.parse().expect("a number"), used.parse().expect("a number"))
    };
    printed.lines().map(row).collect()
}

/// The account with this number in what `zdb` shows of a file system.
fn by_zdb(shown: &str, account: i64) -> BTreeMap<String, u64> {
    let mut lines = shown.lines();
    let is_it = |line: &str| line.split_whitespace().next() == Some(account.to_string().as_str());
    lines.by_ref().find(|line| is_it(line)).unwrap_or_else(|| panic!("no account {account}: {shown}"));
    let entries = lines.take_while(|line| !line.trim_start().starts_with("Object  lvl"));
    let entry = |line: &str| {
        let (name, value) = line.trim().split_once(" = ")?;
        Some((name.to_owned(), value.parse().ok()?))
    };
    entries.filter_map(entry).collect()
}

#[test]
fn who_is_over_his_quota_writes_no_more_and_all_accounts_agree() {
    let Some(world) = crate::world(&["setpriv", "find"]) else { return };
    world.zfs(&format!("create -o compression=off -o userquota@{USER}=2M tank/fs"));
    let fs = world.root().join("fs");
    sh("chmod 777 .; head -c 300000 /dev/urandom > of-root; mkdir d; chgrp 77 d of-root", &fs);
    sh(&as_user("mkdir mine"), &fs);
    let write = as_user("head -c 262144 /dev/urandom > mine/f");
    let mut refused = None;
    for number in 0..20 {
        let line = write.replace("> mine/f", &format!("| {}", as_user(&format!("tee mine/f{number}"))));
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &format!("{line} >/dev/null")]).current_dir(&fs);
        let output = shell.output().expect("sh runs");
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        if err.contains("quota") {
            refused = Some((number, err));
            break;
        }
        assert_eq!(err, "");
        world.zpool("sync tank");
    }
    let (number, err) = refused.expect("2M are used up some time");
    assert!(err.contains("Disk quota exceeded"), "{err}");
    assert_eq!(number, 8, "eight files of 256K and what belongs to them");
    // Others write on, and he may remove what he has.
    sh("echo more > more", &fs);
    sh(&as_user("rm -f mine/f0 mine/f8"), &fs);
    world.zpool("sync tank");
    sh(&as_user("touch mine/again"), &fs);
    world.zpool("sync tank");
    mount_again(&world);

    for (command, format) in [("userspace", "%U"), ("groupspace", "%G")] {
        let told = told(&world, &format!("{command} -Hnp -o name,used tank/fs"));
        assert_eq!(told, by_du(&fs, format), "{command}");
    }
    let space = world.zfs_prints("userspace -o type,name,quota,objused tank/fs");
    let root = "POSIX User  root    none        4\n";
    assert!(space.contains(root), "{space}");
    assert!(space.contains(&format!("POSIX User  {USER}     2M        9\n")), "{space}");
    // By the path of something on it, and by number.
    let by_path =
        world.zfs_prints(&format!("userspace -o type,name,quota,objused {}", fs.join("d").display()));
    assert_eq!(by_path, space);
    let used = told(&world, "userspace -Hnp -o name,used tank/fs");
    let got = world.zfs_prints(&format!("get -Hp -o value,source userused@{USER},userquota@{USER} tank/fs"));
    assert_eq!(got, format!("{}\tlocal\n2097152\tlocal\n", used[&u64::from(USER)]));
    assert_eq!(world.zfs_prints("get -Ho value userused@nobody-there,userquota@0 tank/fs"), "-\nnone\n");
    world.zfs("snapshot tank/fs@then");
    world.zfs(&format!("set userquota@{USER}=none groupobjquota@77=12 tank/fs"));
    let then = world.zfs_prints(&format!("get -Ho value userquota@{USER},groupobjquota@77 tank/fs@then"));
    assert_eq!(then, "2M\nnone\n");
    let now = world.zfs_prints("groupspace -H -o name,objquota -S name tank/fs");
    assert!(now.contains("77\t12\n"), "{now}");

    world.export();
    let shown = Zdb::new(&world.disks(), "tank/fs").run(&["-dddd"], &[]);
    let shown = shown.unwrap_or_else(|damage| panic!("{damage}"));
    let users = by_zdb(&shown, -1);
    for (id, used) in used {
        assert_eq!(users[&format!("{id:x}")], used, "{id}");
    }
    assert_eq!(users[&format!("obj-{USER:x}")], 9);
    assert!(!shown.contains(&format!("{USER:x} = 2097152")), "the quota is gone");
    Zdb::new(&world.disks(), "tank").check().unwrap_or_else(|damage| panic!("{damage}"));
}

#[test]
fn what_has_no_project_is_moved_within_a_directory_that_hands_on_its_own() {
    let Some(world) = crate::world(&["mkfifo", "python3"]) else { return };
    let root = world.root();
    sh("mkdir -p d/e", &root);
    world.zfs(&format!("project -s -r -p 77 {}", root.join("d").display()));
    sh(
        "cd d; ln -s x link; ln -sfn y link; mv link e/
         mkfifo pipe; mv pipe pipe2; ln pipe2 e/pipe
         python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"s\")'; mv s e/s",
        &root,
    );
    assert_eq!(sh("ls d/e; readlink d/e/link", &root), "link\npipe\ns\ny\n");
    world.finish();
}

#[test]
fn projects_are_handed_on_counted_and_limited() {
    let Some(world) = crate::world(&["find"]) else { return };
    world.zfs("create -o compression=off tank/fs");
    let fs = world.root().join("fs");
    sh("mkdir -p d/e; echo x > d/e/old; echo y > out", &fs);
    let project = |words: &str| {
        let words = words.replace("FS", &fs.display().to_string());
        world.zfs_prints(&format!("project {words}")).replace(&format!("{}/", fs.display()), "")
    };
    assert_eq!(project("-d FS/d"), "    0 - d\n");
    project("-s -r -p 77 FS/d");
    sh("mkdir d/e/new; echo z > d/e/new/f; ln -s f d/e/new/l", &fs);
    assert_eq!(
        project("-d FS/d") + &project("FS/d/e/old FS/d/e/new/f"),
        "   77 P d\n   77 P d/e/old\n   77 P d/e/new/f\n"
    );
    assert_eq!(project("-c -r FS/d"), "", "everything is as it should be");
    let (a, b) = (fs.join("out"), fs.join("d/out"));
    let moved = std::fs::rename(&a, &b).expect_err("another project's");
    assert_eq!(rustix::io::Errno::from_io_error(&moved), Some(rustix::io::Errno::XDEV));
    world.zfs("set projectquota@77=1M tank/fs");
    world.zpool("sync tank");
    let refused = (0..20).find(|number| {
        let line = format!("head -c 131072 /dev/urandom > d/big{number}");
        let done = std::process::Command::new("sh").args(["-c", &line]).current_dir(&fs).output();
        let done = done.expect("sh runs");
        world.zpool("sync tank");
        String::from_utf8_lossy(&done.stderr).contains("quota")
    });
    assert_eq!(refused, Some(8), "eight files of 128K and what belongs to them");
    sh("rm d/big*; chmod 600 d/e/old", &fs);
    world.zpool("sync tank");
    mount_again(&world);
    let counted = told(&world, "projectspace -Hp -o name,objused tank/fs");
    // The root directory, `out` and the link, which is part of none; and d, e, old, new, f.
    assert_eq!(counted[&77], 5, "{counted:?}");
    let used = told(&world, "projectspace -Hp -o name,used tank/fs");
    let du = sh("find d -type f -o -type d | xargs stat -c %b", &fs);
    assert_eq!(
        used[&77],
        du.lines().map(|blocks| blocks.parse::<u64>().expect("a number") * 512).sum::<u64>()
    );
    let table = world.zfs_prints("projectspace -o type,name,quota tank/fs");
    assert_eq!(table, "TYPE     NAME  QUOTA\nProject  0      none\nProject  77       1M\n");

    // Some are taken out again, and told of.
    project("-C FS/d/e/new/f");
    project("-C -k FS/d/e/old");
    let wrong = project("-c -r FS/d");
    let mut wrong: Vec<&str> = wrong.lines().collect();
    wrong.sort_unstable();
    assert_eq!(
        wrong,
        [
            "d/e/new/f - project ID is not set properly (0/77)",
            "d/e/new/f - project inherit flag is not set",
            "d/e/old - project inherit flag is not set",
        ]
    );
    world.export();
    world.import();
    assert_eq!(project("-d FS/d") + &project("FS/d/e/old"), "   77 P d\n   77 - d/e/old\n");
    world.finish();
}
