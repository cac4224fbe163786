//! The page and the metrics of the real daemon.
#![forbid(unsafe_code)]

mod asked;
mod place;

use asked::{tcp, unix};
use control::RunPaths;
use place::Place;
use serde_json::Value;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

/// The address and the token of `http://ADDRESS/?token=TOKEN`.
fn parts(url: &str) -> (String, String) {
    let rest = url.trim_end().strip_prefix("http://").expect("an address");
    let (address, token) = rest.split_once("/?token=").expect("a token");
    (address.to_owned(), token.to_owned())
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}")
}

#[test]
fn metrics_are_on_the_socket_of_every_daemon_and_a_page_only_where_it_was_asked_for() {
    let place = Place::with_files();
    place.ok("zpool create -m none tank W/d1 log W/l1");
    let paths = RunPaths::under(place.path("run"));
    let metrics = unix(&paths.socket(), "/metrics", &[]).expect("an answer");
    assert!(metrics.body.contains("\nsawmill_pool_state{pool=\"tank\",state=\"online\"} 1\n"), "{metrics:?}");
    assert!(metrics.head.contains("text/plain; version=0.0.4"), "{metrics:?}");
    assert!(!metrics.body.contains("sawmill_dataset"), "{metrics:?}");
    let full = unix(&paths.socket(), "/metrics?datasets", &[]).expect("an answer");
    assert!(full.body.contains("sawmill_dataset_used_bytes{pool=\"tank\",dataset=\"tank\""), "{full:?}");
    assert!(!paths.web_address().exists() && !paths.web_token().exists());
    assert!(!place.ok("daemon status").contains("page:"));
    let none = place.run("daemon page");
    assert_eq!((none.code, none.out.as_str()), (1, ""), "{}", none.err);
}

#[test]
fn a_page_is_shown_to_who_has_the_token_and_outlives_a_kill() {
    let place = Place::with_files();
    let url = place.ok("daemon start --web 0");
    let (address, token) = parts(&url);
    assert_eq!(place.ok("daemon page"), url);
    assert!(place.ok("daemon status").contains(&format!("\n   page: http://{address}/\n")));
    let paths = RunPaths::under(place.path("run"));
    let mode = std::fs::metadata(paths.web_token()).expect("is there").permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    place.ok("zpool create -m none tank W/d1 log W/l1");
    assert_eq!(tcp(&address, "/", &[]).expect("an answer").status, 401);
    assert_eq!(tcp(&address, "/metrics", &[&bearer(&token)]).expect("an answer").status, 200);
    // It looks at the pools once a second.
    let begun = Instant::now();
    let pool = loop {
        let now = tcp(&address, "/api/now", &[&bearer(&token)]).expect("an answer");
        let now: Value = serde_json::from_str(&now.body).expect("JSON");
        if let Some(pool) = now["pools"].get(0) {
            break pool.clone();
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{now}");
        std::thread::sleep(Duration::from_millis(50));
    };
    assert_eq!((&pool["name"], &pool["health"]), (&"tank".into(), &"ONLINE".into()), "{pool}");
    assert_eq!(pool["sections"][1]["title"], "logs");

    place.kill();
    assert!(tcp(&address, "/", &[]).is_none(), "it is gone");
    let (_, again) = parts(&place.ok(&format!("daemon start --web {address}")));
    assert_eq!(again, token, "a page that is open goes on");
    place.ok("daemon stop");
    assert!(!paths.web_address().exists());
}

#[test]
fn other_hosts_are_never_shown_the_page() {
    let place = Place::new();
    for word in ["0.0.0.0:0", "[::]:0", "192.0.2.1:80"] {
        let refused = place.run(&format!("daemon start --web {word}"));
        assert_eq!(refused.code, 2, "{}", refused.err);
        assert!(refused.err.contains("is not a loopback address"), "{}", refused.err);
    }
    assert!(place.pid().is_none(), "none was started");
}

#[test]
fn a_daemon_whose_port_is_taken_serves_its_pools_and_says_so() {
    let place = Place::new();
    let taken = TcpListener::bind("127.0.0.1:0").expect("listens");
    let address = taken.local_addr().expect("an address");
    let started = place.run(&format!("daemon start --web {address}"));
    assert_eq!(started.code, 1, "{}", started.err);
    assert!(started.err.starts_with("the daemon shows no page"), "{}", started.err);
    assert!(place.log().contains("shows no page"), "{}", place.log());
    assert_eq!(place.ok("zpool list -Ho name"), "");
}
