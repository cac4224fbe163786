//! PostgreSQL's data, sent to another daemon every few seconds while clients write and both daemons are killed: a server
//! on what was received has what was committed before the last snapshot of it.
//!
//! ```text
//!  pgbench ─► server ─► tank/data@1 @2 @3 ...  ── zfs send ─► pv ─► zfs receive -s ──► tank/copy@1 @2 @3 ... ─► server
//!                       daemon, killed                              daemon, killed                        in the end
//! ```

use std::time::{Duration, SystemTime};

use crate::postgres::Server;
use crate::replicas::{Pair, UNDER_WAY};

/// Snapshots that are sent; the daemons are killed in turn while all but the last are.
const ROUNDS: usize = 5;
/// Between them.
const WRITE_TIME: Duration = Duration::from_secs(2);

/// Which daemon is killed.
#[derive(Clone, Copy)]
enum Killed {
    Sender,
    Receiver,
}

#[test]
fn a_server_on_a_replica_has_what_was_committed_before_its_last_snapshot() {
    let Some(mut server) = Server::new() else { return };
    let Some(to) = crate::world(&["pv", "bash"]) else { return };
    // Clients end with their server, and then others take their place.
    let (mut clients, mut epoch) = (Some(server.start_clients(0)), 0);
    let mut before = SystemTime::now();
    let mut resumed = 0;
    for round in 1..=ROUNDS {
        std::thread::sleep(WRITE_TIME);
        before = SystemTime::now();
        server.world.zfs(&format!("snapshot tank/data@{round}"));
        let pair = Pair { from: &server.world, to: &to, copy: "tank/copy", since: "-I" };
        let mut is_first = true;
        while let Some(what) = pair.next(round) {
            resumed += usize::from(what.starts_with("-t"));
            let is_killing = std::mem::replace(&mut is_first, false) && round < ROUNDS;
            let killed = is_killing.then_some(if round % 2 == 1 { Killed::Receiver } else { Killed::Sender });
            pair.send(&what, || {
                std::thread::sleep(UNDER_WAY);
                match killed {
                    Some(Killed::Receiver) => to.kill_daemon(),
                    Some(Killed::Sender) => {
                        server.kill_with_daemon(clients.take().expect("there are always some"));
                    }
                    None => {}
                }
            });
            match killed {
                Some(Killed::Receiver) => to.restart(),
                Some(Killed::Sender) => {
                    server.world.restart();
                    server.forget_killed();
                    server.start();
                    epoch += 1;
                    clients = Some(server.start_clients(epoch));
                }
                None => {}
            }
        }
    }
    std::thread::sleep(WRITE_TIME);
    server.kill(clients.take().expect("there are always some"));
    assert!(resumed > 0, "no stream broke off");
    let seen: Vec<Vec<usize>> = (0..=epoch).map(|epoch| server.seen_until(epoch, before)).collect();
    let all: usize = server.seen(epoch).iter().sum();

    // A daemon that was brought back has mounted it by itself.
    _ = to.run("zfs", "mount tank/copy");
    server.data = to.root().join("copy");
    server.forget_killed();
    server.start();
    let mut found = 0;
    for (epoch, seen) in seen.iter().enumerate() {
        assert!(seen.iter().sum::<usize>() > 0, "nothing was committed by the clients of {epoch}");
        found = server.has_at_least(epoch, seen);
    }
    assert!(found < all, "the copy has what came later: {found} of {all}");
    server.check_money();
    server.stop();
    server.world.finish();
    to.finish();
}
