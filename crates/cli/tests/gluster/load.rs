//! fio on the volume: an image of a disk, written at random and read again at once.

use std::fmt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Duration;

use serde_json::Value;

use crate::shell::{kill_child, until};
use crate::volume::Volume;

/// The image's name.
pub const IMAGE: &str = "image";
const SIZE: &str = "--size=64m";
/// Every 8 KiB tell by themselves what they are and whether they are whole. Without `verify_fatal`, fio tells of what is
/// not and succeeds.
const SEALED: &[&str] = &["--verify=crc32c", "--verify_fatal=1"];
/// Longer than a test may take; it is stopped.
const SECONDS: &str = "--runtime=600";
/// Stable writes at least, or it does not count as a load.
const WRITES_MIN: u64 = 50;

/// What the writers saw.
pub struct Report {
    writes: u64,
    time: Duration,
    /// Of one write.
    pub longest: Duration,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} writes in {:.1?}, the longest took {:.1?}", self.writes, self.time, self.longest)
    }
}

fn fio(volume: &Volume, report: &str) -> Command {
    let mut command = volume.client.enter(&Command::new("fio"));
    command.args(["--name=image", SIZE, "--eta=never", "--output-format=json"]).args(SEALED);
    command.arg(format!("--filename={}", volume.root().join(IMAGE).display()));
    command.arg(format!("--output={}", volume.beside(report).display()));
    // It keeps its place in a file in the directory that it runs in, which is the root.
    command.arg(format!("--aux-path={}", volume.beside("").display()));
    command
}

/// Writes all of the image once.
pub fn lay_out(volume: &Volume) {
    let mut command = fio(volume, "layout");
    command.args(["--rw=write", "--bs=1m", "--verify_interval=8k", "--do_verify=0", "--end_fsync=1"]);
    assert!(command.status().expect("fio runs").success(), "the image is laid out");
}

/// Reads all of the image; what is wrong with it.
pub fn verify(volume: &Volume) -> Result<(), String> {
    let mut command = fio(volume, "verdict");
    command.args(["--rw=read", "--bs=1m", "--verify_interval=8k"]);
    let output = command.output().map_err(|error| error.to_string())?;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() && told.is_empty() {
        Ok(())
    } else {
        Err(format!("{}: {told}", output.status))
    }
}

/// Four stable writes at a time, as a virtual machine has them.
pub struct Load {
    child: Child,
    /// A file that stops it.
    trigger: PathBuf,
    report: PathBuf,
}

impl Load {
    pub fn start(volume: &Volume) -> Self {
        let mut command = fio(volume, "load");
        let (trigger, report) = (volume.beside("trigger"), volume.beside("load"));
        command.args(["--rw=randwrite", "--bs=8k", "--ioengine=libaio", "--iodepth=4", "--direct=1"]);
        command.args(["--sync=dsync", "--verify_backlog=64", "--time_based", SECONDS]);
        command.arg(format!("--trigger-file={}", trigger.display()));
        Self { child: command.spawn().expect("fio runs"), trigger, report }
    }

    /// Stops it; no write must have failed, and nothing been read that was not written.
    pub fn stop(mut self) -> Report {
        assert_eq!(self.child.try_wait().expect("it is ours"), None, "it has been at it until now");
        std::fs::write(&self.trigger, "").expect("written");
        let mut ended = None;
        until(
            || {
                ended = self.child.try_wait().expect("it is ours");
                ended.is_some()
            },
            "fio ends",
        );
        let text = std::fs::read_to_string(&self.report).expect("its report");
        assert!(ended.is_some_and(|status| status.success()), "{ended:?}: {text}");
        // A line about the trigger comes before.
        let json = text.find('{').map_or("", |at| &text[at..]);
        let value: Value = serde_json::from_str(json).unwrap_or_else(|e| panic!("{e}: {text}"));
        report(&value["jobs"][0])
    }
}

fn report(job: &Value) -> Report {
    assert_eq!(job["error"], 0, "{job}");
    // Each is read again and compared.
    let (writes, reads) = (number(&job["write"]["total_ios"]), number(&job["read"]["total_ios"]));
    assert!(writes >= WRITES_MIN && reads >= WRITES_MIN, "{writes} writes, {reads} reads");
    let longest = Duration::from_nanos(number(&job["write"]["lat_ns"]["max"]));
    Report { writes, time: Duration::from_millis(number(&job["job_runtime"])), longest }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("a number: {value}"))
}

impl Drop for Load {
    fn drop(&mut self) {
        kill_child(&mut self.child);
    }
}
