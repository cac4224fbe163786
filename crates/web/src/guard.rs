//! Who is answered on the port, and what browsers are told to forbid the page.
//!
//! ```text
//!  Host names a loopback host? ─no─► 421
//!         │ yes
//!  ?token=TOKEN? ─yes─► the cookie is set, and the same asked for without the token in its address
//!         │ no
//!  Authorization: Bearer TOKEN, or the cookie? ─yes─► answered
//!         │ no
//!        401
//! ```

use crate::address::is_loopback_host;
use crate::token::Token;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;

/// What is told on the port to those who have no token.
const UNAUTHORIZED: &str = "This page wants the token of the daemon that shows it. Whoever runs the daemon is told where \
                            to open it: sawmill daemon page. Programs send Authorization: Bearer TOKEN.\n";
const MISDIRECTED: &str = "This page is for this host alone: ask for 127.0.0.1, [::1] or localhost.\n";

/// Nothing but this very origin's files and data, no script or style in a page's text, no frames, no forms, no text that is
/// made to markup.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
                      trusted-types 'none'";

const HEADERS: [(HeaderName, &str); 7] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// What the port is guarded with.
pub(crate) struct Guard {
    token: Token,
    /// Cookies are a host's, whatever the port: each port has a name of its own.
    cookie: String,
}

impl Guard {
    pub(crate) fn new(token: Token, port: u16) -> Arc<Self> {
        Arc::new(Self { token, cookie: format!("sawmill-{port}") })
    }

    fn knows(&self, headers: &HeaderMap) -> bool {
        let bearer = words(headers, header::AUTHORIZATION).filter_map(|word| word.strip_prefix("Bearer "));
        let cookies = words(headers, header::COOKIE).flat_map(|word| word.split(';'));
        let ours = cookies.filter_map(|pair| pair.trim().strip_prefix(&self.cookie)?.strip_prefix('='));
        bearer.chain(ours).any(|word| self.token.is(word))
    }

    /// The way on for somebody who shows the token in the address.
    fn admit(&self, uri: &Uri) -> Option<Response> {
        let query = uri.query()?;
        let is_token = |pair: &&str| pair.strip_prefix("token=").is_some_and(|word| self.token.is(word));
        query.split('&').find(is_token)?;
        let rest: Vec<&str> = query.split('&').filter(|pair| !pair.starts_with("token=")).collect();
        let separator = if rest.is_empty() { "" } else { "?" };
        // A path that begins with two slashes would be another host.
        let path = format!("/{}{separator}{}", uri.path().trim_start_matches('/'), rest.join("&"));
        let cookie = format!("{}={}; Path=/; HttpOnly; SameSite=Strict", self.cookie, self.token.secret());
        Some(
            (StatusCode::SEE_OTHER, [(header::LOCATION, path), (header::SET_COOKIE, cookie)]).into_response(),
        )
    }

    fn refusal(&self, request: &Request) -> Option<Response> {
        let hosts: Vec<&str> = words(request.headers(), header::HOST).collect();
        if hosts.is_empty() || !hosts.into_iter().all(is_loopback_host) {
            return Some((StatusCode::MISDIRECTED_REQUEST, MISDIRECTED).into_response());
        }
        if let Some(way_on) = self.admit(request.uri()) {
            return Some(way_on);
        }
        let refused = || (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], UNAUTHORIZED);
        (!self.knows(request.headers())).then(|| refused().into_response())
    }
}

fn words(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    headers.get_all(name).iter().filter_map(|value| value.to_str().ok())
}

/// Lets a request through, or answers it.
pub(crate) async fn guard(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let mut response = match guard.refusal(&request) {
        Some(refusal) => refusal,
        None => next.run(request).await,
    };
    let headers = response.headers_mut();
    HEADERS.iter().for_each(|(name, value)| {
        headers.insert(name, HeaderValue::from_static(value));
    });
    response
}
