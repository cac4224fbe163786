//! POSIX ACLs and extended attributes by the system's own programs: `setfacl`, `getfacl`, `setfattr`,
//! `getfattr`.

use std::path::Path;

use crate::shell::sh;

/// A directory with an ACL that new files inherit, and one that is open to one user alone.
const MAKE: &str = r#"
umask 022
mkdir d
setfacl -m u:1234:rwx,g:5678:r-x d
setfacl -d -m u:1234:rw-,g:5678:r-- d
echo hello > d/file
mkdir d/sub
echo secret > alone; chmod 600 alone; setfacl -m u:1234:r-- alone
for i in $(seq 40); do touch d/many$i; setfacl -m u:$((i + 2000)):rwx d/many$i; done
chmod g-w d/many7
setfattr -n user.small -v value d/file
setfattr -n user.large -v "$(head -c 3000 /dev/zero | tr '\0' v)" d/sub
setfattr -n trusted.t -v 0x00ff00 alone
"#;

/// Everything that these programs know of the tree; by name, for the order in a directory is its own.
const SHOW: &str = "find d alone | sort > ../names; xargs getfacl -pEn < ../names; \
    xargs getfattr -h -d -m - -e hex < ../names";

/// What a file inherits that was created with mode 0666, whatever the umask.
const INHERITED: &str = "user::rw-\nuser:1234:rw-\ngroup::r-x\ngroup:5678:r--\nmask::rw-\nother::r--\n";

#[test]
fn acls_are_inherited_heeded_and_survive_a_remount() {
    let Some(world) = crate::world(&["setfacl", "getfacl", "setfattr", "getfattr", "setpriv"]) else {
        return;
    };
    world.zfs("create -o acltype=posix -o xattr=sa tank/acl");
    world.zfs("create -o acltype=posix -o xattr=dir tank/acl-dir");
    let trees = ["acl", "acl-dir"].map(|name| world.root().join(name));
    let shown = trees.each_ref().map(|tree| {
        sh(MAKE, tree);
        sh(SHOW, tree)
    });
    assert!(shown[0] == shown[1], "wherever attributes are kept:\n{}\n{}", shown[0], shown[1]);
    for tree in &trees {
        check(tree);
    }
    world.export();
    world.import();
    for (tree, shown) in trees.iter().zip(&shown) {
        assert_eq!(sh(SHOW, tree), *shown, "after a remount");
        check(tree);
    }
    world.kill_daemon();
    world.restart();
    for (tree, shown) in trees.iter().zip(&shown) {
        assert_eq!(sh(SHOW, tree), *shown, "after a kill");
    }
    world.finish();
}

fn check(tree: &Path) {
    assert_eq!(sh("getfacl -cpEn d/file", tree).trim_end(), INHERITED.trim_end());
    let sub = sh("getfacl -cpEn d/sub", tree);
    assert!(sub.contains("default:user:1234:rw-\n") && sub.contains("\nuser:1234:rw-\n"), "{sub}");
    let as_user = |uid: u32, line: &str| format!("setpriv --reuid {uid} --regid 9 --clear-groups {line}");
    assert_eq!(sh(&as_user(1234, "cat alone"), tree), "secret\n");
    assert_eq!(sh(&format!("! {} 2>/dev/null", as_user(4321, "cat alone")), tree), "");
    sh(&as_user(1234, "tee -a d/file < /dev/null"), tree);
    assert_eq!(sh(&format!("! {} 2>/dev/null", as_user(4321, "tee -a d/file < /dev/null")), tree), "");
}
