//! Disks that simulations are asked to have.

use bench::device::ModelFile;
use bench::slog::Processors;
use bench::{Refusal, failed};
use sim::DiskModel;
use std::path::Path;

/// A model with a name, or one that was measured.
pub struct Model {
    /// How long it takes.
    pub disk: DiskModel,
    /// Who computed where it was measured.
    pub machine: Option<Processors>,
}

impl Model {
    /// That of a name, or of a file of `bench device --json`; `flag` asks for it.
    pub fn find(name: &str, flag: &str) -> Result<Self, Refusal> {
        if let Some(disk) = DiskModel::named(name) {
            return Ok(Self { disk, machine: None });
        }
        if !Path::new(name).exists() {
            return Err(Refusal::Usage(format!("bad model '{name}' for --{flag}")));
        }
        let measured = ModelFile::load(Path::new(name)).map_err(failed)?;
        Ok(Self { disk: measured.disk(), machine: Some(measured.machine()) })
    }
}
