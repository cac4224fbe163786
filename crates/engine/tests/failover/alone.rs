//! One host: pools made, exported, imported, and brought back after a power cut.

use crate::clients::Ledger;
use crate::node::{Node, POOL, world};
use crate::over_seeds;
use futures::future::{Either, select};
use sim::Sim;
use std::pin::pin;
use std::time::Duration;

/// Runs `work` for some time.
pub async fn for_some_time(sim: &Sim, millis: u64, work: impl Future<Output = ()>) {
    let end = sim.env().sleep(Duration::from_millis(millis));
    if let Either::Left(((), end)) = select(pin!(work), end).await {
        end.await;
    }
}

#[test]
fn a_pool_made_and_exported_is_imported_with_all_its_files() {
    over_seeds("made, exported, imported", |seed| {
        let sim = world(seed);
        let (node, ledger) = (Node::new(&sim, 0xa), Ledger::default());
        sim.run_until(async {
            node.create().await.map_err(|e| e.to_string())?;
            ledger.write(&node, "a", seed % 5 + 2).await;
            node.export().await.map_err(|e| e.to_string())?;
            assert_eq!(node.restore().await.len(), 0, "who exports a pool has it no more");
            let found = node.scan().await;
            assert!(found.len() == 1 && !found[0].foreign && found[0].pool.name == POOL);
            node.import(false).await.map_err(|e| e.to_string())?;
            ledger.check(&node).await
        })
    });
}

#[test]
fn a_restart_after_a_power_cut_brings_back_the_pool_and_what_was_promised() {
    over_seeds("brought back after a power cut", |seed| {
        let sim = world(seed);
        let (node, ledger) = (Node::new(&sim, 0xa), Ledger::default());
        sim.run_until(async {
            node.create().await.map_err(|e| e.to_string())?;
            for_some_time(&sim, seed * 97 % 3000 + 5, ledger.write(&node, "a", 1000)).await;
            Ok::<_, String>(())
        })?;
        let later = sim.power_cut(seed).boot(seed + 1000);
        let back = node.reboot(&later);
        later.run_until(async {
            assert_eq!(back.restore().await.len(), 1, "it is in the list of pools");
            ledger.check(&back).await
        })
    });
}
