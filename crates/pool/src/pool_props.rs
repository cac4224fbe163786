//! Properties of the pool as a whole, other than those in its configuration.
//!
//! They lie in a ZAP of the meta-objset (`pool_props` in the directory), made when the first is
//! set; what is not there has its default.

use std::collections::BTreeMap;
use std::sync::Arc;

use dmu::zap::{Zap, ZapValue};
use dsl::{Feature, PropValue};
use env::boxed;
use ondisk::ObjectType;
use ondisk::mos::directory;
use units::ObjectId;

use crate::multihost::MULTIHOST;
use crate::space::expand::AUTOEXPAND;
use crate::txg::suspend::FAILMODE;
use crate::txg::trim::AUTOTRIM;
use crate::{Pool, PoolError, config};

impl Pool {
    /// What was set, by name.
    ///
    /// # Errors
    /// Those of reading the meta-objset.
    #[boxed]
    pub async fn pool_props(&self) -> Result<BTreeMap<String, PropValue>, PoolError> {
        match self.read_pool_props().await {
            Err(error) if error.is_loss() => {
                tracing::error!(pool = self.name(), %error, "the pool's properties are damaged: the defaults apply");
                Ok(BTreeMap::new())
            }
            read => read,
        }
    }

    /// True if the value of a property that is off by default is `on`.
    ///
    /// # Errors
    /// Those of reading the meta-objset.
    #[boxed]
    pub async fn is_prop_on(&self, name: &str) -> Result<bool, PoolError> {
        Ok(self.pool_props().await?.get(name).and_then(PropValue::number) == Some(1))
    }

    async fn read_pool_props(&self) -> Result<BTreeMap<String, PropValue>, PoolError> {
        let Some(object) = self.dsl.directory().lookup_u64(directory::PROPS.as_bytes()).await? else {
            return Ok(BTreeMap::new());
        };
        let mut found = BTreeMap::new();
        for entry in Zap::hold(&self.mos, ObjectId::new(object)).await?.all().await? {
            let number = entry.value.as_u64().map(PropValue::Number);
            let text = || entry.value.as_text().map(|text| PropValue::Text(text.to_owned()));
            if let (Ok(name), Some(value)) = (String::from_utf8(entry.name.clone()), number.or_else(text)) {
                found.insert(name, value);
            }
        }
        Ok(found)
    }

    /// Sets a property; none takes it back to its default.
    ///
    /// # Errors
    /// When it cannot be made stable; [`PoolError::NoHostId`] for `multihost=on` on a host without a number.
    #[boxed]
    pub async fn set_pool_prop(
        self: &Arc<Self>,
        name: &str,
        value: Option<PropValue>,
    ) -> Result<(), PoolError> {
        let name = name.to_owned();
        if name == MULTIHOST && value.as_ref().and_then(PropValue::number) == Some(1) {
            self.check_hostid()?;
        }
        let expands = name == AUTOEXPAND && value.as_ref().and_then(PropValue::number) == Some(1);
        self.in_sync(move |pool, tx| async move {
            let directory = pool.dsl.directory();
            let object = match directory.lookup_u64(directory::PROPS.as_bytes()).await? {
                Some(object) => ObjectId::new(object),
                None => {
                    let object = pool.dsl.create_zap(&tx, ObjectType::POOL_PROPS).await?;
                    directory.add_u64(&tx, directory::PROPS.as_bytes(), object.get()).await?;
                    object
                }
            };
            let zap = Zap::hold(&pool.mos, object).await?;
            match &value {
                Some(PropValue::Number(number)) => zap.update_u64(&tx, name.as_bytes(), *number).await?,
                Some(PropValue::Text(text)) => {
                    zap.update(&tx, name.as_bytes(), &ZapValue::text(text)).await?
                }
                None if zap.lookup(name.as_bytes()).await?.is_some() => {
                    zap.remove(&tx, name.as_bytes()).await?
                }
                None => {}
            }
            match name.as_str() {
                AUTOTRIM => pool.note_autotrim(value.as_ref()),
                FAILMODE => pool.note_failmode(value.as_ref()),
                MULTIHOST => pool.note_multihost(value.as_ref()),
                _ => {}
            }
            Ok(())
        })
        .await?;
        if expands {
            self.expand().await?;
        }
        Ok(())
    }

    /// Enables a feature and those it needs; for good.
    ///
    /// # Errors
    /// When it cannot be made stable.
    #[boxed]
    pub async fn enable_feature(self: &Arc<Self>, feature: &'static Feature) -> Result<(), PoolError> {
        self.in_sync(move |pool, tx| async move {
            pool.dsl.enable_feature(&tx, feature).await?;
            let in_labels = pool.dsl.label_features().await?;
            pool.config.lock().set_features(&in_labels);
            pool.vdevs.mark_all_changed();
            let config = pool.config.lock().clone();
            config::store(&pool.dsl, &tx, &config, &pool.vdevs).await
        })
        .await
    }

    /// Which features may be enabled: `off`, `legacy`, or files.
    #[must_use]
    pub fn compatibility(&self) -> Option<String> {
        self.config.lock().compatibility().map(str::to_owned)
    }

    /// Sets which features may be enabled; none is `off`.
    ///
    /// # Errors
    /// When it cannot be made stable.
    #[boxed]
    pub async fn set_compatibility(self: &Arc<Self>, files: Option<String>) -> Result<(), PoolError> {
        self.in_sync(move |pool, tx| async move {
            let mut config = pool.config.lock().clone();
            config.set_compatibility(files.clone());
            config::store(&pool.dsl, &tx, &config, &pool.vdevs).await?;
            pool.config.lock().set_compatibility(files);
            pool.vdevs.mark_all_changed();
            Ok(())
        })
        .await
    }
}
