//! `zfs get`.

use super::owners;
use super::select::{Depth, Kinds, Shown, select};
use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, Stop, usage};
use crate::view::get::{self, Field, Row, dataset_property_help, free_row};
use crate::view::json::{Json, document};
use control::DatasetInfo;
use engine::props::{Access, DATASET_PROPS, Source, Style, Value, dataset_prop, is_user_prop};

const AS_INT: &str = "json-int";

pub const COMMAND: Command = Command::new(
    Spec {
        name: "get",
        alias: None,
        about: "shows properties of datasets",
        flags: &[
            Flag::switch('r', "and all below"),
            Flag::switch('H', "for programs: no heading, tabs"),
            Flag::switch('p', "exact numbers"),
            Flag::switch('j', "as JSON").or("json"),
            Flag::long(AS_INT, "with -j: numbers as numbers"),
            Flag::value('d', "depth", "and so many levels below"),
            Flag::value(
                'o',
                "\"all\" | field[,...]",
                "these columns: name, property, value, received, source",
            ),
            Flag::value('t', "type[,...]", "these kinds: filesystem, volume, snapshot, bookmark, all"),
            Flag::value('s', "source[,...]", "only values from: local, default, inherited, temporary, none"),
        ],
        operands: "<\"all\" | property[,...]> [filesystem|volume|snapshot|bookmark] ...",
    },
    run,
)
.telling(dataset_property_help);

/// `--json-int` means nothing without `-j`.
pub fn check_json(args: &Args) -> Result<(), Stop> {
    match args.has_long(AS_INT) && !args.has('j') {
        true => usage(format!("'--{AS_INT}' only works with '-j' option")),
        false => Ok(()),
    }
}

fn run(session: &mut Session, args: &Args) -> Outcome {
    check_json(args)?;
    let fields = match args.value('o') {
        Some(text) => Field::parse_list(text, &Field::OF_DATASETS).map_err(Stop::Usage)?,
        None => Field::USUAL.to_vec(),
    };
    let sources = args.value('s').map(parse_sources).transpose()?;
    let Some((wanted, names)) = args.operands.split_first() else {
        return usage("missing property argument");
    };
    check_wanted(wanted)?;
    let kinds = args.value('t').map(Kinds::parse).transpose()?;
    let depth = Depth::read(args.has('r'), args.value('d'), kinds)?;
    let shown = Shown::everywhere(kinds.unwrap_or(Kinds::ALL));
    let (mut found, code) = select(session, names, depth, shown, wanted, fields.contains(&Field::Received))?;
    owners::put(session, &mut found, wanted);
    let style = if args.has('p') { Style::Exact } else { Style::Dataset };
    let as_int = args.has_long(AS_INT);
    let (mut rows, mut json) = (Vec::new(), Json::object());
    for dataset in &found {
        let mut own = rows_of(dataset, wanted, style);
        own.iter_mut().for_each(|row| row.received = received(dataset, &row.property, style));
        if let Some(sources) = &sources {
            own.retain(|row| sources.contains(&source_word(&row.source)));
        }
        let head = json_head(dataset, as_int);
        json.put(&dataset.name, head.with("properties", get::properties_json(&own, as_int)));
        rows.extend(own);
    }
    let text = match args.has('j') {
        true => format!("{}\n", document("zfs get").with("datasets", json)),
        false => get::print(&rows, &fields, args.has('H')),
    };
    session.out().write_all(text.as_bytes())?;
    Ok(code)
}

/// Name, type, pool and birth of a dataset; of a snapshot also the parts of its name.
pub fn json_head(dataset: &DatasetInfo, as_int: bool) -> Json {
    let head = Json::object()
        .with("name", Json::text(&dataset.name))
        .with("type", Json::text(dataset.kind.word().to_uppercase()))
        .with("pool", Json::text(engine::names::pool_of(&dataset.name)))
        .with("createtxg", Json::number(dataset.createtxg, as_int));
    match dataset.name.split_once('@') {
        Some((of, snapshot)) => {
            head.with("dataset", Json::text(of)).with("snapshot_name", Json::text(snapshot))
        }
        None => head,
    }
}

const SOURCES: [&str; 6] = ["local", "default", "inherited", "received", "temporary", "none"];

fn parse_sources(text: &str) -> Result<Vec<&'static str>, Stop> {
    let known = |word: &str| match SOURCES.iter().find(|s| **s == word) {
        Some(source) => Ok(*source),
        None => usage(format!("invalid source '{word}'")),
    };
    text.split(',').map(known).collect()
}

fn source_word(source: &Source) -> &'static str {
    match source {
        Source::None => "none",
        Source::Default => "default",
        Source::Local => "local",
        Source::Temporary => "temporary",
        Source::Inherited(_) => "inherited",
        Source::Received => "received",
    }
}

fn check_wanted(wanted: &str) -> Result<(), Stop> {
    if wanted == "all" {
        return Ok(());
    }
    let unknown = |word: &&str| *word != "name" && dataset_prop(word).is_none() && !get::is_free(word);
    match wanted.split(',').find(unknown) {
        Some(word) => usage(format!("bad property list: invalid property '{word}'")),
        None => Ok(()),
    }
}

fn rows_of(dataset: &DatasetInfo, wanted: &str, style: Style) -> Vec<Row> {
    let name = &dataset.name;
    let mut rows = Vec::new();
    for word in wanted.split(',') {
        match (word, dataset_prop(word)) {
            ("all", _) => rows.extend(all_rows(dataset, style)),
            ("name", _) => rows.push(Row {
                name: name.clone(),
                property: word.to_owned(),
                value: name.clone(),
                source: Source::None,
                received: None,
            }),
            (_, Some(def)) if def.is_of(dataset) => {
                rows.push(get::row(name, def, &dataset.props, style));
            }
            (_, Some(def)) => rows.push(Row {
                name: name.clone(),
                property: def.name.to_owned(),
                value: "-".to_owned(),
                source: Source::None,
                received: None,
            }),
            (_, None) => rows.push(free_row(name, word, &dataset.props, style)),
        }
    }
    rows
}

/// Formats the value of a property that a receive has stored.
fn received(dataset: &DatasetInfo, property: &str, style: Style) -> Option<String> {
    let value = dataset.received.get(property)?;
    Some(match (dataset_prop(property), value) {
        (Some(def), value) => def.show(value, style),
        (None, Value::Text(text)) => text.clone(),
        (None, Value::Number(number)) => number.to_string(),
        (None, Value::Absent) => return None,
    })
}

/// Everything that applies; facts that are not known are left out.
fn all_rows(dataset: &DatasetInfo, style: Style) -> Vec<Row> {
    let told = |def: &&engine::props::PropDef| {
        let (value, _) = get::lookup(&dataset.props, def);
        let has_default = def.access != Access::ReadOnly && !def.default.is_empty();
        let is_default = has_default && !dataset.props.contains_key(def.name);
        def.is_of(dataset) && (is_default || value != Value::Absent)
    };
    let known = DATASET_PROPS.iter().filter(told);
    let known = known.map(|def| get::row(&dataset.name, def, &dataset.props, style));
    let user = dataset.props.keys().filter(|name| is_user_prop(name));
    known.chain(user.map(|name| free_row(&dataset.name, name, &dataset.props, style))).collect()
}
