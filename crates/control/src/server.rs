//! The daemon's side: HTTP over a Unix socket, every path a request.
//!
//! ```text
//!  RUN/socket  mode 0600: the daemon's own user and root, by the peer's credentials: everything
//!  RUN/look    mode 0666: everybody; what shows pools, where the daemon is root's, and what was delegated to the peer
//! ```
//! Invariants
//! - What comes by the public socket opens no device, and changes nothing but what was delegated to who asks.
//!   (tests: `by_the_public_socket_everybody_may_look_and_nobody_may_change`,
//!   `what_was_delegated_is_done_for_a_user_and_nothing_else`)
//! - What users ask for keeps root's requests waiting for no longer than a moment, and takes memory that is
//!   bounded: `visitors` and `patience`. (tests: `users_who_flood_the_public_socket_do_not_delay_root`,
//!   `users_who_hang_up_at_once_do_not_delay_root`)

use crate::handover::{Connection, Handed};
use crate::patience::{Pace, Patient};
use crate::service::Door;
use crate::visitors::{TOO_MANY_CONNECTIONS, Visit, Visitors};
use crate::{Call, DaemonStop, Failure, FailureKind, Peer, Service, Work, service};
use axum::extract::connect_info::{ConnectInfo, Connected};
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::serve::IncomingStream;
use futures::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Notify;

/// Why the server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The socket could not be made.
    #[error("cannot listen on {}", path.display())]
    Listen {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Serving ended.
    #[error("cannot serve")]
    Serve(#[source] std::io::Error),
}

/// A bound socket, ready to serve.
pub struct Server {
    listener: OwnerOnly,
    public: Option<(UnixListener, PeerGroups)>,
    shown: axum::Router,
    stop: Arc<Notify>,
}

impl Server {
    /// Listens at `path`, in place of whatever is there. The caller must hold the lock
    /// that makes it the only daemon.
    ///
    /// # Errors
    /// When the socket cannot be made.
    pub fn bind(path: &Path) -> Result<Self, ServeError> {
        Ok(Self::of(listen(path, 0o600)?))
    }

    /// Answers on a socket that listens already.
    ///
    /// # Errors
    /// When the socket cannot be used.
    pub fn on(listener: std::os::unix::net::UnixListener) -> Result<Self, ServeError> {
        listener.set_nonblocking(true).map_err(ServeError::Serve)?;
        let inner = UnixListener::from_std(listener).map_err(ServeError::Serve)?;
        Ok(Self::of(inner))
    }

    fn of(inner: UnixListener) -> Self {
        let owner = rustix::process::geteuid().as_raw();
        let (shown, stop) = (axum::Router::new(), Arc::new(Notify::new()));
        Self { listener: OwnerOnly { inner, owner }, public: None, shown, stop }
    }

    /// Listens at `path`, too, for everybody who wants to look at pools, or to do what was delegated to him; `groups`
    /// tells who that is a member of.
    ///
    /// # Errors
    /// When the socket cannot be made.
    pub fn and_public(self, path: &Path, groups: PeerGroups) -> Result<Self, ServeError> {
        Ok(Self { public: Some((listen(path, 0o666)?, groups)), ..self })
    }

    /// Answers by these routes, too, whoever asks: they are to show pools, and to change nothing.
    #[must_use]
    pub fn showing(self, routes: axum::Router) -> Self {
        Self { shown: self.shown.merge(routes), ..self }
    }

    /// Ends [`Server::serve`] once requests under way are answered.
    pub fn stopper(&self) -> Arc<Notify> {
        Arc::clone(&self.stop)
    }

    /// Answers until stopped, by [`Server::stopper`] or by a [`DaemonStop`] request.
    ///
    /// # Errors
    /// When accepting fails for good.
    pub async fn serve(self, service: Arc<dyn Service>) -> Result<(), ServeError> {
        let stop = self.stop;
        let public_routes = public_routes(&service, self.shown.clone());
        let on_stop = Arc::clone(&stop);
        let watch = move |request: Request, next: Next| {
            let stop = Arc::clone(&on_stop);
            async move {
                let stopping = request.uri().path() == DaemonStop::PATH;
                let response = next.run(request).await;
                if stopping && response.status().is_success() {
                    stop.notify_one();
                }
                response
            }
        };
        if let Some((inner, groups)) = self.public {
            // Ends with the runtime: who only looks is not waited for, and what is delegated is done to its end by the
            // engine.
            let public = Everybody { inner, groups, visitors: Visitors::new() };
            let service = public_routes.into_make_service_with_connect_info::<Caller>();
            tokio::spawn(async move { axum::serve(public, service).await });
        }
        let app = whole(&service, Door::Owner, self.shown).layer(middleware::from_fn(watch));
        axum::serve(self.listener, app.into_make_service_with_connect_info::<Caller>())
            .with_graceful_shutdown(async move { stop.notified().await })
            .await
            .map_err(ServeError::Serve)
    }
}

fn whole(service: &Arc<dyn Service>, door: Door, shown: axum::Router) -> axum::Router {
    service::routes(service, door)
        .merge(shown)
        .fallback(async || refuse(StatusCode::NOT_FOUND, "no such request"))
        .layer(DefaultBodyLimit::max(match door {
            Door::Owner => BODY_MAX_BYTES,
            Door::Public => PUBLIC_BODY_MAX_BYTES,
        }))
}

/// The routes for everybody. Each connection carries one request.
fn public_routes(service: &Arc<dyn Service>, shown: axum::Router) -> axum::Router {
    let shown = shown.layer(middleware::from_fn(in_turn));
    whole(service, Door::Public, shown).layer(middleware::map_response(last_of_connection))
}

async fn in_turn(ConnectInfo(caller): ConnectInfo<Caller>, request: Request, next: Next) -> Response {
    match caller.begin(Work::Answer).await {
        Ok(()) => caller.to_its_end(Box::pin(next.run(request))).await,
        Err(refusal) => answer::<()>(Err(refusal)),
    }
}

async fn last_of_connection(mut response: Response) -> Response {
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

/// A socket of this mode, in place of whatever is there.
fn listen(path: &Path, mode: u32) -> Result<UnixListener, ServeError> {
    let failed = |source| ServeError::Listen { path: path.to_owned(), source };
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(failed(e)),
        _ => {}
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).map_err(failed)?;
    Ok(listener)
}

const BODY_MAX_BYTES: usize = 4 << 20;
const PUBLIC_BODY_MAX_BYTES: usize = 64 << 10;

/// The longest time between two bytes of a user's request, and of an answer to a user.
const PATIENCE: Duration = Duration::from_secs(10);

/// Accepts connections of the daemon's user and of root; drops others.
struct OwnerOnly {
    inner: UnixListener,
    owner: u32,
}

impl axum::serve::Listener for OwnerOnly {
    type Io = Connection;
    type Addr = Caller;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, _) = axum::serve::Listener::accept(&mut self.inner).await;
            match stream.peer_cred() {
                Ok(peer) if peer.uid() == self.owner || peer.uid() == 0 => return Caller::of_owner(stream),
                Ok(peer) => tracing::warn!(uid = peer.uid(), "turned a stranger away"),
                Err(error) => tracing::warn!(%error, "cannot tell who connects"),
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        Ok(Caller::default())
    }
}

/// Tells of what groups the process at the other end of a socket is a member, beside its first.
pub type PeerGroups = fn(&UnixStream) -> std::io::Result<Vec<u32>>;

/// Accepts everybody's connections.
struct Everybody {
    inner: UnixListener,
    groups: PeerGroups,
    visitors: Visitors,
}

impl axum::serve::Listener for Everybody {
    type Io = Patient<Connection, Visit>;
    type Addr = Caller;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, _) = axum::serve::Listener::accept(&mut self.inner).await;
            let Some(peer) = peer(&stream, self.groups) else { continue };
            match self.visitors.admit(peer.uid) {
                Some(visit) => return Caller::of_user(stream, peer, visit),
                None => turn_away(&stream),
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        Ok(Caller::default())
    }
}

impl Pace for Visit {
    fn expects_bytes(&self) -> bool {
        self.work().is_none()
    }

    fn expects_room(&self) -> bool {
        self.work() != Some(Work::Stream)
    }
}

/// Says why a connection ends. A user who does not read the words does without.
fn turn_away(stream: &UnixStream) {
    let words = Failure::new(FailureKind::Busy, TOO_MANY_CONNECTIONS);
    let body = serde_json::to_string(&words).unwrap_or_default();
    let head = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Type: application/json";
    let response = format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    _ = stream.try_write(response.as_bytes());
}

/// The other end of a connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Caller {
    /// The user, if the connection came by the public socket.
    pub peer: Option<Peer>,
    pub handed: Handed,
    visit: Option<Visit>,
}

impl Caller {
    fn of_owner(stream: UnixStream) -> (Connection, Self) {
        let connection = Connection::new(stream);
        let handed = connection.handed();
        (connection, Self { handed, ..Self::default() })
    }

    fn of_user(stream: UnixStream, peer: Peer, visit: Visit) -> (Patient<Connection, Visit>, Self) {
        let (connection, caller) = Self::of_owner(stream);
        let caller = Self { peer: Some(peer), visit: Some(visit.clone()), ..caller };
        (Patient::new(connection, visit, PATIENCE), caller)
    }

    /// Waits until the daemon has room for a request of this user.
    ///
    /// # Errors
    /// [`FailureKind::Busy`] if the user has too many requests of this kind.
    pub async fn begin(&self, work: Work) -> Result<(), Failure> {
        match &self.visit {
            Some(visit) => visit.begin(work).await,
            None => Ok(()),
        }
    }

    /// Works on a request. The engine does not stop when a user hangs up, so the request of a user is
    /// counted until the engine has done the work.
    pub async fn to_its_end(&self, work: BoxFuture<'static, Response>) -> Response {
        if self.visit.is_none() {
            return work.await;
        }
        let done = tokio::spawn(self.counting(work)).await;
        done.unwrap_or_else(|error| refuse(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()))
    }

    /// Returns the same work, during which the request is counted.
    pub fn counting<F: Future>(&self, work: F) -> impl Future<Output = F::Output> + use<F> {
        let visit = self.visit.clone();
        async move {
            let _counted = visit;
            work.await
        }
    }
}

impl Connected<IncomingStream<'_, OwnerOnly>> for Caller {
    fn connect_info(stream: IncomingStream<'_, OwnerOnly>) -> Self {
        stream.remote_addr().clone()
    }
}

impl Connected<IncomingStream<'_, Everybody>> for Caller {
    fn connect_info(stream: IncomingStream<'_, Everybody>) -> Self {
        stream.remote_addr().clone()
    }
}

fn peer(stream: &UnixStream, groups: PeerGroups) -> Option<Peer> {
    let cred = stream.peer_cred().ok()?;
    let mut gids = vec![cred.gid()];
    match groups(stream) {
        Ok(others) => gids.extend(others),
        Err(error) => tracing::warn!(%error, "cannot tell the groups of who connects"),
    }
    Some(Peer { uid: cred.uid(), gids })
}

/// Reads a request's body; an empty one stands for all defaults.
pub(crate) fn read<C: DeserializeOwned>(body: &[u8]) -> Result<C, Box<Response>> {
    let body = if body.is_empty() { b"{}" } else { body };
    serde_json::from_slice(body)
        .map_err(|e| Box::new(refuse(StatusCode::BAD_REQUEST, &format!("request not understood: {e}"))))
}

/// The response that carries an answer or a failure.
pub(crate) fn answer<T: Serialize>(result: Result<T, Failure>) -> Response {
    match result {
        Ok(value) => json(StatusCode::OK, &value),
        Err(failure) => json(StatusCode::UNPROCESSABLE_ENTITY, &failure),
    }
}

pub(crate) fn refuse(status: StatusCode, line: &str) -> Response {
    json(status, &Failure::new(FailureKind::Invalid, line))
}

fn json<T: Serialize>(status: StatusCode, value: &T) -> Response {
    match serde_json::to_vec(value) {
        Ok(body) => (status, [(header::CONTENT_TYPE, "application/json")], body).into_response(),
        Err(e) => (StatusCode::INTERNAL_SERVER_ERROR, e.to_string()).into_response(),
    }
}
