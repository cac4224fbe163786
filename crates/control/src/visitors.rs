//! The users who come by the public socket, and how much each of these users has at a time.
//!
//! ```text
//!  accept ─► Visitors::admit: a connection of this user, and of all users ─► Visit ─► one request ─► Visit::begin
//!                 │ none is left                                                        │ none is left
//!                 ▼                                                                     ▼
//!            503, and the end                                    an answer waits; a stream or a watch is refused
//! ```
//! The requests of the daemon's own user and of root come by another socket and are not counted.
//!
//! Invariants
//! - No user takes more than a share of what all users have, and all users together leave most of the
//!   threads that answer requests to root. (test: `what_one_user_asks_for_keeps_nobody_else_waiting`)
//! - What a request takes is given back when its connection has ended and the engine has done the work. An
//!   answer that nobody reads takes memory, and the work goes on when a user hangs up.
//!   (tests: `a_turn_lasts_as_long_as_its_connection`, `users_who_hang_up_at_once_do_not_delay_root`)

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{Failure, FailureKind};

/// What a request asks of the daemon for as long as the request lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// An answer, in a time that depends on the pools alone.
    Answer,
    /// A wait for something that may never happen.
    Watch,
    /// Bytes that are read or written as fast as the other end writes or reads.
    Stream,
}

/// Numbers of connections and requests that there may be at the same time.
struct Most {
    connections: usize,
    answers: usize,
    watches: usize,
    streams: usize,
}

const OF_ONE_USER: Most = Most { connections: 64, answers: 4, watches: 4, streams: 16 };

/// A request takes one thread of the 512 that the daemon has for requests.
const OF_ALL_USERS: Most = Most { connections: 512, answers: 32, watches: 64, streams: 64 };

/// What is left of a [`Most`].
#[derive(Debug)]
struct Shares {
    connections: Arc<Semaphore>,
    answers: Arc<Semaphore>,
    watches: Arc<Semaphore>,
    streams: Arc<Semaphore>,
}

impl Shares {
    fn of(most: &Most) -> Self {
        let share = |number| Arc::new(Semaphore::new(number));
        Self {
            connections: share(most.connections),
            answers: share(most.answers),
            watches: share(most.watches),
            streams: share(most.streams),
        }
    }

    fn of_work(&self, work: Work) -> Arc<Semaphore> {
        Arc::clone(match work {
            Work::Answer => &self.answers,
            Work::Watch => &self.watches,
            Work::Stream => &self.streams,
        })
    }
}

/// Parts of a user's share and of the share of all users.
type Taken = [OwnedSemaphorePermit; 2];

fn take_now(of_one: Arc<Semaphore>, of_all: Arc<Semaphore>) -> Option<Taken> {
    Some([of_one.try_acquire_owned().ok()?, of_all.try_acquire_owned().ok()?])
}

#[derive(Debug)]
struct Counted {
    users: Mutex<BTreeMap<u32, Arc<Shares>>>,
    all: Shares,
}

impl Counted {
    /// Takes a connection for a user. The lock lasts until the connection is taken, because a user without
    /// connections is forgotten.
    fn connect(&self, uid: u32) -> Option<(Arc<Shares>, Taken)> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let user = users.entry(uid).or_insert_with(|| Arc::new(Shares::of(&OF_ONE_USER)));
        let taken = take_now(Arc::clone(&user.connections), Arc::clone(&self.all.connections))?;
        Some((Arc::clone(user), taken))
    }

    /// Gives the connection of a user back.
    fn disconnect(&self, uid: u32, connection: Option<Taken>) {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        drop(connection);
        let has_left = |user: &Arc<Shares>| user.connections.available_permits() == OF_ONE_USER.connections;
        if users.get(&uid).is_some_and(has_left) {
            users.remove(&uid);
        }
    }
}

/// All users who have connections.
#[derive(Clone, Debug)]
pub(crate) struct Visitors(Arc<Counted>);

impl Visitors {
    pub fn new() -> Self {
        Self(Arc::new(Counted { users: Mutex::default(), all: Shares::of(&OF_ALL_USERS) }))
    }

    /// Returns the visit of a user with a new connection, and `None` if there are too many connections.
    pub fn admit(&self, uid: u32) -> Option<Visit> {
        let (user, connection) = self.0.connect(uid)?;
        let held = Mutex::new(Held { connection: Some(connection), request: None });
        Some(Visit(Arc::new(Visiting { counted: Arc::clone(&self.0), uid, user, held })))
    }
}

/// What a connection has taken.
#[derive(Debug)]
struct Held {
    connection: Option<Taken>,
    request: Option<(Work, Taken)>,
}

#[derive(Debug)]
struct Visiting {
    counted: Arc<Counted>,
    uid: u32,
    user: Arc<Shares>,
    held: Mutex<Held>,
}

impl Drop for Visiting {
    fn drop(&mut self) {
        let held = self.held.get_mut().unwrap_or_else(PoisonError::into_inner);
        held.request = None;
        self.counted.disconnect(self.uid, held.connection.take());
    }
}

/// A connection of a user, which ends when the last copy is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Visit(Arc<Visiting>);

impl Visit {
    /// Waits for the turn of an answer. A watch or a stream begins at once or not at all.
    ///
    /// # Errors
    /// [`FailureKind::Busy`] if too many watches or streams are under way.
    pub async fn begin(&self, work: Work) -> Result<(), Failure> {
        let (of_one, of_all) = (self.0.user.of_work(work), self.0.counted.all.of_work(work));
        let taken = match work {
            Work::Answer => match (of_one.acquire_owned().await, of_all.acquire_owned().await) {
                (Ok(of_one), Ok(of_all)) => Some([of_one, of_all]),
                _ => None,
            },
            Work::Watch | Work::Stream => take_now(of_one, of_all),
        };
        let taken = taken.ok_or_else(|| Failure::new(FailureKind::Busy, TOO_MANY_REQUESTS))?;
        self.held().request = Some((work, taken));
        Ok(())
    }

    /// Returns what the request of this connection asks for, and `None` before the request has been read.
    pub fn work(&self) -> Option<Work> {
        self.held().request.as_ref().map(|(work, _)| *work)
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Held> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const TOO_MANY_REQUESTS: &str = "too many requests of this kind are under way";

/// The answer to a user with too many connections.
pub(crate) const TOO_MANY_CONNECTIONS: &str = "too many requests are under way";

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use futures::executor::block_on;

    fn begun(visit: &Visit, work: Work) -> Option<Result<(), Failure>> {
        visit.begin(work).now_or_never()
    }

    #[test]
    fn what_one_user_asks_for_keeps_nobody_else_waiting() {
        let visitors = Visitors::new();
        let visits: Vec<Visit> = std::iter::from_fn(|| visitors.admit(1000)).collect();
        assert_eq!(visits.len(), OF_ONE_USER.connections);
        let begun_of_all =
            visits.iter().filter(|visit| begun(visit, Work::Answer).is_some_and(|begun| begun.is_ok()));
        assert_eq!(begun_of_all.count(), OF_ONE_USER.answers);
        let other = visitors.admit(1001).expect("a share of its own");
        assert_eq!(begun(&other, Work::Answer), Some(Ok(())));
    }

    #[test]
    fn all_users_together_have_an_end() {
        let visitors = Visitors::new();
        let come = |uid| std::iter::from_fn(|| visitors.admit(uid)).collect::<Vec<Visit>>();
        let visits: Vec<Visit> = (0..1000).flat_map(come).collect();
        assert_eq!(visits.len(), OF_ALL_USERS.connections);
        let streams = visits.iter().filter(|visit| begun(visit, Work::Stream) == Some(Ok(())));
        assert_eq!(streams.count(), OF_ALL_USERS.streams);
        let refused = begun(&visits[0], Work::Watch);
        assert_eq!(refused, Some(Ok(())), "a watch is no stream");
    }

    #[test]
    fn a_turn_lasts_as_long_as_its_connection() {
        let visitors = Visitors::new();
        let mut visits: Vec<Visit> =
            (0..=OF_ONE_USER.answers).map(|_| visitors.admit(7).expect("a connection")).collect();
        let last = visits.pop().expect("one more than there are turns");
        for visit in &visits {
            block_on(visit.begin(Work::Answer)).expect("a turn");
        }
        assert_eq!((begun(&last, Work::Answer), last.work()), (None, None));
        drop(visits.pop());
        assert_eq!((begun(&last, Work::Answer), last.work()), (Some(Ok(())), Some(Work::Answer)));
    }

    #[test]
    fn a_user_who_has_left_takes_no_memory() {
        let visitors = Visitors::new();
        let visits: Vec<Visit> = (0..100).filter_map(|uid| visitors.admit(uid)).collect();
        let known = || visitors.0.users.lock().expect("no panic").len();
        assert_eq!(known(), 100);
        drop(visits);
        assert_eq!(known(), 0);
    }
}
