//! A model test of replication: a tree of file systems lives a random life, and is replicated from
//! one pool to another after each chapter, by `send -R` and `receive -F`.
//!
//! ```text
//!  p/t  created, cloned, promoted, renamed, destroyed, rolled back, written
//!   └─ send -R -I ──► q/t, also changed ──► equal, or an error
//! ```
//! The two trees must be equal in names, snapshots (names and guids), origins, properties, holds,
//! and file contents. An unexpected failure fails the test. Two failures are expected: a clone and
//! its origin have snapshots with the same name, or a dataset has lost the snapshot that the
//! receiver has. After such a failure the replica is created anew. `SAWMILL_SEEDS=1-50` runs these
//! seeds. A failure prints its seed.
#![forbid(unsafe_code)]
#![recursion_limit = "256"]

#[path = "../failover/front.rs"]
mod front;
mod judge;
mod life;
mod site;

use life::TreeLife;
use site::{Packaging, Site};

/// The number of chapters of a life.
const ROUNDS: u64 = 7;

/// Returns the seeds that the environment asks for.
fn seeds() -> std::ops::RangeInclusive<u64> {
    let asked = std::env::var("SAWMILL_SEEDS").unwrap_or_else(|_| "1-8".to_owned());
    let (first, last) = asked.split_once('-').unwrap_or((&asked, &asked));
    let number = |text: &str| text.parse().expect("SAWMILL_SEEDS is a number or FIRST-LAST");
    number(first)..=number(last)
}

/// The results of the packages of a life.
#[derive(Clone, Copy, Debug, Default)]
struct LifeResults {
    equal: u64,
    refused: u64,
}

fn live(seed: u64) -> Result<LifeResults, String> {
    let sim = site::world(seed);
    sim.run_until(async {
        let site = Site::new(&sim).await;
        let mut life = TreeLife::new(seed, &site).await;
        let mut told = LifeResults::default();
        let mut from: Option<String> = None;
        for round in 0..ROUNDS {
            life.chapter(&site).await;
            let to = format!("r{round}");
            site.snapshot_all(&to).await;
            let packaging = Packaging {
                from: from.clone(),
                // A snapshot in between that was left out is never sent later.
                all: from.is_none() || !seed.is_multiple_of(3),
                excluded: life.excludes().filter(|_| round > 0).map(str::to_owned),
            };
            let before = judge::guids(&site).await;
            let came = site.replicate(&to, &packaging).await;
            let at = |reason: String| format!("round {round} of\n{}\n{packaging:?}: {reason}", life.told());
            match came {
                Ok(()) => {
                    judge::judge(&site, &to, &packaging, &before).await.map_err(at)?;
                    told.equal += 1;
                }
                Err(failure) => {
                    life.expected(&site, &packaging, &failure).await.map_err(at)?;
                    told.refused += 1;
                    site.start_anew(&to).await.map_err(at)?;
                    let whole = Packaging { from: None, all: true, excluded: None };
                    judge::judge(&site, &to, &whole, &Default::default()).await.map_err(at)?;
                }
            }
            from = Some(to);
        }
        Ok(told)
    })
}

#[test]
fn a_tree_is_the_sender_s_after_every_package() {
    let mut all = LifeResults::default();
    for seed in seeds() {
        match live(seed) {
            Ok(told) => (all.equal, all.refused) = (all.equal + told.equal, all.refused + told.refused),
            Err(broken) => panic!("seed {seed}: {broken}"),
        }
    }
    println!("{} packages made equal trees, {} were refused", all.equal, all.refused);
    assert!(all.equal > 3 * all.refused, "{all:?}: hardly anything was replicated");
}
