//! What there is to run: the test programs that cargo builds, and the tests that each of them lists.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::case::Case;
use super::namespace;

/// The case that is not a test of a program, but all examples in the documentation.
const DOCS: &str = "examples in documentation";

/// A test program, as cargo tells of it.
pub struct Program {
    /// Its package without the prefix that they all have, and its own name if it is not the package's library.
    name: String,
    path: PathBuf,
    /// The directory of its package, in which `cargo test` would start it.
    dir: PathBuf,
}

/// Builds every test program, and gives all of their tests.
pub fn cases() -> Result<Vec<Case>, String> {
    let mut cases = vec![docs()];
    let mut cargo = Command::new(env!("CARGO"));
    // Not the examples: nothing runs them, and clippy looks at them.
    cargo.args(["test", "--workspace", "--locked", "--tests", "--no-run"]);
    for program in built(&mut cargo)? {
        cases.extend(program.cases()?);
    }
    Ok(cases)
}

fn docs() -> Case {
    let mut command = Command::new(env!("CARGO"));
    command.args(["test", "--workspace", "--locked", "--no-fail-fast", "--doc"]);
    Case::new(DOCS.to_owned(), command)
}

/// Runs `cargo`, a command that builds tests and runs none, and returns the test programs that it built.
pub fn built(cargo: &mut Command) -> Result<Vec<Program>, String> {
    cargo.arg("--message-format=json-render-diagnostics");
    let mut cargo =
        cargo.stdout(Stdio::piped()).spawn().map_err(|error| format!("cargo cannot be run: {error}"))?;
    let told = cargo.stdout.take().ok_or("cargo tells nothing")?;
    let mut programs = Vec::new();
    for line in BufReader::new(told).lines() {
        let line = line.map_err(|error| format!("cargo's messages cannot be read: {error}"))?;
        programs.extend(serde_json::from_str(&line).ok().and_then(|message| Program::of_message(&message)));
    }
    let status = cargo.wait().map_err(|error| format!("cargo is lost: {error}"))?;
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    if status.success() { Ok(programs) } else { Err("the tests cannot be built".to_owned()) }
}

impl Program {
    /// `None` for what is no test program.
    fn of_message(message: &Value) -> Option<Self> {
        let is_test = message["profile"]["test"] == true && message["reason"] == "compiler-artifact";
        let path = message["executable"].as_str().filter(|_| is_test)?;
        let dir = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
        let package = dir.file_name()?.to_str()?;
        let kind = message["target"]["kind"][0].as_str()?;
        let name = match (kind, message["target"]["name"].as_str()?) {
            ("test", name) => format!("{package}/{name}"),
            ("bin", name) => format!("{package}/bin/{name}"),
            _ => package.to_owned(),
        };
        Some(Self { name, path: path.into(), dir })
    }

    /// The directory of its package, and the name of the target if that is not the library.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All tests in whose name `filter` is, in one process with these variables.
    pub fn filtered(&self, filter: &str, env: &[(&str, &str)]) -> Case {
        let mut command = self.command(&[filter, "--nocapture"]);
        command.envs(env.iter().copied());
        Case::new(format!("{} {filter}", self.name), command)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.path);
        command.args(args).current_dir(&self.dir).env("CARGO_MANIFEST_DIR", &self.dir);
        command
    }

    fn cases(&self) -> Result<Vec<Case>, String> {
        let listed = self.command(&["--list", "--format", "terse"]).output();
        let listed = listed.map_err(|error| format!("{} cannot be run: {error}", self.path.display()))?;
        if !listed.status.success() {
            return Err(format!("{} does not list its tests: {}", self.name, listed.status));
        }
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        listed.lines().map(|line| self.case(line)).collect()
    }

    fn case(&self, line: &str) -> Result<Case, String> {
        let test = line.strip_suffix(": test");
        let test = test.ok_or_else(|| format!("{} lists something else than a test: {line}", self.name))?;
        let command = self.command(&["--exact", test, "--nocapture"]);
        let command = namespace::enclose(command);
        Ok(Case::new(format!("{} {test}", self.name), command).of_program())
    }
}
