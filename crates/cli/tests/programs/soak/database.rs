//! PostgreSQL under pgbench: each run of the clients is an epoch, which numbers its rows.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use super::POLL;
use super::progress::SoakProgress;
use super::replication::COPY;
use super::run::Round;
use crate::mounted::World;
use crate::postgres::Server;

/// How long clients write before the last snapshot that is sent.
const WRITE_TIME: Duration = Duration::from_secs(4);

pub struct Database {
    pub server: Server,
    epoch: Cell<usize>,
}

impl Database {
    pub fn new(server: Server) -> Self {
        Self { server, epoch: Cell::new(0) }
    }

    /// Keeps clients at work until the time is over, and then kills the daemon and the server. Calls
    /// `look` often.
    pub fn work(&self, round: &Round<'_>, time: Duration, progress: &SoakProgress, mut look: impl FnMut()) {
        let begun = Instant::now();
        let mut clients = self.server.start_clients(self.epoch.get());
        while begun.elapsed() < time {
            thread::sleep(POLL);
            look();
            // Clients end by themselves after a minute.
            if let Some(status) = clients.try_wait().expect("it is ours") {
                assert!(status.success(), "pgbench: {status}");
                self.close_epoch(progress);
                clients = self.server.start_clients(self.epoch.get());
            }
        }
        round.killed.store(true, Ordering::SeqCst);
        self.server.kill_with_daemon(clients);
    }

    /// Starts the server again, and compares it with what its clients saw committed.
    pub fn bring_back(&self, progress: &SoakProgress) {
        self.server.forget_killed();
        self.server.start();
        self.close_epoch(progress);
    }

    fn close_epoch(&self, progress: &SoakProgress) {
        let epoch = self.epoch.get();
        let seen = self.server.seen(epoch);
        self.server.check(epoch, &seen);
        self.has_epoch_before(epoch);
        self.server.forget_rounds_before(epoch);
        progress.commits.fetch_add(seen.iter().sum::<usize>() as u64, Ordering::Relaxed);
        self.epoch.set(epoch + 1);
    }

    /// Checks that the rows of the epoch before are still there.
    fn has_epoch_before(&self, epoch: usize) {
        if let Some(before) = epoch.checked_sub(1) {
            self.server.has_at_least(before, &self.server.seen(before));
        }
    }

    /// Checks that a server on the copy has what was committed before the snapshot that `send` takes
    /// and sends.
    pub fn judge_copy(&mut self, at: PathBuf, send: impl FnOnce(&World)) {
        let epoch = self.epoch.get();
        let clients = self.server.start_clients(epoch);
        thread::sleep(WRITE_TIME);
        let before = SystemTime::now();
        send(&self.server.world);
        self.server.kill(clients);
        let seen = self.server.seen_until(epoch, before);
        self.server.world.zfs(&format!("set mountpoint={} {COPY}", at.display()));
        // The new property may have mounted the copy already.
        _ = self.server.world.run("zfs", &format!("mount {COPY}"));
        self.server.data = at;
        self.server.forget_killed();
        self.server.start();
        self.server.has_at_least(epoch, &seen);
        self.has_epoch_before(epoch);
        self.server.check_money();
        self.server.stop();
    }
}
