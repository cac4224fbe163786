//! The handle that everybody uses: micro or fat, locked.

use std::sync::Arc;

use async_lock::RwLockReadGuard;
use env::IoBuf;
use ondisk::zap::{BLOCK_HEADER, BLOCK_MICRO, FAT_BLOCK_SHIFT, MICRO_MAX_BYTES, MZAP_NAME_BYTES};
use units::BlockId;

use super::Blocks;
use super::bytes::u64_at;
use super::cursor::{Cursor, ZapEntry};
use super::error::{Damage, ZapError};
use super::fat::{Fat, Put};
use super::guard::{Form, Writing};
use super::header::Params;
use super::key::Key;
use super::micro::{self, MICRO_GROW_BYTES, MicroEntry, MicroIndex, Place};
use super::value::ZapValue;

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
        zap.read_form().await?;
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
        let mut form = Writing::begin(&*zap.blocks, tx).await;
        *form = if flags != 0 {
            zap.fat_in(tx).format(tx, params).await?;
            Form::Fat
        } else {
            let mut block = IoBuf::zeroed(zap.blocks.block_bytes(Some(tx)) as usize);
            micro::format(&mut block, &params);
            let index = MicroIndex::load(&block).map_err(|damage| zap.damage(damage))?;
            zap.blocks.write_block(tx, BlockId::new(0), Arc::new(block)).await?;
            Form::Micro(index)
        };
        drop(form);
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
        match &*self.read_form().await? {
            Form::Micro(index) => Ok(self.micro_lookup(index, name).await?.map(ZapValue::from)),
            _ => {
                let key = self.fat().name_key(name).await?;
                self.fat().lookup(&key, |leaf, entry| leaf.value(entry)).await
            }
        }
    }

    /// The value of a name that is a single `u64`.
    ///
    /// # Errors
    /// As [`Zap::lookup`]; [`ZapError::NotU64`] when the value is of another form.
    pub async fn lookup_u64(&self, name: &[u8]) -> Result<Option<u64>, ZapError> {
        let value = match &*self.read_form().await? {
            Form::Micro(index) => return self.micro_lookup(index, name).await,
            _ => {
                let key = self.fat().name_key(name).await?;
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
        let mut form = self.write_form(tx).await?;
        let Form::Micro(index) = &mut *form else {
            let key = self.fat_in(tx).name_key(name).await?;
            return self.fat_in(tx).remove(tx, &key).await;
        };
        let key = Key::name(self.blocks.object(), &index.params, name)?;
        let block = self.blocks.read_block(Some(tx), BlockId::new(0)).await?;
        let found = index.find(&block, &key).map_err(|damage| self.damage(damage))?;
        drop(block);
        let Some((place, slot)) = found else {
            return Err(ZapError::NotFound { object: self.blocks.object(), name: key.shown() });
        };
        self.check_slot(tx, slot)?;
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
        match &*self.read_form().await? {
            Form::Micro(index) => Ok(index.len()),
            _ => Ok(self.fat().header().await?.entries),
        }
    }

    /// Up to `limit` entries from a place on, in the order of their hashes. Fewer: the end.
    ///
    /// # Errors
    /// Damage, and those of reading.
    pub async fn entries(&self, from: Cursor, limit: usize) -> Result<Vec<ZapEntry>, ZapError> {
        let form = self.read_form().await?;
        let Form::Micro(index) = &*form else {
            return self.fat().entries(from, limit).await;
        };
        let hash_bits = index.params.hash_bits();
        let Some((hash, cd)) = from.unpack(hash_bits) else {
            return Ok(Vec::new());
        };
        let block = self.blocks.read_block(None, BlockId::new(0)).await?;
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
        let _form = self.read_form().await?;
        let key = self.fat().words_key(words).await?;
        self.fat().lookup(&key, |leaf, entry| leaf.value(entry)).await
    }

    /// Adds a key of words, or replaces its value, in a ZAP with `u64` keys.
    ///
    /// # Errors
    /// As [`Zap::update`].
    pub async fn update_words(&self, tx: &B::Tx, words: &[u64], value: &ZapValue) -> Result<(), ZapError> {
        let _form = self.write_form(tx).await?;
        let key = self.fat_in(tx).words_key(words).await?;
        self.fat_in(tx).put(tx, &key, value, Put::Update).await
    }

    /// Removes a key of words, in a ZAP with `u64` keys.
    ///
    /// # Errors
    /// As [`Zap::remove`].
    pub async fn remove_words(&self, tx: &B::Tx, words: &[u64]) -> Result<(), ZapError> {
        let _form = self.write_form(tx).await?;
        let key = self.fat_in(tx).words_key(words).await?;
        self.fat_in(tx).remove(tx, &key).await
    }

    /// To look at.
    fn fat(&self) -> Fat<'_, B> {
        Fat { blocks: &self.blocks, tx: None }
    }

    /// To change, as `tx` has it by then.
    fn fat_in<'a>(&'a self, tx: &'a B::Tx) -> Fat<'a, B> {
        Fat { blocks: &self.blocks, tx: Some(tx) }
    }

    fn damage(&self, damage: Damage) -> ZapError {
        damage.at(self.blocks.object(), 0)
    }

    async fn micro_lookup(&self, index: &MicroIndex, name: &[u8]) -> Result<Option<u64>, ZapError> {
        let key = Key::name(self.blocks.object(), &index.params, name)?;
        let block = self.blocks.read_block(None, BlockId::new(0)).await?;
        let value = || match index.find(&block, &key)? {
            Some((_, slot)) => Ok(Some(micro::entry(&block, slot)?.value)),
            None => Ok(None),
        };
        value().map_err(|damage| self.damage(damage))
    }

    async fn put(&self, tx: &B::Tx, name: &[u8], value: &ZapValue, how: Put) -> Result<(), ZapError> {
        let mut form = self.write_form(tx).await?;
        if let Form::Micro(index) = &mut *form
            && self.micro_put(tx, index, name, value, how).await?
        {
            return Ok(());
        }
        self.turn_fat(tx, &mut form).await?;
        let key = self.fat_in(tx).name_key(name).await?;
        self.fat_in(tx).put(tx, &key, value, how).await
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
        let block = self.blocks.read_block(Some(tx), BlockId::new(0)).await?;
        let found = index.find(&block, &key).map_err(|damage| self.damage(damage))?;
        drop(block);
        if found.is_some() && how != Put::Update {
            return Err(ZapError::Exists { object: self.blocks.object(), name: key.shown() });
        }
        let Some(value) = value.as_u64().filter(|_| key.bytes.len() <= MZAP_NAME_BYTES) else {
            return Ok(false);
        };
        if let Some((_, slot)) = found {
            self.check_slot(tx, slot)?;
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
        self.check_slot(tx, slot)?;
        let Key { hash, bytes: name, .. } = key;
        let change = move |bytes: &mut [u8]| {
            micro::put_entry(bytes, slot, &MicroEntry { name: &name, cd, value });
        };
        self.blocks.modify_block(tx, BlockId::new(0), change).await?;
        index.fill(hash, cd);
        Ok(true)
    }

    /// Refuses a slot that lies outside of the block. In a forged image, the block that was read can be larger than the
    /// block size of the dnode.
    fn check_slot(&self, tx: &B::Tx, slot: u16) -> Result<(), ZapError> {
        match micro::has_slot(self.blocks.block_bytes(Some(tx)) as usize, slot) {
            true => Ok(()),
            false => Err(self.damage(Damage("micro ZAP larger than its block"))),
        }
    }

    /// Makes room for more entries. `false`: the block is as large as a micro ZAP may be.
    async fn micro_grow(&self, tx: &B::Tx, index: &mut MicroIndex) -> Result<bool, ZapError> {
        let bytes = self.blocks.block_bytes(Some(tx));
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
        let block = self.blocks.read_block(Some(tx), BlockId::new(0)).await?;
        self.blocks.set_block_bytes(tx, 1 << FAT_BLOCK_SHIFT).await?;
        let params = index.params;
        self.fat_in(tx).format(tx, params).await?;
        for ((hash, cd), slot) in index.from(0, 0) {
            let entry = micro::entry(&block, slot).map_err(|damage| self.damage(damage))?;
            let key = Key::rehashed(entry.name, hash);
            self.fat_in(tx).put(tx, &key, &ZapValue::from(entry.value), Put::AddWithCd(cd)).await?;
        }
        *form = Form::Fat;
        Ok(())
    }

    async fn read_form(&self) -> Result<RwLockReadGuard<'_, Form>, ZapError> {
        loop {
            let form = self.blocks.shared().read().await;
            if !matches!(*form, Form::Unknown) {
                return Ok(form);
            }
            drop(form);
            let mut guard = self.blocks.shared().write().await;
            self.know(guard.form()).await?;
        }
    }

    async fn write_form<'a>(&self, tx: &'a B::Tx) -> Result<Writing<'a, B>, ZapError> {
        let mut form = Writing::begin(&*self.blocks, tx).await;
        self.know(&mut form).await?;
        Ok(form)
    }

    async fn know(&self, form: &mut Form) -> Result<(), ZapError> {
        if matches!(form, Form::Unknown) {
            *form = self.look().await?;
        }
        Ok(())
    }

    /// Reads the first block and says what it begins.
    async fn look(&self) -> Result<Form, ZapError> {
        let block = self.blocks.read_block(None, BlockId::new(0)).await?;
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
