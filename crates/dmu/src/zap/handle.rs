//! The handle that everybody uses: micro or fat, locked.

use std::sync::{Arc, OnceLock};

use async_lock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use device::IoBuf;
use ondisk::zap::{BLOCK_HEADER, BLOCK_MICRO, FAT_BLOCK_SHIFT, MICRO_MAX_BYTES, MZAP_NAME_BYTES};
use units::{BlockId, Txg};

use super::Blocks;
use super::bytes::u64_at;
use super::cursor::{Cursor, ZapEntry};
use super::error::{Damage, ZapError};
use super::fat::{Fat, Put};
use super::header::Params;
use super::key::Key;
use super::micro::{self, MICRO_GROW_BYTES, MicroEntry, MicroIndex, Place};
use super::value::ZapValue;

/// What all handles of one ZAP share; lives in the dnode, made at first use.
#[derive(Debug, Default)]
pub struct Shared(OnceLock<Box<RwLock<State>>>);

impl Shared {
    fn lock(&self) -> &RwLock<State> {
        self.0.get_or_init(Box::default)
    }
}

#[derive(Debug, Default)]
struct State {
    form: Form,
    /// The group of the newest change. An older group's change would start from newer
    /// contents, and be missing in them.
    changed: Txg,
}

/// What is known of a ZAP's form.
#[derive(Debug, Default)]
enum Form {
    /// Not looked at yet.
    #[default]
    Unknown,
    /// A single block, indexed.
    Micro(MicroIndex),
    /// Header, table and leaves.
    Fat,
}

/// A ZAP object, ready for use. Clones and further handles of the same object share one lock:
/// any number of readers, or one writer.
pub struct Zap<B = crate::Dnode> {
    blocks: Arc<B>,
}

impl<B> Clone for Zap<B> {
    fn clone(&self) -> Self {
        Self { blocks: Arc::clone(&self.blocks) }
    }
}

impl<B: Blocks> Zap<B> {
    /// A handle on an object that is a ZAP. Reads its first block unless that is known.
    ///
    /// # Errors
    /// [`ZapError::Damaged`] when the first block is not that of a ZAP.
    pub async fn open(blocks: Arc<B>) -> Result<Self, ZapError> {
        let zap = Self { blocks };
        zap.read_state().await?;
        Ok(zap)
    }

    /// Makes an empty ZAP of an object that has just been allocated: micro, or fat when `flags`
    /// (`ZAP_FLAG_*`) are given. Until the ZAP turns fat its block may have any size; with flags
    /// it keeps the size it has, a power of two.
    ///
    /// # Errors
    /// Those of writing.
    pub async fn format(
        blocks: Arc<B>,
        tx: &B::Tx,
        salt: u64,
        normflags: u64,
        flags: u64,
    ) -> Result<Self, ZapError> {
        let params = Params { salt: salt | 1, normflags, flags };
        let zap = Self { blocks };
        let mut state = zap.blocks.shared().lock().write().await;
        state.changed = B::txg(tx);
        if flags != 0 {
            zap.fat().format(tx, params).await?;
            state.form = Form::Fat;
        } else {
            let mut block = IoBuf::zeroed(zap.blocks.block_bytes() as usize);
            micro::format(&mut block, &params);
            state.form = Form::Micro(MicroIndex::load(&block).map_err(|damage| zap.damage(damage))?);
            zap.blocks.write_block(tx, BlockId::new(0), Arc::new(block)).await?;
        }
        drop(state);
        Ok(zap)
    }

    /// The object.
    #[must_use]
    pub fn blocks(&self) -> &Arc<B> {
        &self.blocks
    }

    /// The value of a name.
    ///
    /// # Errors
    /// [`ZapError::BadName`], damage, and those of reading.
    pub async fn lookup(&self, name: &[u8]) -> Result<Option<ZapValue>, ZapError> {
        match &self.read_state().await?.form {
            Form::Micro(index) => Ok(self.micro_lookup(index, name).await?.map(ZapValue::from)),
            _ => {
                let key = self.fat_name(name).await?;
                self.fat().lookup(&key, |leaf, entry| leaf.value(entry)).await
            }
        }
    }

    /// The value of a name that is a single `u64`.
    ///
    /// # Errors
    /// As [`Zap::lookup`]; [`ZapError::NotU64`] when the value is of another form.
    pub async fn lookup_u64(&self, name: &[u8]) -> Result<Option<u64>, ZapError> {
        let value = match &self.read_state().await?.form {
            Form::Micro(index) => return self.micro_lookup(index, name).await,
            _ => {
                let key = self.fat_name(name).await?;
                self.fat().lookup(&key, |leaf, entry| leaf.value_u64(entry)).await?
            }
        };
        match value {
            None => Ok(None),
            Some(Some(word)) => Ok(Some(word)),
            Some(None) => {
                let name = String::from_utf8_lossy(name).into_owned();
                Err(ZapError::NotU64 { object: self.blocks.object(), name })
            }
        }
    }

    /// Adds a name that is not there.
    ///
    /// # Errors
    /// [`ZapError::Exists`], [`ZapError::BadName`], [`ZapError::ValueTooLarge`],
    /// [`ZapError::Full`], damage, and those of reading and writing.
    pub async fn add(&self, tx: &B::Tx, name: &[u8], value: &ZapValue) -> Result<(), ZapError> {
        self.put(tx, name, value, Put::Add).await
    }

    /// Adds a name, or replaces its value.
    ///
    /// # Errors
    /// As [`Zap::add`], without `Exists`.
    pub async fn update(&self, tx: &B::Tx, name: &[u8], value: &ZapValue) -> Result<(), ZapError> {
        self.put(tx, name, value, Put::Update).await
    }

    /// [`Zap::add`] of a single `u64`.
    ///
    /// # Errors
    /// As [`Zap::add`].
    pub async fn add_u64(&self, tx: &B::Tx, name: &[u8], value: u64) -> Result<(), ZapError> {
        self.add(tx, name, &ZapValue::from(value)).await
    }

    /// [`Zap::update`] with a single `u64`.
    ///
    /// # Errors
    /// As [`Zap::update`].
    pub async fn update_u64(&self, tx: &B::Tx, name: &[u8], value: u64) -> Result<(), ZapError> {
        self.update(tx, name, &ZapValue::from(value)).await
    }

    /// Removes a name.
    ///
    /// # Errors
    /// [`ZapError::NotFound`], damage, and those of reading and writing.
    pub async fn remove(&self, tx: &B::Tx, name: &[u8]) -> Result<(), ZapError> {
        let mut state = self.write_state(tx).await?;
        let Form::Micro(index) = &mut state.form else {
            let key = self.fat_name(name).await?;
            return self.fat().remove(tx, &key).await;
        };
        let key = Key::name(self.blocks.object(), &index.params, name)?;
        let block = self.blocks.read_block(BlockId::new(0)).await?;
        let found = index.find(&block, &key).map_err(|damage| self.damage(damage))?;
        drop(block);
        let Some((place, slot)) = found else {
            return Err(ZapError::NotFound { object: self.blocks.object(), name: key.shown() });
        };
        let change = move |bytes: &mut [u8]| micro::clear_entry(bytes, slot);
        self.blocks.modify_block(tx, BlockId::new(0), change).await?;
        index.clear(place);
        Ok(())
    }

    /// Number of entries.
    ///
    /// # Errors
    /// Damage, and those of reading.
    pub async fn count(&self) -> Result<u64, ZapError> {
        match &self.read_state().await?.form {
            Form::Micro(index) => Ok(index.len()),
            _ => Ok(self.fat().header().await?.entries),
        }
    }

    /// Up to `limit` entries from a place on, in the order of their hashes. Fewer: the end.
    ///
    /// # Errors
    /// Damage, and those of reading.
    pub async fn entries(&self, from: Cursor, limit: usize) -> Result<Vec<ZapEntry>, ZapError> {
        let state = self.read_state().await?;
        let Form::Micro(index) = &state.form else {
            return self.fat().entries(from, limit).await;
        };
        let hash_bits = index.params.hash_bits();
        let Some((hash, cd)) = from.unpack(hash_bits) else {
            return Ok(Vec::new());
        };
        let block = self.blocks.read_block(BlockId::new(0)).await?;
        let whole = |((hash, cd), slot): (Place, u16)| {
            let entry = micro::entry(&block, slot)?;
            Ok(ZapEntry {
                name: entry.name.to_vec(),
                value: ZapValue::from(entry.value),
                next: Cursor::pack(hash, cd.saturating_add(1), hash_bits),
            })
        };
        let found: Result<_, Damage> = index.from(hash, cd).take(limit).map(whole).collect();
        found.map_err(|damage| self.damage(damage))
    }

    /// All entries, in the order of their hashes.
    ///
    /// # Errors
    /// As [`Zap::entries`].
    pub async fn all(&self) -> Result<Vec<ZapEntry>, ZapError> {
        self.entries(Cursor::START, usize::MAX).await
    }

    /// The value of a key of words, in a ZAP with `u64` keys.
    ///
    /// # Errors
    /// As [`Zap::lookup`].
    pub async fn lookup_words(&self, words: &[u64]) -> Result<Option<ZapValue>, ZapError> {
        let _state = self.read_state().await?;
        let key = self.fat_words(words).await?;
        self.fat().lookup(&key, |leaf, entry| leaf.value(entry)).await
    }

    /// Adds a key of words, or replaces its value, in a ZAP with `u64` keys.
    ///
    /// # Errors
    /// As [`Zap::update`].
    pub async fn update_words(&self, tx: &B::Tx, words: &[u64], value: &ZapValue) -> Result<(), ZapError> {
        let _state = self.write_state(tx).await?;
        let key = self.fat_words(words).await?;
        self.fat().put(tx, &key, value, Put::Update).await
    }

    /// Removes a key of words, in a ZAP with `u64` keys.
    ///
    /// # Errors
    /// As [`Zap::remove`].
    pub async fn remove_words(&self, tx: &B::Tx, words: &[u64]) -> Result<(), ZapError> {
        let _state = self.write_state(tx).await?;
        let key = self.fat_words(words).await?;
        self.fat().remove(tx, &key).await
    }

    fn fat(&self) -> Fat<'_, B> {
        Fat { blocks: &self.blocks }
    }

    fn damage(&self, damage: Damage) -> ZapError {
        damage.at(self.blocks.object(), 0)
    }

    async fn fat_name(&self, name: &[u8]) -> Result<Key, ZapError> {
        Key::name(self.blocks.object(), &self.fat().header().await?.params, name)
    }

    async fn fat_words(&self, words: &[u64]) -> Result<Key, ZapError> {
        Key::words(self.blocks.object(), &self.fat().header().await?.params, words)
    }

    async fn micro_lookup(&self, index: &MicroIndex, name: &[u8]) -> Result<Option<u64>, ZapError> {
        let key = Key::name(self.blocks.object(), &index.params, name)?;
        let block = self.blocks.read_block(BlockId::new(0)).await?;
        let value = || match index.find(&block, &key)? {
            Some((_, slot)) => Ok(Some(micro::entry(&block, slot)?.value)),
            None => Ok(None),
        };
        value().map_err(|damage| self.damage(damage))
    }

    async fn put(&self, tx: &B::Tx, name: &[u8], value: &ZapValue, how: Put) -> Result<(), ZapError> {
        let mut state = self.write_state(tx).await?;
        if let Form::Micro(index) = &mut state.form
            && self.micro_put(tx, index, name, value, how).await?
        {
            return Ok(());
        }
        self.turn_fat(tx, &mut state.form).await?;
        let key = self.fat_name(name).await?;
        self.fat().put(tx, &key, value, how).await
    }

    /// Adds or updates in a micro ZAP. `false`: it takes a fat one, nothing changed.
    async fn micro_put(
        &self,
        tx: &B::Tx,
        index: &mut MicroIndex,
        name: &[u8],
        value: &ZapValue,
        how: Put,
    ) -> Result<bool, ZapError> {
        let key = Key::name(self.blocks.object(), &index.params, name)?;
        let block = self.blocks.read_block(BlockId::new(0)).await?;
        let found = index.find(&block, &key).map_err(|damage| self.damage(damage))?;
        drop(block);
        if found.is_some() && how != Put::Update {
            return Err(ZapError::Exists { object: self.blocks.object(), name: key.shown() });
        }
        let Some(value) = value.as_u64().filter(|_| key.bytes.len() <= MZAP_NAME_BYTES) else {
            return Ok(false);
        };
        if let Some((_, slot)) = found {
            let change = move |bytes: &mut [u8]| micro::put_value(bytes, slot, value);
            self.blocks.modify_block(tx, BlockId::new(0), change).await?;
            return Ok(true);
        }
        let Some(cd) = index.unused_cd(key.hash) else {
            return Ok(false);
        };
        if index.free_slot().is_none() && !self.micro_grow(tx, index).await? {
            return Ok(false);
        }
        let Some(slot) = index.free_slot() else {
            return Ok(false);
        };
        let change = |bytes: &mut [u8]| {
            micro::put_entry(bytes, slot, &MicroEntry { name: &key.bytes, cd, value });
        };
        self.blocks.modify_block(tx, BlockId::new(0), change).await?;
        index.fill(key.hash, cd);
        Ok(true)
    }

    /// Makes room for more entries. `false`: the block is as large as a micro ZAP may be.
    async fn micro_grow(&self, tx: &B::Tx, index: &mut MicroIndex) -> Result<bool, ZapError> {
        let bytes = self.blocks.block_bytes();
        let larger = bytes + MICRO_GROW_BYTES;
        if larger as usize > MICRO_MAX_BYTES {
            return Ok(false);
        }
        self.blocks.set_block_bytes(tx, larger).await?;
        index.grow(bytes, larger);
        Ok(true)
    }

    /// Turns a micro ZAP fat; entries keep their places in the order.
    async fn turn_fat(&self, tx: &B::Tx, form: &mut Form) -> Result<(), ZapError> {
        let Form::Micro(index) = form else {
            return Ok(());
        };
        let block = self.blocks.read_block(BlockId::new(0)).await?;
        self.blocks.set_block_bytes(tx, 1 << FAT_BLOCK_SHIFT).await?;
        let params = index.params;
        self.fat().format(tx, params).await?;
        for ((hash, cd), slot) in index.from(0, 0) {
            let entry = micro::entry(&block, slot).map_err(|damage| self.damage(damage))?;
            let key = Key::rehashed(entry.name, hash);
            self.fat().put(tx, &key, &ZapValue::from(entry.value), Put::AddWithCd(cd)).await?;
        }
        *form = Form::Fat;
        Ok(())
    }

    async fn read_state(&self) -> Result<RwLockReadGuard<'_, State>, ZapError> {
        let lock = self.blocks.shared().lock();
        loop {
            let state = lock.read().await;
            if !matches!(state.form, Form::Unknown) {
                return Ok(state);
            }
            drop(state);
            drop(self.known_state().await?);
        }
    }

    async fn write_state(&self, tx: &B::Tx) -> Result<RwLockWriteGuard<'_, State>, ZapError> {
        let mut state = self.known_state().await?;
        let txg = B::txg(tx);
        assert!(txg >= state.changed, "ZAP {} changed by an older group", self.blocks.object());
        state.changed = txg;
        Ok(state)
    }

    async fn known_state(&self) -> Result<RwLockWriteGuard<'_, State>, ZapError> {
        let mut state = self.blocks.shared().lock().write().await;
        if matches!(state.form, Form::Unknown) {
            state.form = self.look().await?;
        }
        Ok(state)
    }

    /// Reads the first block and says what it begins.
    async fn look(&self) -> Result<Form, ZapError> {
        let block = self.blocks.read_block(BlockId::new(0)).await?;
        if block.len() < 512 {
            return Err(self.damage(Damage("block too small for a ZAP")));
        }
        match u64_at(&block, 0) {
            BLOCK_MICRO => Ok(Form::Micro(MicroIndex::load(&block).map_err(|damage| self.damage(damage))?)),
            BLOCK_HEADER => {
                self.fat().header().await?;
                Ok(Form::Fat)
            }
            _ => Err(self.damage(Damage("not a ZAP"))),
        }
    }
}
