//! A directory for devices and files, and the real commands.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

pub struct World {
    directory: TempDir,
}

impl World {
    pub fn new() -> Self {
        Self { directory: TempDir::new().expect("a directory") }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// A sparse file.
    pub fn file(&self, name: &str, bytes: u64) -> PathBuf {
        let path = self.path().join(name);
        std::fs::File::create(&path).and_then(|file| file.set_len(bytes)).expect("a file");
        path
    }

    /// The program with these words; `W` stands for this directory, `G` for the devices'.
    pub fn command(&self, devices: &Path, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sawmill"));
        let places = [("W/", self.path()), ("G/", devices)];
        let word = |word: &str| match places.iter().find(|(short, _)| word.starts_with(short)) {
            Some((short, place)) => format!("{}/{}", place.display(), &word[short.len()..]),
            None => word.to_owned(),
        };
        command.args(line.split_whitespace().map(word)).env("TZ", "UTC").env("SAWMILL_RUN", self.path());
        command
    }

    /// What a command line prints, and its exit code. This directory reads `W` in errors.
    pub fn run(&self, devices: &Path, line: &str) -> (String, String, i32) {
        let Output { status, stdout, stderr } = self.command(devices, line).output().expect("it runs");
        let err = String::from_utf8_lossy(&stderr).replace(&self.path().display().to_string(), "W");
        (String::from_utf8_lossy(&stdout).into_owned(), err, status.code().unwrap_or(-1))
    }

    /// Runs a command line that must succeed; gives what it printed.
    pub fn ok(&self, devices: &Path, line: &str) -> String {
        let (out, err, code) = self.run(devices, line);
        assert_eq!((code, err.as_str()), (0, ""), "{line}");
        out
    }

    /// Runs a command line that must fail with this code; gives its standard error.
    pub fn fails(&self, devices: &Path, line: &str, code: i32) -> String {
        let (out, err, found) = self.run(devices, line);
        assert_eq!(found, code, "{line}: {out}{err}");
        err
    }

    /// SHA-256 of what a command that must succeed prints.
    pub fn sha256_of(&self, devices: &Path, line: &str) -> String {
        let mut child = self.command(devices, line).stdout(Stdio::piped()).spawn().expect("it runs");
        let pipe = child.stdout.take().expect("piped");
        let output = Command::new("sha256sum").stdin(pipe).output().expect("sha256sum runs");
        assert!(child.wait().expect("it ends").success(), "{line}");
        digest(&output)
    }
}

/// SHA-256 of a file.
pub fn sha256(path: &Path) -> String {
    digest(&Command::new("sha256sum").arg(path).output().expect("sha256sum runs"))
}

fn digest(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).split_whitespace().next().unwrap_or_default().to_owned()
}
