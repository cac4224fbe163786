//! Starts zedlets, and takes note of their ends.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// When as many zedlets run as may run, this time passes between two looks for an end.
const POLL: Duration = Duration::from_millis(20);

/// A `Job` is one zedlet that was started.
struct Job {
    path: PathBuf,
    child: Child,
    started: Instant,
}

/// `Jobs` holds the zedlets that were started and have not ended.
pub struct Jobs {
    running: Vec<Job>,
    at_once: usize,
    is_verbose: bool,
}

impl Jobs {
    /// At most `at_once` zedlets run at one time.
    pub fn new(at_once: usize, is_verbose: bool) -> Self {
        Self { running: Vec::new(), at_once, is_verbose }
    }

    /// Starts a zedlet with exactly these variables. While as many zedlets run as may run, the function waits first, and
    /// reports that once.
    pub fn start(&mut self, path: &Path, variables: &[(String, String)]) {
        self.reap();
        if self.running.len() >= self.at_once {
            eprintln!("zed: '{}' waits for the end of one of {} programs", path.display(), self.at_once);
        }
        while self.running.len() >= self.at_once {
            std::thread::sleep(POLL);
            self.reap();
        }
        let mut command = Command::new(path);
        command.env_clear().envs(variables.iter().cloned()).current_dir("/").stdin(Stdio::null());
        match command.spawn() {
            Ok(child) => {
                if self.is_verbose {
                    eprintln!("zed: '{}' begins, process {}", path.display(), child.id());
                }
                self.running.push(Job { path: path.to_owned(), child, started: Instant::now() });
            }
            Err(error) => {
                let reason = engine::refusal::words(&error);
                eprintln!("zed: '{}' cannot be run: {reason}", path.display());
            }
        }
    }

    /// Takes note of zedlets that have ended. A zedlet that ended by a signal is reported, and each one with `-v`.
    pub fn reap(&mut self) {
        let is_verbose = self.is_verbose;
        self.running.retain_mut(|job| match job.child.try_wait() {
            Ok(None) => true,
            Ok(Some(status)) => {
                if is_verbose || status.code().is_none() {
                    report(job, status);
                }
                false
            }
            Err(error) => {
                eprintln!("zed: '{}' cannot be waited for: {error}", job.path.display());
                false
            }
        });
    }
}

fn report(job: &Job, status: ExitStatus) {
    let (path, millis) = (job.path.display(), job.started.elapsed().as_millis());
    eprintln!("zed: '{path}' has ended after {millis} ms: {status}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_programs_run_than_may_run() {
        let mut jobs = Jobs::new(2, false);
        let started = Instant::now();
        let variables = [("PATH".to_owned(), "/usr/bin:/bin".to_owned())];
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("sleeps");
        std::fs::write(&path, "#!/bin/sh\nsleep 0.3\n").expect("written");
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("a mode");
        for _ in 0..4 {
            jobs.start(&path, &variables);
            assert!(jobs.running.len() <= 2);
        }
        assert!(started.elapsed() >= Duration::from_millis(300), "the third one waited");
        jobs.start(Path::new("/nonexistent"), &variables);
        while !jobs.running.is_empty() {
            jobs.reap();
            std::thread::sleep(POLL);
        }
    }
}
