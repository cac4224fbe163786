//! Kstat files of a real daemon, as exporters read them, and exporters that read them.
#![forbid(unsafe_code)]

mod asked;
mod place;

use asked::tcp;
use oracle::needs::{Need, lack_of_fuse};
use place::Place;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// `O_DSYNC` on Linux.
const O_DSYNC: i32 = 0o10_000;
const WRITES: u64 = 20;
const BYTES: usize = 3_000;
const PATIENCE: Duration = Duration::from_secs(60);

/// A daemon that renews its files each second, and a mounted pool: a mirror with a log.
fn with_pool() -> Option<Place> {
    if let Some(lack) = lack_of_fuse() {
        Need::Fuse.is_missing(lack);
        return None;
    }
    let place = Place::with_files();
    place.ok("daemon start --kstats 1");
    place.ok("zpool create -m W/mnt tank mirror W/d1 W/d2 log W/l1");
    Some(place)
}

/// Writes that are stable one by one.
fn write(place: &Place) {
    let mut options = fs::File::options();
    let file = options.append(true).create(true).custom_flags(O_DSYNC).open(place.path("mnt/file"));
    let mut file = file.expect("a file");
    (0..WRITES).for_each(|_| file.write_all(&[7; BYTES]).expect("writes"));
}

fn tree(place: &Place) -> PathBuf {
    place.path("run/proc/spl/kstat/zfs")
}

/// Names and numbers of a named kstat, as node_exporter reads them: two lines are passed over, and each
/// other one has a name, a type and a number, or more words where the type is that of a text.
fn numbers(path: &Path) -> BTreeMap<String, u64> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let lines = text.lines().skip(2).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let numbers = lines.filter(|fields| ["3", "4"].contains(&fields[1]));
    let number = |fields: Vec<&str>| {
        assert_eq!(fields.len(), 3, "{text}");
        (fields[0].to_owned(), fields[2].parse().expect("a number"))
    };
    numbers.map(number).collect()
}

/// Waits until something is so.
fn until(what: &str, place: &Place, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}; log: {}", place.log());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The file of an open dataset.
fn objset(place: &Place, dataset: &str) -> Option<PathBuf> {
    let files = fs::read_dir(tree(place).join("tank")).ok()?;
    let named = |path: &PathBuf| {
        let is_objset = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("objset-0x"));
        let text = fs::read_to_string(path).unwrap_or_default();
        is_objset && text.lines().nth(2) == Some(&format!("{:<31} 7    {dataset}", "dataset_name"))
    };
    files.filter_map(|entry| Some(entry.ok()?.path())).find(named)
}

#[test]
fn counters_move_by_what_was_done() {
    let Some(place) = with_pool() else { return };
    until("the dataset has a file", &place, || objset(&place, "tank").is_some());
    let path = objset(&place, "tank").expect("a file");
    let all = || ["zil", "dmu_tx"].map(|name| numbers(&tree(&place).join(name)));
    let ([zil, changes], dataset) = (all(), numbers(&path));
    write(&place);
    until("the dataset was written to", &place, || numbers(&path)["writes"] >= dataset["writes"] + WRITES);
    let after = numbers(&path);
    let moved = |name: &str| after[name] - dataset[name];
    assert_eq!((moved("writes"), moved("nwritten")), (WRITES, WRITES * BYTES as u64));
    assert_eq!(moved("zil_commit_count"), WRITES);
    assert!(moved("zil_itx_metaslab_slog_count") > 0 && moved("zil_itx_metaslab_normal_count") == 0);
    let [zil_after, changes_after] = all();
    assert!(zil_after["zil_commit_count"] >= zil["zil_commit_count"] + WRITES);
    assert!(changes_after["dmu_tx_assigned"] >= changes["dmu_tx_assigned"] + WRITES);
    let read = fs::read(place.path("mnt/file")).expect("reads").len() as u64;
    until("the dataset was read", &place, || numbers(&path)["nread"] >= dataset["nread"] + read);

    let open = fs::File::open(place.path("mnt/file")).expect("opens");
    fs::remove_file(place.path("mnt/file")).expect("removes");
    until("a file is unlinked", &place, || numbers(&path)["nunlinks"] == 1);
    assert_eq!(numbers(&path)["nunlinked"], 0, "it is open");
    drop(open);
    until("the file is freed", &place, || numbers(&path)["nunlinked"] == 1);

    // The counters go on when it is mounted again.
    let before = numbers(&path)["nwritten"];
    place.ok("zfs unmount tank");
    place.ok("zfs mount tank");
    fs::write(place.path("mnt/more"), "x").expect("writes");
    until("the counters go on", &place, || numbers(&path)["nwritten"] == before + 1);
    place.ok("zfs create tank/gone");
    fs::write(place.path("mnt/gone/file"), "x").expect("writes");
    until("the new dataset has a file", &place, || objset(&place, "tank/gone").is_some());
    place.ok("zfs destroy tank/gone");
    until("the file of the dataset goes", &place, || objset(&place, "tank/gone").is_none());
}

#[test]
fn a_txg_is_in_the_list_with_what_it_wrote() {
    let Some(place) = with_pool() else { return };
    fs::write(place.path("mnt/large"), vec![7; 3 << 20]).expect("writes");
    place.ok("zpool sync tank");
    let path = tree(&place).join("tank/txgs");
    // txg, state, ndirty, nwritten, writes
    let rows = || -> Vec<(u64, String, u64, u64, u64)> {
        let text = fs::read_to_string(&path).unwrap_or_default();
        let row = |line: &str| {
            let cells: Vec<&str> = line.split_whitespace().collect();
            let number = |at: usize| cells[at].parse().expect("a number");
            assert_eq!(cells.len(), 12, "{line}");
            (number(0), cells[2].to_owned(), number(3), number(5), number(7))
        };
        text.lines().skip(1).map(row).collect()
    };
    let wrote_all = |row: &(u64, String, u64, u64, u64)| {
        // Both sides of the mirror have it; sevens are written compressed.
        row.1 == "C" && row.2 >= 3 << 20 && row.3 > 0 && row.4 > 0
    };
    until("the txg is told of", &place, || rows().iter().any(wrote_all));
    let rows = rows();
    assert!(rows.windows(2).all(|pair| pair[0].0 + 1 == pair[1].0), "{rows:?}");
    assert_eq!(rows.last().map(|row| row.1.as_str()), Some("O"));
}

#[test]
fn the_state_is_the_pools_and_all_goes_with_the_pool_and_the_daemon() {
    let Some(place) = with_pool() else { return };
    let state = || fs::read_to_string(tree(&place).join("tank/state")).unwrap_or_default();
    until("the pool is healthy", &place, || state() == "ONLINE\n");
    place.ok("zpool offline tank W/d1");
    until("a side is missing", &place, || state() == "DEGRADED\n");
    place.ok("zpool online tank W/d1");
    until("the side is back", &place, || state() == "ONLINE\n");
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!((mode(&tree(&place)), mode(&tree(&place).join("zil"))), (0o755, 0o644), "for every user");
    place.ok("zpool export tank");
    until("the directory goes", &place, || !tree(&place).join("tank").exists());
    assert!(tree(&place).join("arcstats").exists(), "the daemon lives");
    place.ok("daemon stop");
    until("the files go", &place, || fs::read_dir(tree(&place)).expect("there").count() == 0);
}

#[test]
fn a_daemon_without_kstats_removes_what_a_killed_one_left() {
    let Some(place) = with_pool() else { return };
    until("there are files", &place, || tree(&place).join("tank/state").exists());
    place.kill();
    assert!(tree(&place).join("tank/state").exists(), "nobody could remove them");
    place.ok("daemon start --kstats 0");
    assert_eq!(fs::read_dir(tree(&place)).expect("there").count(), 0);
    let printed = place.run("daemon start --kstats often");
    assert_eq!(printed.code, 2, "{}", printed.err);
}

fn is_missing(program: &'static str) -> bool {
    let found = Command::new(program).arg("--help").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if found.is_err() {
        Need::Program(program).is_missing(&format!("{program} is not installed"));
    }
    found.is_err()
}

/// An exporter that reads the files of a place instead of those of `/proc`, until the end of the test.
struct NodeExporter {
    process: Child,
    address: String,
}

impl NodeExporter {
    fn start(place: &Place) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|port| port.local_addr()).expect("a port");
        let mut command = Command::new("prometheus-node-exporter");
        command.args(["--collector.disable-defaults", "--collector.zfs"]);
        command.arg(format!("--path.procfs={}", place.path("run/proc").display()));
        command.arg(format!("--web.listen-address={port}"));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Self { process: command.spawn().expect("runs"), address: port.to_string() }
    }

    /// Its metrics; `None` before it answers.
    fn metrics(&self) -> Option<BTreeMap<String, f64>> {
        let answer = tcp(&self.address, "/metrics", &[]).filter(|answer| answer.status == 200)?;
        let metric = |line: &str| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        Some(answer.body.lines().filter(|line| !line.starts_with('#')).filter_map(metric).collect())
    }
}

impl Drop for NodeExporter {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

#[test]
fn node_exporter_shows_what_was_done() {
    if lack_of_fuse().is_none() && is_missing("prometheus-node-exporter") {
        return;
    }
    let Some(place) = with_pool() else { return };
    let exporter = NodeExporter::start(&place);
    write(&place);
    let commits = "node_zfs_zil_zil_commit_count";
    let shown = || exporter.metrics().filter(|metrics| metrics.get(commits) >= Some(&(WRITES as f64)));
    until("commits are exported", &place, || shown().is_some());
    let metrics = shown().expect("an answer");
    let value = |name: &str| *metrics.get(name).unwrap_or_else(|| panic!("no {name}: {metrics:?}"));
    assert_eq!(value("node_scrape_collector_success{collector=\"zfs\"}") as u64, 1);
    let of_dataset = |name: &str| {
        value(&format!("node_zfs_zpool_dataset_{name}{{dataset=\"tank\",zpool=\"tank\"}}")) as u64
    };
    assert_eq!((of_dataset("writes"), of_dataset("nwritten")), (WRITES, WRITES * BYTES as u64));
    assert_eq!(value("node_zfs_zpool_state{state=\"online\",zpool=\"tank\"}") as u64, 1);
    assert_eq!(value("node_zfs_zpool_state{state=\"degraded\",zpool=\"tank\"}") as u64, 0);
    assert!(value("node_zfs_zpool_nwritten{zpool=\"tank\"}") >= (WRITES * BYTES as u64) as f64);
    assert!(value("node_zfs_arc_size") > 0.0 && value("node_zfs_arc_c_max") >= value("node_zfs_arc_c"));
    assert!(value("node_zfs_dmu_tx_dmu_tx_assigned") >= WRITES as f64);
    assert_eq!(value("node_zfs_abd_scatter_cnt") as u64, 0);
    assert!(metrics.keys().any(|name| name.starts_with("node_zfs_zfetch_")));
}

/// A program of OpenZFS's that reads `/proc/spl/kstat/zfs` reads the files of a place; what it printed.
fn of_openzfs(place: &Place, program: &str, words: &[&str]) -> String {
    let found = Command::new("sh").args(["-c", "command -v \"$1\"", "sh", program]).output().expect("runs");
    let path = PathBuf::from(String::from_utf8(found.stdout).expect("a path").trim());
    let text = fs::read_to_string(path).expect("a script");
    let read = text.replace("/proc/spl/kstat/zfs", &tree(place).display().to_string());
    assert_ne!(read, text, "{program} reads the kstats of this place");
    let copy = place.path(program);
    fs::write(&copy, read).expect("written");
    let output = Command::new("python3").arg(&copy).args(words).output().expect("runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && error.is_empty(), "{program} {words:?}: {error}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn arcstat_and_arc_summary_of_openzfs_read_the_files() {
    if lack_of_fuse().is_none() && (is_missing("arcstat") || is_missing("arc_summary")) {
        return;
    }
    let Some(place) = with_pool() else { return };
    write(&place);
    let zil = || numbers(&tree(&place).join("zil"));
    until("commits are counted", &place, || zil().get("zil_commit_count") >= Some(&WRITES));
    let table = of_openzfs(&place, "arcstat", &["-p", "-f", "read,hits,miss,size,c,arcsz"]);
    let row = table.lines().nth(1).expect("a row").split_whitespace();
    let cells: Vec<f64> = row.map(|cell| cell.parse().expect("a number")).collect();
    let arc = numbers(&tree(&place).join("arcstats"));
    // Without an interval, figures are those of a second on the mean.
    assert!((cells[0] - cells[1] - cells[2]).abs() < 0.01, "{table}");
    assert_eq!((cells[3] as u64, cells[4] as u64), (cells[5] as u64, arc["c"]), "{table}");
    let summary = |section: &str| of_openzfs(&place, "arc_summary", &["-s", section]);
    for section in ["arc", "archits", "dmu", "l2arc"] {
        assert!(summary(section).lines().count() > 3, "{section}");
    }
    let commits = summary("zil");
    let line = commits.lines().find(|line| line.contains("Commit requests:")).expect("a line");
    let count: u64 = line.split_whitespace().last().and_then(|word| word.parse().ok()).expect("a number");
    assert!((WRITES..WRITES + 20).contains(&count), "{commits}");
}
