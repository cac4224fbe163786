//! SQLite: what it answered to is there after the daemon was killed.
//!
//! With a journal that is truncated, or a write-ahead log, every commit ends with a sync. With one
//! that is removed it ends with the removal: `synchronous=FULL` does not make the directory stable
//! (`EXTRA` tries to, but takes a directory that cannot be opened, as when the daemon has just been
//! killed, for success). The last transaction may then be rolled back, on every file system.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::mounted::World;
use crate::shell::{kill_child, ok, until};

const KILLS: usize = 3;
const WRITE_TIME: Duration = Duration::from_millis(1_500);

#[test]
fn sqlite_keeps_what_it_committed_with_a_rollback_journal() {
    committed_rows_survive_kills("TRUNCATE", 0);
}

#[test]
fn sqlite_loses_no_more_than_it_warns_of_where_it_does_not_sync_the_directory() {
    committed_rows_survive_kills("DELETE", 1);
}

#[test]
fn sqlite_keeps_what_it_committed_with_a_write_ahead_log() {
    committed_rows_survive_kills("WAL", 0);
}

fn committed_rows_survive_kills(journal: &str, may_lose: u64) {
    let Some(world) = crate::world(&["sqlite3"]) else { return };
    let database = world.root().join("rows.db");
    let mut rows = 0;
    for _ in 0..KILLS {
        let committed = insert_until_killed(&world, &database, journal, rows + 1);
        world.restart();
        rows = count(&database);
        // The one under way may be there too.
        let allowed = committed - may_lose..=committed + 1;
        assert!(allowed.contains(&rows), "{rows} rows, {committed} were committed");
    }
    world.finish();
}

/// Rows from `first` on, one a transaction. Gives the last that was acknowledged.
fn insert_until_killed(world: &World, database: &Path, journal: &str, first: u64) -> u64 {
    let mut sqlite = sqlite(database);
    let mut statements = sqlite.stdin.take().expect("a pipe");
    let mut answers = BufReader::new(sqlite.stdout.take().expect("a pipe")).lines();
    let committed = AtomicU64::new(first - 1);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let modes = format!("PRAGMA journal_mode={journal}; PRAGMA synchronous=FULL;");
            writeln!(statements, "{modes}").expect("takes words");
            writeln!(statements, "CREATE TABLE IF NOT EXISTS t(n INTEGER PRIMARY KEY, s TEXT);")
                .expect("takes words");
            assert_eq!(answers.next().and_then(Result::ok), Some(journal.to_lowercase()));
            for row in first.. {
                // It ends with the daemon; its pipe is then closed.
                let insert =
                    format!("INSERT INTO t VALUES({row}, hex(randomblob({}))); SELECT {row};", row % 900);
                if writeln!(statements, "{insert}").is_err() {
                    return;
                }
                let Some(Ok(answer)) = answers.next() else { return };
                if answer != row.to_string() {
                    return;
                }
                committed.store(row, Ordering::SeqCst);
            }
        });
        std::thread::sleep(WRITE_TIME);
        until(|| committed.load(Ordering::SeqCst) >= first, "a row is committed");
        world.kill_daemon();
        kill_child(&mut sqlite);
    });
    committed.into_inner()
}

fn sqlite(database: &Path) -> Child {
    let mut command = Command::new("sqlite3");
    command.arg("-bail").arg(database);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("sqlite3 runs")
}

/// How many rows there are, after a look that they are whole and none is missing between.
fn count(database: &Path) -> u64 {
    // Reads through a memory map as well.
    let look = "PRAGMA mmap_size=1073741824; PRAGMA integrity_check; SELECT max(n), count(*) FROM t;";
    let told = ok(Command::new("sqlite3").arg(database).arg(look));
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines[1], "ok", "{told}");
    let (last, rows) = lines[2].split_once('|').expect("two numbers");
    assert_eq!(last, rows, "rows are missing between: {told}");
    rows.parse().expect("a number")
}
