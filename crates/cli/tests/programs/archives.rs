//! Trees of files carried onto the mount and back by `tar` and `rsync`, with all that they know
//! of a file.

use std::fs;
use std::path::Path;

use crate::shell::sh;

/// Modes, owners, times to the nanosecond and before 1970, links of both kinds, holes, odd names,
/// attributes, pipes and devices.
const TREE: &str = r#"
mkdir -p deep/$(printf 'd%.0s/' {1..40}) empty many
for i in {1..300}; do head -c $((i * 37 % 9000)) /dev/zero | tr '\0' "$(printf \\$(printf %o $((65 + i % 26))))" > many/$i; done
head -c 3000000 /dev/urandom > big
truncate -s 10000001 holes; printf x | dd of=holes bs=1 seek=5000000 conv=notrunc status=none
touch -d '2001-02-03 04:05:06.123456789' big many/1
touch -d '1969-12-31 23:59:58.999999999 UTC' many/2
touch -d '2040-01-01 00:00:00.000000001' many/3
for i in {1..64}; do chmod $(printf %o $((i * 63 % 4096 | 256))) many/$i; done
chown 1234:5678 many/10; chown 4000000000:4000000001 many/11
ln many/20 many/20-again; ln many/20 deep/20-too
ln -s ../big many/link; ln -s "$(printf 'x%.0s' {1..400})" long-link; ln -s nowhere dangling
printf a > 'a name with blanks'; printf b > $'new\nline'; printf c > 'żółw'; printf d > "$(printf 'n%.0s' {1..255})"
mkfifo pipe; mknod null c 1 3; mknod disk b 259 70000
chmod 1777 empty; chmod 2755 many
setfattr -n user.one -v value big; setfattr -n user.one -v "$(head -c 900 /dev/zero | tr '\0' v)" many/4
setfattr -n user.dir -v d many; setfattr -n trusted.t -v t many/5
chmod 4711 many/6
touch -h -d '2003-03-03 03:03:03.3' many/link dangling
touch -d '2002-02-02 02:02:02.2' deep empty many .
"#;

/// The same tree gives the same archive.
const TAR: &str = "tar --format=posix --sort=name --numeric-owner --xattrs --xattrs-include='*' \
    --pax-option=exthdr.name=%d/p/%f,delete=atime,delete=ctime";

#[test]
fn tar_there_and_back_is_identical() {
    let Some(world) = crate::world(&["tar", "setfattr"]) else { return };
    let beside = tempfile::tempdir().expect("a directory");
    let root = world.root();
    make_tree(beside.path());
    sh(&format!("{TAR} -cf there.tar -C tree ."), beside.path());
    fs::create_dir(root.join("there")).expect("a directory");
    let archive = beside.path().join("there.tar").display().to_string();
    sh(&format!("{TAR} -xpf {archive} --same-owner"), &root.join("there"));
    same_archive(&root.join("there"), beside.path());

    // And from the disks again.
    world.export();
    world.import();
    same_archive(&root.join("there"), beside.path());
    world.finish();
}

fn same_archive(tree: &Path, beside: &Path) {
    sh(&format!("{TAR} -cf back.tar -C {} .", tree.display()), beside);
    let [there, back] =
        ["there.tar", "back.tar"].map(|name| fs::read(beside.join(name)).expect("an archive"));
    if there != back {
        let list = |name: &str| sh(&format!("tar --full-time -tvf {name} --numeric-owner"), beside);
        assert_eq!(list("there.tar"), list("back.tar"), "what tar tells differs");
        panic!("the archives differ in what tar does not list: attributes or content");
    }
}

/// `tar -S` takes a file that has no space allocated for one great hole.
#[test]
fn a_sparse_archive_holds_what_was_just_written() {
    let Some(world) = crate::world(&["tar"]) else { return };
    let beside = tempfile::tempdir().expect("a directory");
    let tree = world.root().join("tree");
    fs::create_dir(&tree).expect("a directory");
    sh("head -c 3000000 /dev/urandom > noise; head -c 1000 /dev/zero | tr '\\0' x > embedded", &tree);
    same_sparse_archive(&tree, beside.path());
    world.zpool("sync");
    same_sparse_archive(&tree, beside.path());
    world.export();
    world.import();
    same_sparse_archive(&tree, beside.path());
    world.finish();
}

fn same_sparse_archive(tree: &Path, beside: &Path) {
    sh("rm -rf back; mkdir back", beside);
    sh(&format!("tar -C {} -cSf - . | tar -C back -xf -", tree.display()), beside);
    sh(&format!("diff -r {} back", tree.display()), beside);
}

#[test]
fn rsync_finds_nothing_to_do_after_a_copy() {
    let Some(world) = crate::world(&["rsync", "setfattr", "setfacl"]) else { return };
    let beside = tempfile::tempdir().expect("a directory");
    let tree = make_tree(beside.path());
    sh("for i in {1..20}; do setfattr -n user.n$i -v v$i many/30; done", &tree);
    let there = world.root().join("there");
    let back = beside.path().join("back");
    copy(&tree, &there);
    copy(&there, &back);
    assert_eq!(differences(&tree, &back), "", "what came back is what went there");
    world.export();
    world.import();
    assert_eq!(differences(&tree, &there), "");
    world.finish();
}

fn copy(from: &Path, to: &Path) {
    sh(&format!("rsync -aHAX --devices --specials {}/ {}/", from.display(), to.display()), Path::new("/"));
    assert_eq!(differences(from, to), "");
}

fn differences(from: &Path, to: &Path) -> String {
    sh(&format!("rsync -aHAXnci --delete {}/ {}/", from.display(), to.display()), Path::new("/"))
}

fn make_tree(beside: &Path) -> std::path::PathBuf {
    let tree = beside.join("tree");
    fs::create_dir(&tree).expect("a directory");
    sh(TREE, &tree);
    tree
}
