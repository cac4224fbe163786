//! One mount's requests: on each loop a task takes them, and each is a task of its own until it is answered.
//!
//! ```text
//!  /dev/fuse ─► taker, one a loop ─► request ─► Files ─► answer ─► /dev/fuse
//!                  ▲                    │ waits for devices, locks, a batch: its loop goes on with others
//!                  └─ nothing there: waits for the device
//! ```
//! A mount has no thread of its own. A taker takes all that is there before the first of it is worked on to an end,
//! so that those who want the log go into one batch. Of requests that are large, or have large answers, there are
//! [`LARGE_MAX`] under way at most: what more there is waits in the kernel, and programs with it.
//!
//! Invariants
//! - A request is answered once, or is one of those that nobody waits for.
//! - Requests that wait hold up no others. (test: `requests_that_wait_hold_up_no_others`)
//! - When the last request has been answered, all that was written is made stable, and only then is the session said
//!   to have ended. (test: `what_was_written_before_an_unmount_survives_a_kill_after_it`)

use std::io;
use std::os::fd::OwnedFd;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_lock::{Semaphore, SemaphoreGuardArc};
use device::{Commands, LoopWatch, RealEnv, spawn_here};
use env::{BoxFuture, Env, let_others_first};
use event_listener::Event;
use futures::FutureExt;
use futures::future::select;
use parking_lot::{Condvar, Mutex};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;

use crate::buffer::{Buffer, LARGE_BYTES};
use crate::connection::send;
use crate::queues::{self, Slot};
use crate::reply::Reply;
use crate::request::Request;
use crate::server::{Answer, Server};

/// Large requests under way at most.
pub(crate) const LARGE_MAX: usize = 64;
/// Requests taken before those that are there are worked on.
const TAKEN_AT_ONCE: usize = 64;

/// See the module.
pub(crate) struct Session<S> {
    env: Arc<RealEnv>,
    device: Arc<OwnedFd>,
    server: S,
    large: Arc<Semaphore>,
    ended: Arc<Ended>,
    /// Where requests come over io_uring.
    commands: Option<Commands>,
    hung_up: Event,
}

/// The result of a request.
#[derive(Default)]
struct RequestOutcome {
    /// The errno of the answer; zero if the answer has a body.
    errno: i32,
    /// The work that precedes the answer.
    first: Option<BoxFuture<'static, ()>>,
}

/// Tells whether a session has ended.
#[derive(Default)]
pub(crate) struct Ended {
    hung_up: AtomicBool,
    is_over: Mutex<bool>,
    over: Condvar,
}

impl Ended {
    /// Whether the kernel has hung up: what was written may not be stable yet.
    pub fn has_hung_up(&self) -> bool {
        self.hung_up.load(Ordering::Acquire)
    }

    pub fn is_over(&self) -> bool {
        *self.is_over.lock()
    }

    /// Waits for the end, but no longer than that; whether it has come.
    pub fn wait(&self, limit: Duration) -> bool {
        let mut is_over = self.is_over.lock();
        self.over.wait_while_for(&mut is_over, |is_over| !*is_over, limit);
        *is_over
    }

    fn tell(&self) {
        *self.is_over.lock() = true;
        self.over.notify_all();
    }
}

impl<S: Server> Session<S> {
    /// Begins to serve; the kernel and we have agreed on how.
    ///
    /// # Errors
    /// When there are no threads or descriptors to be had.
    pub fn start(
        env: Arc<RealEnv>,
        device: Arc<OwnedFd>,
        server: S,
        has_rings: bool,
    ) -> io::Result<Arc<Ended>> {
        let loops = env.loops()?;
        fcntl_setfl(&device, OFlags::NONBLOCK)?;
        let (ended, large) = (Arc::<Ended>::default(), Arc::new(Semaphore::new(LARGE_MAX)));
        let commands = has_rings.then(|| Commands::new(Arc::clone(&device)));
        let (told, hung_up) = (Arc::clone(&ended), Event::new());
        let session = Arc::new(Self { env, device, server, large, ended: told, commands, hung_up });
        loops.spawn_each("fuse", |watch| Box::pin(Guest(Some(Arc::clone(&session))).take(watch)));
        let guest = || Guest(Some(Arc::clone(&session)));
        let spawned = if has_rings { queues::spawn(guest, &loops) } else { Ok(()) };
        drop(Guest(Some(session)));
        spawned.map(|()| ended)
    }

    /// Carries out a request. `None` if the kernel expects no answer.
    async fn work_on(&self, request: &mut Request<'_>, reply: &mut Reply) -> Option<RequestOutcome> {
        match AssertUnwindSafe(self.server.serve(request, reply)).catch_unwind().await {
            Ok(Ok(Answer::None)) => None,
            Ok(Ok(Answer::Due)) => Some(RequestOutcome { errno: 0, first: None }),
            Ok(Ok(Answer::DueAfter(first))) => Some(RequestOutcome { errno: 0, first: Some(first) }),
            Ok(Err(errno)) => Some(RequestOutcome { errno: errno.raw_os_error(), first: None }),
            // Whoever asked is not to wait for ever. The panic has been told of.
            Err(_panic) => Some(RequestOutcome { errno: Errno::IO.raw_os_error(), first: None }),
        }
    }

    /// Answers a request by the device.
    async fn answer(&self, request: &mut Request<'_>, reply: &mut Reply, room: Option<SemaphoreGuardArc>) {
        let _until_answered = self.server.admit(request).await;
        let Some(RequestOutcome { errno, first }) = self.work_on(request, reply).await else { return };
        let _room = match first {
            // The work causes other large requests of the kernel and waits for their answers.
            Some(first) => {
                drop(room);
                first.await;
                None
            }
            None => room,
        };
        let body = reply.parts().filter(|_| errno == 0);
        let _nobody_waits = send(&self.device, request.header.unique, errno, body);
    }

    /// Answers a request in the slot that it came by.
    pub async fn answer_in(&self, slot: &mut Slot) {
        let mut reply = Reply::spare();
        let mut until_answered = None;
        let (unique, outcome) = match slot.request(self.server.inodes()) {
            Ok(mut request) => {
                until_answered = Some(self.server.admit(&request).await);
                (request.header.unique, self.work_on(&mut request, &mut reply).await)
            }
            // The kernel sends no such thing.
            Err(errno) => (0, Some(RequestOutcome { errno: errno.raw_os_error(), first: None })),
        };
        let RequestOutcome { errno, first } = outcome.unwrap_or_default();
        if let Some(first) = first {
            first.await;
        }
        slot.answer(unique, errno, reply.parts().filter(|_| errno == 0));
        drop(until_answered);
    }

    /// How slots are asked for, where requests come by them.
    pub fn commands(&self) -> Option<Commands> {
        self.commands.clone()
    }

    /// Serves no more: the kernel hangs up when the device is closed.
    pub fn hang_up(&self) {
        self.ended.hung_up.store(true, Ordering::Release);
        self.hung_up.notify(usize::MAX);
    }

    /// It is mounted no more, and nobody works on a request of it.
    async fn end(self) {
        self.server.finish().await;
        let ended = Arc::clone(&self.ended);
        // Closes the device.
        drop(self);
        ended.tell();
    }
}

/// A taker's or a request's part in a session: when the last leaves, it ends.
pub(crate) struct Guest<S: Server>(Option<Arc<Session<S>>>);

impl<S: Server> Guest<S> {
    pub fn session(&self) -> &Arc<Session<S>> {
        self.0.as_ref().expect("only dropping takes it")
    }

    /// Another in the same session.
    pub fn again(&self) -> Self {
        Self(Some(Arc::clone(self.session())))
    }

    /// Accepts requests until the kernel disconnects. The loop of `watch` receives the events.
    async fn take(self, watch: LoopWatch) {
        let session = self.session();
        let source = match watch.source(Arc::clone(&session.device)) {
            Ok(source) => source,
            // The kernel hangs up when the other takers fail as well.
            Err(error) => return tracing::error!(%error, "a loop cannot watch a mount"),
        };
        let (mut room, mut taken) = (None, 0);
        loop {
            // Before a request is taken nobody knows how large it is.
            let has_room = match room.take() {
                Some(has_room) => has_room,
                None => session.large.acquire_arc().await,
            };
            match Buffer::receive(&session.device) {
                Ok(Some(request)) => {
                    let is_large = request.bytes().len() > LARGE_BYTES;
                    let has_room = if is_large { Some(has_room) } else { room.replace(has_room) };
                    spawn_here("fuse request", Box::pin(self.again().serve(request, has_room)));
                    taken += 1;
                    if taken % TAKEN_AT_ONCE == 0 {
                        let_others_first().await;
                    }
                }
                Ok(None) => {
                    room = Some(has_room);
                    let hung_up = session.hung_up.listen();
                    if session.ended.has_hung_up() {
                        break;
                    }
                    select(pin!(source.readable()), hung_up).await;
                }
                Err(_hung_up) => break,
            }
        }
        session.ended.hung_up.store(true, Ordering::Release);
    }

    /// Works on one request to its end.
    async fn serve(self, bytes: Buffer, has_room: Option<SemaphoreGuardArc>) {
        let session = self.session();
        // What we cannot read we cannot answer; the kernel sends no such thing.
        let Ok(mut request) = Request::parse(bytes.bytes(), session.server.inodes()) else { return };
        let room = match has_room {
            None if request.answer_bytes() > LARGE_BYTES => Some(session.large.acquire_arc().await),
            has_room => has_room,
        };
        session.answer(&mut request, &mut Reply::spare(), room).await;
    }
}

impl<S: Server> Drop for Guest<S> {
    fn drop(&mut self) {
        if let Some(session) = self.0.take().and_then(Arc::into_inner) {
            let env = Arc::clone(&session.env);
            env.spawn("unmount", Box::pin(session.end()));
        }
    }
}
