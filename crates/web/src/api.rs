//! What the page asks for, as JSON.
//!
//! ```text
//!  /api/now                      all pools as they are
//!  /api/lately?pool=P&from=N     what P did in each second from number N on, and what happened to its logs
//!  /api/advice?pool=P&tbw=T      what is to be said of P's logs, for devices that may be written T terabytes
//! ```

use crate::watched::Watched;
use advise::Rating;
use axum::Router;
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, PoisonError};

/// What is watched, shared with who watches.
pub(crate) type Shared = Arc<Mutex<Watched>>;

#[derive(Deserialize)]
struct LatelyOf {
    pool: String,
    #[serde(default)]
    from: u64,
}

#[derive(Deserialize)]
struct AdviceOf {
    pool: String,
    tbw: Option<f64>,
}

pub(crate) fn routes(watched: Shared) -> Router {
    Router::new()
        .route("/api/now", get(now))
        .route("/api/lately", get(lately))
        .route("/api/advice", get(advice))
        .with_state(watched)
}

async fn now(State(watched): State<Shared>) -> Response {
    json(Some(locked(&watched).now()))
}

async fn lately(State(watched): State<Shared>, Query(of): Query<LatelyOf>) -> Response {
    json(locked(&watched).lately(&of.pool, of.from))
}

async fn advice(State(watched): State<Shared>, Query(of): Query<AdviceOf>) -> Response {
    let rating = of.tbw.filter(|terabytes| terabytes.is_finite() && *terabytes > 0.0);
    json(locked(&watched).advice(&of.pool, rating.map(Rating::TerabytesWritten)))
}

/// What a panic left half done is the daemon's end anyway.
pub(crate) fn locked(watched: &Shared) -> std::sync::MutexGuard<'_, Watched> {
    watched.lock().unwrap_or_else(PoisonError::into_inner)
}

fn json<T: Serialize>(value: Option<T>) -> Response {
    let Some(value) = value else { return (StatusCode::NOT_FOUND, "no such pool is open\n").into_response() };
    match serde_json::to_vec(&value) {
        Ok(body) => ([(header::CONTENT_TYPE, "application/json")], body).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
