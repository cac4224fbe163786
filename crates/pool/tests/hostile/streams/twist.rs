//! Changes of a stream that no sender makes, with regard to what records mean.

use std::collections::BTreeMap;

use fastrand::Rng;
use ondisk::send::{DrrBegin, DrrType, TONAME_BYTES, begin_names};
use ondisk::{NvList, NvValue};

use super::fields::{Field, Odd, fields};
use super::record::{BODY_AT, SentRecord};
use crate::mutate::{ODD, change};

/// Longer texts replace those of a list.
const TEXTS: [&str; 8] =
    ["", "/", "whirl", "whirl/fs@1", "whirl/../x@1", "@", "whirl/fs/%recv@1", "a\u{fffd}\n\u{7f}"];
const GUID_AT: usize = BODY_AT + std::mem::offset_of!(DrrBegin, toguid);
const NAME_AT: usize = BODY_AT + std::mem::offset_of!(DrrBegin, toname);
const END_GUID_AT: usize = BODY_AT + 32;

/// Changes one to three things, and gives each payload the length that its record announces.
pub fn twist(dice: &mut Rng, records: &mut Vec<SentRecord>) {
    for _ in 0..1 + dice.usize(..3) {
        match dice.usize(..16) {
            0..=6 => change_field(dice, records),
            7 | 8 => change_payload(dice, records),
            9 => change_begin(dice, records),
            10 => change_type(dice, records),
            11 | 12 => insert(dice, records),
            13 | 14 => reorder(dice, records),
            _ => resize(dice, records),
        }
    }
    records.iter_mut().for_each(SentRecord::fit);
}

/// A record. Its type is drawn first, so that each type is drawn as often as the others.
fn draw(dice: &mut Rng, records: &[SentRecord]) -> Option<usize> {
    let mut by_type: BTreeMap<DrrType, Vec<usize>> = BTreeMap::new();
    for (at, record) in records.iter().enumerate() {
        if let Some(drr_type) = record.drr_type() {
            by_type.entry(drr_type).or_default().push(at);
        }
    }
    let of_type = by_type.values().nth(dice.usize(..by_type.len().max(1)))?;
    Some(of_type[dice.usize(..of_type.len())])
}

fn change_field(dice: &mut Rng, records: &mut [SentRecord]) {
    let Some(at) = draw(dice, records) else { return };
    let Some(drr_type) = records[at].drr_type() else { return };
    let all = fields(drr_type);
    let field = &all[dice.usize(..all.len())];
    let value = drawn_value(dice, records, at, field);
    let old = records[at].get(field.at, field.width);
    records[at].set(field.at, field.width, value);
    if field.at == GUID_AT && drr_type == DrrType::Begin && dice.u8(..) > 64 {
        // The END has the guid, too.
        let ends = records.iter_mut().filter(|record| record.drr_type() == Some(DrrType::End));
        ends.filter(|end| end.get(END_GUID_AT, 8) == old).for_each(|end| end.set(END_GUID_AT, 8, value));
    }
}

fn drawn_value(dice: &mut Rng, records: &[SentRecord], at: usize, field: &Field) -> u64 {
    let old = records[at].get(field.at, field.width);
    match dice.usize(..10) {
        0..=3 => match field.odd {
            Odd::Value(values) => values[dice.usize(..values.len())],
            Odd::Bit(bits) => old ^ bits[dice.usize(..bits.len())],
        },
        4 | 5 => {
            let alike = |record: &&SentRecord| record.drr_type() == records[at].drr_type();
            let alike: Vec<&SentRecord> = records.iter().filter(alike).collect();
            alike[dice.usize(..alike.len())].get(field.at, field.width)
        }
        6 => old.wrapping_add(1),
        7 => old.wrapping_sub(1),
        8 => old << 1,
        _ => old ^ 1 << dice.usize(..8 * field.width),
    }
}

/// Changes some bytes of a payload: of a bonus buffer, a directory, a block, a list.
fn change_payload(dice: &mut Rng, records: &mut [SentRecord]) {
    let with_payload: Vec<usize> = (0..records.len()).filter(|&at| !records[at].payload.is_empty()).collect();
    if with_payload.is_empty() {
        return;
    }
    let payload = &mut records[with_payload[dice.usize(..with_payload.len())]].payload;
    for _ in 0..1 + dice.usize(..4) {
        let at = dice.usize(..payload.len());
        change(dice, payload, at);
    }
}

/// Changes the name or the list of a BEGIN.
fn change_begin(dice: &mut Rng, records: &mut [SentRecord]) {
    let begins: Vec<usize> =
        (0..records.len()).filter(|&at| records[at].drr_type() == Some(DrrType::Begin)).collect();
    if begins.is_empty() {
        return;
    }
    let begin = &mut records[begins[dice.usize(..begins.len())]];
    match (dice.usize(..3), NvList::decode(&begin.payload)) {
        (0, _) => change_name(dice, begin),
        (_, Ok(mut list)) => {
            change_list(dice, &mut list);
            begin.set_list(list.encode());
        }
        (_, Err(_)) => {
            let mut list = NvList::new();
            list.add_u64(begin_names::RESUME_OBJECT, ODD[dice.usize(..ODD.len())]);
            list.add_u64(begin_names::RESUME_OFFSET, ODD[dice.usize(..ODD.len())]);
            list.add_u64_array(begin_names::REDACT_SNAPS, vec![7; dice.usize(..3)]);
            begin.set_list(list.encode());
        }
    }
}

fn change_name(dice: &mut Rng, begin: &mut SentRecord) {
    let name = &mut begin.head[NAME_AT..NAME_AT + TONAME_BYTES];
    match dice.usize(..4) {
        0 => name.fill(b'a'),
        1 => dice.fill(name),
        2 => change(dice, name, 3),
        _ => {
            let text = TEXTS[dice.usize(..TEXTS.len())].bytes().chain(std::iter::repeat(0));
            name.iter_mut().zip(text).for_each(|(to, byte)| *to = byte);
        }
    }
}

/// Changes a value of a list, or of a list in it, or removes the value.
fn change_list(dice: &mut Rng, list: &mut NvList) {
    let names: Vec<String> = list.iter().map(|(name, _)| name.to_owned()).collect();
    let Some(name) = names.get(dice.usize(..names.len().max(1))) else { return };
    if let Some(NvValue::List(inner)) = list.get_mut(name)
        && dice.u8(..) > 16
    {
        return change_list(dice, inner);
    }
    let odd = ODD[dice.usize(..ODD.len())];
    let text = TEXTS[dice.usize(..TEXTS.len())].to_owned();
    match (dice.usize(..8), list.get_mut(name)) {
        (0, _) => _ = list.remove(name),
        (1, _) => _ = list.add(name, NvValue::Flag),
        (2, _) => _ = list.add_u64(&text, odd),
        (_, Some(NvValue::U64(number))) => *number = odd,
        (_, Some(NvValue::Str(old))) => *old = text,
        (_, Some(NvValue::U64Array(numbers))) => numbers.push(odd),
        (3, _) => _ = list.add_str(name, text),
        (_, _) => _ = list.add_u64(name, odd),
    }
}

/// Reads the fields of a record as those of another type.
fn change_type(dice: &mut Rng, records: &mut [SentRecord]) {
    let Some(at) = draw(dice, records) else { return };
    records[at].set(0, 4, dice.u64(..12));
}

/// Inserts a record about an object of the stream.
fn insert(dice: &mut Rng, records: &mut Vec<SentRecord>) {
    let of_objects = [
        DrrType::Object,
        DrrType::Freeobjects,
        DrrType::Write,
        DrrType::Free,
        DrrType::Spill,
        DrrType::WriteEmbedded,
        DrrType::Redact,
        DrrType::WriteByref,
        DrrType::ObjectRange,
    ];
    let drr_type = of_objects[dice.usize(..of_objects.len())];
    let mut made = SentRecord::empty(drr_type);
    for field in fields(drr_type) {
        if let Odd::Value(values) = field.odd
            && dice.bool()
        {
            made.set(field.at, field.width, values[dice.usize(..values.len())]);
        }
    }
    if let Some(near) = draw(dice, records).filter(|_| dice.u8(..) > 32) {
        let object = records[near].get(BODY_AT, 8);
        made.set(BODY_AT, 8, object);
    }
    records.insert(1 + dice.usize(..records.len()), made);
}

/// Drops, doubles, swaps or moves records, or cuts the stream off.
fn reorder(dice: &mut Rng, records: &mut Vec<SentRecord>) {
    if records.len() < 3 {
        return;
    }
    let Some(from) = draw(dice, records) else { return };
    let to = dice.usize(..records.len());
    match dice.usize(..8) {
        0 | 1 => _ = records.remove(from),
        2 | 3 => records.insert(to, records[from].clone()),
        4 => records.swap(from, to),
        5 | 6 => {
            let record = records.remove(from);
            records.insert(to, record);
        }
        _ => records.truncate(from.max(1)),
    }
}

/// Makes a payload shorter or longer than its record announces.
fn resize(dice: &mut Rng, records: &mut [SentRecord]) {
    let Some(at) = draw(dice, records) else { return };
    let record = &mut records[at];
    let len = record.payload.len();
    let other = [0, len / 2, len + 4, len + 8, len + 312, len + 1];
    record.payload.resize(other[dice.usize(..other.len())], 9);
    record.is_loose = true;
}
