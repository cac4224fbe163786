//! The two tables that give the bytes of a bonus their meaning.

use std::collections::BTreeMap;
use std::sync::Arc;

use ondisk::sa::{
    LAYOUT_EMPTY, LAYOUT_FIRST, LAYOUT_LEGACY, LAYOUTS_MAX, SaAttr, SaByteSwap, ZplAttr, legacy_layout,
};

/// Registry and layouts of one dataset, in memory.
#[derive(Clone, Debug)]
pub struct SaTables {
    /// Number of each attribute we know.
    numbers: [u16; ZplAttr::COUNT],
    /// Length of each registered or known attribute, by number.
    lengths: BTreeMap<u16, u16>,
    /// How foreign values are swapped, by number.
    swaps: BTreeMap<u16, SaByteSwap>,
    /// Which of ours each number is.
    known: BTreeMap<u16, ZplAttr>,
    /// Attributes we know and the registry on disk does not have yet.
    unregistered: Vec<ZplAttr>,
    layouts: BTreeMap<u16, Arc<[u16]>>,
    by_attrs: BTreeMap<Arc<[u16]>, u16>,
}

impl SaTables {
    /// The tables of a dataset: what its REGISTRY and LAYOUTS hold. Attributes that are not
    /// registered get the next free numbers.
    #[must_use]
    pub fn new(registry: &[(String, SaAttr)], layouts: &[(u16, Vec<u16>)]) -> Self {
        let by_name: BTreeMap<&str, SaAttr> =
            registry.iter().map(|(name, info)| (name.as_str(), *info)).collect();
        let mut next = if registry.is_empty() { ZplAttr::LEGACY_COUNT as u16 } else { registry.len() as u16 };
        let mut tables = Self {
            numbers: [0; ZplAttr::COUNT],
            lengths: registry.iter().map(|(_, info)| (info.number, info.length)).collect(),
            swaps: registry.iter().map(|(_, info)| (info.number, info.byte_swap)).collect(),
            known: BTreeMap::new(),
            unregistered: Vec::new(),
            layouts: BTreeMap::new(),
            by_attrs: BTreeMap::new(),
        };
        for attr in ZplAttr::ALL {
            let registered = by_name.get(attr.name()).map(|info| info.number);
            let number = match registered {
                _ if attr.index() < ZplAttr::LEGACY_COUNT => attr.index() as u16,
                Some(number) => number,
                None => {
                    next += 1;
                    next - 1
                }
            };
            if registered.is_none() {
                tables.unregistered.push(attr);
            }
            tables.numbers[attr.index()] = number;
            tables.lengths.entry(number).or_insert(attr.length());
            tables.swaps.entry(number).or_insert(attr.byte_swap());
            tables.known.insert(number, attr);
        }
        tables.layouts.insert(LAYOUT_LEGACY, legacy_layout().into());
        tables.layouts.insert(LAYOUT_EMPTY, Vec::new().into());
        for (number, attrs) in layouts {
            tables.add_layout(*number, attrs.as_slice().into());
        }
        tables
    }

    /// The dataset's number for `attr`.
    #[must_use]
    pub fn number(&self, attr: ZplAttr) -> u16 {
        self.numbers[attr.index()]
    }

    /// Which of ours `number` is.
    #[must_use]
    pub fn known(&self, number: u16) -> Option<ZplAttr> {
        self.known.get(&number).copied()
    }

    /// Bytes of the values of `number`, 0 when variable; `None` for a number nobody registered.
    #[must_use]
    pub fn length(&self, number: u16) -> Option<u16> {
        self.lengths.get(&number).copied()
    }

    /// How values of `number` are swapped.
    #[must_use]
    pub fn byte_swap(&self, number: u16) -> Option<SaByteSwap> {
        self.swaps.get(&number).copied()
    }

    /// The attributes of layout `number`.
    #[must_use]
    pub fn layout(&self, number: u16) -> Option<&Arc<[u16]>> {
        self.layouts.get(&number)
    }

    /// The number of the layout of just these attributes in this order.
    #[must_use]
    pub fn layout_number(&self, attrs: &[u16]) -> Option<u16> {
        self.by_attrs.get(attrs).copied()
    }

    /// The number that the next new layout gets; `None` when all are taken.
    #[must_use]
    pub fn next_layout(&self) -> Option<u16> {
        let next = self.layouts.len() as u16;
        (LAYOUT_FIRST..LAYOUTS_MAX).contains(&next).then_some(next)
    }

    /// Takes up a layout that is in the LAYOUTS object.
    pub fn add_layout(&mut self, number: u16, attrs: Arc<[u16]>) {
        self.layouts.insert(number, Arc::clone(&attrs));
        self.by_attrs.entry(attrs).or_insert(number);
    }

    /// What must be registered before any object uses our numbers.
    #[must_use]
    pub fn unregistered(&self) -> Vec<(ZplAttr, SaAttr)> {
        self.unregistered.iter().map(|&attr| (attr, attr.registration(self.number(attr)))).collect()
    }

    /// Everything is registered now.
    pub fn set_registered(&mut self) {
        self.unregistered.clear();
    }
}
