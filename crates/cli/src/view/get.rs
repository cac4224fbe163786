//! `zpool get` and `zfs get`.

use super::json::Json;
use super::table::{Column, table};
use engine::props::{
    DATASET_PROPS, Kind, OwnerProp, PropDef, Props, Source, Style, Value, is_user_prop, written_since,
};

/// One property of one thing.
#[derive(Clone, Debug)]
pub struct Row {
    /// Of what.
    pub name: String,
    /// Which.
    pub property: String,
    /// Its value, written.
    pub value: String,
    /// Where it comes from.
    pub source: Source,
    /// The received value as text. `None` if no value was received or the request did not ask for received values.
    pub received: Option<String>,
}

/// A column of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// Of what.
    Name,
    /// Which.
    Property,
    /// Its value.
    Value,
    /// The received value of the property.
    Received,
    /// Where it comes from.
    Source,
}

impl Field {
    /// The columns of a dataset if nobody names columns, and all columns of a pool.
    pub const USUAL: [Self; 4] = [Self::Name, Self::Property, Self::Value, Self::Source];
    /// All columns of a dataset.
    pub const OF_DATASETS: [Self; 5] =
        [Self::Name, Self::Property, Self::Value, Self::Received, Self::Source];

    fn title(self) -> &'static str {
        match self {
            Self::Name => "NAME",
            Self::Property => "PROPERTY",
            Self::Value => "VALUE",
            Self::Received => "RECEIVED",
            Self::Source => "SOURCE",
        }
    }

    fn cell(self, row: &Row) -> String {
        match self {
            Self::Name => row.name.clone(),
            Self::Property => row.property.clone(),
            Self::Value => row.value.clone(),
            Self::Received => row.received.clone().unwrap_or_else(|| "-".to_owned()),
            Self::Source => row.source.text(),
        }
    }

    /// Reads `-o` of a command that has these columns.
    ///
    /// # Errors
    /// The reason that goes before the usage line.
    pub fn parse_list(text: &str, all: &[Self]) -> Result<Vec<Self>, String> {
        let mut fields = Vec::new();
        for word in text.split(',') {
            match word {
                "all" if fields.is_empty() => fields.extend(all),
                "all" => return Err("\"all\" conflicts with specific fields given to -o option".into()),
                "name" => fields.push(Self::Name),
                "property" => fields.push(Self::Property),
                "value" => fields.push(Self::Value),
                "received" if all.contains(&Self::Received) => fields.push(Self::Received),
                "source" => fields.push(Self::Source),
                _ => return Err(format!("invalid column name '{word}'")),
            }
            if fields.len() > all.len() {
                return Err("too many fields given to -o option".into());
            }
        }
        Ok(fields)
    }
}

/// The whole output.
pub fn print(rows: &[Row], fields: &[Field], scripted: bool) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let columns = fields.iter().map(|f| Column::left(f.title())).collect();
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| fields.iter().map(|f| f.cell(row)).collect()).collect();
    table(columns, &rows, scripted)
}

/// The value of a known property, with what it is when nobody set it; facts that were
/// not told are absent.
pub fn lookup(props: &Props, def: &PropDef) -> (Value, Source) {
    match props.get(def.name) {
        Some(prop) => (prop.value.clone(), prop.source.clone()),
        None if def.access == engine::props::Access::ReadOnly => (Value::Absent, Source::None),
        None => (def.default_value(), Source::Default),
    }
}

/// One row of a known property.
pub fn row(name: &str, def: &PropDef, props: &Props, style: Style) -> Row {
    let (value, source) = lookup(props, def);
    Row {
        name: name.to_owned(),
        property: def.name.to_owned(),
        value: def.show(&value, style),
        source,
        received: None,
    }
}

/// Whether a property is one that no table has.
pub fn is_free(word: &str) -> bool {
    is_user_prop(word) || written_since(word).is_some() || OwnerProp::parse(word).is_some()
}

/// One row of a property that no table has.
pub fn free_row(name: &str, property: &str, props: &Props, style: Style) -> Row {
    let (value, source) = match props.get(property) {
        Some(prop) => (prop.value.clone(), prop.source.clone()),
        None => (Value::Absent, Source::None),
    };
    let value = match value {
        Value::Text(text) => text,
        Value::Number(number) => match OwnerProp::parse(property) {
            Some((of, _)) => of.show(number, style),
            // What was written since a snapshot.
            None if style != Style::Exact => engine::nice::bytes(number),
            None => number.to_string(),
        },
        Value::Absent => "-".to_owned(),
    };
    Row { name: name.to_owned(), property: property.to_owned(), value, source, received: None }
}

/// `"size":{"value":"144M","source":{"type":"NONE","data":"-"}}` for each row.
pub fn properties_json(rows: &[Row], as_int: bool) -> Json {
    let mut all = Json::object();
    for row in rows {
        all.put(&row.property, property_json(row, as_int));
    }
    all
}

fn property_json(row: &Row, as_int: bool) -> Json {
    let (kind, data) = match &row.source {
        Source::None => ("NONE", "-"),
        Source::Default => ("DEFAULT", "-"),
        Source::Local => ("LOCAL", "-"),
        Source::Temporary => ("TEMPORARY", "-"),
        Source::Inherited(from) => ("INHERITED", from.as_str()),
        Source::Received => ("RECEIVED", row.received.as_deref().unwrap_or("-")),
    };
    let value = match row.value.parse::<u64>() {
        Ok(number) if as_int => Json::Number(number),
        _ => Json::text(&row.value),
    };
    let source = Json::object().with("type", Json::text(kind)).with("data", Json::text(data));
    Json::object().with("value", value).with("source", source)
}

/// The list of properties after the usage of get and set.
pub fn property_help(defs: &[PropDef]) -> String {
    let mut text = String::from("the following properties are supported:\n\n");
    text.push_str(&format!("\t{:<21}{:>4}   {}\n\n", "PROPERTY", "EDIT", "VALUES"));
    for def in defs {
        let edit = if def.access == engine::props::Access::ReadOnly { "NO" } else { "YES" };
        text.push_str(&format!("\t{:<21}{edit:>4}   {}\n", def.name, values_help(def)));
    }
    text
}

/// The same for datasets, with those of users, groups and projects, and what was written since something.
pub fn dataset_property_help() -> String {
    let of_somebody =
        ["userused", "groupused", "projectused", "userobjused", "groupobjused", "projectobjused"];
    let limits =
        ["userquota", "groupquota", "projectquota", "userobjquota", "groupobjquota", "projectobjquota"];
    let row = |name: &str, edit, values| format!("\t{name:<21}{edit:>4}   {values}\n");
    let mut text = property_help(DATASET_PROPS);
    text.extend(of_somebody.iter().map(|name| row(&format!("{name}@..."), "NO", "<size>")));
    text.extend(limits.iter().map(|name| row(&format!("{name}@..."), "YES", "<size> | none")));
    text.extend(["written@<snap>", "written#<bookmark>"].map(|name| row(name, "NO", "<size>")));
    text
}

/// The values that a property accepts.
pub fn values_help(def: &PropDef) -> &'static str {
    match def.kind {
        Kind::Text => "<text>",
        Kind::Mountpoint => "<path> | legacy | none",
        Kind::Size { none_is_zero: true } => "<size> | none",
        Kind::Size { none_is_zero: false } | Kind::Amount => "<size>",
        Kind::Count => "<count> | none",
        Kind::Id => "<number>",
        Kind::Percent => "<percent>",
        Kind::Ratio => "<1.00x or higher>",
        Kind::Time | Kind::Moment => "<date>",
        Kind::Choice { help, .. } => help,
    }
}

#[cfg(test)]
mod tests;
