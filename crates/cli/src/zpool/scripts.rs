//! `-c SCRIPT[,SCRIPT]...` of `zpool status` and `zpool iostat`: programs of the user's, run for each leaf by the command
//! itself, and what they say as columns.
//!
//! ```text
//!   ZPOOL_SCRIPTS_PATH, or ~/.zpool.d:/etc/zfs/zpool.d ─► the first SCRIPT in it that can be run
//!       VDEV_PATH, VDEV_UPATH, VDEV_ENC_SYSFS_PATH ─► SCRIPT ─► "column=value" lines ─► columns
//! ```
//! Nothing is run for root who did not say `ZPOOL_SCRIPTS_AS_ROOT`: who may write a script must not become root by it.

use crate::args::Args;
use crate::environment::is_set;
use crate::session::{Session, Stop};
use crate::view::scripts::{Said, ScriptColumns};
use control::{Failure, FailureKind, PoolInfo, VdevInfo};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SYSTEM_SCRIPTS: &str = "/etc/zfs/zpool.d";
/// Leaves whose scripts run at the same time, for each processor.
const AT_ONCE: usize = 5;

/// What follows from `-c`.
pub enum Scripts {
    /// It was not given.
    None,
    /// These are to be run.
    Run(Vec<String>),
    /// It was given without a script, and those there are were listed.
    Listed,
}

impl Scripts {
    /// Reads `-c`, where it may be used.
    ///
    /// # Errors
    /// Where it may not.
    pub fn take(session: &mut Session, args: &Args, command: &str) -> Result<Self, Stop> {
        if !args.has('c') {
            return Ok(Self::None);
        }
        match args.values('c').collect::<Vec<_>>().as_slice() {
            [] => {
                list(session, command)?;
                Ok(Self::Listed)
            }
            [scripts] => {
                check_allowed()?;
                Ok(Self::Run(scripts.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()))
            }
            _ => refuse("Can't set -c flag twice"),
        }
    }

    /// What they say of the leaves of these pools that are `meant`.
    pub fn columns(
        &self,
        pools: &[&PoolInfo],
        is_meant: &dyn Fn(&VdevInfo) -> bool,
    ) -> Option<ScriptColumns> {
        let Self::Run(names) = self else { return None };
        let mut leaves: Vec<(String, String)> = Vec::new();
        for pool in pools {
            let all = pool.root.leaves().chain(&pool.caches).chain(&pool.spares);
            let paths = all.filter(|leaf| is_meant(leaf)).filter_map(|leaf| leaf.path.clone());
            for leaf in paths.map(|path| (pool.name.clone(), path)) {
                // A spare at work is shown twice.
                if !leaves.contains(&leaf) {
                    leaves.push(leaf);
                }
            }
        }
        let programs: Vec<PathBuf> = names.iter().filter_map(|name| find(name)).collect();
        Some(ScriptColumns::new(said_of_all(&programs, leaves)))
    }
}

fn said_of_all(programs: &[PathBuf], leaves: Vec<(String, String)>) -> Vec<((String, String), Said)> {
    let at_once = AT_ONCE * std::thread::available_parallelism().map_or(1, usize::from);
    let mut said = Vec::with_capacity(leaves.len());
    for some in leaves.chunks(at_once) {
        std::thread::scope(|scope| {
            let ask = |leaf: &(String, String)| {
                let path = leaf.1.clone();
                scope.spawn(move || ask(programs, &path))
            };
            let asked: Vec<_> = some.iter().map(ask).collect();
            let told = asked.into_iter().map(|thread| thread.join().unwrap_or_default());
            said.extend(some.iter().cloned().zip(told));
        });
    }
    said
}

/// What the scripts say of one leaf.
fn ask(programs: &[PathBuf], path: &str) -> Said {
    let mut said = Said::default();
    for program in programs {
        let mut command = Command::new(program);
        // Nothing of the caller's surroundings but what OpenZFS hands on.
        command.env_clear().env("PATH", "/bin:/sbin:/usr/bin:/usr/sbin").env("VDEV_PATH", path);
        command.env("VDEV_UPATH", underlying(path));
        enclosure(path).into_iter().for_each(|place| _ = command.env("VDEV_ENC_SYSFS_PATH", place));
        if let Some(text) = output(&mut command) {
            said.take(&text);
        }
    }
    said
}

fn output(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The device that a name is for.
fn underlying(path: &str) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| PathBuf::from(path))
}

/// Where the system shows the slot that a disk is in, if it does.
fn enclosure(path: &str) -> Option<PathBuf> {
    let device = underlying(path);
    let device = Path::new("/sys/class/block").join(device.file_name()?).join("device");
    let entries = std::fs::read_dir(device).ok()?.filter_map(Result::ok);
    let mut slots =
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("enclosure_device"));
    slots.next().and_then(|entry| std::fs::canonicalize(entry.path()).ok())
}

/// The directories that scripts are looked for in.
fn places() -> Vec<PathBuf> {
    let path = std::env::var("ZPOOL_SCRIPTS_PATH").unwrap_or_else(|_| match std::env::var("HOME") {
        Ok(home) => format!("{home}/.zpool.d:{SYSTEM_SCRIPTS}"),
        Err(_) => SYSTEM_SCRIPTS.to_owned(),
    });
    path.split(':').filter(|place| !place.is_empty()).map(PathBuf::from).collect()
}

fn find(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return None;
    }
    places().into_iter().map(|place| place.join(name)).find(|script| is_program(script))
}

fn is_program(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok() && path.is_file()
}

fn check_allowed() -> Result<(), Stop> {
    if std::env::var_os("ZPOOL_SCRIPTS_ENABLED").is_some() && !is_set("ZPOOL_SCRIPTS_ENABLED") {
        return refuse("Can't run -c, disabled by ZPOOL_SCRIPTS_ENABLED.");
    }
    let is_root = rustix::process::getuid().is_root() || rustix::process::geteuid().is_root();
    if is_root && !is_set("ZPOOL_SCRIPTS_AS_ROOT") {
        return refuse("Can't run -c with root privileges unless ZPOOL_SCRIPTS_AS_ROOT is set.");
    }
    Ok(())
}

fn refuse<T>(line: &str) -> Result<T, Stop> {
    Err(Failure::new(FailureKind::Denied, line).into())
}

/// All scripts there are, with what each says of itself.
fn list(session: &mut Session, command: &str) -> Result<(), Stop> {
    writeln!(session.out(), "Available 'zpool {command} -c' commands:")?;
    for place in places() {
        let entries = std::fs::read_dir(place).into_iter().flatten().filter_map(Result::ok);
        let mut scripts: Vec<PathBuf> =
            entries.map(|entry| entry.path()).filter(|path| is_program(path)).collect();
        scripts.sort();
        for script in scripts {
            let name = script.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let help = output(Command::new(&script).arg("-h")).unwrap_or_default();
            for line in help.lines().filter(|line| !line.trim().is_empty()) {
                writeln!(session.out(), "  {name:<14}  {line}")?;
            }
        }
    }
    Ok(())
}
