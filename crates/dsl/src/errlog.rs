//! Error logs: blocks that could not be read, kept in the MOS until a scrub finds them well.
//!
//! ```text
//!  directory ─ "errlog_last", "errlog_scrub" ─► ZAP
//!     plain:                      objset:object:level:block        ─► a name, or nothing
//!     with `head_errlog`: head ─► ZAP:  object:level:block:birth   ─► a name, or nothing
//! ```
//! All numbers are hexadecimal. While a scrub runs its finds gather in `errlog_scrub`; when it is
//! done they take the place of the log of all before.
//!
//! (test: `errors_are_found_again_until_a_scrub_replaces_them`)

use dmu::Tx;
use dmu::zap::{ZapValue, int_name};
use env::boxed;
use ondisk::ObjectType;
use ondisk::mos::directory;
use units::{BlockId, Level, ObjectId, ObjsetId, Txg};

use crate::features::HEAD_ERRLOG;
use crate::{Dsl, DslError};

/// One of the two logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorLog {
    /// What was found since the last scrub, and by it.
    Last,
    /// What the scrub under way has found.
    Scrub,
}

impl ErrorLog {
    const fn name(self) -> &'static str {
        match self {
            Self::Last => directory::ERRLOG_LAST,
            Self::Scrub => directory::ERRLOG_SCRUB,
        }
    }
}

/// A block that could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockError {
    /// The dataset; read back from a log that is kept by heads, its head.
    pub objset: ObjsetId,
    /// The object.
    pub object: ObjectId,
    /// Height in the object's tree.
    pub level: Level,
    /// Number of the block at that height.
    pub block: BlockId,
    /// When it was written, if the log says.
    pub birth: Option<Txg>,
}

impl BlockError {
    fn key(&self, by_head: bool) -> String {
        let (objset, object) = (self.objset.get(), self.object.get());
        let (level, block) = (self.level.get(), self.block.get());
        if by_head {
            return format!("{object:x}:{level:x}:{block:x}:{:x}", self.birth.map_or(0, Txg::get));
        }
        format!("{objset:x}:{object:x}:{level:x}:{block:x}")
    }

    /// Reads a key; `head`: that of a log kept by heads.
    fn parse(key: &[u8], head: Option<u64>) -> Option<Self> {
        let text = std::str::from_utf8(key).ok()?;
        let numbers: Option<Vec<u64>> =
            text.split(':').map(|number| u64::from_str_radix(number, 16).ok()).collect();
        let [a, b, c, d] = numbers?[..] else { return None };
        let (objset, object, level, block, birth) = match head {
            Some(head) => (head, a, b, c, Some(Txg::new(d))),
            None => (a, b, c, d, None),
        };
        Some(Self {
            objset: ObjsetId::new(objset),
            object: ObjectId::new(object),
            // Minus one and less stand for what is above the tree.
            level: Level::new(u8::try_from(level).unwrap_or(u8::MAX)),
            block: BlockId::new(block),
            birth,
        })
    }
}

impl Dsl {
    /// Notes blocks that could not be read.
    ///
    /// # Errors
    /// Damage, and those of changing the MOS.
    #[boxed]
    pub async fn add_errors(&self, tx: &Tx, log: ErrorLog, errors: &[BlockError]) -> Result<(), DslError> {
        if errors.is_empty() {
            return Ok(());
        }
        let by_head = self.feature_count(&HEAD_ERRLOG).await?.is_some();
        let root = match self.error_log(log).await? {
            0 => self.create_error_log(tx, log).await?,
            object => object,
        };
        for error in errors {
            let list = match by_head {
                true => self.errors_of(tx, root, self.head_of(error.objset).await).await?,
                false => root,
            };
            self.zap(list).await?.update(tx, error.key(by_head).as_bytes(), &ZapValue::text("")).await?;
        }
        Ok(())
    }

    /// All blocks in a log.
    ///
    /// # Errors
    /// Damage, and those of reading the MOS.
    #[boxed]
    pub async fn errors(&self, log: ErrorLog) -> Result<Vec<BlockError>, DslError> {
        let root = self.error_log(log).await?;
        let mut found = Vec::new();
        if root == 0 {
            return Ok(found);
        }
        if self.feature_count(&HEAD_ERRLOG).await?.is_none() {
            let keys = self.zap(root).await?.all().await?;
            return Ok(keys.iter().filter_map(|entry| BlockError::parse(&entry.name, None)).collect());
        }
        for (head, list) in self.heads_with_errors(root).await? {
            let keys = self.zap(list).await?.all().await?;
            found.extend(keys.iter().filter_map(|entry| BlockError::parse(&entry.name, Some(head))));
        }
        Ok(found)
    }

    /// Empties a log.
    ///
    /// # Errors
    /// Damage, and those of changing the MOS.
    #[boxed]
    pub async fn clear_errors(&self, tx: &Tx, log: ErrorLog) -> Result<(), DslError> {
        let root = self.error_log(log).await?;
        if root == 0 {
            return Ok(());
        }
        if self.feature_count(&HEAD_ERRLOG).await?.is_some() {
            for (_, list) in self.heads_with_errors(root).await? {
                self.mos.free_object(tx, ObjectId::new(list)).await?;
            }
        }
        self.mos.free_object(tx, ObjectId::new(root)).await?;
        Ok(self.directory.update_u64(tx, log.name().as_bytes(), 0).await?)
    }

    /// Empties both logs and returns their blocks, before the layout of the logs changes.
    pub(crate) async fn take_errors(&self, tx: &Tx) -> Result<Vec<(ErrorLog, Vec<BlockError>)>, DslError> {
        let mut taken = Vec::new();
        for log in [ErrorLog::Last, ErrorLog::Scrub] {
            taken.push((log, self.errors(log).await?));
            self.clear_errors(tx, log).await?;
        }
        Ok(taken)
    }

    /// A scrub is done: what it found replaces what was known.
    ///
    /// # Errors
    /// Damage, and those of changing the MOS.
    #[boxed]
    pub async fn rotate_errors(&self, tx: &Tx) -> Result<(), DslError> {
        self.clear_errors(tx, ErrorLog::Last).await?;
        let found = self.error_log(ErrorLog::Scrub).await?;
        self.directory.update_u64(tx, ErrorLog::Last.name().as_bytes(), found).await?;
        Ok(self.directory.update_u64(tx, ErrorLog::Scrub.name().as_bytes(), 0).await?)
    }

    /// The object of a log; 0: it is empty.
    async fn error_log(&self, log: ErrorLog) -> Result<u64, DslError> {
        Ok(self.directory.lookup_u64(log.name().as_bytes()).await?.unwrap_or(0))
    }

    async fn create_error_log(&self, tx: &Tx, log: ErrorLog) -> Result<u64, DslError> {
        let object = self.create_zap(tx, ObjectType::ERROR_LOG).await?.get();
        self.directory.update_u64(tx, log.name().as_bytes(), object).await?;
        Ok(object)
    }

    /// The head of a dataset or of a snapshot. What cannot be found is filed under its own number.
    async fn head_of(&self, objset: ObjsetId) -> ObjsetId {
        let Ok(dataset) = self.dataset(ObjectId::new(objset.get())).await else { return objset };
        let dir = self.dir(ObjectId::new(dataset.dir.get())).await;
        dir.map_or(objset, |dir| ObjsetId::new(dir.head_dataset.get()))
    }

    /// The list of one head's blocks, made when there is none.
    async fn errors_of(&self, tx: &Tx, root: u64, head: ObjsetId) -> Result<u64, DslError> {
        let (root, name) = (self.zap(root).await?, int_name(head.get()));
        if let Some(list) = root.lookup_u64(name.as_bytes()).await? {
            return Ok(list);
        }
        let list = self.create_zap(tx, ObjectType::ERROR_LOG).await?.get();
        root.add_u64(tx, name.as_bytes(), list).await?;
        Ok(list)
    }

    /// Heads and their lists.
    async fn heads_with_errors(&self, root: u64) -> Result<Vec<(u64, u64)>, DslError> {
        let root = self.zap(root).await?;
        let damaged = || DslError::damaged(root.object(), "entry of the error log");
        let mut heads = Vec::new();
        for entry in root.all().await? {
            let head =
                std::str::from_utf8(&entry.name).ok().and_then(|name| u64::from_str_radix(name, 16).ok());
            heads.push((head.ok_or_else(damaged)?, entry.value.as_u64().ok_or_else(damaged)?));
        }
        Ok(heads)
    }
}
