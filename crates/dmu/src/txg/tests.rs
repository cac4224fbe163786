use super::*;
use futures::FutureExt;
use futures::executor::block_on;

const LIMIT: u64 = 1000;

#[test]
fn a_txg_is_quiet_only_when_its_last_hold_is_gone() {
    let gate = TxgGate::new(Txg::new(9), LIMIT);
    let (a, b) = (gate.join().unwrap(), gate.join().unwrap());
    let mut quiesce = Box::pin(gate.quiesce());
    assert!(quiesce.as_mut().now_or_never().is_none());
    let later = gate.join().unwrap();
    assert_eq!((a.txg(), later.txg()), (Txg::new(10), Txg::new(11)));
    drop(a);
    assert!(quiesce.as_mut().now_or_never().is_none());
    drop(b);
    assert_eq!(quiesce.now_or_never().map(|quiet| quiet.txg()), Some(Txg::new(10)));
}

#[test]
fn writers_wait_while_too_much_is_dirty_and_go_on_after_the_sync() {
    let gate = TxgGate::new(Txg::new(9), LIMIT);
    gate.add_dirty(Txg::new(10), LIMIT / 2);
    gate.add_copied(Txg::new(10), LIMIT / 2);
    assert_eq!((gate.dirty_bytes(), gate.bytes_to_write()), (LIMIT, LIMIT / 2));
    let mut writer = Box::pin(gate.admit());
    assert!(writer.as_mut().now_or_never().is_none());
    assert!(gate.wanted().now_or_never().is_some());
    let quiet = block_on(gate.quiesce());
    gate.finish(quiet);
    assert!(writer.now_or_never().unwrap().is_ok());
    assert_eq!(gate.join().unwrap().txg(), Txg::new(11));
    assert_eq!((gate.dirty_bytes(), gate.bytes_to_write()), (0, 0));
}

#[test]
fn what_a_group_has_written_slows_nobody_down_and_still_counts_against_the_limit() {
    let gate = TxgGate::new(Txg::new(9), LIMIT);
    gate.add_dirty(Txg::new(10), LIMIT * 9 / 10);
    let delay = || gate.delay(Duration::ZERO, 0);
    assert!(!delay().is_zero());
    let quiet = block_on(gate.quiesce());
    gate.note_written(LIMIT / 2);
    assert!(delay().is_zero());
    gate.add_dirty(Txg::new(11), LIMIT / 10);
    assert!(gate.admit().now_or_never().is_none());
    gate.finish(quiet);
    gate.add_dirty(Txg::new(11), LIMIT * 8 / 10);
    assert!(!delay().is_zero(), "what was written is not taken off twice");
}

#[test]
fn who_waits_for_a_group_is_told_when_it_is_stable_or_lost() {
    let gate = TxgGate::new(Txg::new(9), LIMIT);
    let mut waiter = Box::pin(gate.wait_synced(Txg::new(10)));
    assert!(waiter.as_mut().now_or_never().is_none());
    assert!(gate.wanted().now_or_never().is_some());
    let quiet = block_on(gate.quiesce());
    gate.finish(quiet);
    assert!(waiter.now_or_never().unwrap().is_ok());
    gate.fail(Txg::new(11));
    assert!(matches!(block_on(gate.wait_synced(Txg::new(11))), Err(DmuError::Suspended { .. })));
    assert!(block_on(gate.admit()).is_err() && gate.join().is_err());
}

#[test]
fn a_group_can_be_joined_late_while_somebody_is_in_it() {
    let gate = TxgGate::new(Txg::new(9), LIMIT);
    let (ten, eleven) = (Txg::new(10), Txg::new(11));
    let first = gate.join().unwrap();
    let mut quiesce = Box::pin(gate.quiesce());
    assert!(quiesce.as_mut().now_or_never().is_none());
    let late = gate.try_join(ten).expect("somebody is in it");
    assert_eq!((late.txg(), gate.try_join(eleven).expect("open").txg()), (ten, eleven));
    assert!(gate.try_join(Txg::new(9)).is_none() && gate.try_join(Txg::new(12)).is_none());
    drop(first);
    assert!(quiesce.as_mut().now_or_never().is_none(), "the late one counts");
    drop(late);
    assert!(gate.try_join(ten).is_none(), "nobody is in it any more");
    assert_eq!(quiesce.now_or_never().map(|quiet| quiet.txg()), Some(ten));
}

#[test]
fn while_a_pool_is_suspended_who_can_wait_waits() {
    let gate = TxgGate::new(Txg::new(9), LIMIT);
    gate.suspend(WhileSuspended::Wait);
    let mut beginning = Box::pin(gate.admit());
    assert!(beginning.as_mut().now_or_never().is_none());
    let mut waiting = Box::pin(gate.wait_synced(Txg::new(10)));
    assert!(waiting.as_mut().now_or_never().is_none());
    let refused = env::impatient(gate.admit()).now_or_never().expect("it does not wait");
    assert!(matches!(refused, Err(DmuError::Suspended { txg }) if txg == Txg::new(10)));
    assert!(env::impatient(gate.wait_synced(Txg::new(10))).now_or_never().expect("told").is_err());
    assert!(gate.join().is_ok(), "what makes others stable goes on");
    gate.resume();
    assert!(beginning.now_or_never().expect("it goes on").is_ok());
    assert!(waiting.as_mut().now_or_never().is_none(), "not stable yet");
    gate.suspend(WhileSuspended::Refuse);
    assert!(waiting.now_or_never().expect("told").is_err());
    assert!(gate.admit().now_or_never().expect("told").is_err());
}

#[test]
fn a_transaction_that_a_panic_leaves_half_done_is_never_written() {
    let gate = TxgGate::new(Txg::new(9), LIMIT);
    let held = gate.join().unwrap();
    let mut waiter = Box::pin(gate.wait_synced(Txg::new(10)));
    assert!(waiter.as_mut().now_or_never().is_none());
    let writer = std::panic::AssertUnwindSafe(|| {
        let _held = gate.join().unwrap();
        panic!("this panic belongs to a test");
    });
    std::panic::catch_unwind(writer).unwrap_err();
    let mut quiesce = Box::pin(gate.quiesce());
    assert!(quiesce.as_mut().now_or_never().is_none(), "another transaction is at work");
    drop(held);
    assert_eq!(quiesce.now_or_never().map(|quiet| quiet.txg()), Some(Txg::new(10)));
    assert_eq!(gate.failed(), Some(Txg::new(10)), "whoever syncs looks at this first");
    assert!(matches!(waiter.now_or_never(), Some(Err(DmuError::Suspended { .. }))));
    assert!(matches!(block_on(gate.admit()), Err(DmuError::Suspended { .. })));
    assert!(matches!(gate.join(), Err(DmuError::Suspended { .. })));
}

#[test]
#[should_panic = "objects of a pool in use are changed by plans"]
fn nobody_changes_objects_of_a_pool_in_use_at_once() {
    let gate = TxgGate::new(Txg::new(9), LIMIT);
    assert_eq!(gate.forming().txg(), Txg::new(10));
    gate.put_in_use();
    let _ = gate.forming();
}
