//! What a pool is made of.

use std::path::{Path, PathBuf};

use control::{Failure, Layout, VdevClass, VdevSpec};

use crate::pool::text;

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

    pub(crate) fn spec(&self) -> Result<VdevSpec, Failure> {
        let layout = match (self.parity, self.paths.len()) {
            (0, 1) => Layout::Single,
            (0, _) => Layout::Mirror,
            (parity, _) => Layout::Raidz { parity },
        };
        let class = if self.is_log { VdevClass::Log } else { VdevClass::Normal };
        let devices = self.paths.iter().map(|path| text(path)).collect::<Result<_, _>>()?;
        Ok(VdevSpec { class, layout, devices })
    }
}
