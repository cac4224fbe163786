//! `zpool list`.

use super::get;
use super::json::Json;
use super::json_pool::{JsonStyle, pool_head, vdev_head};
use super::names::vdev_name;
use super::sections::{Section, all_rows, flatten, sections};
use super::status::state_word;
use super::table::{Column, padded_line, tabbed_line, table};
use control::{PoolInfo, VdevClass, VdevInfo};
use engine::nice;
use engine::props::{PropDef, Source, Style, is_feature, is_user_prop, pool_prop};

/// A column of the list.
#[derive(Clone, Debug)]
pub enum Pick {
    /// The pool's name.
    Name,
    /// A property of the table.
    Known(&'static PropDef),
    /// A feature, or a property of users' own.
    Free(String),
}

/// The columns when `-o` does not name others.
pub const DEFAULT_COLUMNS: &str =
    "name,size,allocated,free,checkpoint,expandsize,fragmentation,capacity,dedupratio,health,altroot";

/// Reads `-o`.
///
/// # Errors
/// The reason that goes before the usage line.
pub fn parse_columns(text: &str) -> Result<Vec<Pick>, String> {
    let pick = |word: &str| match word {
        "name" => Ok(Pick::Name),
        _ if is_free(word) => Ok(Pick::Free(word.to_owned())),
        _ => pool_prop(word).map(Pick::Known).ok_or_else(|| format!("invalid property '{word}'")),
    };
    text.split(',').map(|word| pick(word.trim())).collect()
}

fn is_free(word: &str) -> bool {
    is_user_prop(word) || word.strip_prefix("feature@").is_some_and(is_feature)
}

/// How the list is shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct ListStyle {
    /// No heading, tabs.
    pub scripted: bool,
    /// Exact numbers.
    pub exact: bool,
    /// Vdevs, too.
    pub verbose: bool,
    /// How JSON and vdevs are shown.
    pub json: JsonStyle<'static>,
}

impl ListStyle {
    fn style(self) -> Style {
        if self.exact { Style::Exact } else { Style::Pool }
    }
}

/// The whole list.
pub fn list(pools: &[&PoolInfo], picks: &[Pick], style: ListStyle) -> String {
    let cells = |pool: &PoolInfo| picks.iter().map(|p| pool_cell(pool, p, style)).collect::<Vec<_>>();
    let rows: Vec<Vec<String>> = pools.iter().map(|p| cells(p)).collect();
    if !style.verbose {
        return table(columns(picks, &rows, style), &rows, style.scripted);
    }
    let mut columns = columns(picks, &rows, style);
    widen_name(&mut columns, pools, picks, style);
    let mut text = String::new();
    if !style.scripted {
        let titles: Vec<String> = columns.iter().map(|c| c.title.clone()).collect();
        text.push_str(&padded_line(&columns, &titles));
    }
    for (pool, row) in pools.iter().zip(&rows) {
        text.push_str(&if style.scripted { tabbed_line(row) } else { padded_line(&columns, row) });
        text.push_str(&vdev_rows(pool, picks, &columns, style));
    }
    text
}

/// Columns as wide as their heading and what they may hold; exact numbers and free text
/// widen them.
fn columns(picks: &[Pick], rows: &[Vec<String>], style: ListStyle) -> Vec<Column> {
    let column = |(place, pick): (usize, &Pick)| {
        let widest = rows.iter().filter_map(|r| r.get(place)).map(String::len).max().unwrap_or(0);
        match pick {
            Pick::Name => Column { title: "NAME".into(), right: false, width: widest.max(4) },
            Pick::Free(name) => {
                Column { title: name.to_uppercase(), right: false, width: widest.max(name.len()) }
            }
            Pick::Known(def) => {
                let width = def.column_width();
                let fixed = style.scripted || (def.is_fixed_width() && !style.exact);
                let width = if fixed { width } else { width.max(widest) };
                Column { title: def.column.into(), right: def.is_right_aligned(), width }
            }
        }
    };
    picks.iter().enumerate().map(column).collect()
}

fn widen_name(columns: &mut [Column], pools: &[&PoolInfo], picks: &[Pick], style: ListStyle) {
    let indented = |(depth, vdev): &(usize, &VdevInfo)| 2 * depth + vdev_name(vdev, style.json.names).len();
    let widest = pools.iter().flat_map(|p| all_rows(p)).map(|row| indented(&row)).max().unwrap_or(0);
    if let Some(place) = picks.iter().position(|p| matches!(p, Pick::Name)) {
        columns[place].width = columns[place].width.max(widest);
    }
}

fn pool_cell(pool: &PoolInfo, pick: &Pick, style: ListStyle) -> String {
    match pick {
        Pick::Name => pool.name.clone(),
        Pick::Free(name) => get::free_row(&pool.name, name, &pool.props, style.style()).value,
        Pick::Known(def) => {
            let (value, _) = get::lookup(&pool.props, def);
            def.show(&value, style.style())
        }
    }
}

fn vdev_rows(pool: &PoolInfo, picks: &[Pick], columns: &[Column], style: ListStyle) -> String {
    let mut text = String::new();
    for vdev in pool.tops(VdevClass::Normal) {
        push_tree(&mut text, vdev, picks, columns, style);
    }
    for section in sections(pool) {
        push_heading(&mut text, &section, picks, columns);
        for vdev in &section.vdevs {
            push_tree(&mut text, vdev, picks, columns, style);
        }
    }
    text
}

/// The row of dashes; it is padded even where all others are tabbed.
fn push_heading(text: &mut String, section: &Section<'_>, picks: &[Pick], columns: &[Column]) {
    let title = match section.class {
        VdevClass::Spare => "spare",
        class => super::sections::heading(class),
    };
    let (mut shown, mut cells) = (Vec::new(), Vec::new());
    for (pick, column) in picks.iter().zip(columns).filter(|(pick, _)| is_vdev_column(pick)) {
        shown.push(column.clone());
        cells.push(if matches!(pick, Pick::Name) { title.to_owned() } else { "-".to_owned() });
    }
    text.push_str(&padded_line(&shown, &cells));
}

fn push_tree(text: &mut String, vdev: &VdevInfo, picks: &[Pick], columns: &[Column], style: ListStyle) {
    for (depth, vdev) in flatten(vdev, 1) {
        let (mut shown, mut cells) = (Vec::new(), Vec::new());
        for (pick, column) in picks.iter().zip(columns).filter(|(pick, _)| is_vdev_column(pick)) {
            shown.push(column.clone());
            let indent = if style.scripted { 0 } else { 2 * depth };
            cells.push(match pick {
                Pick::Name => format!("{:indent$}{}", "", vdev_name(vdev, style.json.names)),
                Pick::Known(def) => vdev_cell(vdev, def.name, style.exact),
                Pick::Free(_) => "-".to_owned(),
            });
        }
        let line =
            if style.scripted { format!("\t{}", tabbed_line(&cells)) } else { padded_line(&shown, &cells) };
        text.push_str(&line);
    }
}

/// What vdevs have cells for; other columns are left out of their rows.
const VDEV_COLUMNS: [&str; 9] = [
    "size",
    "allocated",
    "free",
    "checkpoint",
    "expandsize",
    "fragmentation",
    "capacity",
    "dedupratio",
    "health",
];

fn is_vdev_column(pick: &Pick) -> bool {
    match pick {
        Pick::Name => true,
        Pick::Known(def) => VDEV_COLUMNS.contains(&def.name),
        Pick::Free(_) => false,
    }
}

/// One cell of a vdev. Only top-level vdevs and caches have space of their own; a leaf
/// below shows its size.
fn vdev_cell(vdev: &VdevInfo, property: &str, exact: bool) -> String {
    let stats = &vdev.stats;
    let size = |bytes: u64| if exact { bytes.to_string() } else { nice::number(bytes) };
    let has_space = stats.space_bytes != 0;
    let whole = if vdev.kind.is_leaf() { stats.physical_bytes } else { stats.space_bytes };
    match property {
        "size" if whole != 0 => size(whole),
        "allocated" if has_space => size(stats.allocated_bytes),
        "free" if has_space => size(stats.space_bytes.saturating_sub(stats.allocated_bytes)),
        "checkpoint" if stats.checkpoint_bytes != 0 => size(stats.checkpoint_bytes),
        "expandsize" if stats.expand_bytes != 0 => size(stats.expand_bytes),
        "fragmentation" if has_space => match (stats.fragmentation, exact) {
            (Some(percent), true) => percent.to_string(),
            (Some(percent), false) => format!("{percent}%"),
            (None, _) => "-".to_owned(),
        },
        "capacity" if has_space => capacity(stats.allocated_bytes, stats.space_bytes, exact),
        "health" => state_word(vdev).to_owned(),
        _ => "-".to_owned(),
    }
}

/// Percent with two decimals, cut off.
fn capacity(allocated: u64, space: u64, exact: bool) -> String {
    let hundredths = u128::from(allocated) * 10_000 / u128::from(space.max(1));
    match exact {
        true => (hundredths / 100).to_string(),
        false => format!("{}.{:02}%", hundredths / 100, hundredths % 100),
    }
}

/// One pool of `zpool list -j`.
pub fn json(pool: &PoolInfo, picks: &[Pick], style: ListStyle) -> Json {
    let rows: Vec<get::Row> = picks
        .iter()
        .filter_map(|pick| match pick {
            Pick::Name => None,
            Pick::Known(def) => Some(get::row(&pool.name, def, &pool.props, style.style())),
            Pick::Free(name) => Some(get::free_row(&pool.name, name, &pool.props, style.style())),
        })
        .collect();
    let head = pool_head(pool, Some("POOL"), style.json);
    let head = head.with("properties", get::properties_json(&rows, style.json.as_int));
    if style.verbose { head.with("vdevs", json_vdevs(pool, picks, style)) } else { head }
}

fn json_vdevs(pool: &PoolInfo, picks: &[Pick], style: ListStyle) -> Json {
    let group = |vdevs: Vec<&VdevInfo>| {
        let mut all = Json::object();
        for vdev in vdevs {
            all.put(&vdev_name(vdev, style.json.names), json_vdev(vdev, picks, style));
        }
        all
    };
    let mut all = group(pool.tops(VdevClass::Normal).collect());
    for section in sections(pool) {
        let key = match section.class {
            VdevClass::Cache => "l2cache",
            class => super::sections::heading(class),
        };
        all.put(key, group(section.vdevs));
    }
    all
}

fn json_vdev(vdev: &VdevInfo, picks: &[Pick], style: ListStyle) -> Json {
    let name = vdev_name(vdev, style.json.names);
    let row = |def: &PropDef| get::Row {
        name: name.clone(),
        property: def.name.to_owned(),
        value: vdev_cell(vdev, def.name, style.exact),
        source: Source::None,
        received: None,
    };
    let rows: Vec<get::Row> = picks
        .iter()
        .filter(|pick| is_vdev_column(pick))
        .filter_map(|pick| match pick {
            Pick::Name => None,
            Pick::Known(def) => Some(row(def)),
            Pick::Free(_) => None,
        })
        .collect();
    let mut below = Json::object();
    for child in vdev.shown_children() {
        below.put(&vdev_name(child, style.json.names), json_vdev(child, picks, style));
    }
    vdev_head(vdev, &name, None, style.json)
        .with("properties", get::properties_json(&rows, style.json.as_int))
        .with_some("vdevs", below)
}

#[cfg(test)]
mod tests;
