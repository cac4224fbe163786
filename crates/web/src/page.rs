//! The port: bound, told of in files, served.

use crate::guard::{Guard, guard};
use crate::port::Port;
use crate::source::{Beside, Source, looked};
use crate::token::{Token, TokenError};
use crate::watched::Watched;
use crate::{api, assets, metrics_routes};
use axum::http::StatusCode;
use control::RunPaths;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::net::TcpListener;
use tokio::time::MissedTickBehavior;

const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// The address is taken, or is no longer this host's.
    #[error("cannot listen on {address}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// No token.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// Nobody could be told where it is.
    #[error("cannot write {}", path.display())]
    Address {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// A bound port, ready to serve.
pub struct Page {
    listener: TcpListener,
    address: SocketAddr,
    token: Token,
}

impl Page {
    /// Listens on a loopback address, and leaves the token and the address in the files of the run-time directory.
    ///
    /// # Errors
    /// When it cannot listen, or a file cannot be written.
    pub async fn bind(address: SocketAddr, paths: &RunPaths) -> Result<Self, PageError> {
        debug_assert!(address.ip().is_loopback(), "{address}");
        let failed = |source| PageError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let token = Token::kept_at(&paths.web_token())?;
        let path = paths.web_address();
        std::fs::write(&path, format!("{address}\n"))
            .map_err(|source| PageError::Address { path, source })?;
        Ok(Self { listener, address, token })
    }

    /// Where it is.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Looks at the pools once a second, and answers, until it is dropped.
    ///
    /// # Errors
    /// When accepting fails for good.
    pub async fn serve<S: Source>(self, source: Arc<S>) -> io::Result<()> {
        let watched = Arc::new(Mutex::new(Watched::default()));
        tokio::select! {
            () = watch(&*source, &watched) => Ok(()),
            served = self.serve_watched(Arc::clone(&source), Arc::clone(&watched)) => served,
        }
    }

    /// The same, while somebody else looks at the pools.
    ///
    /// # Errors
    /// When accepting fails for good.
    pub async fn serve_watched<S: Source>(
        self,
        source: Arc<S>,
        watched: Arc<Mutex<Watched>>,
    ) -> io::Result<()> {
        let app = assets::routes().merge(api::routes(watched)).merge(metrics_routes(&source));
        let app = app.fallback(async || (StatusCode::NOT_FOUND, "There is no such page.\n"));
        let guarded =
            axum::middleware::from_fn_with_state(Guard::new(self.token, self.address.port()), guard);
        axum::serve(Port::new(self.listener), app.layer(guarded)).await
    }
}

/// Looks again and again. A look that fails is left out, and so is one that would come late.
async fn watch<S: Source>(source: &S, watched: &api::Shared) {
    let mut turns = tokio::time::interval(LOOK_EVERY);
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        turns.tick().await;
        if let Ok(looked) = looked(source, Beside { users: true, ..Beside::default() }).await {
            let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            api::locked(watched).look(looked, u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX));
        }
    }
}
