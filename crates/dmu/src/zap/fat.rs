//! Fat ZAPs: header, pointer table and leaves over an object's blocks. The caller holds the
//! lock: any number of readers, or one writer.

use std::sync::Arc;

use env::IoBuf;
use units::BlockId;

use super::Blocks;
use super::bytes::{put_u64, u64_at};
use super::cursor::{Cursor, ZapEntry};
use super::error::{Damage, ZapError};
use super::header::{Header, Params, block_shift, embedded_shift};
use super::key::Key;
use super::leaf::{Leaf, Shape, array_chunks};
use super::leaf_edit::{LeafChange, leaf_flags};
use super::value::ZapValue;

/// Splits that one insertion may need: one per bit of the hash.
const SPLITS_MAX: u32 = 64;

/// What to do when the name is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Put {
    /// Refuse.
    Add,
    /// Replace the value.
    Update,
    /// Refuse; and the new entry has this differentiator.
    AddWithCd(u32),
}

/// A fat ZAP's blocks.
pub(super) struct Fat<'a, B: Blocks> {
    pub(super) blocks: &'a B,
    /// What the blocks are read as of.
    pub(super) tx: Option<&'a B::Tx>,
}

impl<B: Blocks> Fat<'_, B> {
    fn damage(&self, block: u64) -> impl Fn(Damage) -> ZapError {
        let object = self.blocks.object();
        move |damage| damage.at(object, block)
    }

    async fn read(&self, block: u64) -> Result<Arc<IoBuf>, ZapError> {
        Ok(self.blocks.read_block(self.tx, BlockId::new(block)).await?)
    }

    async fn write(&self, tx: &B::Tx, block: u64, data: IoBuf) -> Result<(), ZapError> {
        Ok(self.blocks.write_block(tx, BlockId::new(block), Arc::new(data)).await?)
    }

    /// The key of a name.
    pub(super) async fn name_key(&self, name: &[u8]) -> Result<Key, ZapError> {
        Key::name(self.blocks.object(), &self.header().await?.params, name)
    }

    /// The key of an array of words.
    pub(super) async fn words_key(&self, words: &[u64]) -> Result<Key, ZapError> {
        Key::words(self.blocks.object(), &self.header().await?.params, words)
    }

    /// Reads the header.
    pub(super) async fn header(&self) -> Result<Header, ZapError> {
        Header::decode(&self.read(0).await?).map_err(self.damage(0))
    }

    /// Makes an empty fat ZAP of the object, whose block size is set. Its contents are lost.
    pub(super) async fn format(&self, tx: &B::Tx, params: Params) -> Result<(), ZapError> {
        let bytes = self.blocks.block_bytes(Some(tx)) as usize;
        let shift = block_shift(bytes).map_err(self.damage(0))?;
        let mut first = IoBuf::zeroed(bytes);
        Header::new(shift, params).encode(&mut first);
        for index in 0..1 << embedded_shift(shift) {
            put_u64(&mut first, embedded_at(shift, index), 1);
        }
        self.write(tx, 0, first).await?;
        let leaf = Leaf::format(IoBuf::zeroed(bytes), 0, 0, leaf_flags(params.normflags));
        self.write(tx, 1, leaf.bytes).await
    }

    /// Which block is the leaf of this hash.
    async fn leaf_block(&self, header: &Header, hash: u64) -> Result<u64, ZapError> {
        let index = header.pointer_index(hash);
        let pointer = self.pointer(header, index).await?;
        // Block 0 is the header: a pointer to it is what a hole reads as.
        if pointer == 0 || pointer >= 1 << 40 {
            return Err(Damage("pointer to no leaf").at(self.blocks.object(), header.table.block));
        }
        Ok(pointer)
    }

    async fn pointer(&self, header: &Header, index: u64) -> Result<u64, ZapError> {
        let (block, at) = pointer_at(header, index);
        Ok(u64_at(&self.read(block).await?, at))
    }

    /// Looks a key up; `pick` takes what it needs from the leaf.
    pub(super) async fn lookup<R>(
        &self,
        key: &Key,
        pick: impl Fn(&Leaf<&[u8]>, &super::leaf::Entry) -> Result<R, Damage> + Send,
    ) -> Result<Option<R>, ZapError> {
        let header = self.header().await?;
        let block = self.leaf_block(&header, key.hash).await?;
        let data = self.read(block).await?;
        let found = || {
            let leaf = Leaf::open(&data[..], key.hash)?;
            leaf.find(key)?.map(|entry| pick(&leaf, &entry)).transpose()
        };
        found().map_err(self.damage(block))
    }

    /// Adds or updates an entry, splitting leaves until it fits.
    pub(super) async fn put(
        &self,
        tx: &B::Tx,
        key: &Key,
        value: &ZapValue,
        how: Put,
    ) -> Result<(), ZapError> {
        self.check_size(key, value)?;
        for _ in 0..SPLITS_MAX {
            let header = self.header().await?;
            let block = self.leaf_block(&header, key.hash).await?;
            let data = self.read(block).await?;
            let leaf = Leaf::open(&data[..], key.hash).map_err(self.damage(block))?;
            let there = leaf.find(key).map_err(self.damage(block))?;
            if there.is_some() && how != Put::Update {
                return Err(ZapError::Exists { object: self.blocks.object(), name: key.shown() });
            }
            let cd = if let Put::AddWithCd(cd) = how { Some(cd) } else { None };
            let change = match there {
                Some(entry) => leaf.replacement(entry.chunk, value),
                None => leaf.insertion(key, value, cd),
            };
            if let Some(change) = change.map_err(self.damage(block))? {
                self.change_leaf(tx, block, data, change);
                return if there.is_none() { self.count(tx, 1).await } else { Ok(()) };
            }
            self.split(tx, key.hash).await?;
        }
        Err(ZapError::Full { object: self.blocks.object() })
    }

    /// Removes an entry.
    pub(super) async fn remove(&self, tx: &B::Tx, key: &Key) -> Result<(), ZapError> {
        let header = self.header().await?;
        let block = self.leaf_block(&header, key.hash).await?;
        let data = self.read(block).await?;
        let leaf = Leaf::open(&data[..], key.hash).map_err(self.damage(block))?;
        let Some((link, entry)) = leaf.find_linked(key).map_err(self.damage(block))? else {
            return Err(ZapError::NotFound { object: self.blocks.object(), name: key.shown() });
        };
        let change = leaf.removal(link, &entry).map_err(self.damage(block))?;
        self.change_leaf(tx, block, data, change);
        self.count(tx, -1).await
    }

    fn change_leaf(&self, tx: &B::Tx, block: u64, data: Arc<IoBuf>, change: LeafChange) {
        self.blocks.modify_read(tx, BlockId::new(block), data, move |bytes| change.carry_out(bytes));
    }

    /// Up to `limit` entries from `cursor` on.
    pub(super) async fn entries(&self, cursor: Cursor, limit: usize) -> Result<Vec<ZapEntry>, ZapError> {
        let header = self.header().await?;
        let hash_bits = header.params.hash_bits();
        let mut found = Vec::new();
        let mut place = cursor.unpack(hash_bits);
        while let Some((hash, cd)) = place.filter(|_| found.len() < limit) {
            let block = self.leaf_block(&header, hash).await?;
            let data = self.read(block).await?;
            let wanted = limit - found.len();
            let read = || {
                let leaf = Leaf::open(&data[..], hash)?;
                if leaf.prefix_len() > header.table.shift {
                    return Err(Damage("leaf prefix longer than the pointer table's"));
                }
                let entries = leaf.entries_from(hash, cd, wanted)?;
                let filled = entries.len() == wanted;
                let whole = |entry: &super::leaf::Entry| {
                    Ok(ZapEntry {
                        name: leaf.name(entry, header.params.word_keys())?,
                        value: leaf.value(entry)?,
                        next: Cursor::pack(entry.hash, entry.cd.saturating_add(1), hash_bits),
                    })
                };
                let entries = entries.iter().map(whole).collect::<Result<Vec<_>, Damage>>()?;
                Ok((entries, if filled { None } else { after_leaf(leaf.prefix(), leaf.prefix_len()) }))
            };
            let (entries, next) = read().map_err(self.damage(block))?;
            found.extend(entries);
            place = next;
        }
        Ok(found)
    }

    /// Adds to the number of entries.
    async fn count(&self, tx: &B::Tx, delta: i64) -> Result<(), ZapError> {
        let data = self.read(0).await?;
        let mut header = Header::decode(&data).map_err(self.damage(0))?;
        header.entries = header.entries.saturating_add_signed(delta);
        self.blocks.modify_read(tx, BlockId::new(0), data, move |bytes| header.encode(bytes));
        Ok(())
    }

    async fn put_header(&self, tx: &B::Tx, header: Header) -> Result<(), ZapError> {
        Ok(self.blocks.modify_block(tx, BlockId::new(0), move |bytes| header.encode(bytes)).await?)
    }

    fn check_size(&self, key: &Key, value: &ZapValue) -> Result<(), ZapError> {
        let shift = block_shift(self.blocks.block_bytes(self.tx) as usize).map_err(self.damage(0))?;
        let need = 1 + array_chunks(key.bytes.len()) + array_chunks(value.bytes_len());
        if value.bytes_len() > ondisk::zap::VALUE_MAX_BYTES || need > usize::from(Shape { shift }.chunks()) {
            return Err(ZapError::ValueTooLarge { object: self.blocks.object(), bytes: value.bytes_len() });
        }
        Ok(())
    }

    /// Splits the leaf of this hash in two, unless even the largest pointer table that we create
    /// would not separate its entries.
    /// (test: `names_of_one_hash_are_refused_before_anything_grows`) The order of the writes keeps
    /// the ZAP valid if a read fails half way: new leaf, pointers to it, old leaf.
    async fn split(&self, tx: &B::Tx, hash: u64) -> Result<(), ZapError> {
        self.finish_growth(tx).await?;
        let mut header = self.header().await?;
        let block = self.leaf_block(&header, hash).await?;
        let data = self.read(block).await?;
        let leaf = Leaf::open(&data[..], hash).map_err(self.damage(block))?;
        if leaf.prefix_len() > header.table.shift {
            return Err(self.damage(block)(Damage("leaf prefix longer than the pointer table's")));
        }
        // The number of hash bits that separate the entries of the leaf. A split by fewer bits
        // frees no room.
        let telling = leaf.common_bits(hash).map_err(self.damage(block))?.max(leaf.prefix_len()) + 1;
        if telling > header.table.shift.max(header.table_shift_max()) {
            return Err(ZapError::Full { object: self.blocks.object() });
        }
        if leaf.prefix_len() == header.table.shift {
            self.grow_table(tx).await?;
            header = self.header().await?;
        }
        let mut low = IoBuf::zeroed(data.len());
        let mut high = IoBuf::zeroed(data.len());
        leaf.split_into(&mut low, &mut high, leaf_flags(header.params.normflags))
            .map_err(self.damage(block))?;

        let new_block = header.free_block;
        let spare = header.table.shift - leaf.prefix_len() - 1;
        let first = (leaf.prefix() << 1 | 1) << spare;
        self.check_pointers(&header, first, 1 << spare, block).await?;
        header.free_block += 1;
        header.leaves = header.leaves.saturating_add(1);
        self.put_header(tx, header).await?;
        self.write(tx, new_block, high).await?;
        self.set_pointers(tx, &header, first, 1 << spare, new_block).await?;
        self.write(tx, block, low).await
    }

    /// That `count` pointers from `first` on lead to `block`, as the leaf's prefix says.
    async fn check_pointers(
        &self,
        header: &Header,
        first: u64,
        count: u64,
        block: u64,
    ) -> Result<(), ZapError> {
        let mut index = first;
        while index < first + count {
            let (table_block, at) = pointer_at(header, index);
            let run = pointers_left(header, index).min(first + count - index);
            let data = self.read(table_block).await?;
            if (0..run as usize).any(|step| u64_at(&data, at + 8 * step) != block) {
                return Err(self.damage(table_block)(Damage("pointers do not agree with a leaf's prefix")));
            }
            index += run;
        }
        Ok(())
    }

    /// Points `count` pointers from `first` on to `block`.
    async fn set_pointers(
        &self,
        tx: &B::Tx,
        header: &Header,
        first: u64,
        count: u64,
        block: u64,
    ) -> Result<(), ZapError> {
        let mut index = first;
        while index < first + count {
            let (table_block, at) = pointer_at(header, index);
            let run = pointers_left(header, index).min(first + count - index);
            let change = move |bytes: &mut [u8]| {
                for step in 0..run as usize {
                    put_u64(bytes, at + 8 * step, block);
                }
            };
            self.blocks.modify_block(tx, BlockId::new(table_block), change).await?;
            index += run;
        }
        Ok(())
    }

    /// Doubles the pointer table.
    async fn grow_table(&self, tx: &B::Tx) -> Result<(), ZapError> {
        let mut header = self.header().await?;
        if header.table.blocks > 0 {
            header.table.next_block = header.free_block;
            header.free_block += 2 * header.table.blocks;
            self.put_header(tx, header).await?;
            return self.finish_growth(tx).await;
        }
        let first = self.read(0).await?;
        let mut table = IoBuf::zeroed(first.len());
        for index in 0..1 << header.table.shift {
            let pointer = u64_at(&first, embedded_at(header.block_shift, index));
            put_u64(&mut table, 16 * index as usize, pointer);
            put_u64(&mut table, 16 * index as usize + 8, pointer);
        }
        header.table.block = header.free_block;
        header.table.blocks = 1;
        header.table.shift += 1;
        header.free_block += 1;
        self.write(tx, header.table.block, table).await?;
        self.put_header(tx, header).await
    }

    /// Copies what is left of a table that is being doubled, and moves over to it.
    async fn finish_growth(&self, tx: &B::Tx) -> Result<(), ZapError> {
        let mut header = self.header().await?;
        if header.table.next_block == 0 {
            return Ok(());
        }
        let half = header.pointers_per_block() as usize / 2;
        for step in header.table.copied..header.table.blocks {
            let old = self.read(header.table.block + step).await?;
            for part in 0..2 {
                let mut new = IoBuf::zeroed(old.len());
                for index in 0..half {
                    let pointer = u64_at(&old, 8 * (part * half + index));
                    put_u64(&mut new, 16 * index, pointer);
                    put_u64(&mut new, 16 * index + 8, pointer);
                }
                self.write(tx, header.table.next_block + 2 * step + part as u64, new).await?;
            }
        }
        let old = header.table;
        header.table.block = old.next_block;
        header.table.blocks = 2 * old.blocks;
        header.table.shift += 1;
        header.table.next_block = 0;
        header.table.copied = 0;
        self.put_header(tx, header).await?;
        Ok(self.blocks.free_blocks(tx, BlockId::new(old.block), old.blocks).await?)
    }
}

/// The first hash after a leaf's; `None` after the last leaf.
fn after_leaf(prefix: u64, prefix_len: u32) -> Option<(u64, u32)> {
    let next = prefix + 1;
    (prefix_len > 0 && next >> prefix_len == 0).then(|| (next << (64 - prefix_len), 0))
}

/// Where in the header block a pointer of the embedded table is.
const fn embedded_at(block_shift: u32, index: u64) -> usize {
    (1 << (block_shift - 1)) + 8 * index as usize
}

/// Block and offset of a pointer.
const fn pointer_at(header: &Header, index: u64) -> (u64, usize) {
    if header.table.blocks == 0 {
        return (0, embedded_at(header.block_shift, index));
    }
    let per_block = header.pointers_per_block();
    (header.table.block + index / per_block, 8 * (index % per_block) as usize)
}

/// Pointers from `index` to the end of its block.
const fn pointers_left(header: &Header, index: u64) -> u64 {
    if header.table.blocks == 0 {
        return (1 << header.table.shift) - index;
    }
    header.pointers_per_block() - index % header.pointers_per_block()
}
