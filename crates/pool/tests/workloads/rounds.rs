//! Twenty lives of one pool.

use crate::dice::Dice;
use crate::tree::Tree;
use crate::world::{Layout, World};

const ROUNDS: usize = 20;

#[test]
fn twenty_exports_and_imports_lose_nothing() {
    let world = World::new(Layout::new(&[&["a", "b"]], &[&["l"]], 9));
    let mut dice = Dice::new(20);
    let mut pool = world.create();
    let mut tree = world.run(Tree::of_empty(&world.zfs(&pool, "whirl")));
    let mut verdicts = Vec::new();
    for round in 0..ROUNDS {
        let zfs = world.zfs(&pool, "whirl");
        world.run(async {
            tree.check(&zfs).await;
            tree.steps(&zfs, &mut dice, 25).await;
            if round % 7 == 6 {
                tree.clear(&zfs).await;
            }
        });
        drop(zfs);
        // Files that are open and have no name are gone after this.
        tree.forget_orphans();
        world.export(&pool);
        if round % 5 == 4 {
            verdicts.push(world.copy().check_aside(&format!("round {round}")));
        }
        pool = world.import();
    }
    let zfs = world.zfs(&pool, "whirl");
    world.run(tree.check(&zfs));
    world.export(&pool);
    for verdict in verdicts {
        verdict.wait();
    }
}
