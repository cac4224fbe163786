//! The two tables that give the bytes of a bonus their meaning.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ZplAttr;

/// Layout of a bonus of the old znode type: no header, the sixteen legacy attributes.
const LAYOUT_ZNODE: u16 = 0;
/// Layout of an empty bonus.
const LAYOUT_EMPTY: u16 = 1;
/// Numbers that are never stored in the LAYOUTS object.
const BUILTIN_LAYOUTS: u16 = 2;
/// Layout numbers have ten bits.
const LAYOUT_MAX: u16 = 1023;

/// One attribute of the registry.
///
/// ```text
///  63      40 39        24 23      16 15          0
/// +----------+------------+----------+-------------+
/// |  unused  |   length   |   swap   |   number    |
/// +----------+------------+----------+-------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttrInfo {
    /// The dataset's number for it.
    pub number: u16,
    /// Bytes of a value, 0 when variable.
    pub length: u16,
    /// How foreign values are swapped.
    pub swap_class: u8,
}

impl AttrInfo {
    /// The registry's word.
    #[must_use]
    pub fn encode(self) -> u64 {
        u64::from(self.length) << 24 | u64::from(self.swap_class) << 16 | u64::from(self.number)
    }

    /// From the registry's word.
    #[must_use]
    pub fn decode(word: u64) -> Self {
        Self { number: word as u16, swap_class: (word >> 16) as u8, length: (word >> 24) as u16 }
    }
}

/// Registry and layouts of one dataset, in memory.
#[derive(Clone, Debug)]
pub struct SaTables {
    /// Number of each attribute we know.
    numbers: [u16; ZplAttr::COUNT],
    /// Length of each registered or known attribute, by number.
    lengths: BTreeMap<u16, u16>,
    /// How foreign values are swapped, by number.
    classes: BTreeMap<u16, u8>,
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
    pub fn new(registry: &[(String, AttrInfo)], layouts: &[(u16, Vec<u16>)]) -> Self {
        let by_name: BTreeMap<&str, AttrInfo> =
            registry.iter().map(|(name, info)| (name.as_str(), *info)).collect();
        let mut next = if registry.is_empty() { ZplAttr::LEGACY_COUNT as u16 } else { registry.len() as u16 };
        let mut tables = Self {
            numbers: [0; ZplAttr::COUNT],
            lengths: registry.iter().map(|(_, info)| (info.number, info.length)).collect(),
            classes: registry.iter().map(|(_, info)| (info.number, info.swap_class)).collect(),
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
            tables.classes.entry(number).or_insert(attr.swap_class());
            tables.known.insert(number, attr);
        }
        let legacy: Vec<u16> = (0..ZplAttr::LEGACY_COUNT as u16).collect();
        tables.layouts.insert(LAYOUT_ZNODE, legacy.into());
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

    /// How values of `number` are swapped: the registry's class.
    #[must_use]
    pub fn swap_class(&self, number: u16) -> Option<u8> {
        self.classes.get(&number).copied()
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
        (BUILTIN_LAYOUTS..=LAYOUT_MAX).contains(&next).then_some(next)
    }

    /// Takes up a layout that is in the LAYOUTS object.
    pub fn add_layout(&mut self, number: u16, attrs: Arc<[u16]>) {
        self.layouts.insert(number, Arc::clone(&attrs));
        self.by_attrs.entry(attrs).or_insert(number);
    }

    /// What must be registered before any object uses our numbers.
    #[must_use]
    pub fn unregistered(&self) -> Vec<(ZplAttr, AttrInfo)> {
        self.unregistered
            .iter()
            .map(|&attr| {
                let info = AttrInfo {
                    number: self.number(attr),
                    length: attr.length(),
                    swap_class: attr.swap_class(),
                };
                (attr, info)
            })
            .collect()
    }

    /// Everything is registered now.
    pub fn set_registered(&mut self) {
        self.unregistered.clear();
    }
}
