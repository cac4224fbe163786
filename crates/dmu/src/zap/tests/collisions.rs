//! Names that an attacker chose for their hashes. The hash is linear, so such names are easily
//! found, whatever the salt is.

use futures::executor::block_on;

use super::memory::{Memory, TX};
use crate::zap::header::Params;
use crate::zap::key::hash_name;
use crate::zap::{Zap, ZapError};

/// The number of letters in a name. Four bits of each letter are free.
const LETTERS: usize = 40;
const FREE_BITS: u32 = 4;
const LETTER: u8 = b'@';
const SALT: u64 = 0x1234_5679;
const BLOCK_BYTES: u64 = 16 << 10;

type Name = [u8; LETTERS];

/// Returns how a change of a name changes its hash.
fn effect(change: &Name) -> u64 {
    let params = Params { salt: SALT, ..Params::default() };
    let changed = change.map(|bits| LETTER | bits);
    hash_name(&params, &changed) ^ hash_name(&params, &[LETTER; LETTERS])
}

fn xor(mut one: Name, other: &Name) -> Name {
    one.iter_mut().zip(other).for_each(|(a, b)| *a ^= b);
    one
}

/// Returns a basis of the changes of a name that leave the top `bits` of its hash unchanged.
fn kernel(bits: u32) -> Vec<Name> {
    let (mut found, mut pivots): (_, Vec<(u64, Name)>) = (Vec::new(), Vec::new());
    for letter in 0..LETTERS {
        for bit in 0..FREE_BITS {
            let mut change = [0; LETTERS];
            change[letter] = 1 << bit;
            let mut left = effect(&change) >> (64 - bits);
            for (pivot, by) in &pivots {
                if left & (1 << pivot.ilog2()) != 0 {
                    left ^= pivot;
                    change = xor(change, by);
                }
            }
            if left == 0 { found.push(change) } else { pivots.push((left, change)) }
        }
    }
    found
}

/// Names whose hashes share the top `bits`.
fn names(bits: u32) -> impl Iterator<Item = Name> {
    let kernel = kernel(bits);
    assert!(kernel.len() >= 132, "160 unknowns, and at most 28 equations");
    (0_u64..).map(move |number| {
        let chosen = kernel.iter().enumerate().filter(|(at, _)| *at < 64 && number >> at & 1 == 1);
        chosen.fold([LETTER; LETTERS], |name, (_, change)| xor(name, change))
    })
}

async fn directory() -> Zap<Memory> {
    let zap = Zap::format(Memory::new(BLOCK_BYTES as u32), &TX, SALT, 0, 0).await.unwrap();
    // A name that is too long for a micro ZAP.
    zap.add_u64(&TX, &[b'a'; 60], 0).await.unwrap();
    for number in 0..1000_u64 {
        zap.add_u64(&TX, format!("an ordinary name {number}").as_bytes(), number).await.unwrap();
    }
    zap
}

/// Adds names until one is refused. Returns the number of names.
async fn fill(zap: &Zap<Memory>, names: impl Iterator<Item = Name>) -> u64 {
    for (number, name) in (0..).zip(names) {
        match zap.add_u64(&TX, &name, number).await {
            Ok(()) => assert!(number < 10_000, "none is refused"),
            Err(ZapError::Full { .. }) => return number,
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!("there are more names")
}

#[test]
fn names_of_one_hash_are_refused_before_anything_grows() {
    block_on(async {
        let zap = directory().await;
        let all: Vec<Name> = names(28).take(1000).collect();
        assert_eq!(all.iter().map(|name| effect(&name.map(|b| b & 15)) >> 36).max(), Some(0), "one hash");
        let (before, blocks) = (zap.blocks().changes(), zap.blocks().blocks().len());
        let there = fill(&zap, all.iter().copied()).await;
        assert!((100..300).contains(&there), "{there} fit into a leaf");
        let grown = zap.blocks().blocks().len() - blocks;
        assert!(grown < 40, "{grown} blocks more");
        let changes = zap.blocks().changes() - before;
        assert!(changes < 10 * there, "{changes} changes of blocks");
        for name in &all[there as usize..] {
            let before = zap.blocks().changes();
            assert!(matches!(zap.add_u64(&TX, name, 1).await, Err(ZapError::Full { .. })));
            assert_eq!(zap.blocks().changes(), before, "refused without any change");
        }
        for (number, name) in (0..there).zip(&all) {
            assert_eq!(zap.lookup_u64(name).await.unwrap(), Some(number));
        }
        zap.remove(&TX, &all[0]).await.unwrap();
        zap.add_u64(&TX, &all[there as usize], 7).await.unwrap();
        for number in 1000..3000_u64 {
            zap.add_u64(&TX, format!("an ordinary name {number}").as_bytes(), number).await.unwrap();
        }
        assert_eq!(zap.count().await.unwrap(), 1 + 3000 + there);
    });
}

#[test]
fn names_of_nearly_one_hash_make_no_large_table() {
    for bits in [20, 24, 27] {
        block_on(async {
            let zap = directory().await;
            let there = fill(&zap, names(bits)).await;
            assert!(there >= 100, "{there} fit into a leaf");
            let blocks = zap.blocks().blocks().len() as u64;
            assert!(blocks * BLOCK_BYTES < 4 << 20, "{blocks} blocks");
        });
    }
}

#[test]
fn names_whose_hashes_begin_alike_get_leaves_of_their_own() {
    block_on(async {
        let zap = directory().await;
        for (number, name) in (0..2000).zip(names(8)) {
            zap.add_u64(&TX, &name, number).await.unwrap();
        }
        for (number, name) in (0..2000).zip(names(8)) {
            assert_eq!(zap.lookup_u64(&name).await.unwrap(), Some(number));
        }
    });
}
