//! What can be told without a key of a dataset that is encrypted.

use env::boxed;
use ondisk::ObjectType;
use ondisk::dsl::crypto_key::{ITERATIONS, KEY_FORMAT, ROOT_DIR, SUITE};
use ondisk::dsl::dir_names::CRYPTO_KEY_OBJ;
use units::ObjectId;

use crate::{Dsl, DslError};

/// How a dataset is encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encryption {
    /// The number of the property `encryption`.
    pub suite: u64,
    /// That of `keyformat`.
    pub key_format: u64,
    /// That of `pbkdf2iters`; zero where no passphrase is asked for.
    pub iterations: u64,
    /// The dataset for which a key is loaded: itself, or one above it.
    pub root: String,
}

impl Dsl {
    /// How the head of this directory and its snapshots are encrypted, if they are.
    ///
    /// # Errors
    /// Those of reading the MOS; [`DslError::Damaged`] where the root's directory is nowhere.
    #[boxed]
    pub async fn encryption(&self, dir: ObjectId, pool: &str) -> Result<Option<Encryption>, DslError> {
        if self.mos.hold(dir).await?.object_type() != ObjectType::OTN_ZAP_METADATA {
            return Ok(None);
        }
        let Some(key) = self.zap(dir.get()).await?.lookup_u64(CRYPTO_KEY_OBJ.as_bytes()).await? else {
            return Ok(None);
        };
        let key = self.zap(key).await?;
        let number =
            async |name: &str| Ok::<_, DslError>(key.lookup_u64(name.as_bytes()).await?.unwrap_or(0));
        let root = ObjectId::new(number(ROOT_DIR).await?);
        Ok(Some(Encryption {
            suite: number(SUITE).await?,
            key_format: number(KEY_FORMAT).await?,
            iterations: number(ITERATIONS).await?,
            root: self.dir_name(root, pool).await?,
        }))
    }
}
