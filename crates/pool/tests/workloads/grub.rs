//! GRUB, the other independent reader of the format, reads a simple pool of ours.

use oracle::grub::Grub;
use zpl::{Cred, NewNode, WriteFlags};

use crate::dice::Dice;
use crate::world::{Layout, World};

#[test]
fn grub_lists_and_reads_files() {
    if !Grub::is_here() {
        return;
    }
    let world = World::new(Layout { device_mib: 64, ..Layout::new(&[&["a"]], &[], 9) });
    let pool = world.create();
    world.create_filesystem(&pool, "whirl/boot", &[]);
    let zfs = world.zfs(&pool, "whirl/boot");
    let mut dice = Dice::new(1);
    let contents = [0, 1, 500, 4_000, 200_000, 3_000_000].map(|len| dice.bytes(len));
    world.run(async {
        let dir =
            zfs.create(zfs.root(), b"grub", NewNode::Directory, 0o755, Cred::default()).await.unwrap().object;
        for (n, data) in contents.iter().enumerate() {
            let name = format!("file{n}");
            let made = zfs.create(dir, name.as_bytes(), NewNode::File, 0o644, Cred::default()).await.unwrap();
            zfs.write(made.object, 0, data, WriteFlags::default()).await.unwrap();
        }
    });
    world.export(&pool);
    let grub = Grub::new(&world.path("a"));
    let list = grub.list("/boot@/grub/").unwrap();
    for (n, data) in contents.iter().enumerate() {
        let name = format!("file{n}");
        assert!(list.contains(&name), "{name} in {list:?}");
        assert!(grub.read(&format!("/boot@/grub/{name}")).unwrap() == *data, "contents of {name}");
    }
}
