//! A run-time directory, a daemon with a service in memory, and the real commands.

use crate::fake::FakeService;
use control::{RunPaths, Server};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use tempfile::TempDir;
use tokio::sync::Notify;

/// Commands speak to the daemon inside this very process.
pub struct World {
    directory: TempDir,
    stopper: Option<Arc<Notify>>,
}

/// What a command printed, and its exit code.
#[derive(Debug, PartialEq, Eq)]
pub struct Printed {
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
    /// Exit code.
    pub code: i32,
}

impl World {
    /// With a daemon that has no pools.
    pub fn new() -> Self {
        let mut world = Self::without_daemon();
        let paths = world.paths();
        let (ready, is_ready) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let server = Server::bind(&paths.socket()).expect("listens");
                ready.send(server.stopper()).expect("the test waits");
                server.serve(Arc::new(FakeService::default())).await.expect("serves");
            });
        });
        world.stopper = Some(is_ready.recv().expect("the server listens"));
        world
    }

    /// Nobody listens.
    pub fn without_daemon() -> Self {
        // A random name that ends in W would pass for what `W/` stands for in commands.
        let directory = tempfile::Builder::new().rand_bytes(5).suffix("_").tempdir();
        Self { directory: directory.expect("a directory"), stopper: None }
    }

    /// The files of its daemon.
    pub fn paths(&self) -> RunPaths {
        RunPaths::under(self.directory.path())
    }

    /// Where its files are.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// A sparse file.
    pub fn file(&self, name: &str, mib: u64) -> PathBuf {
        let path = self.directory.path().join(name);
        std::fs::File::create(&path).and_then(|f| f.set_len(mib << 20)).expect("a file");
        path
    }

    /// The program with these words; `W` stands for the world's directory.
    pub fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sawmill"));
        let directory = self.directory.path().to_string_lossy();
        command.args(line.split_whitespace().map(|word| word.replace("W/", &format!("{directory}/"))));
        command.env("SAWMILL_RUN", self.directory.path()).env("TZ", "UTC");
        command
    }

    /// Runs a command line. The world's directory reads `W` in what it prints.
    pub fn run(&self, line: &str) -> Printed {
        let Output { status, stdout, stderr } = self.command(line).output().expect("the program runs");
        let directory = self.directory.path().to_string_lossy().into_owned();
        let text = |bytes| String::from_utf8(bytes).expect("text").replace(&directory, "W");
        Printed { out: text(stdout), err: text(stderr), code: status.code().unwrap_or(-1) }
    }

    /// Runs a command line that reads these bytes, or as many of them as it wants; what it printed, and its exit code.
    pub fn fed(&self, line: &str, bytes: &[u8]) -> (String, String, i32) {
        let mut command = self.command(line);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program runs");
        let mut stdin = child.stdin.take().expect("piped");
        let bytes = bytes.to_vec();
        // Who refuses does not read to the end.
        let feeder = std::thread::spawn(move || drop(stdin.write_all(&bytes)));
        let Output { status, stdout, stderr } = child.wait_with_output().expect("it ends");
        feeder.join().expect("no panic");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (text(stdout), text(stderr), status.code().unwrap_or(-1))
    }

    /// Runs a command line that must succeed; gives what it printed.
    pub fn ok(&self, line: &str) -> String {
        let printed = self.run(line);
        assert_eq!((printed.code, printed.err.as_str()), (0, ""), "{line}");
        printed.out
    }

    /// Runs a command line that must fail with this code; gives its standard error.
    pub fn fails(&self, line: &str, code: i32) -> String {
        let printed = self.run(line);
        assert_eq!((printed.code, printed.out.as_str()), (code, ""), "{line}: {}", printed.err);
        printed.err
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(stopper) = &self.stopper {
            stopper.notify_one();
        }
    }
}
