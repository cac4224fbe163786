//! What is on the port, asked through a real socket.
#![forbid(unsafe_code)]

mod fake;
mod world;

use world::{Answer, World};

#[test]
fn nothing_is_shown_without_the_token() {
    let world = World::new();
    for path in
        ["/", "/app.js", "/style.css", "/metrics", "/nothing", "/?token=", "/?token=0123", "/metrics?token"]
    {
        let answer = world.get(path, &[]);
        assert_eq!(answer.status, 401, "{path}: {answer:?}");
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
        assert!(answer.header("set-cookie").is_none() && !answer.body.contains("tank"), "{answer:?}");
    }
    let almost = format!("Authorization: Bearer {}0", world.token());
    let cookie = format!("Cookie: sawmill-{}={}", world.port() + 1, world.token());
    for header in ["Authorization: Bearer", "Cookie: sawmill=x", &almost, &cookie] {
        assert_eq!(world.get("/metrics", &[header]).status, 401, "{header}");
    }
}

#[test]
fn a_program_sends_the_token_with_each_request() {
    let world = World::new();
    let answer = world.get("/metrics", &[&world.bearer()]);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(answer.body.contains("sawmill_pool_txg{pool=\"tank\"} 42\n"), "{answer:?}");
    let newer = world.get("/metrics", &[&world.bearer(), "Accept: application/openmetrics-text"]);
    assert!(newer.body.ends_with("# EOF\n"), "{newer:?}");
    assert_eq!(world.get("/nothing", &[&world.bearer()]).status, 404);
}

#[test]
fn a_browser_changes_the_token_for_a_cookie_once() {
    let world = World::new();
    let first = world.get(&format!("/?token={}&pool=tank", world.token()), &[]);
    assert_eq!((first.status, first.header("location")), (303, Some("/?pool=tank")), "{first:?}");
    let cookie = first.header("set-cookie").expect("a cookie").to_owned();
    assert!(cookie.contains("; HttpOnly") && cookie.contains("; SameSite=Strict"), "{cookie}");
    let pair = cookie.split(';').next().expect("a pair");
    // Cookies are a host's, whatever the port.
    assert!(pair.starts_with(&format!("sawmill-{}=", world.port())), "{pair}");
    let page = world.get("/", &[&format!("Cookie: other=1; {pair}")]);
    assert_eq!(page.status, 200, "{page:?}");
    assert!(page.body.contains("<script type=\"module\" src=\"/app.js\">"), "{page:?}");
}

#[test]
fn the_way_on_never_leaves_this_host() {
    let world = World::new();
    let answer = world.get(&format!("//example.org/?token={}", world.token()), &[]);
    assert_eq!(answer.header("location"), Some("/example.org/"), "{answer:?}");
}

#[test]
fn foreign_hosts_are_refused() {
    let world = World::new();
    for host in ["example.org", "localhost.example.org", "10.0.0.1", "a@127.0.0.1", ""] {
        let answer = world.ask("GET", "/metrics", host, &[&world.bearer()]);
        assert_ne!(answer.status, 200, "{host}: {answer:?}");
        assert!(!answer.body.contains("tank"), "{host}: {answer:?}");
    }
    let nameless = world.send(&format!("GET /metrics HTTP/1.0\r\n{}\r\n\r\n", world.bearer()));
    assert_ne!(nameless.status, 200, "{nameless:?}");
    let two = world.ask("GET", "/metrics", "localhost", &[&world.bearer(), "Host: example.org"]);
    assert_ne!(two.status, 200, "{two:?}");
    for host in ["localhost:9000", "[::1]", "127.0.0.1"] {
        assert_eq!(world.ask("GET", "/metrics", host, &[&world.bearer()]).status, 200, "{host}");
    }
}

#[test]
fn nothing_can_be_sent() {
    let world = World::new();
    for (method, path) in [("POST", "/metrics"), ("PUT", "/"), ("DELETE", "/"), ("POST", "/v1/pool/list")] {
        let answer = world.ask(method, path, "localhost", &[&world.bearer(), "Content-Length: 0"]);
        assert!([404, 405].contains(&answer.status), "{method} {path}: {answer:?}");
    }
}

#[test]
fn browsers_are_told_to_forbid_what_the_page_does_not_need() {
    let world = World::new();
    let strict = |answer: Answer| {
        let policy = answer.header("content-security-policy").expect("a policy");
        assert!(policy.starts_with("default-src 'none'; script-src 'self'; "), "{policy}");
        assert!(!policy.contains("unsafe") && policy.contains("frame-ancestors 'none'"), "{policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        assert!(answer.header("access-control-allow-origin").is_none());
    };
    strict(world.get("/", &[&world.bearer()]));
    strict(world.get("/", &[]));
    strict(world.get("/nothing", &[&world.bearer()]));
}

#[test]
fn datasets_are_told_of_when_they_are_asked_for() {
    let world = World::new();
    let plain = world.get("/metrics", &[&world.bearer()]);
    assert!(!plain.body.contains("sawmill_dataset"), "{plain:?}");
    for query in ["datasets", "datasets=1", "x=1&datasets=1"] {
        let full = world.get(&format!("/metrics?{query}"), &[&world.bearer()]);
        assert!(
            full.body.contains("sawmill_dataset_used_bytes{pool=\"tank\",dataset=\"tank/home\""),
            "{query}: {full:?}"
        );
        let commits = "sawmill_dataset_commits_total{pool=\"tank\",dataset=\"tank/home\"} 7\n";
        assert!(full.body.contains(commits), "{query}: {full:?}");
    }
}
