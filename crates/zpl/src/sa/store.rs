//! The registry and layout objects on disk, and their copy in memory.

use std::sync::Arc;

use dmu::zap::{Zap, ZapValue};
use dmu::{AnyTransaction, DnodeSpec, Estimate, Objset, Step, Tx};
use env::boxed;
use ondisk::acl::{ACL_VERSION_FUID, ACL_VERSION_INITIAL};
use ondisk::sa::{LAYOUTS, REGISTRY, SaAttr};
use ondisk::{ObjectType, OndiskError};
use parking_lot::RwLock;
use units::ObjectId;

use super::{Built, SaAttrs, SaImage, SaTables};
use crate::error::{Result, ZplError};

const WHAT: &str = "attribute tables";

/// The form of the attributes that a file system writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// System attributes, with the tables below this object: version 5.
    System(ObjectId),
    /// Old znodes, with ACLs of this version: the versions before.
    Old(u16),
}

impl Form {
    /// The form of a file system of `version` without system attributes.
    #[must_use]
    pub fn old(version: u64) -> Self {
        Self::Old(if version < VERSION_FUIDS { ACL_VERSION_INITIAL } else { ACL_VERSION_FUID })
    }
}

/// The version of file systems from which on ACLs and owners have ids of foreign domains.
const VERSION_FUIDS: u64 = 3;

/// The attribute tables of one dataset.
pub struct SaStore {
    os: Arc<Objset>,
    form: RwLock<Form>,
    tables: Arc<RwLock<SaTables>>,
    /// Held while a table changes on disk.
    growing: async_lock::Mutex<()>,
    salt: u64,
}

impl SaStore {
    /// Makes the (empty) master of a new dataset's tables; returns its object.
    ///
    /// # Errors
    /// Those of writing.
    #[boxed]
    pub async fn format(os: &Arc<Objset>, tx: &AnyTransaction, salt: u64) -> Result<ObjectId> {
        let zap = new_zap(os, tx, ObjectType::SA_MASTER_NODE, salt).await?;
        Ok(zap.blocks().object())
    }

    /// Reads the tables below `master`. `salt` seeds the hash of tables yet to be made.
    ///
    /// # Errors
    /// When a table cannot be read or makes no sense.
    #[boxed]
    pub async fn open(os: &Arc<Objset>, master: ObjectId, salt: u64) -> Result<Self> {
        let zap = Zap::open(os.hold(master).await?).await?;
        let registry = match zap.lookup_u64(REGISTRY.as_bytes()).await? {
            Some(object) => read_registry(os, ObjectId::new(object)).await?,
            None => Vec::new(),
        };
        let layouts = match zap.lookup_u64(LAYOUTS.as_bytes()).await? {
            Some(object) => read_layouts(os, ObjectId::new(object)).await?,
            None => Vec::new(),
        };
        let tables = Arc::new(RwLock::new(SaTables::new(&registry, &layouts)));
        let form = RwLock::new(Form::System(master));
        Ok(Self { os: Arc::clone(os), form, tables, growing: async_lock::Mutex::new(()), salt })
    }

    /// The tables of a file system of a version before 5, which has only old znodes. `salt` is as for [`Self::open`].
    #[must_use]
    pub fn old(os: &Arc<Objset>, version: u64, salt: u64) -> Self {
        let tables = Arc::new(RwLock::new(SaTables::new(&[], &[])));
        let form = RwLock::new(Form::old(version));
        Self { os: Arc::clone(os), form, tables, growing: async_lock::Mutex::new(()), salt }
    }

    /// The form of attributes that are written from now on.
    pub fn set_form(&self, form: Form) {
        *self.form.write() = form;
    }

    /// True if new objects get system attributes, and not old znodes.
    #[must_use]
    pub fn is_system(&self) -> bool {
        matches!(*self.form.read(), Form::System(_))
    }

    /// All values of an object, to be changed and built anew.
    ///
    /// # Errors
    /// As [`SaImage::to_attrs`].
    pub fn attrs_of(&self, image: &SaImage) -> Result<SaAttrs> {
        self.with(|tables| image.to_attrs(tables))
    }

    /// The attributes as an old znode, if that is the form of this file system.
    fn build_old(&self, attrs: &SaAttrs) -> Option<Result<SaImage>> {
        let Form::Old(acl_version) = *self.form.read() else { return None };
        let bonus = self.with(|tables| attrs.build_old(tables, acl_version));
        Some(bonus.and_then(|bonus| self.parse(ObjectType::ZNODE, bonus, None)))
    }

    /// Looks at the tables.
    pub fn with<T>(&self, look: impl FnOnce(&SaTables) -> T) -> T {
        look(&self.tables.read())
    }

    /// Reads the attributes of an object.
    ///
    /// # Errors
    /// When its bytes do not decode.
    pub fn parse(&self, kind: ObjectType, bonus: Vec<u8>, spill: Option<Vec<u8>>) -> Result<SaImage> {
        Ok(SaImage::parse(&self.tables.read(), kind, bonus, spill)?)
    }

    /// The stored form of `attrs`. Makes layouts that are not there yet, in changes of their own: call it
    /// before planning the one that stores the result.
    ///
    /// # Errors
    /// [`ZplError::TooBig`]; those of writing the tables; damage when the tables have no place for an attribute.
    #[boxed]
    pub async fn build(&self, attrs: &SaAttrs, capacity: usize) -> Result<SaImage> {
        if let Some(built) = self.build_old(attrs) {
            return built;
        }
        loop {
            let (built, unregistered) = {
                let tables = self.tables.read();
                (attrs.build(&tables, capacity)?, !tables.unregistered().is_empty())
            };
            match built {
                Built::Ready { bonus, spill } if !unregistered => {
                    let image = self.parse(ObjectType::SA, bonus, spill)?;
                    // Tables that were forged can lose attributes.
                    image.check_complete()?;
                    return Ok(image);
                }
                Built::Ready { .. } => self.grow(&[]).await?,
                Built::NeedsLayouts(missing) => self.grow(&missing).await?,
            }
        }
    }

    /// [`SaStore::build`] within the transaction that makes the dataset itself.
    ///
    /// # Errors
    /// As there.
    #[boxed]
    pub async fn build_in(&self, tx: &Tx, attrs: &SaAttrs, capacity: usize) -> Result<SaImage> {
        if let Some(built) = self.build_old(attrs) {
            return built;
        }
        let first = self.with(|tables| attrs.build(tables, capacity))?;
        if let Built::NeedsLayouts(missing) = &first {
            self.register(tx).await?;
            for attrs in missing {
                self.add_layout(tx, attrs).await?;
            }
        }
        match self.with(|tables| attrs.build(tables, capacity))? {
            Built::Ready { bonus, spill } => self.parse(ObjectType::SA, bonus, spill),
            Built::NeedsLayouts(_) => unreachable!("layouts were just made"),
        }
    }

    /// Registers our attributes and gives `missing` layouts numbers, on disk and in memory.
    async fn grow(&self, missing: &[Arc<[u16]>]) -> Result<()> {
        let _growing = self.growing.lock().await;
        let plan = self.os.plan(Estimate::default()).await?;
        self.register(&plan).await?;
        plan.apply()?;
        for attrs in missing {
            let plan = self.os.plan(Estimate::default()).await?;
            self.add_layout(&plan, attrs).await?;
            plan.apply()?;
        }
        Ok(())
    }

    async fn register(&self, tx: &AnyTransaction) -> Result<()> {
        let unregistered = self.with(SaTables::unregistered);
        if unregistered.is_empty() {
            return Ok(());
        }
        let registry = self.table(tx, REGISTRY, ObjectType::SA_ATTR_REGISTRATION).await?;
        for (attr, info) in unregistered {
            registry.update_u64(tx, attr.name().as_bytes(), info.to_word()).await?;
        }
        let tables = Arc::clone(&self.tables);
        tx.take(Step::then(move |_| tables.write().set_registered()));
        Ok(())
    }

    async fn add_layout(&self, tx: &AnyTransaction, attrs: &Arc<[u16]>) -> Result<()> {
        if self.with(|tables| tables.layout_number(attrs)).is_some() {
            return Ok(());
        }
        let number = self.with(SaTables::next_layout).ok_or(ZplError::NoSpace)?;
        let layouts = self.table(tx, LAYOUTS, ObjectType::SA_ATTR_LAYOUTS).await?;
        layouts.update(tx, number.to_string().as_bytes(), &ZapValue::U16(attrs.to_vec())).await?;
        let (tables, attrs) = (Arc::clone(&self.tables), Arc::clone(attrs));
        tx.take(Step::then(move |_| tables.write().add_layout(number, attrs)));
        Ok(())
    }

    /// The table `name`, made when it is not there.
    async fn table(&self, tx: &AnyTransaction, name: &str, kind: ObjectType) -> Result<Zap> {
        let Form::System(master) = *self.form.read() else {
            return Err(ZplError::Unsupported("tables of attributes before version 5 of the file system"));
        };
        let master = Zap::open(self.os.hold(master).await?).await?;
        if let Some(object) = master.lookup_u64(name.as_bytes()).await? {
            return Ok(Zap::open(self.os.hold(ObjectId::new(object)).await?).await?);
        }
        let zap = new_zap(&self.os, tx, kind, self.salt).await?;
        master.add_u64(tx, name.as_bytes(), zap.blocks().object().get()).await?;
        Ok(zap)
    }
}

/// A new, empty ZAP object without a bonus.
pub(crate) async fn new_zap(
    os: &Arc<Objset>,
    tx: &AnyTransaction,
    kind: ObjectType,
    salt: u64,
) -> Result<Zap> {
    let dnode = os.allocate(tx, &DnodeSpec::new(kind, 0)).await?;
    let salt = salt ^ dnode.object().get() << 1;
    Ok(Zap::format(dnode, tx, salt, 0, 0).await?)
}

async fn read_registry(os: &Arc<Objset>, object: ObjectId) -> Result<Vec<(String, SaAttr)>> {
    let entries = Zap::open(os.hold(object).await?).await?.all().await?;
    entries
        .into_iter()
        .map(|entry| {
            let word = entry.value.as_u64();
            let name = String::from_utf8(entry.name).ok();
            match (name, word) {
                (Some(name), Some(word)) => Ok((name, SaAttr::from_word(word)?)),
                _ => Err(OndiskError::BadText { what: WHAT, field: "registry entry" }.into()),
            }
        })
        .collect()
}

async fn read_layouts(os: &Arc<Objset>, object: ObjectId) -> Result<Vec<(u16, Vec<u16>)>> {
    let entries = Zap::open(os.hold(object).await?).await?.all().await?;
    entries
        .into_iter()
        .map(|entry| {
            let number = std::str::from_utf8(&entry.name).ok().and_then(|name| name.parse().ok());
            match (number, entry.value) {
                (Some(number), ZapValue::U16(attrs)) => Ok((number, attrs)),
                _ => Err(OndiskError::BadText { what: WHAT, field: "layout entry" }.into()),
            }
        })
        .collect()
}
