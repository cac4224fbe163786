//! `zfs list`.

use super::owners;
use super::select::{Depth, Kinds, Shown, by_name, select};
use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, Stop, usage};
use crate::view::get::{self, Row, free_row};
use crate::view::json::{Json, document};
use crate::view::table::{Column, table};
use control::DatasetInfo;
use engine::props::{DATASET_PROPS, PropDef, Style, Value, dataset_prop, is_user_prop};
use std::cmp::Ordering;

const AS_INT: &str = "json-int";
const DEFAULT_COLUMNS: &str = "name,used,available,referenced,mountpoint";
const SPACE_COLUMNS: &str =
    "name,available,used,usedbysnapshots,usedbydataset,usedbyrefreservation,usedbychildren";

pub const COMMAND: Command = Command::new(
    Spec {
        name: "list",
        alias: None,
        about: "lists datasets",
        flags: &[
            Flag::switch('H', "for programs: no heading, tabs"),
            Flag::switch('p', "exact numbers"),
            Flag::switch('j', "as JSON").or("json"),
            Flag::long(AS_INT, "with -j: numbers as numbers"),
            Flag::switch('r', "and all below"),
            Flag::value('d', "depth", "and so many levels below"),
            Flag::value('o', "property[,...]", "these columns"),
            Flag::value('s', "property", "sorted by this, smallest first").repeated(),
            Flag::value('S', "property", "sorted by this, largest first").repeated(),
            Flag::value('t', "type[,...]", "these kinds: filesystem, volume, snapshot, bookmark, all"),
        ],
        operands: "[filesystem|volume|snapshot] ...",
    },
    run,
);

/// A column, or what to sort by.
#[derive(Clone, Debug)]
enum Pick {
    Name,
    Known(&'static PropDef),
    Free(String),
}

fn pick(word: &str) -> Result<Pick, Stop> {
    match (word, dataset_prop(word)) {
        ("name", _) => Ok(Pick::Name),
        (_, Some(def)) => Ok(Pick::Known(def)),
        _ if get::is_free(word) => Ok(Pick::Free(word.to_owned())),
        _ => usage(format!("bad property list: invalid property '{word}'")),
    }
}

fn run(session: &mut Session, args: &Args) -> Outcome {
    super::get::check_json(args)?;
    let every = every_column();
    let columns = match args.value('o') {
        Some("space") => SPACE_COLUMNS,
        Some("all") => every.as_str(),
        Some(columns) => columns,
        None => DEFAULT_COLUMNS,
    };
    let needed = args.in_order().filter(|(flag, _)| matches!(flag, 's' | 'S')).map(|(_, word)| word);
    let needed = needed.chain([columns]).collect::<Vec<_>>().join(",");
    let picks: Vec<Pick> = columns.split(',').map(pick).collect::<Result<_, _>>()?;
    let order = order(args)?;
    let kinds = args.value('t').map(Kinds::parse).transpose()?;
    let all = args.operands.is_empty();
    let depth = Depth::read(args.has('r'), args.value('d'), kinds)?;
    // Snapshots are shown where they are asked for, or named, or where the pool says so.
    let named_or_live = Shown { named: Kinds::DATASETS, below: Kinds::LIVE, listed_snapshots: true };
    let shown = kinds.map_or(named_or_live, Shown::everywhere);
    let (mut found, code) = select(session, &args.operands, depth, shown, &needed, false)?;
    if let (true, Some(depth), true) = (all, depth.levels, args.has('d')) {
        found.retain(|d| d.name.matches(['/', '@', '#']).count() <= depth as usize);
    }
    owners::put(session, &mut found, columns);
    sort(&mut found, &order);
    if found.is_empty() && code == 0 && !args.has('H') {
        eprintln!("no datasets available");
    }
    let style = if args.has('p') { Style::Exact } else { Style::Dataset };
    let text = match args.has('j') {
        true => json_text(&found, &picks, style, args.has_long(AS_INT)),
        false => text(&found, &picks, style, args.has('H')),
    };
    session.out().write_all(text.as_bytes())?;
    Ok(code)
}

/// The name and all properties, as columns.
fn every_column() -> String {
    let all = ["name"].into_iter().chain(DATASET_PROPS.iter().map(|def| def.name));
    all.collect::<Vec<_>>().join(",")
}

/// The row of a column; of the name there is none.
fn row(dataset: &DatasetInfo, pick: &Pick, style: Style) -> Option<Row> {
    match pick {
        Pick::Name => None,
        Pick::Known(def) if !def.is_of(dataset) => Some(Row {
            value: "-".to_owned(),
            source: engine::props::Source::None,
            ..get::row(&dataset.name, def, &dataset.props, style)
        }),
        Pick::Known(def) => Some(get::row(&dataset.name, def, &dataset.props, style)),
        Pick::Free(name) => Some(free_row(&dataset.name, name, &dataset.props, style)),
    }
}

fn text(found: &[DatasetInfo], picks: &[Pick], style: Style, scripted: bool) -> String {
    if found.is_empty() {
        return String::new();
    }
    let column = |pick: &Pick| match pick {
        Pick::Name => Column::left("NAME"),
        Pick::Known(def) => {
            Column { title: def.column.to_owned(), right: def.is_right_aligned(), width: def.column_width() }
        }
        Pick::Free(name) => Column { right: !is_user_prop(name), ..Column::left(&name.to_uppercase()) },
    };
    let cell = |d: &DatasetInfo, pick| row(d, pick, style).map_or_else(|| d.name.clone(), |row| row.value);
    let rows: Vec<Vec<String>> =
        found.iter().map(|d| picks.iter().map(|pick| cell(d, pick)).collect()).collect();
    table(picks.iter().map(column).collect(), &rows, scripted)
}

fn json_text(found: &[DatasetInfo], picks: &[Pick], style: Style, as_int: bool) -> String {
    let mut all = Json::object();
    for dataset in found {
        let rows: Vec<Row> = picks.iter().filter_map(|pick| row(dataset, pick, style)).collect();
        let head = super::get::json_head(dataset, as_int);
        all.put(&dataset.name, head.with("properties", get::properties_json(&rows, as_int)));
    }
    format!("{}\n", document("zfs list").with("datasets", all))
}

/// What to sort by, and whether the largest comes first.
fn order(args: &Args) -> Result<Vec<(Pick, bool)>, Stop> {
    let keys = args.in_order().filter(|(flag, _)| matches!(flag, 's' | 'S'));
    keys.map(|(flag, word)| match pick(word) {
        Ok(pick) => Ok((pick, flag == 'S')),
        Err(_) => usage(format!("invalid property '{word}'")),
    })
    .collect()
}

fn sort(found: &mut [DatasetInfo], order: &[(Pick, bool)]) {
    if order.is_empty() {
        return;
    }
    let key = |d: &DatasetInfo, pick: &Pick| match pick {
        Pick::Name => Value::Text(d.name.clone()),
        Pick::Known(def) => get::lookup(&d.props, def).0,
        Pick::Free(name) => d.props.get(name).map_or(Value::Absent, |p| p.value.clone()),
    };
    found.sort_by(|a, b| {
        for (pick, reverse) in order {
            let ordering = compare(&key(a, pick), &key(b, pick));
            let ordering = if *reverse { ordering.reverse() } else { ordering };
            if ordering != Ordering::Equal {
                return ordering;
            }
        }
        by_name(a, b)
    });
}

/// Values that are absent come last.
fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.cmp(b),
        (Value::Text(a), Value::Text(b)) => a.cmp(b),
        (Value::Absent, Value::Absent) => Ordering::Equal,
        (Value::Absent, _) => Ordering::Greater,
        (_, Value::Absent) => Ordering::Less,
        (Value::Number(_), Value::Text(_)) => Ordering::Less,
        (Value::Text(_), Value::Number(_)) => Ordering::Greater,
    }
}
