//! The page's files, which are part of the program.

use axum::Router;
use axum::http::header;
use axum::routing::get;

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SVG: &str = "image/svg+xml";
const JS: &str = "text/javascript; charset=utf-8";

/// Path, kind, text.
const FILES: &[(&str, &str, &str)] = &[
    ("/", HTML, include_str!("../page/index.html")),
    ("/style.css", CSS, include_str!("../page/style.css")),
    ("/icon.svg", SVG, include_str!("../page/icon.svg")),
    ("/app.js", JS, include_str!("../page/app.js")),
    ("/chart.js", JS, include_str!("../page/chart.js")),
    ("/compare.js", JS, include_str!("../page/compare.js")),
    ("/dom.js", JS, include_str!("../page/dom.js")),
    ("/format.js", JS, include_str!("../page/format.js")),
    ("/logs.js", JS, include_str!("../page/logs.js")),
    ("/tree.js", JS, include_str!("../page/tree.js")),
    ("/users.js", JS, include_str!("../page/users.js")),
];

pub(crate) fn routes() -> Router {
    FILES.iter().fold(Router::new(), |router, &(path, kind, text)| {
        router.route(path, get(move || async move { ([(header::CONTENT_TYPE, kind)], text) }))
    })
}
