//! What a pool is made of.

use std::path::{Path, PathBuf};

use vdev::NewVdev;

/// Transaction group in which a new pool's vdevs are born.
const FIRST_TXG: u64 = 4;

/// A vdev to be made: a device, or several that stand in for each other.
#[derive(Clone, Debug)]
pub struct Vdev {
    paths: Vec<PathBuf>,
    /// Devices that may be lost, of a raidz; 0 for anything else.
    parity: u8,
    is_log: bool,
}

impl Vdev {
    /// A file or block device by itself.
    #[must_use]
    pub fn disk(path: impl AsRef<Path>) -> Self {
        Self { paths: vec![path.as_ref().to_owned()], parity: 0, is_log: false }
    }

    /// Several that all have the same bytes.
    #[must_use]
    pub fn mirror(paths: &[impl AsRef<Path>]) -> Self {
        let paths = paths.iter().map(|path| path.as_ref().to_owned()).collect();
        Self { paths, parity: 0, is_log: false }
    }

    /// Several of which any `parity` (1 to 3) may be lost.
    #[must_use]
    pub fn raidz(parity: u8, paths: &[impl AsRef<Path>]) -> Self {
        Self { parity, ..Self::mirror(paths) }
    }

    /// The same, for the intent log alone.
    #[must_use]
    pub fn as_log(mut self) -> Self {
        self.is_log = true;
        self
    }

    pub(crate) fn spec(&self) -> NewVdev {
        NewVdev {
            paths: self.paths.clone(),
            parity: self.parity,
            ashift: None,
            bias: vdev::Bias::log(self.is_log),
            create_txg: FIRST_TXG,
        }
    }
}
