//! `zpool import --replay-plan`.

use engine::nice;
use pool::{ReplayPlan, Stopped};
use std::collections::BTreeMap;
use std::fmt::Write;
use units::ObjectId;
use zil::LogLoss;

use super::json::{Json, document};

/// For people.
pub fn text(pool: &str, plans: &[ReplayPlan]) -> String {
    let sum = |of: fn(&ReplayPlan) -> u64| plans.iter().map(of).sum::<u64>();
    let (records, blocks, bytes) = (sum(|p| p.records), sum(|p| p.blocks), sum(|p| p.block_bytes));
    let mut text =
        format!("  pool: {pool}\nreplay: {records} records, {blocks} log blocks, {}", nice::bytes(bytes));
    for plan in plans {
        _ = write!(text, "\n\n{}: {} records, {} in the pool already", plan.dataset, plan.records, plan.done);
        if !plan.names.is_empty() {
            _ = write!(text, "\n\tnames: {}", counts(&plan.names));
        }
        for (object, changes) in &plan.objects {
            let size =
                if changes.bytes > 0 { format!(", {}", nice::bytes(changes.bytes)) } else { String::new() };
            _ = write!(
                text,
                "\n\t{}: {}{size}",
                name(*object, changes.path.as_ref()),
                counts(&changes.changes)
            );
        }
        if let Some(stopped) = &plan.stopped {
            _ = write!(text, "\n\tlost: {}", reason(stopped));
        }
        if let Some(loss) = &plan.loss {
            _ = write!(text, "\n\tlost: {loss}");
            for (&object, records) in &loss.objects {
                let name = name(object, plan.loss_paths.get(&object));
                _ = write!(text, "\n\t\t{name}: {records} changes");
            }
        }
    }
    text
}

/// For programs.
pub fn json(pool: &str, plans: &[ReplayPlan]) -> Json {
    let datasets = plans.iter().fold(Json::object(), |all, plan| all.with(&plan.dataset, of_dataset(plan)));
    document("zpool import").with("pool", Json::text(pool)).with("datasets", datasets)
}

fn of_dataset(plan: &ReplayPlan) -> Json {
    let numbers = [
        ("records", plan.records),
        ("done", plan.done),
        ("blocks", plan.blocks),
        ("block_bytes", plan.block_bytes),
    ];
    let json = numbers.iter().fold(Json::object(), |all, &(key, number)| all.with(key, Json::Number(number)));
    let objects = plan.objects.iter().fold(Json::object(), |all, (object, changes)| {
        let one = Json::object()
            .with("path", Json::text(name(*object, changes.path.as_ref())))
            .with("bytes", Json::Number(changes.bytes))
            .with("changes", of_counts(&changes.changes));
        all.with(&object.to_string(), one)
    });
    let json = json.with("names", of_counts(&plan.names)).with("objects", objects);
    let json = match &plan.stopped {
        Some(stopped) => json.with("lost", Json::text(reason(stopped))),
        None => json,
    };
    plan.loss.iter().fold(json, |json, loss| json.with("loss", of_loss(plan, loss)))
}

fn of_loss(plan: &ReplayPlan, loss: &LogLoss) -> Json {
    let numbers = [
        ("before_block", loss.block.get()),
        ("records_claimed", loss.records_claimed),
        ("blocks", loss.blocks),
        ("records", loss.records),
        ("names", loss.names),
        ("bytes", loss.bytes),
        ("certain", loss.is_certain.into()),
    ];
    let json = numbers.iter().fold(Json::object(), |all, &(key, number)| all.with(key, Json::Number(number)));
    let objects = loss.objects.iter().fold(Json::object(), |all, (&object, &changes)| {
        let path = Json::text(name(object, plan.loss_paths.get(&object)));
        all.with(
            &object.to_string(),
            Json::object().with("path", path).with("changes", Json::Number(changes)),
        )
    });
    json.with("objects", objects)
}

fn of_counts(counts: &BTreeMap<&'static str, u64>) -> Json {
    counts.iter().fold(Json::object(), |all, (kind, count)| all.with(kind, Json::Number(*count)))
}

fn name(object: ObjectId, path: Option<&Vec<u8>>) -> String {
    match path {
        Some(path) => {
            String::from_utf8_lossy(path).chars().map(|c| if c.is_control() { '?' } else { c }).collect()
        }
        None => format!("object {object}"),
    }
}

fn counts(counts: &BTreeMap<&'static str, u64>) -> String {
    let all: Vec<String> = counts.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    all.join(", ")
}

fn reason(stopped: &Stopped) -> String {
    match stopped {
        Stopped::Missing(vdev) => {
            format!("the log goes on on vdev {vdev}, which is missing; what it says there is unknown")
        }
        Stopped::Damaged(error) => format!("the log breaks off: {error}"),
    }
}
