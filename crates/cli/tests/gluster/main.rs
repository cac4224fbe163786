//! GlusterFS over three pools, each with a log, its daemon, and a machine that is namespaces of its own.
//!
//! ```text
//!  client: fio ─► glusterfs ─► mount            ┌─► node 1: glusterfsd ─► mount ─► sawmill ─► main, log
//!                   │ every write, three times ─┼─► node 2: ...
//!                   └────────── bridge ─────────┴─► node 3: ...
//! ```
//! Promises
//! - A daemon that is killed, a log that is gone, and a machine that is cut off stop no writer for longer than `PAUSE_MAX`.
//! - What the volume has acknowledged is on every brick: at once on those that were there, after healing on the
//!   one that was not.
#![forbid(unsafe_code)]

mod load;
#[path = "../mounted/mod.rs"]
mod mounted;
mod network;
mod node;
#[path = "../programs/shell.rs"]
mod shell;
mod volume;

use std::thread::sleep;
use std::time::Duration;

use load::Load;
use node::Node;
use oracle::needs::Need;
use shell::until;
use volume::{PING_SECONDS, Volume};

const PROGRAMS: &[&str] = &["glusterd", "gluster", "glusterfs", "fio", "ip", "unshare", "nsenter"];
/// Between two events, so that the writers meet each of them alone.
const MEANWHILE: Duration = Duration::from_secs(2);
/// Glusterfs asks a brick every so often and waits as long for an answer; the daemon gives up a log after 5 s
/// (`SAWMILL_LOG_DEADMAN`). A write may meet both, on a machine that is busy with other tests.
const PAUSE_MAX: Duration = Duration::from_secs(2 * PING_SECONDS + 5 + 5);

fn volume() -> Option<Volume> {
    for program in PROGRAMS {
        if shell::find(program).is_none() {
            Need::Program(program).is_missing(&format!("{program} is not installed"));
            return None;
        }
    }
    mounted::can_mount().then(Volume::new)
}

#[test]
fn neither_a_daemon_that_is_killed_nor_a_log_that_is_gone_stops_a_writer() {
    let Some(volume) = volume() else { return };
    load::lay_out(&volume);
    let load = Load::start(&volume);
    sleep(MEANWHILE);
    kill_and_bring_back(&volume, &volume.nodes[1]);
    sleep(MEANWHILE);
    let last = &volume.nodes[2];
    last.lose_log();
    until(|| last.status().contains("log: no log is usable"), "writers have met the log that is gone");
    sleep(MEANWHILE);
    volume.cut_off(&volume.nodes[1]);
    volume.wait_until_connected();
    let report = load.stop();
    println!("{report}");
    assert!(report.longest < PAUSE_MAX, "{report}");
    assert!(last.status().contains(" state: DEGRADED"), "{}", last.status());
    volume.wait_until_healed();
    volume.mount_again();
    load::verify(&volume).unwrap_or_else(|damage| panic!("{damage}"));
    assert_eq!(volume.bricks_that_differ(load::IMAGE), [0; 0]);
    // What differs is found: neither check is blind.
    volume.nodes[1].spoil(load::IMAGE);
    assert_eq!(volume.bricks_that_differ(load::IMAGE), [2]);
    last.give_log_back();
    volume.finish();
}

/// As docs/glusterfs.md tells it.
fn kill_and_bring_back(volume: &Volume, node: &Node) {
    node.world.kill_daemon();
    sleep(MEANWHILE);
    node.world.restart();
    node.restart_brick();
    volume.wait_until_connected();
    volume.wait_until_nothing_is_pending();
}

/// Within a txg's time: only the intent logs can have it.
#[test]
fn what_is_acknowledged_is_on_each_brick_though_all_daemons_are_killed() {
    let Some(volume) = volume() else { return };
    let acks = volume.write_stably();
    volume.nodes.iter().for_each(|node| node.world.kill_daemon());
    assert!(volume.refuses_writes(), "no brick is there");
    for node in &volume.nodes {
        node.world.restart();
        node.check(&acks);
    }
    volume.nodes.iter().for_each(Node::restart_brick);
    volume.wait_until_connected();
    volume.wait_until_healed();
    volume.mount_again();
    volume.check(&acks);
    volume.nodes[..2].iter().for_each(|node| node.world.kill_daemon());
    assert!(volume.refuses_writes(), "two of three have to be there");
    volume.nodes[..2].iter().for_each(|node| node.world.restart());
    volume.finish();
}
