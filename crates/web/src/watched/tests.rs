use super::*;
use crate::history::{Happened, TICKS};
use control::*;

const SECOND: u64 = 1_000_000_000;

/// A pool with a log or without, that has been open for so many seconds and has had so many commits, all of which took
/// between 2^bucket/2 and 2^bucket nanoseconds.
struct At {
    second: u64,
    commits: u64,
    bucket: usize,
    log: Option<VdevState>,
}

impl At {
    fn looked(&self) -> Looked {
        let facts = LogFacts {
            open_nanos: self.second * SECOND,
            commits: self.commits,
            batches: self.commits,
            latency: counts(self.bucket, self.commits),
            ..LogFacts::default()
        };
        let pools = vec![PoolLook { pool: self.pool(), logs: Some(facts), users: self.users() }];
        Looked { daemon: DaemonStatus { pid: 7, ..DaemonStatus::default() }, pools, datasets: Vec::new() }
    }

    /// A dataset made all commits.
    fn users(&self) -> LogUsers {
        let all = LogDatasetInfo {
            name: "tank/db".into(),
            objset: 7,
            commits: self.commits,
            ..LogDatasetInfo::default()
        };
        LogUsers { datasets: vec![all], ..LogUsers::default() }
    }

    fn pool(&self) -> PoolInfo {
        let mut root = VdevInfo::new(VdevKind::Root, 0, 9, VdevClass::Normal);
        root.children.extend(self.log.map(|state| {
            let mut log = VdevInfo::new(VdevKind::File, 1, 20, VdevClass::Log);
            (log.path, log.state) = (Some("/l1".into()), state);
            log
        }));
        PoolInfo { txg: 42, open_nanos: self.second * SECOND, ..PoolInfo::new("tank", root) }
    }
}

fn counts(bucket: usize, count: u64) -> Vec<u64> {
    let mut counts = vec![0; 39];
    counts[bucket] = count;
    counts
}

/// Looks a second apart, at wall clock times that are the same.
fn watch(looks: impl IntoIterator<Item = At>) -> Watched {
    let mut watched = Watched::default();
    looks.into_iter().for_each(|at| watched.look(at.looked(), at.second * 1000));
    watched
}

fn json(watched: &Watched) -> serde_json::Value {
    serde_json::to_value(watched.lately("tank", 0).expect("it is open")).expect("JSON")
}

#[test]
fn ticks_have_rates_and_numbers_to_go_on_from() {
    let idle = |second| At { second, commits: 100 * second, bucket: 20, log: None };
    let watched = watch((1..=4).map(idle));
    let all = json(&watched);
    assert_eq!(all["next"], 3);
    let numbers: Vec<_> =
        all["ticks"].as_array().expect("ticks").iter().map(|tick| &tick["number"]).collect();
    assert_eq!(numbers, [0, 1, 2]);
    assert_eq!(all["ticks"][1]["commits"], 100.0);
    assert_eq!(all["ticks"][1]["latency"], serde_json::json!([[20, 100]]));
    assert_eq!(all["ticks"][1]["at_millis"], 3000);
    assert_eq!(all["users"]["datasets"][0]["name"], "tank/db");
    assert_eq!(all["users"]["datasets"][0]["commits_per_second"], 100.0);
    let rest = watched.lately("tank", 2).expect("it is open");
    assert_eq!(rest.ticks.len(), 1);
    assert!(watched.lately("nope", 0).is_none());
}

#[test]
fn no_more_ticks_are_kept_than_there_is_room_for() {
    let seconds = TICKS as u64 + 10;
    let watched = watch((0..=seconds).map(|second| At { second, commits: 0, bucket: 0, log: None }));
    let lately = watched.lately("tank", 0).expect("it is open");
    assert_eq!((lately.ticks.len(), lately.ticks[0].number), (TICKS, 10));
}

#[test]
fn a_log_that_comes_fails_recovers_and_goes_is_marked() {
    use VdevState::{Faulted, Online};
    let logs = [None, Some(Online), Some(Faulted), Some(Online), None];
    let looks = (1..).zip(logs).map(|(second, log)| At { second, commits: 0, bucket: 0, log });
    let watched = watch(looks);
    let lately = watched.lately("tank", 0).expect("it is open");
    let told: Vec<_> =
        lately.marks.iter().map(|mark| (mark.at_millis, mark.what, mark.name.as_str())).collect();
    let expected = [Happened::Added, Happened::Failed, Happened::Recovered, Happened::Removed];
    let expected: Vec<_> = (2..).zip(expected).map(|(second, what)| (second * 1000, what, "/l1")).collect();
    assert_eq!(told, expected);
}

/// Two seconds of slow commits, an idle one, and two seconds of twice as many quick ones behind a log.
#[test]
fn before_and_after_a_log_are_means_of_busy_seconds() {
    let slow = |second| At { second, commits: 100 * second, bucket: 30, log: None };
    let mut watched = watch([slow(1), slow(2), slow(3)]);
    watched.look(At { second: 4, commits: 300, bucket: 30, log: None }.looked(), 4000);
    for second in 5..=7 {
        let mut looked =
            At { second, commits: 300 + 200 * (second - 4), bucket: 30, log: Some(VdevState::Online) }
                .looked();
        let facts = looked.pools[0].logs.as_mut().expect("facts");
        facts.latency = counts(30, 300);
        facts.latency[20] = 200 * (second - 4);
        watched.look(looked, second * 1000);
    }
    let found = &json(&watched)["comparison"];
    let of = |side: &str, field: &str| found[side][field].as_f64().expect("a number");
    assert_eq!((of("before", "seconds"), of("after", "seconds")), (2.0, 3.0), "{found}");
    assert_eq!((of("before", "commits"), of("after", "commits")), (100.0, 200.0), "{found}");
    let ratio = of("before", "mean_us") / of("after", "mean_us");
    assert!((ratio - 1024.0).abs() < 1.0, "{found}");
    assert_eq!(found["mark"]["what"], "added");
}

#[test]
fn nothing_is_compared_where_one_side_was_idle() {
    let at = |second, log| At { second, commits: 0, bucket: 0, log };
    let watched = watch([at(1, None), at(2, None), at(3, Some(VdevState::Online))]);
    assert!(json(&watched)["comparison"].is_null());
}

#[test]
fn a_pool_that_is_closed_is_forgotten() {
    let at = |second| At { second, commits: 0, bucket: 0, log: None };
    let mut watched = watch([at(1), at(2)]);
    watched.look(Looked::default(), 2000);
    assert!(watched.lately("tank", 0).is_none() && watched.now().pools.is_empty());
    watched.look(at(9).looked(), 9000);
    assert_eq!(json(&watched)["next"], 0, "it begins anew");
}
