//! What `zfs holds` prints.

use control::HeldSnapshot;
use engine::props::minute;

/// The whole output. Columns are as wide as what is in them, even where a heading is wider: so OpenZFS has it.
pub fn table(snapshots: &[HeldSnapshot], scripted: bool, exact: bool) -> String {
    let tags = snapshots.iter().flat_map(|snapshot| &snapshot.holds).map(|hold| hold.tag.chars().count());
    let tag_width = tags.max().unwrap_or(0);
    let name_width = snapshots.iter().map(|snapshot| snapshot.name.chars().count()).max().unwrap_or(0);
    let line = |name: &str, tag: &str, since: &str| match scripted {
        true => format!("{name}\t{tag}\t{since}\n"),
        false => format!("{name:name_width$}  {tag:tag_width$}  {since}\n"),
    };
    let mut text = if scripted { String::new() } else { line("NAME", "TAG", "TIMESTAMP") };
    for snapshot in snapshots {
        for hold in &snapshot.holds {
            let since = if exact { hold.since_secs.to_string() } else { minute(hold.since_secs) };
            text.push_str(&line(&snapshot.name, &hold.tag, &since));
        }
    }
    text
}
