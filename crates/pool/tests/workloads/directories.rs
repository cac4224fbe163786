//! A directory of tens of thousands of names.

use std::collections::BTreeSet;

use zpl::{Cred, NewNode, Zfs};

use crate::world::{Layout, World};

const NAMES: usize = 20_000;
/// One in so many stays.
const KEPT: usize = 10;

fn name(n: usize) -> Vec<u8> {
    format!("a name of some length, number {n}").into_bytes()
}

async fn names(zfs: &Zfs) -> BTreeSet<Vec<u8>> {
    let (mut all, mut cookie) = (BTreeSet::new(), 0);
    loop {
        let some = zfs.list(zfs.root(), cookie, 1000).await.unwrap();
        let Some(last) = some.last() else { return all };
        cookie = last.next;
        for entry in some {
            assert!(all.insert(entry.name), "listed twice");
        }
    }
}

#[test]
fn a_directory_of_twenty_thousand_names_comes_and_goes() {
    let world = World::new(Layout::new(&[&["a"]], &[], 9));
    let pool = world.create();
    let zfs = world.zfs(&pool, "whirl");
    let root = zfs.root();
    world.run(async {
        for n in 0..NAMES {
            zfs.create(root, &name(n), NewNode::File, 0o644, Cred::default()).await.unwrap();
        }
    });
    drop(zfs);
    world.export(&pool);
    world.zdb().check().unwrap();
    let pool = world.import();
    let zfs = world.zfs(&pool, "whirl");
    let kept = world.run(async {
        assert_eq!(names(&zfs).await.len(), NAMES + 2);
        for n in (0..NAMES).filter(|n| n % KEPT != 0) {
            zfs.unlink(root, &name(n)).await.unwrap();
        }
        names(&zfs).await
    });
    let wanted: BTreeSet<Vec<u8>> =
        (0..NAMES).step_by(KEPT).map(name).chain([b".".to_vec(), b"..".to_vec()]).collect();
    assert!(kept == wanted);
    drop(zfs);
    world.export(&pool);
    world.zdb().check().unwrap();
}
