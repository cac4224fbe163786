//! PostgreSQL: what its clients saw committed is there after server and daemon were killed, and in a clone of a snapshot
//! that was made while they went on.

use std::ops::{Deref, DerefMut};
use std::process::Child;
use std::time::{Duration, SystemTime};

use crate::database::{PostgresServer, end};
use crate::mounted::World;

const KILLS: usize = 2;
const WRITE_TIME: Duration = Duration::from_secs(4);

#[test]
fn postgres_keeps_what_its_clients_saw_committed() {
    let Some(server) = Server::new() else { return };
    for round in 0..KILLS {
        let seen = server.write_until_killed(round);
        assert!(seen.iter().sum::<usize>() > 0, "nothing was committed");
        server.world.restart();
        server.forget_killed();
        server.start();
        server.check(round, &seen);
    }
    server.stop();
    server.world.finish();
}

#[test]
fn a_clone_of_a_running_server_has_what_was_committed_before_its_snapshot() {
    let Some(mut server) = Server::new() else { return };
    let clients = server.start_clients(0);
    std::thread::sleep(WRITE_TIME);
    let before = SystemTime::now();
    server.world.zfs("snapshot tank/data@live");
    // The first server goes on, and what it writes is none of the clone's.
    std::thread::sleep(WRITE_TIME / 4);
    server.kill(clients);
    let seen = server.seen_until(0, before);
    assert!(seen.iter().sum::<usize>() > 0, "nothing was committed");
    let all = server.seen(0);
    assert!(all.iter().sum::<usize>() > seen.iter().sum(), "nothing was committed behind it");
    server.world.zfs("clone tank/data@live tank/clone");
    server.data = server.world.root().join("clone");
    server.forget_killed();
    server.start();
    let found = server.has_at_least(0, &seen);
    assert!(found < all.iter().sum(), "the clone has what came later");
    server.check_money();
    server.stop();
    server.world.zfs("destroy tank/clone");
    server.world.zfs("destroy tank/data@live");
    server.world.finish();
}

/// A server whose data lie in a file system of their own, `tank/data`.
pub struct Server {
    pub world: World,
    database: PostgresServer,
}

impl Server {
    /// It runs, with tables for its clients.
    pub fn new() -> Option<Self> {
        Self::within(|| crate::world(&["setpriv", "ps"]))
    }

    /// The same in a world that is made for it, if PostgreSQL is there.
    pub fn within(world: impl FnOnce() -> Option<World>) -> Option<Self> {
        PostgresServer::programs()?;
        let world = world()?;
        world.zfs("create tank/data");
        let database = PostgresServer::new(world.root().join("data"))?;
        Some(Self { world, database })
    }

    /// Gives how many transactions of the counting script each client saw committed.
    fn write_until_killed(&self, round: usize) -> Vec<usize> {
        let clients = self.start_clients(round);
        std::thread::sleep(WRITE_TIME);
        self.kill_with_daemon(clients);
        self.seen(round)
    }

    /// `kill -9` of the daemon, and of the server that has lost its data.
    pub fn kill_with_daemon(&self, clients: Child) {
        let server = self.database.stopped();
        self.world.kill_daemon();
        end(&server, clients);
    }
}

impl Deref for Server {
    type Target = PostgresServer;

    fn deref(&self) -> &PostgresServer {
        &self.database
    }
}

impl DerefMut for Server {
    fn deref_mut(&mut self) -> &mut PostgresServer {
        &mut self.database
    }
}
