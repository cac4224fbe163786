//! Properties of datasets, against what `zfs get -r all` said.

use std::collections::BTreeSet;
use std::sync::Arc;

use dsl::props::{DefaultValue, prop};
use dsl::{DatasetName, Dsl, PropValue, Property};
use engine::props::{Kind, Style, Value, dataset_prop};
use ondisk::dsl::used;
use oracle::golden;

use crate::walk::names;
use crate::world::World;

/// One line: dataset, property, value, source.
struct Line<'a> {
    dataset: &'a str,
    property: &'a str,
    value: &'a str,
    source: &'a str,
}

/// Fails unless all that can be known of properties is as told.
pub fn check(world: &World) {
    let info = golden::text(&world.name, "info.txt");
    let pool = world.import(true).expect("it could be imported before");
    let datasets = world.env.block_on(names(&pool)).expect("datasets can be listed");
    let lines: Vec<_> = lines(&info).filter(|line| !line.dataset.contains('#')).collect();
    assert!(lines.len() > 30 && datasets.iter().all(|name| lines.iter().any(|line| line.dataset == name)));
    let mut compared = 0;
    let mut wrong = Vec::new();
    for line in &lines {
        let found = world.env.block_on(shown(pool.dsl(), line)).expect("properties can be read");
        let Some(found) = found else { continue };
        compared += 1;
        if found != (line.value.to_owned(), line.source.to_owned()) {
            wrong.push(format!(
                "{} {}: told {} ({}), found {} ({})",
                line.dataset, line.property, line.value, line.source, found.0, found.1
            ));
        }
    }
    assert!(wrong.is_empty(), "{}: {} of {compared}:\n{}", world.name, wrong.len(), wrong.join("\n"));
    assert!(compared > 10 * datasets.len(), "{}: only {compared} compared", world.name);
    let told = lines.iter().filter(|line| line.property == "origin").map(|line| line.dataset.to_owned());
    let clones = world.env.block_on(clones(pool.dsl(), datasets)).expect("datasets can be read");
    assert_eq!(clones, told.collect::<BTreeSet<_>>(), "{}", world.name);
}

/// Those of these datasets that are clones.
async fn clones(dsl: &Dsl, datasets: Vec<String>) -> Result<BTreeSet<String>, dsl::DslError> {
    let mut clones = BTreeSet::new();
    for name in datasets.into_iter().filter(|name| !name.contains('@')) {
        if origin(dsl, &dsl.resolve(&name).await?).await?.is_some() {
            clones.insert(name);
        }
    }
    Ok(clones)
}

/// The lines of `zfs get -r all`. Values may have blanks in them, so columns are found in the
/// heading.
fn lines(info: &str) -> impl Iterator<Item = Line<'_>> {
    let start = info.find("## zfs get").expect("info.txt has properties");
    let mut lines = info[start..].lines().skip(1);
    let heading = lines.next().expect("a heading");
    let column = |name| heading.find(name).expect("a column");
    let (property, value, source) = (column("PROPERTY"), column("VALUE"), column("SOURCE"));
    lines.take_while(|line| line.starts_with("whirl")).map(move |line| Line {
        dataset: line[..property].trim(),
        property: line[property..value].trim(),
        value: line[value..source].trim(),
        source: line[source..].trim(),
    })
}

/// Value and source as `zfs get` would show them; `None` for what we do not know.
async fn shown(dsl: &Arc<Dsl>, line: &Line<'_>) -> Result<Option<(String, String)>, dsl::DslError> {
    let dataset = dsl.resolve(line.dataset).await?;
    let Some(def) = dataset_prop(line.property) else {
        let set = dsl.props(&dataset).await?;
        return Ok(set
            .into_iter()
            .find(|prop| prop.name == line.property)
            .map(|p| set_one(p, &dataset, None)));
    };
    // Space of volumes is in the volumes, and the manifest.
    if line.property == "volsize" {
        return Ok(None);
    }
    if line.property == "origin" {
        return Ok(Some((origin(dsl, &dataset).await?.unwrap_or_default(), "-".to_owned())));
    }
    if let Some(number) = fact(dsl, &dataset, line.property).await? {
        return Ok(Some((def.show(&Value::Number(number), Style::Dataset), "-".to_owned())));
    }
    if line.source == "-" || dataset.is_snapshot() {
        return Ok(None);
    }
    let set = dsl.props(&dataset).await?;
    if let Some(found) = set.into_iter().find(|prop| prop.name == line.property) {
        return Ok(Some(set_one(found, &dataset, Some(def.kind))));
    }
    let default = prop(line.property).map(|known| match known.default {
        DefaultValue::Number(number) => Value::Number(number),
        DefaultValue::Text(text) => Value::Text(text.to_owned()),
    });
    // Where it is mounted is not what is stored.
    let default = default.filter(|_| line.property != "mountpoint");
    Ok(default.map(|value| (def.show(&value, Style::Dataset), "default".to_owned())))
}

/// The snapshot that a head is a clone of.
async fn origin(dsl: &Dsl, head: &DatasetName) -> Result<Option<String>, dsl::DslError> {
    let pool = head.name.split('/').next().expect("a name");
    dsl.origin_name(&dsl.dir(head.dir).await?, pool).await
}

fn set_one(found: Property, dataset: &DatasetName, kind: Option<Kind>) -> (String, String) {
    let source = match (found.set_on == dataset.name, found.received) {
        (true, false) => "local".to_owned(),
        (true, true) => "received".to_owned(),
        (false, _) => format!("inherited from {}", found.set_on),
    };
    let value = match (found.value, kind) {
        (PropValue::Number(number), Some(_)) => {
            let def = dataset_prop(&found.name).expect("it has a kind");
            def.show(&Value::Number(number), Style::Dataset)
        }
        (PropValue::Number(number), None) => number.to_string(),
        (PropValue::Text(text), _) => text,
    };
    (value, source)
}

/// What is so, as against what was set. Space that heads use was not yet at rest when the text was
/// made: reading the files for the manifest changed access times.
async fn fact(dsl: &Dsl, dataset: &DatasetName, property: &str) -> Result<Option<u64>, dsl::DslError> {
    let phys = dsl.dataset(dataset.dataset).await?;
    let settled = dataset.is_snapshot();
    Ok(match property {
        "guid" => Some(phys.guid.get()),
        "createtxg" => Some(phys.creation_txg.get()),
        "objsetid" => Some(dataset.objset().get()),
        "referenced" if settled => Some(phys.referenced_bytes.get()),
        "logicalreferenced" if settled => Some(phys.uncompressed_bytes.get()),
        "usedbyrefreservation" => {
            Some(dsl.dir(dataset.dir).await?.used_breakdown[used::REFRESERVATION].get())
        }
        _ => None,
    })
}
