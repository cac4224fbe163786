//! Which tests have daemons that hold each pool in a process of its own, without rights. Nearly all tests of commands
//! pass with both kinds of daemon; each test is run with one of them.

use std::process::Command;

/// The variable by which a daemon is of that kind.
const VARIABLE: &str = "SAWMILL_PROCESS_PER_POOL";

/// The programs of these tests: the tests of pools, devices and streams, where a process asks the daemon for most.
const PROCESS_PER_POOL: [&str; 9] = [
    "cli/adding",
    "cli/admin",
    "cli/elsewhere",
    "cli/removal",
    "cli/split",
    "cli/streams",
    "cli/sweeps",
    "cli/vdev_props",
    "cli/volumes",
];

/// Has the daemons of a test be of the kind that the test wants.
pub fn choose(name: &str, command: &mut Command) {
    let program = name.split(' ').next().unwrap_or_default();
    if PROCESS_PER_POOL.contains(&program) {
        command.env(VARIABLE, "1");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_choose_and_others_do_not() {
        let of = |name: &str| {
            let mut command = Command::new("true");
            choose(name, &mut command);
            command.get_envs().any(|(variable, _)| variable == VARIABLE)
        };
        assert!(of("cli/streams a_stream"));
        assert!(!of("cli/streams_of_others a_stream") && !of("cli/daemon cli/streams"));
    }
}
