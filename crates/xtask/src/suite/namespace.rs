//! A mount namespace for each test, where the system allows one.
//!
//! Some tests make mount namespaces, and a new namespace has a copy of every mount. In one namespace, such a copy of the
//! mounts of another test would keep the pool of that test in use.

use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The program that makes the namespace, and then becomes the program of the test.
const PROGRAM: [&str; 4] = ["unshare", "--mount", "--propagation", "private"];

/// Returns a command that runs the program of `command` in a mount namespace of its own. Where the system allows no
/// namespace, it returns the command itself.
pub fn enclose(command: Command) -> Command {
    if !are_allowed() {
        return command;
    }
    let mut enclosed = Command::new(PROGRAM[0]);
    enclosed.args(&PROGRAM[1..]).arg("--").arg(command.get_program()).args(command.get_args());
    enclosed.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(dir) = command.get_current_dir() {
        enclosed.current_dir(dir);
    }
    enclosed
}

/// True if this process may make mount namespaces.
fn are_allowed() -> bool {
    static ALLOWED: OnceLock<bool> = OnceLock::new();
    *ALLOWED.get_or_init(|| {
        let mut probe = Command::new(PROGRAM[0]);
        probe
            .args(&PROGRAM[1..])
            .arg("true")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        probe.status().is_ok_and(|status| status.success())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_keeps_its_words_variables_and_directory() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo $WORD $1 $PWD", "sh", "two words"]).env("WORD", "one").current_dir("/");
        let output = enclose(command).output().expect("it runs");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "one two words /\n");
    }

    #[test]
    fn a_command_has_a_namespace_where_one_is_allowed() {
        let shown = |mut command: Command| command.output().expect("it runs").stdout;
        let readlink = || {
            let mut command = Command::new("readlink");
            command.arg("/proc/self/ns/mnt");
            command
        };
        let (own, its) = (shown(readlink()), shown(enclose(readlink())));
        assert!(own.starts_with(b"mnt:") && its.starts_with(b"mnt:"));
        assert_eq!(own != its, are_allowed());
    }
}
