use super::*;
use crate::view::testing::{captured, p1};
use control::{VdevAux, VdevState};

fn found() -> ImportCandidate {
    let mut pool = p1();
    pool.caches[0].state = VdevState::Offline;
    ImportCandidate {
        pool,
        destroyed: false,
        foreign: false,
        in_use: None,
        unsupported_features: Vec::new(),
        readable: false,
    }
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

#[test]
fn a_pool_with_features_that_are_not_supported_names_them() {
    let mut found = found();
    found.pool.health = PoolHealth::Unavail;
    (found.pool.root.state, found.pool.root.aux) = (VdevState::CantOpen, VdevAux::UnsupFeature);
    found.unsupported_features = vec!["org.new:one (The first.)".into(), "org.new:two".into()];
    let text = candidate(&found, NameStyle::default());
    let head = " state: UNAVAIL\nstatus: The pool uses the following feature(s) not supported on this \
                system:\n\torg.new:one (The first.)\n\torg.new:two\naction: The pool cannot be imported. Access \
                the pool on a system that supports\n\tthe required feature(s), or recreate the pool from \
                backup.\nconfig:\n\n\tp1             UNAVAIL  unsupported feature(s)\n";
    assert!(text.contains(head), "{text}");
    found.readable = true;
    let text = candidate(&found, NameStyle::default());
    assert!(text.contains("\n\t'-o readonly=on', access the pool on a system that supports the\n"), "{text}");
}

#[test]
fn a_pool_that_another_system_writes_to_says_who_has_it() {
    let mut found = found();
    found.foreign = true;
    found.pool.health = PoolHealth::Unavail;
    (found.pool.root.state, found.pool.root.aux) = (VdevState::CantOpen, VdevAux::Active);
    found.in_use = Some(InUse::On { hostname: "other".into(), hostid: 0xa1 });
    let text = candidate(&found, NameStyle::default());
    let head = " state: UNAVAIL\nstatus: The pool is currently imported by another system.\naction: The pool must \
                be exported from other (hostid=a1)\n\tbefore it can be safely imported.\n   see: \
                https://openzfs.github.io/openzfs-docs/msg/ZFS-8000-EY\nconfig:\n\n\tp1             UNAVAIL  \
                currently in use\n";
    assert!(text.contains(head), "{text}");
    found.in_use = Some(InUse::NoHostId);
    let text = candidate(&found, NameStyle::default());
    let head = "status: The pool has the multihost property on.  It cannot\n\tbe safely imported when the system \
                hostid is not set.\naction: Set a unique system hostid with the zgenhostid(8) command.\n";
    assert!(text.contains(head), "{text}");
}

#[test]
fn a_pool_of_another_system_asks_for_force() {
    let mut found = found();
    found.pool.caches.clear();
    found.foreign = true;
    let text = candidate(&found, NameStyle::default());
    assert!(text.contains("status: The pool was last accessed by another system.\n"), "{text}");
    assert!(text.contains("identifier and\n\tthe '-f' flag.\n   see: "), "{text}");
    assert!(text.contains("msg/ZFS-8000-EY\n"), "{text}");
}
