//! `/metrics`: `?datasets` asks for those of each dataset, too.

use crate::source::{Beside, Source, looked};
use axum::Router;
use axum::extract::RawQuery;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use metrics::Format;
use std::sync::Arc;

/// The path of the metrics of a source.
pub fn metrics_routes<S: Source>(source: &Arc<S>) -> Router {
    let source = Arc::clone(source);
    let show = move |headers: HeaderMap, RawQuery(query): RawQuery| {
        let source = Arc::clone(&source);
        async move { answer(&*source, &headers, query.as_deref().unwrap_or_default()).await }
    };
    Router::new().route("/metrics", get(show))
}

async fn answer<S: Source>(source: &S, headers: &HeaderMap, query: &str) -> Response {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let format = Format::accepted(accept);
    let with_datasets = query.split('&').any(|word| word.split('=').next() == Some("datasets"));
    match looked(source, Beside { datasets: with_datasets, users: with_datasets }).await {
        Ok(looked) => {
            let kind = [(header::CONTENT_TYPE, format.content_type())];
            (kind, metrics::body(&looked, format)).into_response()
        }
        Err(failure) => (StatusCode::SERVICE_UNAVAILABLE, failure.stderr.join("\n")).into_response(),
    }
}
