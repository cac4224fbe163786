//! Which tests have daemons that hold all pools in one process. Nearly all tests of commands pass with both kinds of
//! daemon; each test is run with one of them.

use std::process::Command;

/// The variable by which a daemon is of that kind.
const VARIABLE: &str = "SAWMILL_ONE_PROCESS";

/// The programs of these tests.
const ONE_PROCESS: [&str; 4] = ["cli/adding", "cli/removal", "cli/sweeps", "cli/vdev_props"];

/// Has the daemons of a test be of the kind that the test wants.
pub fn choose(name: &str, command: &mut Command) {
    let program = name.split(' ').next().unwrap_or_default();
    if ONE_PROCESS.contains(&program) {
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
        assert!(of("cli/removal a_vdev"));
        assert!(!of("cli/removal_of_others a_vdev") && !of("cli/daemon cli/removal"));
    }
}
