//! Properties of vdevs, kept in the objects that vdevs have for that: a top-level vdev's, else a leaf's.
//!
//! ```text
//!  vdev_tree ─ "com.delphix:vdev_zap_top"  ─► ZAP:  comment, allocating, org.site:shelf, …    of mirror-0, or a lone disk
//!            ─ "com.delphix:vdev_zap_leaf" ─► ZAP:  comment, path, org.site:slot, …           of a disk in it
//! ```
//! `allocating=off` is in the configuration besides (`non_allocating`), for an import has to know before it allocates.

use std::collections::BTreeMap;
use std::sync::Arc;

use dmu::Tx;
use dmu::zap::{Zap, ZapValue};
use dsl::PropValue;
use env::boxed;
use units::{Guid, ObjectId, VdevId};
use vdev::Bias;

use crate::{Pool, PoolError};

/// Whether blocks go to a vdev.
const ALLOCATING: &str = "allocating";
/// Where its device is.
const PATH: &str = "path";
/// What the path of a device that is set begins with.
const DEVICES: &str = "/dev/";

/// Why a property of a vdev is not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VdevPropRefusal {
    /// The vdev keeps none, the value is none, or blocks could go nowhere any more.
    #[error("invalid argument for this pool operation")]
    Invalid,
    /// No block is allocated there in the first place.
    #[error("operation not supported on this type of vdev")]
    Unsupported,
}

impl Pool {
    /// What was set on a vdev, by name.
    ///
    /// # Errors
    /// [`VdevPropRefusal::Invalid`] when there is no such vdev, or it keeps no properties; those of reading.
    #[boxed]
    pub async fn vdev_props(&self, vdev: Guid) -> Result<BTreeMap<String, PropValue>, PoolError> {
        let mut found = BTreeMap::new();
        for entry in Zap::hold(&self.mos, self.vdev_zap(vdev)?).await?.all().await? {
            let number = entry.value.as_u64().map(PropValue::Number);
            let text = || entry.value.as_text().map(|text| PropValue::Text(text.to_owned()));
            if let (Ok(name), Some(value)) = (String::from_utf8(entry.name.clone()), number.or_else(text)) {
                found.insert(name, value);
            }
        }
        Ok(found)
    }

    /// Sets a property of a vdev; none takes it back.
    ///
    /// # Errors
    /// [`VdevPropRefusal`]; when it cannot be made stable.
    #[boxed]
    pub async fn set_vdev_prop(
        self: &Arc<Self>,
        vdev: Guid,
        name: &str,
        value: Option<PropValue>,
    ) -> Result<(), PoolError> {
        self.check_writable()?;
        self.vdev_zap(vdev)?;
        let _alone = self.adding.lock().await;
        match (name, &value) {
            (ALLOCATING, Some(PropValue::Number(0))) => self.stop_allocating(vdev, value).await,
            (ALLOCATING, _) => {
                let top = self.top_of(vdev).ok_or(VdevPropRefusal::Unsupported)?;
                self.store_vdev_prop(vdev, name, value).await?;
                self.use_again(top);
                Ok(())
            }
            (PATH, Some(PropValue::Text(path))) if path.starts_with(DEVICES) => {
                self.standing(vdev).map_err(|_| VdevPropRefusal::Invalid)?;
                self.store_vdev_prop(vdev, name, value).await
            }
            (PATH, _) => Err(VdevPropRefusal::Invalid.into()),
            _ => self.store_vdev_prop(vdev, name, value).await,
        }
    }

    /// No more blocks go to a top-level vdev.
    async fn stop_allocating(
        self: &Arc<Self>,
        vdev: Guid,
        value: Option<PropValue>,
    ) -> Result<(), PoolError> {
        let rests = self.top_of(vdev).ok_or(VdevPropRefusal::Unsupported)?;
        let top = self.vdevs.top(rests)?;
        if top.is_log() {
            return Err(VdevPropRefusal::Unsupported.into());
        }
        let takes_others = |top: &Arc<vdev::Top>| {
            let config = top.config();
            top.id() != rests
                && config.bias == Bias::None
                && !config.non_allocating
                && config.leaving.is_none()
        };
        if top.config().bias == Bias::None && !self.vdevs.tops_with_devices().iter().any(takes_others) {
            return Err(VdevPropRefusal::Invalid.into());
        }
        self.zio.rest_vdev(rests);
        self.space.outdate();
        let stored = self.store_vdev_prop(vdev, ALLOCATING, value).await;
        if stored.is_err() {
            self.use_again(rests);
        }
        stored
    }

    async fn store_vdev_prop(
        self: &Arc<Self>,
        vdev: Guid,
        name: &str,
        value: Option<PropValue>,
    ) -> Result<(), PoolError> {
        let name = name.to_owned();
        self.in_sync(move |pool, tx| async move {
            let zap = Zap::hold(&pool.mos, pool.vdev_zap(vdev)?).await?;
            tx.note_change();
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
            let shown = match &value {
                Some(PropValue::Number(number)) => number.to_string(),
                Some(PropValue::Text(text)) => text.clone(),
                None => String::new(),
            };
            let told = format!("vdev_guid={}: {name}={shown}", vdev.get());
            pool.note_event(&tx, "vdev set", None, &told).await?;
            pool.heed_vdev_prop(&tx, vdev, &name, value.as_ref()).await
        })
        .await
    }

    /// Puts in the configuration what is told there.
    async fn heed_vdev_prop(
        &self,
        tx: &Tx,
        vdev: Guid,
        name: &str,
        value: Option<&PropValue>,
    ) -> Result<(), PoolError> {
        match (name, value) {
            (ALLOCATING, value) => {
                let rests = value == Some(&PropValue::Number(0));
                if let Some(top) = self.top_of(vdev) {
                    self.vdevs.top(top)?.set_config(|config| config.non_allocating = rests);
                }
            }
            (PATH, Some(PropValue::Text(path))) => {
                let leaf = self.vdevs.leaf(vdev)?;
                leaf.set_config(|config| config.path = path.into());
                self.vdevs.mark_changed(leaf.vdev());
            }
            _ => return Ok(()),
        }
        self.store_config(tx).await
    }

    /// The top-level vdev of a guid.
    fn top_of(&self, vdev: Guid) -> Option<VdevId> {
        self.vdevs.tops_with_devices().iter().find(|top| top.guid() == vdev).map(|top| top.id())
    }

    /// Where the properties of a vdev are.
    fn vdev_zap(&self, vdev: Guid) -> Result<ObjectId, VdevPropRefusal> {
        let root = self.vdevs.root();
        let top = || self.top_of(vdev).and_then(|top| self.vdevs.top(top).ok());
        let zap = match (vdev == root.guid, top()) {
            (true, _) => root.root_zap,
            (false, Some(top)) => top.config().top_zap,
            (false, None) => self.vdevs.leaf(vdev).map_or(0, |leaf| leaf.config().leaf_zap),
        };
        if zap == 0 { Err(VdevPropRefusal::Invalid) } else { Ok(ObjectId::new(zap)) }
    }
}
