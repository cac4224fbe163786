//! `zpool get`.

use super::pools::all_with_absent;
use super::status::check_json;
use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, Stop, usage};
use crate::view::get::{self, Field, Row, property_help};
use crate::view::json::{Json, document};
use crate::view::json_pool::{JsonStyle, pool_head, vdev_head};
use crate::view::names::{NameStyle, find_vdev, vdev_name};
use crate::view::vdev_props;
use control::{Failure, FailureKind, NameValue, PoolInfo, PoolVdevProps, VdevInfo};
use engine::props::{POOL_FEATURES, POOL_PROPS, Style, is_user_prop, pool_prop};

const AS_INT: &str = "json-int";
const KEY_GUID: &str = "json-pool-key-guid";

pub const COMMAND: Command = Command::new(
    Spec {
        name: "get",
        alias: None,
        about: "shows properties of pools and vdevs",
        flags: &[
            Flag::switch('H', "for programs: no heading, tabs"),
            Flag::switch('p', "exact numbers"),
            Flag::switch('j', "as JSON").or("json"),
            Flag::long(AS_INT, "with -j: numbers as numbers"),
            Flag::long(KEY_GUID, "with -j: pools by guid"),
            Flag::value('o', "\"all\" | field[,...]", "these columns: name, property, value, source"),
        ],
        operands: "<\"all\" | property[,...]> [pool [vdev] ...]",
    },
    run,
)
.telling(|| property_help(POOL_PROPS));

fn run(session: &mut Session, args: &Args) -> Outcome {
    check_json(args, &[AS_INT, KEY_GUID])?;
    let fields = match args.value('o') {
        Some(text) => Field::parse_list(text, &Field::USUAL).map_err(Stop::Usage)?,
        None => Field::USUAL.to_vec(),
    };
    let Some((wanted, words)) = args.operands.split_first() else {
        return usage("missing property argument");
    };
    let pools = all_with_absent(session)?;
    let chosen = choose(&pools, words)?;
    let mut output = Output { args, wanted, rows: Vec::new(), json: Json::object(), json_pool: None };
    match &chosen {
        Chosen::Pools(pools) => output.add_pools(pools)?,
        Chosen::Vdevs(pool, vdevs) => {
            let guids = vdevs.iter().map(|vdev| vdev.guid).collect();
            let kept = session.ask(&PoolVdevProps { pool: pool.name.clone(), vdevs: guids })?;
            output.add_vdevs(pool, vdevs, &kept)?;
        }
    }
    let text = match args.has('j') {
        true => output.json_text(matches!(chosen, Chosen::Vdevs(..))),
        false => get::print(&output.rows, &fields, args.has('H')),
    };
    session.out().write_all(text.as_bytes())?;
    Ok(0)
}

/// What the words after the properties mean.
enum Chosen<'a> {
    Pools(Vec<&'a PoolInfo>),
    Vdevs(&'a PoolInfo, Vec<&'a VdevInfo>),
}

fn choose<'a>(pools: &'a [PoolInfo], words: &[String]) -> Result<Chosen<'a>, Stop> {
    let by_name = |word: &String| pools.iter().find(|p| p.name == *word);
    let Some((first, rest)) = words.split_first() else {
        return Ok(Chosen::Pools(pools.iter().collect()));
    };
    if let Some(all) = words.iter().map(by_name).collect::<Option<Vec<_>>>() {
        return Ok(Chosen::Pools(all));
    }
    let Some(pool) = by_name(first) else {
        let line = format!("Cannot get properties of {first}: no such pool available.");
        return Err(Failure::new(FailureKind::NoSuchPool, line).into());
    };
    if rest == ["all-vdevs"] {
        return Ok(Chosen::Vdevs(pool, pool.root.walk().filter(|v| v.is_shown()).skip(1).collect()));
    }
    let find = |word: &String| if word == "root" { Some(&pool.root) } else { find_vdev(pool, word) };
    match rest.iter().map(find).collect::<Option<Vec<_>>>() {
        Some(vdevs) => Ok(Chosen::Vdevs(pool, vdevs)),
        None => {
            let mut reason = format!("Expected a list of vdevs in \"{first}\", but got:\n");
            for word in rest.iter().filter(|word| find(word).is_none()) {
                reason.push_str(&format!("\t{word} (unknown)\n"));
            }
            usage(reason)
        }
    }
}

struct Output<'a> {
    args: &'a Args,
    wanted: &'a str,
    rows: Vec<Row>,
    json: Json,
    json_pool: Option<Json>,
}

impl Output<'_> {
    fn json_style(&self) -> JsonStyle<'static> {
        JsonStyle {
            as_int: self.args.has_long(AS_INT),
            exact: self.args.has('p'),
            key_by_guid: self.args.has_long(KEY_GUID),
            ..JsonStyle::default()
        }
    }

    fn add_pools(&mut self, pools: &[&PoolInfo]) -> Result<(), Stop> {
        let style = if self.args.has('p') { Style::Exact } else { Style::Pool };
        for pool in pools {
            let rows = pool_rows(pool, self.wanted, style)?;
            let json = self.json_style();
            let head = pool_head(pool, Some("POOL"), json);
            let head = head.with("properties", get::properties_json(&rows, json.as_int));
            self.json.put(&json.key(pool), head);
            self.rows.extend(rows);
        }
        Ok(())
    }

    fn add_vdevs(
        &mut self,
        pool: &PoolInfo,
        vdevs: &[&VdevInfo],
        kept: &[Vec<NameValue>],
    ) -> Result<(), Stop> {
        let json = self.json_style();
        self.json_pool = Some(pool_head(pool, None, json));
        for (vdev, kept) in vdevs.iter().zip(kept) {
            let rows = vdev_rows((pool, vdev, kept), self.wanted, self.args.has('p'))?;
            let name = vdev_name(vdev, NameStyle::default());
            let head = vdev_head(vdev, &name, Some("VDEV"), json);
            self.json.put(&name, head.with("properties", get::properties_json(&rows, json.as_int)));
            self.rows.extend(rows);
        }
        Ok(())
    }

    fn json_text(self, vdevs: bool) -> String {
        let document = document("zpool get");
        let document = match self.json_pool {
            Some(pool) => document.with("pool", pool),
            None => document,
        };
        format!("{}\n", document.with(if vdevs { "vdevs" } else { "pools" }, self.json))
    }
}

fn pool_rows(pool: &PoolInfo, wanted: &str, style: Style) -> Result<Vec<Row>, Stop> {
    let known = |def| get::row(&pool.name, def, &pool.props, style);
    let free = |name: &str| get::free_row(&pool.name, name, &pool.props, style);
    let mut rows = Vec::new();
    for word in wanted.split(',') {
        match (word, pool_prop(word)) {
            ("all", _) => {
                rows.extend(POOL_PROPS.iter().map(known));
                let features = POOL_FEATURES.iter().map(|f| format!("feature@{f}"));
                rows.extend(features.filter(|f| pool.props.contains_key(f)).map(|f| free(&f)));
                rows.extend(pool.props.keys().filter(|name| is_user_prop(name)).map(|name| free(name)));
            }
            ("name", _) => rows.push(Row {
                name: pool.name.clone(),
                property: "name".to_owned(),
                value: pool.name.clone(),
                source: engine::props::Source::None,
                received: None,
            }),
            (_, Some(def)) => rows.push(known(def)),
            _ if is_user_prop(word) && !pool.props.contains_key(word) => {
                rows.push(Row { source: engine::props::Source::Default, ..free(word) });
            }
            _ if is_user_prop(word) || word.starts_with("feature@") => rows.push(free(word)),
            _ => return usage(format!("bad property list: invalid property '{word}'")),
        }
    }
    Ok(rows)
}

type Subject<'a> = (&'a PoolInfo, &'a VdevInfo, &'a [NameValue]);

fn vdev_rows((pool, vdev, kept): Subject<'_>, wanted: &str, exact: bool) -> Result<Vec<Row>, Stop> {
    let value =
        |property: &str| kept.iter().find(|(name, _)| name == property).map(|(_, value)| value.as_str());
    let row = |property: &str| match value(property) {
        None if is_user_prop(property) => Some(vdev_props::kept_row(vdev, property, None)),
        Some(value) => Some(vdev_props::kept_row(vdev, property, Some(value))),
        None => vdev_props::row(pool, vdev, property, exact),
    };
    let mut rows = Vec::new();
    for word in wanted.split(',') {
        if word == "all" {
            rows.extend(vdev_props::NAMES.iter().filter_map(|name| row(name)));
            rows.extend(kept.iter().filter(|(name, _)| is_user_prop(name)).filter_map(|(name, _)| row(name)));
            continue;
        }
        match row(word) {
            Some(row) => rows.push(row),
            None => return usage(format!("bad property list: invalid property '{word}'")),
        }
    }
    Ok(rows)
}
