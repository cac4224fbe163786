//! The daemon's page: whether there is one, and where.

use control::{RunPaths, Service};
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use web::{AddressError, Page, ServiceSource, Token, loopback};

/// Says where the page is to be, where the daemon's command line does not.
const VARIABLE: &str = "SAWMILL_WEB";

/// Where the page is to be: as the command line says (`--web`), or the environment, or nowhere.
///
/// # Errors
/// When that is no loopback address.
pub fn wanted(said: Option<&str>) -> Result<Option<SocketAddr>, AddressError> {
    let of_environment = || std::env::var(VARIABLE).ok().filter(|word| !word.is_empty());
    said.map(str::to_owned).or_else(of_environment).map(|word| loopback(&word)).transpose()
}

/// Where the page of the daemon that runs can be opened.
#[derive(Clone, Debug)]
pub struct Place {
    /// Without what it takes to be shown anything.
    pub url: String,
    /// With it; none for whoever may not know it.
    pub secret_url: Option<String>,
}

/// Where that is; none if it shows no page. Of use only while a daemon runs.
#[must_use]
pub fn place(paths: &RunPaths) -> Option<Place> {
    let address = std::fs::read_to_string(paths.web_address()).ok()?;
    let url = format!("http://{}/", address.trim_end());
    let token = Token::read(&paths.web_token()).ok().flatten();
    let secret_url = token.map(|token| format!("{url}?token={}", token.secret()));
    Some(Place { url, secret_url })
}

/// Shows the page, if there is to be one. A daemon that cannot still has its pools to serve.
pub(crate) async fn show(paths: &RunPaths, wanted: Option<SocketAddr>, service: &Arc<dyn Service>) {
    let Some(address) = wanted else { return };
    match Page::bind(address, paths).await {
        Ok(page) => {
            tracing::info!(address = %page.address(), "shows its page");
            let service = Arc::new(ServiceSource(Arc::clone(service)));
            // Ends with the runtime: who only looks is not waited for.
            tokio::spawn(async move { page.serve(service).await });
        }
        Err(error) => {
            let cause = error.source().map(ToString::to_string).unwrap_or_default();
            tracing::warn!(%error, cause, "shows no page");
        }
    }
}

/// From now on there is no page.
pub(crate) fn forget(paths: &RunPaths) {
    _ = std::fs::remove_file(paths.web_address());
}
