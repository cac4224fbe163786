//! Newer formats: the features that new pools have, in a pool that is older, and versions of file systems.

use crate::choice::Offer;
use crate::{Held, Holder, choice, refusal};
use control::{Failure, FailureKind};
use dsl::Feature;
use pool::PoolError;
use zpl::ZplError;

/// The version of pools that have features instead of numbers.
pub const VERSION_FEATURES: u64 = 5000;

impl Holder {
    pub(super) async fn upgrade(&self, name: &str) -> Result<Vec<String>, Failure> {
        let held = self.pool(name)?;
        if held.pool.version() < VERSION_FEATURES {
            let reason = "a pool of a numbered version cannot be upgraded yet";
            return Err(Failure::cannot(FailureKind::Unsupported, "upgrade", name, reason));
        }
        let missing = self.missing(&held).await?;
        for feature in &missing {
            let enabled = held.pool.enable_feature(feature).await;
            enabled.map_err(|e| refusal::pool("upgrade", name, &e))?;
        }
        tracing::info!(pool = name, features = missing.len(), "upgraded");
        Ok(names(&missing))
    }

    pub(super) async fn missing_features(&self, name: &str) -> Result<Vec<String>, Failure> {
        let held = self.pool(name)?;
        Ok(names(&self.missing(&held).await?))
    }

    /// Gives a file system a newer version of its format.
    pub(super) async fn upgrade_files(&self, held: &Held, name: &str, version: u64) -> Result<(), Failure> {
        let upgraded = held.pool.upgrade_filesystem(name, version).await;
        upgraded.map_err(|error| match error {
            PoolError::Zpl(ZplError::Unsupported(_)) => {
                let reason = "pool must be upgraded to set this property or value";
                Failure::cannot(FailureKind::Unsupported, "set property for", name, reason).exits(255)
            }
            error => refusal::pool("set property for", name, &error).exits(255),
        })?;
        tracing::info!(dataset = name, version, "upgraded");
        Ok(())
    }

    async fn missing(&self, held: &Held) -> Result<Vec<&'static Feature>, Failure> {
        let name = held.pool.name();
        let counts = held.pool.dsl().features().await;
        let counts = counts.map_err(|e| refusal::pool("upgrade", &name, &e.into()))?;
        let found = choice::missing(
            &*self.machine,
            Offer::of(&self.tuning()),
            &counts,
            held.pool.compatibility().as_deref(),
        );
        found.map_err(|reason| Failure::cannot(FailureKind::Invalid, "upgrade", &name, &reason))
    }
}

fn names(features: &[&'static Feature]) -> Vec<String> {
    features.iter().map(|feature| feature.name.to_owned()).collect()
}
