use ondisk::zil::LogRecord;
use ondisk::zil::record::LrRemove;

use super::*;

fn itx(scope: Scope) -> Itx {
    Itx { scope, record: Record::Plain(LogRecord::Remove(LrRemove::default())) }
}

const A: ObjectId = ObjectId::new(1);
const B: ObjectId = ObjectId::new(2);

fn filled() -> Pending {
    let mut pending = Pending::default();
    let scopes = [Scope::Object(A), Scope::Namespace, Scope::Object(B), Scope::Object(A), Scope::Namespace];
    for (i, scope) in scopes.into_iter().enumerate() {
        // Older and younger txgs take turns, as they do while one gives way to the next.
        pending.assign(Txg::new(8 + (i as u64 + 1) % 2), itx(scope));
    }
    pending
}

fn numbers(entries: &[Entry]) -> Vec<u64> {
    entries.iter().map(|entry| entry.number).collect()
}

#[test]
fn records_leave_in_the_order_they_came() {
    assert_eq!(numbers(&filled().take(None)), [0, 1, 2, 3, 4]);
}

#[test]
fn a_commit_takes_the_namespace_and_its_own_object_only() {
    let mut pending = filled();
    assert_eq!(numbers(&pending.take(Some(A))), [0, 1, 3, 4]);
    assert_eq!(numbers(&pending.take(Some(A))), [0_u64; 0]);
    assert_eq!(numbers(&pending.take(None)), [2]);
    assert!(pending.is_empty());
}

#[test]
fn a_rename_takes_the_content_of_its_file_along() {
    let mut pending = filled();
    pending.assign(Txg::new(9), itx(Scope::NamespaceWith(A)));
    assert_eq!(numbers(&pending.take(Some(B))), [0, 1, 2, 3, 4, 5], "in the order they came");
    let mut pending = filled();
    pending.assign(Txg::new(9), itx(Scope::NamespaceWith(A)));
    assert_eq!(numbers(&pending.take(Some(ObjectId::new(3)))), [0, 1, 3, 4, 5], "of no other file");
}

#[test]
fn a_synced_txg_takes_its_records_along() {
    let mut pending = filled();
    drop(pending.clean(Txg::new(8)));
    assert_eq!(numbers(&pending.take(None)), [0, 2, 4]);
    let mut pending = filled();
    drop(pending.clean(Txg::new(9)));
    assert!(pending.is_empty());
}

#[test]
fn a_removed_object_leaves_nothing_to_its_successor() {
    let mut pending = filled();
    pending.forget(A);
    assert_eq!(numbers(&pending.take(Some(A))), [1, 4]);
}

#[test]
fn a_slot_is_used_again_four_txgs_later() {
    let mut pending = filled();
    pending.assign(Txg::new(12), itx(Scope::Namespace));
    assert_eq!(numbers(&pending.take(None)), [0, 2, 4, 5]);
}
