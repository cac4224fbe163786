use super::*;
use crate::view::testing::{captured, p1};
use control::{VdevAux, VdevState};

fn found() -> ImportCandidate {
    let mut pool = p1();
    pool.caches[0].state = VdevState::Offline;
    ImportCandidate { pool, destroyed: false, foreign: false, unsupported_features: Vec::new() }
}

fn lose(vdev: &mut VdevInfo, not_present: bool) {
    (vdev.state, vdev.aux, vdev.not_present) = (VdevState::CantOpen, VdevAux::OpenFailed, not_present);
}

#[test]
fn a_whole_pool_reads_as_captured() {
    assert_eq!(candidate(&found(), NameStyle::default()), captured("zpool import -d /tmp/w"));
}

#[test]
fn a_pool_without_its_log_reads_as_captured() {
    let mut found = found();
    found.pool.health = PoolHealth::Degraded;
    found.pool.root.state = VdevState::Degraded;
    let log = &mut found.pool.root.children[1];
    log.children.iter_mut().for_each(|leaf| lose(leaf, false));
    (log.state, log.aux) = (VdevState::CantOpen, VdevAux::NoReplicas);
    assert_eq!(candidate(&found, NameStyle::default()), captured("zpool import -d /tmp/w #2"));
}

#[test]
fn a_destroyed_pool_reads_as_captured() {
    let mut found = found();
    found.destroyed = true;
    found.pool.health = PoolHealth::Degraded;
    found.pool.root.state = VdevState::Degraded;
    let log = &mut found.pool.root.children[1];
    log.state = VdevState::Degraded;
    lose(&mut log.children[1], true);
    assert_eq!(candidate(&found, NameStyle::default()), captured("zpool import -D -d /tmp/w"));
}
