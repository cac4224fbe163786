//! What was found, to be shown as text or as JSON.

use ondisk::describe::{Field, FieldValue, about_config};
use ondisk::{NvList, NvValue};
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// Names and what they stand for, in order.
#[derive(Clone, Debug, Default)]
pub struct Report(Vec<Item>);

#[derive(Clone, Debug)]
struct Item {
    name: String,
    about: String,
    content: Content,
}

#[derive(Clone, Debug)]
enum Content {
    Value(Value),
    Report(Report),
}

impl Report {
    /// Adds a value.
    pub fn value(&mut self, name: impl Into<String>, value: impl Into<Value>, about: &str) {
        self.push(name.into(), about, Content::Value(value.into()));
    }

    /// Adds a section.
    pub fn section(&mut self, name: impl Into<String>, about: &str, section: Self) {
        self.push(name.into(), about, Content::Report(section));
    }

    /// Adds all that another report has.
    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    fn push(&mut self, name: String, about: &str, content: Content) {
        self.0.push(Item { name, about: about.to_owned(), content });
    }

    /// A structure's fields.
    pub fn of_fields(fields: &[Field]) -> Self {
        let mut report = Self::default();
        for field in fields {
            match &field.value {
                FieldValue::Number(number) => report.value(field.name, *number, field.about),
                FieldValue::Text(text) => report.value(field.name, text.clone(), field.about),
                FieldValue::Fields(below) => {
                    report.section(field.name, field.about, Self::of_fields(below));
                }
            }
        }
        report
    }

    /// A configuration.
    pub fn of_nvlist(list: &NvList) -> Self {
        let mut report = Self::default();
        for (name, value) in list.iter() {
            let about = about_config(name);
            match value {
                NvValue::List(below) => report.section(name, about, Self::of_nvlist(below)),
                NvValue::ListArray(lists) => {
                    for (place, below) in lists.iter().enumerate() {
                        report.section(format!("{name}[{place}]"), about, Self::of_nvlist(below));
                    }
                }
                NvValue::Flag => report.value(name, true, about),
                NvValue::U64(number) => report.value(name, *number, about),
                NvValue::Str(text) => report.value(name, text.clone(), about),
                other => report.value(name, format!("{other:?}"), about),
            }
        }
        report
    }

    /// For people: `name: value  # what it means`, sections indented.
    pub fn text(&self) -> String {
        let mut text = String::new();
        self.write(&mut text, 0);
        text
    }

    fn write(&self, text: &mut String, depth: usize) {
        let indent = "    ".repeat(depth);
        for item in &self.0 {
            let note = if item.about.is_empty() { String::new() } else { format!("  # {}", item.about) };
            match &item.content {
                Content::Value(Value::String(value)) => {
                    _ = writeln!(text, "{indent}{}: {}{note}", item.name, printable(value));
                }
                Content::Value(value) => _ = writeln!(text, "{indent}{}: {value}{note}", item.name),
                Content::Report(below) => {
                    _ = writeln!(text, "{indent}{}:{note}", item.name);
                    below.write(text, depth + 1);
                }
            }
        }
    }

    /// For programs: each name has a `value` or `fields`, and `about` where there is something to
    /// say.
    pub fn json(&self) -> Value {
        let mut all = Map::new();
        for item in &self.0 {
            let mut one = match &item.content {
                Content::Value(value) => json!({ "value": value }),
                Content::Report(below) => json!({ "fields": below.json() }),
            };
            if !item.about.is_empty() {
                one["about"] = item.about.clone().into();
            }
            all.insert(item.name.clone(), one);
        }
        Value::Object(all)
    }
}

/// Names from a disk may hold what a terminal would obey.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { '?' } else { c }).collect()
}

/// Bytes, sixteen to a line, with offsets and letters.
pub fn dump(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (line, sixteen) in bytes.chunks(16).enumerate() {
        let hex: Vec<String> = sixteen.iter().map(|byte| format!("{byte:02x}")).collect();
        let letter =
            |&byte: &u8| if byte.is_ascii_graphic() || byte == b' ' { char::from(byte) } else { '.' };
        let letters: String = sixteen.iter().map(letter).collect();
        _ = writeln!(text, "{:08x}  {:47}  {letters}", line * 16, hex.join(" "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_json_say_the_same() {
        let mut inner = Report::default();
        inner.value("txg", 7_u64, "which group");
        let mut report = Report::default();
        report.section("label 0", "", inner);
        report.value("name", "a\u{1b}b", "");
        assert_eq!(report.text(), "label 0:\n    txg: 7  # which group\nname: a?b\n");
        let json = json!({
            "label 0": { "fields": { "txg": { "value": 7, "about": "which group" } } },
            "name": { "value": "a\u{1b}b" },
        });
        assert_eq!(report.json(), json);
    }

    #[test]
    fn bytes_are_dumped_with_offsets() {
        let dumped = dump(b"0123456789abcdef\x00!");
        assert_eq!(
            dumped.lines().nth(1).map(str::trim_end),
            Some("00000010  00 21                                            .!")
        );
    }
}
