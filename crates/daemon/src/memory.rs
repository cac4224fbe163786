//! How much memory this process takes of what there is.

use device::RealMachine;
use engine::memory::{bytes, part};

/// Says how much memory the daemon may take, where its command line does not.
pub(crate) const VARIABLE: &str = "SAWMILL_MEMORY";

/// What this process may take of the memory there is, unless it was told otherwise.
#[must_use]
pub fn default_bytes() -> u64 {
    let machine = RealMachine::default();
    part(machine.memory_bytes(), machine.limit_bytes())
}

/// What the daemon may take: as the command line says (`--memory`), or the environment, or what suits the
/// memory there is.
///
/// # Errors
/// The word that is no size.
pub fn wanted_bytes(said: Option<&str>) -> Result<u64, String> {
    let of_environment = || std::env::var(VARIABLE).ok();
    match said.map(str::to_owned).or_else(of_environment) {
        None => Ok(default_bytes()),
        Some(word) => bytes(&word).ok_or(word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_counts() {
        assert_eq!(wanted_bytes(Some("400m")), Ok(400 << 20));
        assert_eq!(wanted_bytes(Some("much")), Err("much".into()));
    }
}
