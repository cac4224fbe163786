//! A golden pool, opened.

use std::path::PathBuf;
use std::sync::Arc;

use device::{Options, RealEnv};
use env::Env;
use oracle::golden;
use pool::{ImportSpec, Pool, PoolError, Tuning};

use crate::manifest::{self, Leave, Manifest, differences};
use crate::walk::{Walked, walk};

/// Differences shown at most.
const SHOWN_MAX: usize = 20;

pub struct World {
    pub name: String,
    pub env: Arc<RealEnv>,
    pub paths: Vec<PathBuf>,
    /// Do without a log device that is missing.
    pub without_logs: bool,
}

impl World {
    /// The images as they are, for reading only.
    pub fn golden(name: &str) -> Self {
        Self::of(name, golden::images(name))
    }

    /// These images of the pool.
    pub fn of(name: &str, paths: Vec<PathBuf>) -> Self {
        Self { name: name.to_owned(), env: RealEnv::new(Options::default()), paths, without_logs: false }
    }

    /// What the pool holds, as a text beside its images tells.
    pub fn told(&self, kind: &str) -> Manifest {
        manifest::parse(&golden::text(&self.name, kind))
    }

    pub fn import(&self, read_only: bool) -> Result<Arc<Pool>, PoolError> {
        let paths = self.paths.clone();
        // The rig's host had the dirty ones open when it was stopped.
        let force = true;
        let spec = ImportSpec {
            paths,
            name: Some("whirl".into()),
            read_only,
            force,
            without_logs: self.without_logs,
            ..ImportSpec::default()
        };
        let tuning = Tuning { cache_bytes: 64 << 20, ..Tuning::default() };
        self.env.block_on(Pool::import(Arc::clone(&self.env) as Arc<dyn Env>, &spec, tuning))
    }

    /// Imports for reading, reads everything.
    pub fn read(&self) -> Walked {
        let pool = self.import(true).unwrap_or_else(|error| panic!("{}: {error:?}", self.name));
        walk(&self.env, &pool)
    }

    /// Fails unless all can be read and is as told.
    pub fn check(&self, told: &Manifest, leave: Leave) {
        judge(&self.name, &self.read(), told, leave);
    }
}

/// Fails unless all was read and is as told.
pub fn judge(name: &str, walked: &Walked, told: &Manifest, leave: Leave) {
    let errors = walked.errors.iter().map(|(place, error)| format!("{place:?}: {error:?}"));
    let wrong: Vec<_> = errors.chain(differences(told, &walked.manifest, leave)).collect();
    let shown = wrong.iter().take(SHOWN_MAX).cloned().collect::<Vec<_>>().join("\n");
    assert!(wrong.is_empty(), "{name}: {} of {} objects:\n{shown}", wrong.len(), told.len());
}
