//! Pools whose opening ended the daemon.
//!
//! ```text
//!  start ─► noted in the list of pools: being opened ─► opened and mounted, or refused ─► the note goes
//!                        │ the process ends
//!                        ▼
//!              next start: by a panic, or for the fourth time since the host was booted?
//!                        │ yes                                   │ no (a kill, a power cut)
//!                        ▼                                       ▼
//!           left out until somebody imports the pool         opened again
//! ```
//! Without the note, a pool that ends the daemon would end every daemon at its start, and no other pool
//! could be used. (test: `a_pool_that_ends_the_daemon_keeps_no_other_pool_from_use`)

use std::path::Path;

use control::{Failure, FailureKind};
use env::Machine;
use serde::{Deserialize, Serialize};

use crate::cache::CachedPool;

/// After so many attempts of one boot that ended with the process and without a panic, the pool is left
/// out. Most of these ends are kills, which say nothing about the pool. systemd gives up after five starts.
const ATTEMPTS_MAX: u32 = 4;

/// An attempt to open a pool that was begun by a daemon at its start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Opening {
    /// The boot of this host in which the attempt was made. It is empty if the boot is not known.
    pub boot: String,
    /// Attempts in this boot that did not end, this attempt among them.
    pub attempts: u32,
    /// The pool is opened by an import only.
    pub is_left_out: bool,
    /// The words of the panic that ended the attempt.
    pub panic: Option<String>,
}

/// Returns the identifier that Linux gives to the boot of a host, and an empty text if there is none.
pub(crate) fn boot_of(machine: &dyn Machine) -> String {
    let read = machine.read(Path::new("/proc/sys/kernel/random/boot_id")).unwrap_or_default();
    String::from_utf8_lossy(&read).trim().to_owned()
}

impl CachedPool {
    /// Decides whether the pool is left out. `panic` has the words of the last daemon if a panic ended that
    /// daemon.
    pub(crate) fn judge(&mut self, boot: &str, panic: Option<&str>) {
        let Some(opening) = self.opening.as_mut().filter(|opening| !opening.is_left_out) else { return };
        let is_often = opening.is_of(boot) && opening.attempts >= ATTEMPTS_MAX;
        opening.is_left_out = panic.is_some() || is_often;
        opening.panic = panic.map(str::to_owned);
    }

    /// Notes an attempt that begins.
    pub(crate) fn begin_opening(&mut self, boot: &str) {
        let before = self.opening.take().filter(|before| before.is_of(boot));
        let attempts = before.map_or(0, |before| before.attempts) + 1;
        self.opening = Some(Opening { boot: boot.to_owned(), attempts, ..Opening::default() });
    }

    /// Returns why the pool is left out, and the command that tries again.
    pub(crate) fn why_left_out(&self) -> Option<Failure> {
        let opening = self.opening.as_ref().filter(|opening| opening.is_left_out)?;
        let reason = "the daemon ended while it opened this pool";
        let failure = Failure::cannot(FailureKind::Unavailable, "open", &self.name, reason);
        let failure = opening.panic.iter().fold(failure, |failure, words| failure.and(words));
        Some(failure.and(format!("use '{}' to try again", self.import_command())))
    }

    fn import_command(&self) -> String {
        let is_found_by_default = |device: &String| device.starts_with("/dev/");
        let others = self.devices.iter().filter(|device| !is_found_by_default(device));
        let others: String = others.map(|device| format!("-d {device} ")).collect();
        format!("zpool import {others}{}", self.name)
    }
}

impl Opening {
    fn is_of(&self, boot: &str) -> bool {
        !boot.is_empty() && self.boot == boot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pool after this many starts that ended while the pool was being opened.
    fn after(deaths: &[(&str, Option<&str>)]) -> CachedPool {
        let mut pool = CachedPool {
            name: "p".into(),
            devices: vec!["/dev/a".into(), "/img".into()],
            ..CachedPool::default()
        };
        for (boot, panic) in deaths {
            pool.begin_opening(boot);
            pool.judge(boot, *panic);
        }
        pool
    }

    #[test]
    fn a_pool_is_left_out_after_a_panic_or_four_deaths_in_one_boot() {
        let is_left_out = |deaths: &[(&str, Option<&str>)]| after(deaths).why_left_out().is_some();
        assert!(!is_left_out(&[]));
        assert!(!is_left_out(&[("1", None)]));
        assert!(is_left_out(&[("1", Some("panicked"))]));
        assert!(!is_left_out(&[("1", None); 3]));
        assert!(is_left_out(&[("1", None); 4]));
        assert!(!is_left_out(&["1", "2", "3", "4"].map(|boot| (boot, None))), "the power went four times");
        assert!(!is_left_out(&[("", None); 4]), "each may have been a boot of its own");
    }

    #[test]
    fn the_reason_names_the_panic_and_the_command() {
        let why = after(&[("1", Some("panicked at x.rs:7"))]).why_left_out().expect("it is left out");
        let words = [
            "cannot open 'p': the daemon ended while it opened this pool",
            "panicked at x.rs:7",
            "use 'zpool import -d /img p' to try again",
        ];
        assert_eq!(why.stderr, words);
    }

    #[test]
    fn a_pool_that_is_left_out_stays_out() {
        let mut pool = after(&[("1", Some("panicked"))]);
        pool.judge("2", None);
        assert!(pool.why_left_out().is_some_and(|why| why.stderr.contains(&"panicked".to_owned())));
    }
}
