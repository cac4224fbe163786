//! Random life of a nested vdev beside a plain model: what each block should hold, and when it was written.
//!
//! The predicate is the model's: [`Node::lacks`] says of each txg whether it is whole here. As long as it
//! says so of the txg of a block's last write, the block is read, with the bytes of that write.

use std::collections::BTreeMap;
use std::sync::Arc;

use env::FaultOp;
use futures::executor::block_on;
use units::Txg;

use crate::node::tests::{Nested, PATHS};
use crate::*;

const BLOCKS: u64 = 12;
const STRIDE: u64 = 64 << 10;

struct Life {
    seed: u64,
    word: u64,
    nested: Nested,
    txg: u64,
    /// Blocks by number: their bytes, and the txg they were written in.
    model: BTreeMap<u64, (Vec<u8>, u64)>,
    history: Vec<String>,
    read: usize,
    unreadable: usize,
}

impl Life {
    fn new(seed: u64) -> Self {
        let (children, parity) = [(1, 0), (2, 0), (3, 1), (4, 2)][seed as usize % 4];
        let nested = Nested::new(children, parity);
        let word = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self {
            seed,
            word,
            nested,
            txg: 5,
            model: BTreeMap::new(),
            history: Vec::new(),
            read: 0,
            unreadable: 0,
        }
    }

    fn draw(&mut self, below: usize) -> usize {
        self.word = self.word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.word >> 33) as usize % below
    }

    fn any_leaf(&mut self) -> Arc<Leaf> {
        let leaves = self.nested.tree.leaves();
        let at = self.draw(leaves.len());
        leaves[at].clone()
    }

    fn note(&mut self, what: String) {
        self.history.push(format!("txg {}: {what}", self.txg));
    }

    fn write(&mut self) {
        let block = self.draw(BLOCKS as usize) as u64;
        let len = 512 * (1 + self.draw(12)) - self.draw(200);
        let stamp = self.draw(1 << 20);
        let bytes: Vec<u8> = (0..len).map(|at| (at * 7 + at / 251 + stamp) as u8).collect();
        match self.nested.write(block * STRIDE, &bytes) {
            Ok(()) => _ = self.model.insert(block, (bytes, self.txg)),
            // Some leaves may have it, and nobody was told that it is there.
            Err(_) => _ = self.model.remove(&block),
        }
        self.note(format!("write of block {block}"));
    }

    fn end_txg(&mut self) {
        self.nested.tree.note_dtls(Txg::new(self.txg));
        self.txg += 1;
    }

    /// Some leaf fails, or is taken out, or comes back.
    fn trouble(&mut self) {
        let leaf = self.any_leaf();
        let path = leaf.path().to_string_lossy().into_owned();
        match self.draw(4) {
            0 => {
                self.nested.world.faults(&path).fail_all(FaultOp::Write);
                self.write();
                self.nested.world.faults(&path).heal();
                self.note(format!("{path} failed writes"));
            }
            1 => {
                let done = self.nested.tree.offline(leaf.guid()).is_ok();
                self.note(format!("offline {path}: {done}"));
            }
            _ => {
                let txg = self.txg;
                block_on(self.nested.tree.reopen(leaf.guid(), None, || Txg::new(txg))).expect("it is there");
                self.note(format!("{path} is back"));
            }
        }
    }

    fn change(&mut self) {
        let leaf = self.any_leaf();
        let path = leaf.path();
        if self.draw(2) == 0 && self.nested.used < PATHS.len() && self.nested.tree.leaves().len() < 7 {
            let is_raidz = matches!(self.nested.top().kind(), NodeKind::Raidz { .. });
            let kind = match self.draw(3) {
                0 if !is_raidz && self.nested.top().leaves().len() < 3 => NodeKind::Mirror,
                1 => NodeKind::Spare,
                _ => NodeKind::Replacing,
            };
            self.nested.put_beside(leaf.guid(), kind, self.txg);
            self.note(format!("{kind:?} beside {}", path.display()));
        } else {
            let done = self.nested.tree.take_out(leaf.guid()).is_ok();
            self.note(format!("take out {}: {done}", path.display()));
            if done {
                self.relabel();
            }
        }
    }

    /// Labels as a txg's sync writes them, for a leaf that took the guid of a group.
    fn relabel(&self) {
        let (top, tree) = (self.nested.top(), &self.nested.tree);
        for leaf in top.leaves().iter().filter(|leaf| leaf.is_usable()) {
            block_on(init_label(tree, &top, leaf, &super::tree::pool_config())).expect("its label");
        }
    }

    /// Every block is brought back to every leaf, as far as the txgs that the leaf missed.
    fn resilver(&mut self) {
        let usable = self.nested.tree.leaves().into_iter().filter(|leaf| leaf.is_usable());
        let behind: Vec<_> = usable.map(|leaf| (leaf.guid(), leaf.misses())).collect();
        let up_to = Txg::new(self.txg);
        let mut errors = 0;
        for (block, (bytes, _)) in &self.model {
            errors += usize::from(self.nested.scrub(block * STRIDE, bytes).is_err());
        }
        for (guid, misses) in behind.into_iter().filter(|_| errors == 0) {
            let leaf = self.nested.tree.leaf(guid).expect("still there");
            if leaf.is_usable() && leaf.misses() == misses {
                self.nested.tree.resilvered(guid, up_to).expect("still there");
            }
        }
        self.note(format!("resilver with {errors} errors"));
        while let Some(leaf) = self.nested.tree.finished() {
            self.nested.tree.take_out(leaf.guid()).expect("its work is done");
            self.note(format!("{} is replaced", leaf.path().display()));
            self.relabel();
        }
    }

    fn check(&mut self) {
        let lacks = self.nested.top().node().lacks(&|leaf| !leaf.is_usable());
        for (block, (bytes, born)) in &self.model {
            let is_whole = !lacks.contains(Txg::new(*born));
            match self.nested.read(block * STRIDE, bytes) {
                Ok(_) => self.read += 1,
                Err(error) if is_whole => {
                    let leaves = self.nested.tree.leaves();
                    let leaves: Vec<_> =
                        leaves.iter().map(|leaf| (leaf.path(), leaf.state(), leaf.dtl())).collect();
                    panic!(
                        "seed {}: block {block} of txg {born}: {error}\n{leaves:#?}\n{}",
                        self.seed,
                        self.history.join("\n")
                    );
                }
                Err(_) => self.unreadable += 1,
            }
        }
    }

    fn live(&mut self) {
        for _ in 0..60 {
            match self.draw(10) {
                0..=3 => self.write(),
                4 | 5 => self.end_txg(),
                6 | 7 => self.trouble(),
                8 => self.change(),
                _ => self.resilver(),
            }
            self.check();
        }
    }
}

#[test]
fn whatever_happens_to_nested_leaves_what_the_predicate_calls_whole_is_read() {
    let (mut read, mut unreadable, mut replaced, mut shapes) = (0, 0, 0, std::collections::BTreeSet::new());
    for seed in 0..100 {
        let mut life = Life::new(seed);
        life.live();
        read += life.read;
        unreadable += life.unreadable;
        replaced += life.history.iter().filter(|step| step.ends_with("is replaced")).count();
        shapes.insert(life.nested.tree.leaves().len());
    }
    println!("{read} reads, {unreadable} of what was lost, {replaced} replaced");
    assert!(read > 10_000 && replaced > 25 && shapes.len() > 4, "{read} {replaced} {shapes:?}");
}
