//! History and error logs.

use ondisk::NvList;
use ondisk::history::names;
use units::{BlockId, Level, ObjectId, ObjsetId, Txg};

use super::world::World;
use crate::features::HEAD_ERRLOG;
use crate::{BlockError, ErrorLog};

#[test]
fn history_keeps_the_first_record_and_the_newest() {
    let world = World::new();
    world.env.block_on(async {
        assert!(world.dsl.history().await.unwrap().is_empty());
        let tx = world.tx();
        let text = |number: usize| format!("command {number} {}", "x".repeat(number * 37 % 3000));
        // The smallest ring goes round several times.
        for number in 0..400 {
            let mut record = NvList::new();
            record.add_str(names::COMMAND, text(number)).add_u64(names::WHO, number as u64);
            world.dsl.add_history(&tx, &record, 0).await.unwrap();
        }
        let dsl = world.reopened().await;
        let records = dsl.history().await.unwrap();
        let numbers: Vec<usize> =
            records.iter().map(|record| record.get_u64(names::WHO).unwrap() as usize).collect();
        let kept = numbers.len() - 1;
        assert_eq!(numbers[0], 0);
        assert_eq!(numbers[1..], (400 - kept..400).collect::<Vec<_>>());
        assert!((50..200).contains(&kept), "{kept} records in 128 KiB");
        for (record, number) in records.iter().zip(numbers) {
            assert_eq!(record.get_str(names::COMMAND), Some(&text(number)[..]));
        }
    });
}

fn error(objset: u64, block: u64, birth: Option<u64>) -> BlockError {
    BlockError {
        objset: ObjsetId::new(objset),
        object: ObjectId::new(0x1f),
        level: Level::new(0),
        block: BlockId::new(block),
        birth: birth.map(Txg::new),
    }
}

#[test]
fn errors_are_kept_by_head_once_the_feature_is_enabled() {
    let world = World::new();
    world.env.block_on(async {
        let (dsl, tx) = (&world.dsl, world.tx());
        let logs = [(ErrorLog::Last, 3), (ErrorLog::Scrub, 9)];
        for (log, block) in logs {
            dsl.add_errors(&tx, log, &[error(54, block, None)]).await.unwrap();
        }
        dsl.enable_feature(&tx, &HEAD_ERRLOG).await.unwrap();
        for (log, block) in logs {
            assert_eq!(dsl.errors(log).await.unwrap(), [error(54, block, Some(0))]);
            dsl.clear_errors(&tx, log).await.unwrap();
            assert_eq!(dsl.errors(log).await.unwrap(), []);
        }
    });
}

#[test]
fn errors_are_found_again_until_a_scrub_replaces_them() {
    for by_head in [false, true] {
        let world = World::new();
        world.env.block_on(async {
            let (dsl, tx) = (&world.dsl, world.tx());
            if by_head {
                dsl.enable_feature(&tx, &HEAD_ERRLOG).await.unwrap();
            }
            let birth = by_head.then_some(7);
            let (old, new) = ([error(54, 3, birth), error(0, 0x20, birth)], [error(54, 9, birth)]);
            dsl.add_errors(&tx, ErrorLog::Last, &old).await.unwrap();
            dsl.add_errors(&tx, ErrorLog::Last, &old[..1]).await.unwrap();
            dsl.add_errors(&tx, ErrorLog::Scrub, &new).await.unwrap();
            let sorted = async |log| {
                let mut all = dsl.errors(log).await.unwrap();
                all.sort();
                all
            };
            assert_eq!(sorted(ErrorLog::Last).await, [old[1], old[0]]);
            dsl.rotate_errors(&tx).await.unwrap();
            assert_eq!(sorted(ErrorLog::Last).await, new);
            assert!(sorted(ErrorLog::Scrub).await.is_empty());
            dsl.clear_errors(&tx, ErrorLog::Last).await.unwrap();
            assert!(sorted(ErrorLog::Last).await.is_empty());
        });
    }
}
