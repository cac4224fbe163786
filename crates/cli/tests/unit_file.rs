//! The systemd unit of the daemon: which settings it has, and which would break mounts or disks.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;

const UNIT: &str = include_str!("../../../packaging/systemd/sawmill.service");

/// Settings with which systemd gives a unit a mount or user namespace of its own: the host would not
/// see what the daemon mounts.
const SEPARATE_MOUNTS: [&str; 36] = [
    "BindPaths",
    "BindReadOnlyPaths",
    "DynamicUser",
    "ExecPaths",
    "ExtensionDirectories",
    "ExtensionImages",
    "InaccessiblePaths",
    "IPCNamespacePath",
    "LogNamespace",
    "MountFlags",
    "MountImages",
    "NetworkNamespacePath",
    "NoExecPaths",
    "PrivateBPF",
    "PrivateDevices",
    "PrivateIPC",
    "PrivateMounts",
    "PrivateNetwork",
    "PrivatePIDs",
    "PrivateTmp",
    "PrivateUsers",
    "ProcSubset",
    "ProtectControlGroups",
    "ProtectHome",
    "ProtectKernelLogs",
    "ProtectKernelModules",
    "ProtectKernelTunables",
    "ProtectProc",
    "ProtectSystem",
    "ReadOnlyPaths",
    "ReadWritePaths",
    "RootDirectory",
    "RootImage",
    "TemporaryFileSystem",
    "MountAPIVFS",
    "JoinsNamespaceOf",
];

/// Settings with which only listed devices can be opened.
const CLOSED_DEVICES: [&str; 3] = ["DeviceAllow", "DevicePolicy", "ProtectClock"];

fn settings() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = UNIT.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once('='))
}

/// All words of a setting that may be given several times.
fn words(name: &str) -> BTreeSet<&'static str> {
    settings().filter(|(found, _)| *found == name).flat_map(|(_, value)| value.split_whitespace()).collect()
}

#[test]
fn the_host_sees_what_the_daemon_mounts_and_the_daemon_reaches_every_disk() {
    let breaks = |(name, _): &(&str, &str)| SEPARATE_MOUNTS.contains(name) || CLOSED_DEVICES.contains(name);
    let found: Vec<_> = settings().filter(breaks).collect();
    assert!(found.is_empty(), "{found:?}");
    for setting in &SEPARATE_MOUNTS[..34] {
        let is_explained = UNIT.lines().any(|line| line.starts_with("#   ") && line.contains(setting));
        assert!(is_explained, "the unit does not say that {setting} is not to be used");
    }
}

#[test]
fn the_daemon_is_as_confined_as_mounts_and_disks_allow() {
    for setting in [
        ("NoNewPrivileges", "yes"),
        ("ProtectHostname", "yes"),
        ("RestrictNamespaces", "net ipc"),
        ("RestrictRealtime", "yes"),
        ("RestrictSUIDSGID", "yes"),
        ("LockPersonality", "yes"),
        ("MemoryDenyWriteExecute", "yes"),
        ("SystemCallArchitectures", "native"),
        ("RestrictAddressFamilies", "AF_UNIX AF_INET AF_INET6"),
        ("UMask", "0022"),
        ("LimitCORE", "0"),
    ] {
        assert!(settings().any(|found| found == setting), "{setting:?}");
    }
    let capabilities = words("CapabilityBoundingSet");
    // mkdir in .zfs/snapshot reads /proc/PID/ns/user of root's shell, which has more capabilities.
    for needed in ["CAP_SYS_ADMIN", "CAP_SYS_PTRACE", "CAP_DAC_OVERRIDE", "CAP_DAC_READ_SEARCH"] {
        assert!(capabilities.contains(needed), "{needed}");
    }
    for dropped in ["CAP_SYS_MODULE", "CAP_SYS_TIME", "CAP_SYSLOG", "CAP_SYS_RAWIO", "CAP_MKNOD"] {
        assert!(!capabilities.contains(dropped), "{dropped}");
    }
}

#[test]
fn a_system_call_that_is_not_listed_does_not_kill_the_daemon() {
    assert!(settings().any(|found| found == ("SystemCallErrorNumber", "ENOSYS")));
    let calls = words("SystemCallFilter");
    for needed in ["@system-service", "@aio", "@mount", "open_by_handle_at"] {
        assert!(calls.contains(needed), "{needed}");
    }
}

/// Without these, no user could choose a mount point, and no pool could have a process of its own.
#[test]
fn rights_can_be_given_up() {
    let capabilities = words("CapabilityBoundingSet");
    assert!(["CAP_SETUID", "CAP_SETGID", "CAP_KILL"].iter().all(|needed| capabilities.contains(needed)));
    // systemd heeds the lines in their order.
    let filters = || settings().filter(|(name, _)| *name == "SystemCallFilter").map(|(_, calls)| calls);
    let after_the_last_refusal: BTreeSet<_> = filters()
        .skip_while(|calls| !calls.starts_with('~'))
        .skip(1)
        .flat_map(str::split_whitespace)
        .collect();
    let user = ["setgroups", "setresgid", "setresuid", "capset"];
    let process =
        ["unshare", "seccomp", "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"];
    for needed in user.iter().chain(&process) {
        assert!(after_the_last_refusal.contains(needed), "{needed}");
    }
    assert!(filters().any(|calls| calls.starts_with('~') && calls.contains("@setuid")));
}
