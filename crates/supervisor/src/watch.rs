//! The life of a pool's process: its start, its end, and what takes its place.

use std::sync::Arc;

use broker::Grants;
use control::{DaemonStatus, Failure, FailureKind, Mount, ProcessMemory};
use tokio::process::Child;

use crate::granted;
use crate::lists;
use crate::neighbours::MountNeighbours;
use crate::pool_process::PoolProcess;
use crate::seat::{PoolSeat, SeatState};
use crate::{Inner, SupervisorGround};

/// The engine leaves a pool out after four attempts to open it that ended with the process.
const STARTS_MAX: usize = 5;

/// A process that answers.
pub struct Started {
    pub number: u64,
    pub process: Arc<PoolProcess>,
    pub child: Child,
    pub status: DaemonStatus,
}

impl Inner {
    /// Starts a process with these directories. `sharers` processes share the memory.
    pub async fn start(
        self: &Arc<Self>,
        number: u64,
        sharers: usize,
        grants: Arc<Grants>,
    ) -> Result<Started, Failure> {
        let memory = self.ground.memory_bytes / sharers.max(1) as u64;
        let neighbours = Arc::new(MountNeighbours::of(self, number));
        let cannot = |error: std::io::Error| {
            Failure::new(FailureKind::Other, format!("cannot start a process for a pool: {error}"))
        };
        let (process, mut child) =
            PoolProcess::start(&self.ground, number, memory, grants, neighbours).map_err(cannot)?;
        let status = process.until_ready(&mut child).await?;
        Ok(Started { number, process: Arc::new(process), child, status })
    }

    /// The same until a process answers. A process leaves its pool out if the processes before it ended while they
    /// opened the pool, and says why.
    async fn start_until_ready(
        self: &Arc<Self>,
        number: u64,
        sharers: usize,
        grants: Arc<Grants>,
    ) -> Result<Started, Failure> {
        for _ in 1..STARTS_MAX {
            match self.start(number, sharers, Arc::clone(&grants)).await {
                Ok(started) => return Ok(started),
                Err(why) => {
                    tracing::error!(number, reason = %why, "the process of a pool has ended at its start")
                }
            }
        }
        self.start(number, sharers, grants).await
    }

    /// Returns what the process of a pool may have done, as the daemon has kept it.
    fn kept_grants(&self, number: u64) -> Arc<Grants> {
        let SupervisorGround { machine, paths, .. } = &self.ground;
        granted::load(&**machine, paths, number, lists::pool_in(machine, paths, number).as_ref())
    }

    /// Keeps what a process may have done for the process after it.
    pub fn keep_grants(&self, number: u64, grants: &Grants) {
        let SupervisorGround { machine, paths, .. } = &self.ground;
        if let Err(error) = granted::store(&**machine, paths, number, grants) {
            tracing::error!(number, %error, "the next process of a pool will miss devices");
        }
    }

    /// Starts a process without a pool.
    pub async fn start_blank(self: &Arc<Self>) -> Result<Started, Failure> {
        let number = lists::new_number(&self.ground.paths).map_err(|error| {
            Failure::new(FailureKind::Other, format!("cannot make a directory for a process: {error}"))
        })?;
        let grants = Arc::new(Grants::new(self.ground.paths.of_pool(number).state_dir().to_owned()));
        let started = self.start(number, self.seats.all().len() + 1, grants).await;
        if started.is_err() {
            lists::forget(&self.ground.paths, number);
        }
        started
    }

    /// Ends a process that has no pool.
    pub async fn end_blank(&self, mut started: Started) {
        _ = started.process.take_events(&self.events).await;
        started.process.let_go();
        _ = started.child.wait().await;
        lists::forget(&self.ground.paths, started.number);
    }

    /// Opens the pool again that a process of this number had.
    pub async fn bring_back(self: &Arc<Self>, number: u64, sharers: usize) {
        let grants = self.kept_grants(number);
        // The first process of a pool has no grants of its own yet.
        self.keep_grants(number, &grants);
        match self.start_until_ready(number, sharers, grants).await {
            Ok(started) => match names_in(&started.status).first().cloned() {
                Some(name) => drop(self.seat(name, started)),
                // The pool was exported elsewhere, or its devices have been away for too long.
                None => self.end_blank(started).await,
            },
            Err(why) => {
                let listed = lists::pool_in(&self.ground.machine, &self.ground.paths, number);
                let name = listed.map(|pool| pool.name).unwrap_or_default();
                let seat = Arc::new(PoolSeat::empty(number, name));
                self.give_up(&seat, why);
                self.seats.add(seat);
            }
        }
    }

    /// Gives a pool that a process has opened its seat. Gives the process back if the name has one already.
    pub fn seat(self: &Arc<Self>, name: String, started: Started) -> Result<Arc<PoolSeat>, Box<Started>> {
        let Started { number, process, child, status } = started;
        let seat = Arc::new(PoolSeat::of(number, name, Arc::clone(&process)));
        if !self.seats.add(Arc::clone(&seat)) {
            return Err(Box::new(Started { number, process, child, status }));
        }
        tracing::info!(pool = seat.name, pid = process.pid(), "has a process of its own");
        self.ground.starter.enter_group(&seat.name, process.pid());
        self.follow(&process);
        tokio::spawn(Arc::clone(self).watch_over(Arc::clone(&seat), child));
        self.share_memory();
        Ok(seat)
    }

    fn follow(self: &Arc<Self>, process: &Arc<PoolProcess>) {
        let (inner, process) = (Arc::clone(self), Arc::clone(process));
        tokio::spawn(async move { process.follow_events(&inner.events).await });
    }

    /// Starts the next process whenever one ends without having been told to.
    async fn watch_over(self: Arc<Self>, seat: Arc<PoolSeat>, mut child: Child) {
        loop {
            let status = child.wait().await.map(|status| status.to_string()).unwrap_or_default();
            if seat.is_leaving() || self.seats.is_ending() {
                break;
            }
            let words =
                seat.open().map(|process| process.last_words().stderr[1..].join(" ")).unwrap_or_default();
            tracing::error!(pool = seat.name, status, words, "the process of the pool has ended");
            let grants = self.let_go_of_ended(&seat);
            seat.set(SeatState::Opening);
            let why = match seat.may_start_again(self.ground.env.now()) {
                true => match self.start_until_ready(seat.number, self.seats.all().len(), grants).await {
                    Ok(started) => {
                        child = started.child;
                        self.reopened(&seat, started.process).await;
                        continue;
                    }
                    Err(why) => why,
                },
                false => {
                    Failure::new(FailureKind::Unavailable, "its processes ended again and again").and(words)
                }
            };
            return self.give_up(&seat, why);
        }
        self.seats.remove(&seat);
        if !self.seats.is_ending() {
            lists::forget(&self.ground.paths, seat.number);
            self.share_memory();
        }
        seat.set(SeatState::Closed);
    }

    /// Lets go of the mounts of a process that has ended. Returns what the next process may have done.
    fn let_go_of_ended(&self, seat: &PoolSeat) -> Arc<Grants> {
        match seat.open() {
            Some(process) => {
                process.has_ended();
                Arc::clone(&process.grants)
            }
            None => self.kept_grants(seat.number),
        }
    }

    async fn reopened(self: &Arc<Self>, seat: &Arc<PoolSeat>, process: Arc<PoolProcess>) {
        self.ground.starter.enter_group(&seat.name, process.pid());
        self.follow(&process);
        seat.set(SeatState::Open(process));
        self.share_memory();
        if self.seats.is_ending() {
            return seat.terminate();
        }
        let (inner, seat) = (Arc::clone(self), Arc::clone(seat));
        tokio::spawn(async move {
            let mounted = inner.mount_those(std::slice::from_ref(&seat), &Mount::default()).await;
            // Mounts of other pools went with the directories that they were in.
            let mounted = mounted.and(inner.mount_those(&inner.seats.all(), &Mount::default()).await);
            match mounted {
                Ok(()) => tracing::info!(pool = seat.name, "is open again"),
                Err(failure) => tracing::error!(pool = seat.name, %failure, "is open again, not all mounted"),
            }
        });
    }

    /// The list of the pool stays, so that the next daemon tries again.
    fn give_up(&self, seat: &Arc<PoolSeat>, why: Failure) {
        let reason = "its process has ended";
        let failure = Failure::cannot(FailureKind::Unavailable, "open", &seat.name, reason);
        let failure = why.stderr.into_iter().filter(|line| !line.is_empty()).fold(failure, Failure::and);
        let failure = failure.and(format!("use 'zpool import {}' to try again", seat.name));
        tracing::error!(pool = seat.name, reason = %failure, "stays closed");
        seat.set(SeatState::Down(failure));
    }

    /// The set of processes has changed: each has its share of the memory from now on.
    pub fn share_memory(self: &Arc<Self>) {
        let inner = Arc::clone(self);
        tokio::spawn(async move {
            let open: Vec<_> = inner.seats.all().iter().filter_map(|seat| seat.open()).collect();
            let call = ProcessMemory { bytes: inner.ground.memory_bytes / open.len().max(1) as u64 };
            // A process that has ended needs none.
            futures::future::join_all(open.iter().map(|process| process.ask(&call))).await;
        });
    }
}

/// The pools that a process has, open or not.
fn names_in(status: &DaemonStatus) -> Vec<String> {
    let absent = status.failed.iter().map(|(name, _)| name.clone());
    status.pools.iter().cloned().chain(absent).collect()
}
