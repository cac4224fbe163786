//! A real Prometheus reads the metrics of a real daemon, and has an answer to every question of the dashboard that ships.
#![forbid(unsafe_code)]

mod asked;
mod place;

use asked::{escaped, tcp, unix};
use control::RunPaths;
use oracle::needs::{Need, lack_of_fuse};
use place::Place;
use serde_json::Value;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// `O_DSYNC` on Linux.
const O_DSYNC: i32 = 0o10_000;
const DASHBOARD: &str = include_str!("../../../packaging/grafana/sawmill.json");
const PATIENCE: Duration = Duration::from_secs(60);

fn is_missing(program: &'static str) -> bool {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let lacks = found.is_err();
    if lacks {
        Need::Program(program).is_missing(&format!("{program} is not installed"));
    }
    lacks
}

fn lacks_something() -> bool {
    if let Some(lack) = lack_of_fuse() {
        Need::Fuse.is_missing(lack);
        return true;
    }
    is_missing("promtool") || is_missing("prometheus")
}

/// A mounted pool with a log, and what a scrub leaves; where its page is.
fn pool(place: &Place) -> String {
    let url = place.ok("daemon start --web 0");
    place.ok("zpool create -m W/mnt tank mirror W/d1 W/d2 log W/l1");
    place.ok("zpool scrub -w tank");
    url.split('/').nth(2).expect("an address").to_owned()
}

/// Writes that are stable one by one.
fn write(place: &Place, count: usize) {
    let mut options = std::fs::File::options();
    let file = options.append(true).create(true).custom_flags(O_DSYNC).open(place.path("mnt/file"));
    let mut file = file.expect("a file");
    (0..count).for_each(|_| file.write_all(&[7; 3000]).expect("writes"));
}

#[test]
fn promtool_finds_nothing_wrong_with_the_metrics() {
    if lacks_something() {
        return;
    }
    let place = Place::with_files();
    pool(&place);
    write(&place, 20);
    let metrics =
        unix(&RunPaths::under(place.path("run")).socket(), "/metrics?datasets", &[]).expect("an answer");
    let mut promtool = Command::new("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut promtool = promtool.spawn().expect("runs");
    promtool.stdin.take().expect("a pipe").write_all(metrics.body.as_bytes()).expect("writes");
    let found = promtool.wait_with_output().expect("ends");
    assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
    assert_eq!(String::from_utf8_lossy(&found.stderr), "");
}

/// Prometheus, that asks the daemon every second, until the end of the test.
struct Prometheus {
    process: Child,
    address: String,
}

impl Prometheus {
    fn start(place: &Place, target: &str) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|port| port.local_addr()).expect("a port");
        let token = RunPaths::under(place.path("run")).web_token();
        let config = format!(
            "scrape_configs:\n- job_name: sawmill\n  scrape_interval: 1s\n  scrape_timeout: 1s\n  \
             authorization: {{credentials_file: {}}}\n  static_configs: [{{targets: ['{target}']}}]\n",
            token.display()
        );
        let path = place.path("prometheus.yml");
        std::fs::write(&path, config).expect("written");
        let mut command = Command::new("prometheus");
        command.arg(option("--config.file", &path)).arg(option("--storage.tsdb.path", &place.path("tsdb")));
        command.arg(format!("--web.listen-address={port}")).arg("--log.level=warn");
        command
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(place.path("prometheus.log")).expect("a log"));
        Self { process: command.spawn().expect("runs"), address: port.to_string() }
    }

    /// What it answers to a question; `None` before it does at all.
    fn ask(&self, path: &str) -> Option<Value> {
        let answer = tcp(&self.address, path, &[]).filter(|answer| answer.status != 503)?;
        let answer: Value = serde_json::from_str(&answer.body).ok()?;
        assert_eq!(answer["status"], "success", "{path}: {answer}");
        Some(answer["data"].clone())
    }

    /// Values of an expression that are numbers.
    fn values(&self, expression: &str) -> Vec<f64> {
        let data = self.ask(&format!("/api/v1/query?query={}", escaped(expression))).unwrap_or_default();
        let samples = data["result"].as_array().cloned().unwrap_or_default();
        let value = |sample: &Value| sample["value"][1].as_str()?.parse().ok();
        samples.iter().filter_map(value).filter(|value: &f64| value.is_finite()).collect()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

fn option(name: &str, path: &Path) -> String {
    format!("{name}={}", path.display())
}

/// Every expression of the dashboard, with the title of its panel, as Grafana would ask it.
fn questions() -> Vec<(String, String)> {
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels").clone();
    let of = |panel: &Value| {
        let title = panel["title"].as_str().expect("a title").to_owned();
        let targets = panel["targets"].as_array().expect("targets").clone();
        targets.into_iter().map(move |target| {
            let text = target["expr"].as_str().expect("an expression");
            (title.clone(), text.replace("$pool", "tank").replace("$__rate_interval", "10s"))
        })
    };
    panels.iter().flat_map(of).collect()
}

#[test]
fn prometheus_answers_every_question_of_the_dashboard() {
    if lacks_something() {
        return;
    }
    let place = Place::with_files();
    let target = pool(&place);
    let prometheus = Prometheus::start(&place, &target);
    let begun = Instant::now();
    let mut open = questions();
    assert!(open.len() > 15, "{open:?}");
    while !open.is_empty() {
        write(&place, 20);
        let log = || std::fs::read_to_string(place.path("prometheus.log")).unwrap_or_default();
        assert!(begun.elapsed() < PATIENCE, "without an answer: {open:#?}\n{}", log());
        open.retain(|(_, expression)| prometheus.values(expression).is_empty());
        std::thread::sleep(Duration::from_millis(500));
    }
    let targets = prometheus.ask("/api/v1/targets").expect("an answer");
    assert_eq!(targets["activeTargets"][0]["lastError"], "", "{targets}");
    assert_eq!(prometheus.values("sum(sawmill_pool_state)"), [1.0]);
    let metadata = prometheus.ask("/api/v1/metadata?metric=sawmill_log_commit_seconds").expect("an answer");
    let told = &metadata["sawmill_log_commit_seconds"][0];
    // Units come with the newer format alone, which it asks for.
    assert_eq!((&told["type"], &told["unit"]), (&"histogram".into(), &"seconds".into()), "{metadata}");
}
