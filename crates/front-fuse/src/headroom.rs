//! Whether the process can bear one mount more.
//!
//! A process that runs out of threads, descriptors or memory mappings in the middle of its work ends, and with
//! it all that it has mounted. So a mount is refused while there is still room for the work at hand.

use std::fs::{read_dir, read_to_string};
use std::path::{Path, PathBuf};

use engine::Short;
use rustix::process::{Resource, getrlimit};

/// Descriptors left for devices, rings and commands.
const SPARE_DESCRIPTORS: u64 = 96;
/// Threads left for requests and commands.
const SPARE_THREADS: u64 = 24;
/// Memory mappings left: a thread takes up to four.
const SPARE_MAPS: u64 = 4096;

/// # Errors
/// What is short, and how to have more.
pub(crate) fn check() -> Result<(), Short> {
    descriptors()?;
    threads()?;
    memory_maps()
}

fn enough(
    what: &'static str,
    used: u64,
    limit: Option<u64>,
    spare: u64,
    remedy: &'static str,
) -> Result<(), Short> {
    match limit {
        Some(limit) if used.saturating_add(spare) > limit => Err(Short { what, used, limit, remedy }),
        _ => Ok(()),
    }
}

fn descriptors() -> Result<(), Short> {
    let used = read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64);
    let limit = getrlimit(Resource::Nofile).current;
    enough("file descriptors", used, limit, SPARE_DESCRIPTORS, "raise the daemon's 'ulimit -n'")
}

fn threads() -> Result<(), Short> {
    let used = read_dir("/proc/self/task").map_or(0, |entries| entries.count() as u64);
    // Root's threads are not counted against it.
    let limit = getrlimit(Resource::Nproc).current.filter(|_| !rustix::process::geteuid().is_root());
    enough("threads", used, limit, SPARE_THREADS, "raise the daemon's 'ulimit -u'")?;
    for group in control_groups() {
        let number = |file: &str| read_to_string(group.join(file)).ok()?.trim().parse().ok();
        // "max" is no number, and no limit.
        let (used, limit) = (number("pids.current").unwrap_or(0), number("pids.max"));
        enough("threads", used, limit, SPARE_THREADS, "raise 'pids.max' of the daemon's control group")?;
    }
    Ok(())
}

/// The control groups that count this process's threads, the innermost first.
fn control_groups() -> Vec<PathBuf> {
    let lines = read_to_string("/proc/self/cgroup").unwrap_or_default();
    let Some((root, path)) = lines.lines().find_map(pids_group) else { return Vec::new() };
    let inner = root.join(path.trim_start_matches('/'));
    inner.ancestors().take_while(|dir| dir.starts_with(root)).map(Path::to_owned).collect()
}

/// Of a line of `/proc/self/cgroup`: where the hierarchy is mounted, and the path in it.
fn pids_group(line: &str) -> Option<(&'static Path, &str)> {
    let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
    let has_pids = controllers.split(',').any(|name| name == "pids");
    match controllers {
        "" if Path::new("/sys/fs/cgroup/cgroup.controllers").exists() => {
            Some((Path::new("/sys/fs/cgroup"), path))
        }
        _ if has_pids => Some((Path::new("/sys/fs/cgroup/pids"), path)),
        _ => None,
    }
}

fn memory_maps() -> Result<(), Short> {
    let limit = read_to_string("/proc/sys/vm/max_map_count").ok().and_then(|text| text.trim().parse().ok());
    // Only a process with many threads comes near: a thread takes two to four.
    let used = read_to_string("/proc/self/maps").map_or(0, |maps| maps.lines().count() as u64);
    enough("memory mappings", used, limit, SPARE_MAPS, "raise 'vm.max_map_count'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_refused_before_it_is_reached() {
        assert!(enough("threads", 10, None, 24, "").is_ok());
        assert!(enough("threads", 10, Some(34), 24, "").is_ok());
        let short = enough("threads", 11, Some(34), 24, "raise it").expect_err("too near");
        assert_eq!(short.to_string(), "not enough threads left: 11 of 34 are used; raise it");
    }

    #[test]
    fn this_process_has_room() {
        check().expect("room for a mount");
    }
}
