//! Starting the daemon from a command, once, however many commands try.

use control::{Client, Failure, FailureKind, RunPaths, TOLD_AFTER};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Bringing pools back may replay logs: that takes as long as it takes, and is told of in the log
/// every few seconds. This bounds only the wait for a daemon that shows no sign of life.
const SILENCE_MAX: Duration = Duration::from_secs(600);
const POLL_FIRST: Duration = Duration::from_millis(1);
const POLL_MAX: Duration = Duration::from_millis(50);

/// Why no daemon could be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The run-time directory or a file in it.
    #[error("cannot use {}: {source}", path.display())]
    Files {
        /// What.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The run-time directory is not this user's alone.
    #[error("cannot use the run-time directory: {0}; set SAWMILL_RUN to a directory of your own")]
    Untrusted(control::UntrustedDir),
    /// The process could not be started.
    #[error("cannot start the sawmill daemon: {0}")]
    Spawn(#[source] io::Error),
    /// It ended at once.
    #[error("the sawmill daemon did not start: {0}")]
    Died(String),
    /// It does not answer.
    #[error("the sawmill daemon does not answer; see {}", log.display())]
    Silent {
        /// Its log.
        log: PathBuf,
    },
}

impl StartError {
    /// As a command tells it.
    pub fn failure(&self) -> Failure {
        Failure::new(FailureKind::Other, self.to_string())
    }
}

/// Makes sure that a daemon answers.
///
/// # Errors
/// Why it does not.
pub fn start(paths: &RunPaths) -> Result<(), StartError> {
    start_with(paths, &[]).map(|_is_new| ())
}

/// The same, with further words for one that is started; whether it was.
///
/// # Errors
/// Why none answers.
pub fn start_with(paths: &RunPaths, words: &[&str]) -> Result<bool, StartError> {
    let client = Client::new(paths.socket());
    let directory = || paths.run_dir().to_owned();
    paths.make_run_dir().map_err(|source| StartError::Files { path: directory(), source })?;
    paths.check().map_err(StartError::Untrusted)?;
    let lock = open_for(&paths.start_lock(), |o| o.write(true).create(true).truncate(false))?;
    lock.lock().map_err(|source| StartError::Files { path: paths.start_lock(), source })?;
    // Whoever held the lock before us may have started it.
    if client.answers() {
        return Ok(false);
    }
    if words.is_empty() && super::systemd::start(paths) && client.answers() {
        return Ok(true);
    }
    let log = open_for(&paths.log(), |o| o.append(true).create(true))?;
    let log_start = log.metadata().map_or(0, |m| m.len());
    let child = spawn(log, words).map_err(StartError::Spawn)?;
    wait(&client, child, paths, log_start, SILENCE_MAX)?;
    Ok(true)
}

/// Waits until the daemon answers. What it writes to its log, which was `log_start` bytes long, is a
/// sign of life.
fn wait(
    client: &Client,
    mut child: Child,
    paths: &RunPaths,
    log_start: u64,
    silence_max: Duration,
) -> Result<(), StartError> {
    let mut heard = (log_start, Instant::now());
    let mut pause = POLL_FIRST;
    let (begun, mut is_told) = (Instant::now(), false);
    while !client.answers() {
        if matches!(child.try_wait(), Ok(Some(_))) {
            // Another daemon may have been quicker, and hold the lock.
            return match client.answers() {
                true => Ok(()),
                false => Err(StartError::Died(log_since(&paths.log(), log_start))),
            };
        }
        let log_len = fs::metadata(paths.log()).map_or(heard.0, |log| log.len());
        if log_len != heard.0 {
            heard = (log_len, Instant::now());
        }
        if !is_told && begun.elapsed() > TOLD_AFTER {
            if let Some(pid) = leaving(paths, child.id()) {
                eprintln!("waiting for the last daemon (pid {pid}) to sync its pools and end; ^C to give up");
            }
            is_told = true;
        }
        if heard.1.elapsed() > silence_max {
            return Err(StartError::Silent { log: paths.log() });
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(POLL_MAX);
    }
    Ok(())
}

fn open_for(path: &Path, how: impl Fn(&mut OpenOptions) -> &mut OpenOptions) -> Result<File, StartError> {
    let mut options = OpenOptions::new();
    how(options.mode(0o600)).open(path).map_err(|source| StartError::Files { path: path.to_owned(), source })
}

/// This very program as a daemon: none of our pipes, its output to the log.
fn spawn(log: File, words: &[&str]) -> io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .arg0("sawmill")
        .args(["daemon", "run", "--detach"])
        .args(words)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::from(log.try_clone()?))
        .stderr(Stdio::from(log))
        .spawn()
}

/// The number of a daemon that has ended for everybody else, but still syncs its pools and holds the lock
/// that the new one waits for.
fn leaving(paths: &RunPaths, new: u32) -> Option<u32> {
    let holder = fs::read_to_string(paths.daemon_lock()).ok()?.trim().parse().ok();
    holder.filter(|&holder| holder != new && Path::new(&format!("/proc/{holder}/exe")).exists())
}

/// What a daemon that died left in the log.
fn log_since(path: &Path, start: u64) -> String {
    let read = || -> io::Result<String> {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(start))?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        Ok(text)
    };
    let text = read().unwrap_or_default();
    text.lines().last().unwrap_or("it left no word in its log").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits for a program that answers nobody, but ends.
    fn wait_for(script: &str) -> StartError {
        let dir = tempfile::tempdir().expect("a directory");
        let paths = RunPaths::under(dir.path().to_owned());
        let log = File::create(paths.log()).expect("a log");
        let child = Command::new("sh").args(["-c", script]).stdout(log).spawn().expect("runs");
        let client = Client::new(paths.socket());
        wait(&client, child, &paths, 0, Duration::from_millis(1500)).expect_err("nobody answers")
    }

    #[test]
    fn a_daemon_is_waited_for_as_long_as_it_shows_signs_of_life() {
        let talks = "for i in $(seq 20); do echo $i records replayed; sleep 0.1; done; echo the end";
        assert!(matches!(wait_for(talks), StartError::Died(last) if last == "the end"));
        assert!(matches!(wait_for("exec sleep 3"), StartError::Silent { .. }));
    }
}
