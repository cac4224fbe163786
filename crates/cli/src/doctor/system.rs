//! What the kernel, a container or a limit may keep from the program.

use super::Finding;
use device::{Options, RealEnv, RealMachine};
use engine::nice::bytes;
use rustix::process::{Resource, geteuid, getrlimit};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The first kernel with fsmount(2) and io_uring.
const KERNEL_MIN: (u32, u32) = (5, 4);
/// The number of CAP_SYS_ADMIN (capability.h).
const CAP_SYS_ADMIN: u32 = 21;
/// A mount takes a descriptor, and a device several.
const DESCRIPTORS_MIN: u64 = 4096;
/// Less memory than this leaves little for a cache.
const MEMORY_MIN_BYTES: u64 = 512 << 20;

pub fn findings() -> Vec<Finding> {
    vec![
        kernel(rustix::system::uname().release().to_string_lossy().as_ref()),
        fuse(&File::options().read(true).write(true).open("/dev/fuse")),
        mounting(),
        uring(RealEnv::new(Options::default()).uses_uring()),
        descriptors(getrlimit(Resource::Nofile).maximum),
        memory(),
        confinement(&fs::read_to_string("/sys/kernel/security/lsm").unwrap_or_default()),
    ]
}

fn kernel(release: &str) -> Finding {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let seen = format!("Linux {release}");
    match version >= KERNEL_MIN {
        true => Finding::good("kernel", seen),
        false => Finding::note("kernel", seen, "Linux 5.4 and later have faster ways to mount and to write."),
    }
}

fn fuse(opened: &io::Result<File>) -> Finding {
    let what = "/dev/fuse";
    match opened {
        Ok(_) => Finding::good(what, "can be opened"),
        Err(error) if error.kind() == ErrorKind::NotFound => Finding::bad(
            what,
            "is missing, so nothing can be mounted",
            "Start the container with --device /dev/fuse. On a host: modprobe fuse.",
        ),
        Err(error) => Finding::bad(
            what,
            format!("cannot be opened: {error}"),
            "Start the container with --device /dev/fuse, or as root: chmod 666 /dev/fuse.",
        ),
    }
}

fn mounting() -> Finding {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let helper =
        std::env::split_paths(&path).map(|dir| dir.join("fusermount3")).find(|file| is_set_user_id(file));
    way_to_mount(has_capability(&status, CAP_SYS_ADMIN), geteuid().is_root(), helper)
}

fn way_to_mount(may_mount: bool, is_root: bool, helper: Option<PathBuf>) -> Finding {
    let what = "mounts";
    match (may_mount, helper) {
        (true, _) => Finding::good(what, "this process may mount"),
        (false, Some(helper)) => Finding::good(what, format!("through {}", helper.display())),
        (false, None) if is_root => Finding::bad(
            what,
            "root of this container may not mount",
            "Start the container with --cap-add SYS_ADMIN (and --security-opt apparmor=unconfined where AppArmor is used).",
        ),
        (false, None) => Finding::bad(
            what,
            "users mount through fusermount3, which is not there",
            "Install the package fuse3.",
        ),
    }
}

fn is_set_user_id(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o4000 != 0)
}

/// True if the effective capabilities in the text of `/proc/PID/status` have this one.
fn has_capability(status: &str, number: u32) -> bool {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let set = line.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0);
    set >> number & 1 == 1
}

fn uring(is_there: bool) -> Finding {
    match is_there {
        true => Finding::good("io_uring", "is used for devices"),
        false => Finding::note(
            "io_uring",
            "is refused, so threads do the input and output, which is slower",
            "Set kernel.io_uring_disabled=0, and allow io_uring in the seccomp profile of the container.",
        ),
    }
}

fn descriptors(most: Option<u64>) -> Finding {
    match most {
        Some(most) if most < DESCRIPTORS_MIN => Finding::note(
            "descriptors",
            format!("a process may have {most}"),
            "Each mount takes one, each device several: raise 'ulimit -Hn'.",
        ),
        Some(most) => Finding::good("descriptors", format!("a process may have {most}")),
        None => Finding::good("descriptors", "a process may have any number"),
    }
}

fn memory() -> Finding {
    let machine = RealMachine::default();
    let part = ::daemon::memory::default_bytes();
    let (all, limit) = (machine.memory_bytes(), machine.limit_bytes());
    let seen =
        format!("{} of {}, of which the daemon takes {}", bytes(limit.min(all)), bytes(all), bytes(part));
    match limit.min(all) < MEMORY_MIN_BYTES {
        true => Finding::note(
            "memory",
            seen,
            "Raise the limit of the control group, or see sawmill-daemon(1), --memory.",
        ),
        false => Finding::good("memory", seen),
    }
}

fn confinement(modules: &str) -> Finding {
    match modules.split(',').any(|module| module.trim() == "landlock") {
        true => Finding::good("confinement", "processes of pools are kept from files (Landlock)"),
        false => Finding::note(
            "confinement",
            "without Landlock, a process of a pool can read files that everybody can read",
            "Start Linux with lsm=landlock,... on its command line.",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Grade;

    #[test]
    fn a_kernel_has_a_version() {
        for (release, grade) in [
            ("6.18.5", Grade::Good),
            ("5.4.0-1.el8", Grade::Good),
            ("5.3.18", Grade::Note),
            ("4.19.0-26-amd64", Grade::Note),
            ("", Grade::Note),
        ] {
            assert_eq!(kernel(release).grade, grade, "{release}");
        }
    }

    #[test]
    fn a_device_that_is_missing_is_not_one_that_is_forbidden() {
        let missing = fuse(&Err(ErrorKind::NotFound.into()));
        let forbidden = fuse(&Err(ErrorKind::PermissionDenied.into()));
        assert_eq!((missing.grade, forbidden.grade), (Grade::Bad, Grade::Bad));
        assert!(missing.remedy.is_some_and(|text| text.contains("modprobe")));
        assert!(forbidden.remedy.is_some_and(|text| text.contains("chmod")));
    }

    #[test]
    fn root_of_a_container_needs_a_capability_and_a_user_the_helper() {
        let status = "Name:\tx\nCapPrm:\t0000000000000000\nCapEff:\t0000000000200000\n";
        assert!(has_capability(status, CAP_SYS_ADMIN) && !has_capability(status, 20));
        assert!(!has_capability("", CAP_SYS_ADMIN));
        assert_eq!(way_to_mount(true, true, None).grade, Grade::Good);
        assert_eq!(way_to_mount(false, false, Some("/bin/fusermount3".into())).grade, Grade::Good);
        assert!(way_to_mount(false, true, None).remedy.is_some_and(|text| text.contains("SYS_ADMIN")));
        assert!(way_to_mount(false, false, None).remedy.is_some_and(|text| text.contains("fuse3")));
    }

    #[test]
    fn limits_and_modules_are_noted() {
        let grade = |most| descriptors(most).grade;
        assert_eq!(
            [grade(None), grade(Some(1024)), grade(Some(1 << 20))],
            [Grade::Good, Grade::Note, Grade::Good]
        );
        assert_eq!([uring(true).grade, uring(false).grade], [Grade::Good, Grade::Note]);
        assert_eq!(confinement("capability,landlock,yama\n").grade, Grade::Good);
        assert_eq!(confinement("capability,yama").grade, Grade::Note);
    }
}
