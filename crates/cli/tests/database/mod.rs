//! A PostgreSQL server, and clients that write down what they saw committed.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::cell::Cell;
use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use oracle::needs::Need;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::mounted::bounded;
use crate::shell::{self, family, sh, text};

const CLIENTS: usize = 8;
const OPTIONS: &str = "-c listen_addresses='' -c shared_buffers=16MB -c max_wal_size=64MB";
/// Accounts only move money between columns: the three sums stay equal.
const SUMS: &str = "SELECT (SELECT sum(abalance) FROM pgbench_accounts), \
    (SELECT sum(tbalance) FROM pgbench_tellers), (SELECT sum(bbalance) FROM pgbench_branches), \
    (SELECT coalesce(sum(delta), 0) FROM pgbench_history)";
/// Makes one row of the history of all transfers: the sum of the deltas stays the same.
const FOLD: &str = "WITH gone AS (DELETE FROM pgbench_history RETURNING delta) \
    INSERT INTO pgbench_history (tid, bid, aid, delta) \
    SELECT 1, 1, 1, sum(delta)::int FROM gone HAVING count(*) > 0";

/// A server whose data lie on a mount; socket and logs of its clients do not.
pub struct PostgresServer {
    programs: PathBuf,
    beside: TempDir,
    pub data: PathBuf,
    /// The server's process while it runs.
    running: Cell<Option<Pid>>,
}

impl PostgresServer {
    /// A server with tables for its clients, which runs. `data` is an empty directory. `None` if PostgreSQL is not
    /// installed and that may be so.
    pub fn new(data: PathBuf) -> Option<Self> {
        let programs = Self::programs()?;
        let beside = TempDir::new().expect("a directory");
        let server = Self { programs, beside, data, running: Cell::default() };
        let [uid, gid] = ["-u", "-g"].map(|which| {
            let id = sh(&format!("id {which} postgres"), Path::new("/"));
            id.trim().parse().expect("a number")
        });
        for dir in [server.data.clone(), server.beside.path().to_owned()] {
            chown(&dir, Some(uid), Some(gid)).expect("given away");
        }
        server.run("initdb", &["-A", "trust", "-D", &server.data.display().to_string()]);
        server.start();
        server.run("createdb", &["bench"]);
        server.run("pgbench", &["-i", "-q", "-s", "2", "bench"]);
        server.sql("CREATE TABLE committed(round int, client int, n int, PRIMARY KEY(round, client, n))");
        Some(server)
    }

    /// The newest installation's programs. `None` if there is none and that may be so.
    pub fn programs() -> Option<PathBuf> {
        let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
        let programs = versions.filter_map(|entry| Some(entry.ok()?.path().join("bin")));
        let is_whole = |bin: &PathBuf| bin.join("initdb").is_file() && bin.join("pgbench").is_file();
        let newest = programs.filter(is_whole).max();
        if newest.is_none() {
            Need::Postgres.is_missing("PostgreSQL is not installed");
        }
        newest
    }

    /// A killed server that nobody waited for still has its number: it counts as running.
    pub fn forget_killed(&self) {
        for lock in [self.data.join("postmaster.pid"), self.beside.path().join(".s.PGSQL.5432.lock")] {
            fs::remove_file(lock).expect("the killed server's");
        }
    }

    fn command(&self, program: &str) -> Command {
        let mut command = bounded(Path::new("setpriv"));
        command
            .args(["--reuid=postgres", "--regid=postgres", "--init-groups"])
            .arg(self.programs.join(program));
        command.current_dir(self.beside.path()).env("PGHOST", self.beside.path()).env("LC_ALL", "C");
        command.env_remove("PGPORT").env_remove("PGDATABASE");
        command
    }

    fn run(&self, program: &str, args: &[&str]) -> String {
        let output = self.command(program).args(args).output().expect("it runs");
        text(&format!("{program} {args:?}: {}", self.log()), &output)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.beside.path().join("server.log")).unwrap_or_default()
    }

    fn sql(&self, statement: &str) -> String {
        self.run("psql", &["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-c", statement, "bench"])
    }

    /// Comes back when it takes connections, after its own recovery.
    pub fn start(&self) {
        let options = format!("{OPTIONS} -k {}", self.beside.path().display());
        let log = self.beside.path().join("server.log");
        let mut command = self.command("pg_ctl");
        command.arg("start").arg("-w").arg("-D").arg(&self.data).arg("-l").arg(&log).args(["-o", &options]);
        // The server would hold on to a pipe.
        let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        assert!(status.expect("pg_ctl runs").success(), "the server starts:\n{}", self.log());
        let lock = fs::read_to_string(self.data.join("postmaster.pid")).expect("the server's number");
        self.running.set(lock.lines().next().and_then(|line| Pid::from_raw(line.parse().ok()?)));
    }

    pub fn stop(&self) {
        self.running.set(None);
        self.run("pg_ctl", &["stop", "-m", "fast", "-D", &self.data.display().to_string()]);
    }

    /// `kill -9` of the server.
    pub fn kill(&self, clients: Child) {
        end(&self.stopped(), clients);
    }

    /// Stops the server's first process and returns all of the server's processes. A stopped process
    /// starts no others, which would outlive the server for a while, and does not remove its locks
    /// when its data are gone.
    pub fn stopped(&self) -> Vec<Pid> {
        let first = self.running.take().expect("it runs");
        kill_process(first, Signal::STOP).expect("it lives");
        family(first)
    }

    /// Half of the transactions count, half move money.
    pub fn start_clients(&self, round: usize) -> Child {
        let script = self.beside.path().join("count.sql");
        let count = format!("\\set n :n + 1\nINSERT INTO committed VALUES ({round}, :client_id, :n);\n");
        fs::write(&script, count).expect("a script");
        fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o644))
            .expect("permissions");
        let mut command = self.command("pgbench");
        command.args(["-n", "-c", &CLIENTS.to_string(), "-j", "2", "-T", "60", "-D", "n=0", "-l"]);
        command.arg(format!("--log-prefix={}", self.log_prefix(round)));
        command.arg("-f").arg(format!("{}@1", script.display())).args(["-b", "tpcb-like@1", "bench"]);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("pgbench runs")
    }

    fn log_prefix(&self, round: usize) -> String {
        self.beside.path().join(format!("seen-{round}")).display().to_string()
    }

    pub fn seen(&self, round: usize) -> Vec<usize> {
        self.seen_until(round, SystemTime::now())
    }

    /// How many counting transactions each client saw committed until then. The log has a line for each: client,
    /// transaction, latency, script, and the time as seconds and microseconds.
    pub fn seen_until(&self, round: usize, until: SystemTime) -> Vec<usize> {
        let until = until.duration_since(SystemTime::UNIX_EPOCH).expect("a time since 1970");
        let mut seen = vec![0; CLIENTS];
        let read = |log: PathBuf| fs::read_to_string(log).expect("a log");
        let logs: String = self.client_logs(round).into_iter().map(read).collect();
        for line in logs.lines() {
            let words: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
            let &[client, _, _, script, seconds, micros] = words.as_slice() else { continue };
            if script == 0 && Duration::new(seconds, micros as u32 * 1000) < until {
                seen[client as usize] += 1;
            }
        }
        seen
    }

    /// How long the longest transaction of a round took for its client.
    pub fn longest(&self, round: usize) -> Duration {
        let read = |log: PathBuf| fs::read_to_string(log).expect("a log");
        let logs: String = self.client_logs(round).into_iter().map(read).collect();
        let latency = |line: &str| line.split(' ').nth(2)?.parse().ok();
        Duration::from_micros(logs.lines().filter_map(latency).max().expect("there were transactions"))
    }

    /// The logs of a round's clients: `PREFIX.PID`, `PREFIX.PID.THREAD`. There are none where a kill
    /// came before the clients had connected.
    fn client_logs(&self, round: usize) -> Vec<PathBuf> {
        let prefix = format!("{}.", self.log_prefix(round));
        let files = fs::read_dir(self.beside.path()).expect("a directory");
        let paths = files.map(|file| file.expect("a file").path());
        paths.filter(|path| path.display().to_string().starts_with(&prefix)).collect()
    }

    /// Removes the rows of earlier rounds, the logs of the last one and the history of all transfers,
    /// so that a long test has as much data at its end as at its beginning. No client may be at work.
    pub fn forget_rounds_before(&self, round: usize) {
        self.sql(&format!("DELETE FROM committed WHERE round < {round}"));
        self.sql(FOLD);
        let Some(last) = round.checked_sub(1) else { return };
        self.client_logs(last).iter().for_each(|log| fs::remove_file(log).expect("a log"));
    }

    /// Checks that each client has all rows that it saw committed and at most one more, which was
    /// under way, and that no money is lost.
    pub fn check(&self, round: usize, seen: &[usize]) {
        for (client, (rows, seen)) in self.counted(round).iter().zip(seen).enumerate() {
            assert!(
                *rows == *seen || *rows == seen + 1,
                "client {client}: {rows} rows, {seen} seen committed"
            );
        }
        self.check_money();
    }

    /// How many rows each client's counting has left; none is missing between.
    fn counted(&self, round: usize) -> Vec<usize> {
        let of_client = |client| {
            let of = format!("FROM committed WHERE round = {round} AND client = {client}");
            let told = self.sql(&format!("SELECT count(*), coalesce(max(n), 0) {of}"));
            let (rows, last) = told.trim().split_once('|').expect("two numbers");
            assert_eq!(rows, last, "client {client}: rows are missing between");
            rows.parse().expect("a number")
        };
        (0..CLIENTS).map(of_client).collect()
    }

    /// How many rows there are, of which none is missing that was seen committed before a snapshot.
    pub fn has_at_least(&self, round: usize, seen: &[usize]) -> usize {
        let found = self.counted(round);
        for (client, (found, seen)) in found.iter().zip(seen).enumerate() {
            assert!(
                found >= seen,
                "client {client}: {found} rows, {seen} seen committed before the snapshot"
            );
        }
        found.iter().sum()
    }

    pub fn check_money(&self) {
        let sums = self.sql(SUMS);
        let sums: Vec<&str> = sums.trim().split('|').collect();
        assert!(sums.iter().all(|sum| *sum == sums[0]), "money was lost or made: {sums:?}");
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        if let Some(pid) = self.running.take() {
            shell::kill(&family(pid));
        }
    }
}

/// Clients end when their server does, and write down what they saw.
pub fn end(server: &[Pid], mut clients: Child) {
    shell::kill(server);
    clients.wait().expect("it is ours");
}
