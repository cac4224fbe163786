//! `zpool status`.

use super::condition::{Condition, PAGES, condition};
use super::dedup::dedup;
use super::names::{NameStyle, vdev_name};
use super::scripts::ScriptColumns;
use super::sections::{all_rows, flatten, heading, sections};
use control::{
    CheckpointInfo, ErrorScrubInfo, PoolInfo, RemovalInfo, ReplayInfo, ScanFunction, ScanInfo, ScanState,
    SweepInfo, SweepState, VdevAux, VdevClass, VdevInfo, VdevState,
};
use engine::nice;
use engine::props::ctime;
use std::fmt::Write;

/// What to show.
#[derive(Clone, Copy, Debug, Default)]
pub struct StatusStyle<'a> {
    /// How vdevs are named.
    pub names: NameStyle,
    /// Exact counters.
    pub exact: bool,
    /// List damaged files.
    pub verbose: bool,
    /// The column of slow operations.
    pub slow: bool,
    /// The column of direct operations whose checksum was wrong: every read and write goes through the daemon, so that
    /// there are none.
    pub direct: bool,
    /// Only vdevs that ail.
    pub only_ailing: bool,
    /// Tell how far vdevs are initialized.
    pub initialized: bool,
    /// Tell how far vdevs are trimmed.
    pub trimmed: bool,
    /// Show the tables of deduplicated blocks.
    pub dedup: bool,
    /// What scripts say of leaves.
    pub scripts: Option<&'a ScriptColumns>,
}

const NAME_MIN: usize = 10;

/// Everything about one pool.
pub fn status(pool: &PoolInfo, style: StatusStyle<'_>) -> String {
    let mut text = format!("  pool: {}\n state: {}\n", pool.name, pool.health.word());
    if let Some(words) = condition(pool).words() {
        _ = writeln!(text, "status: {}", words.status.join("\n\t"));
        pool.absent_because.iter().for_each(|line| _ = writeln!(text, "\t{line}"));
        _ = writeln!(text, "action: {}", words.action.join("\n\t"));
        if let Some(id) = words.message_id {
            _ = writeln!(text, "   see: {PAGES}{id}");
        }
    }
    let newest = pool.error_scrub.filter(|newest| is_newest(newest, pool.scan));
    if let Some(scan) = pool.scan.filter(|scan| newest.is_none() || scan.function == ScanFunction::Resilver) {
        _ = writeln!(text, "  scan: {}", scan_line(scan));
        text.push_str(scan_warning(pool, scan));
    }
    if let Some(newest) = newest {
        _ = writeln!(text, " scrub: {}", error_scrub_lines(newest));
    }
    if let Some(removal) = pool.removal {
        _ = writeln!(text, "remove: {}", removal_lines(pool, removal));
    }
    if let Some(checkpoint) = pool.checkpoint {
        _ = writeln!(text, "checkpoint: {}", checkpoint_line(checkpoint));
    }
    if !pool.replays.is_empty() {
        let lines: Vec<String> = pool.replays.iter().map(replay_line).collect();
        _ = writeln!(text, "replay: {}", lines.join("\n\t"));
    }
    if let Some(line) = log_line(pool) {
        _ = writeln!(text, "   log: {line}");
    }
    if pool.lost_metaslabs > 0 {
        let (count, what) = match pool.lost_metaslabs {
            1 => (1, "metaslab is out of use, because its space map is"),
            count => (count, "metaslabs are out of use, because their space maps are"),
        };
        _ = writeln!(text, " space: {count} {what} damaged");
    }
    text.push_str("config:\n\n");
    text.push_str(&config(pool, style));
    text.push('\n');
    text.push_str(&errors(pool, style.verbose));
    if let Some(tables) = pool.dedup.as_ref().filter(|_| style.dedup) {
        text.push_str(&dedup(tables, style.exact));
    }
    text
}

/// Returns true if the status shows the error scrub in place of the scrub.
fn is_newest(errors: &ErrorScrubInfo, scan: Option<ScanInfo>) -> bool {
    scan.is_none_or(|scan| scan.function == ScanFunction::Resilver || errors.start_secs >= scan.start_secs)
}

/// Returns the lines of a status on the last error scrub.
fn error_scrub_lines(scrub: ErrorScrubInfo) -> String {
    let (start, end) = (ctime(scrub.start_secs), ctime(scrub.end_secs));
    let blocks = scrub.examined_blocks;
    let since = match (scrub.state, scrub.paused_secs) {
        (ScanState::Canceled, _) => return format!("error scrub canceled on {end}"),
        (ScanState::Finished, _) => {
            let secs = scrub.end_secs.saturating_sub(scrub.start_secs);
            let (days, rest) = (secs / 86_400, secs % 86_400);
            let clock = format!("{:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60);
            return format!("scrubbed {blocks} error blocks in {days} days {clock} on {end}");
        }
        (ScanState::Scanning, None) => format!("error scrub in progress since {start}"),
        (ScanState::Scanning, Some(pause)) => {
            format!("error scrub paused since {}\n\terror scrub started on {start}", ctime(pause))
        }
    };
    let percent = 100.0 * blocks as f64 / (blocks + scrub.left_blocks).max(1) as f64;
    format!("{since}\n\t{percent:.2}% done, issued I/O for {blocks} error blocks")
}

/// Scans pass over what is kept for a checkpoint.
fn scan_warning(pool: &PoolInfo, scan: ScanInfo) -> &'static str {
    let Some(checkpoint) = pool.checkpoint.filter(|checkpoint| !checkpoint.is_discarding) else { return "" };
    match scan.is_under_way() {
        true => "    scan warning: skipping blocks that are only referenced by the checkpoint.\n",
        false if scan.end_secs < checkpoint.created_secs => "",
        false => "    scan warning: skipped blocks that are only referenced by the checkpoint.\n",
    }
}

/// How the last removal of a data vdev stands, and what removed vdevs take in memory.
fn removal_lines(pool: &PoolInfo, removal: RemovalInfo) -> String {
    let mut text = match removal.state {
        ScanState::Finished => {
            let minutes = removal.end_secs.saturating_sub(removal.start_secs) / 60;
            let (copied, end) = (nice::number(removal.copied_bytes), ctime(removal.end_secs));
            let RemovalInfo { vdev, .. } = removal;
            format!(
                "Removal of vdev {vdev} copied {copied} in {}h{}m, completed on {end}",
                minutes / 60,
                minutes % 60
            )
        }
        ScanState::Canceled => {
            format!("Removal of {} canceled on {}", removed_name(pool, removal), ctime(removal.end_secs))
        }
        ScanState::Scanning => {
            let (name, start) = (removed_name(pool, removal), ctime(removal.start_secs));
            format!("Evacuation of {name} in progress since {start}\n\t{}", removal_progress(removal))
        }
    };
    if removal.mapping_bytes > 0 {
        let memory = nice::number(removal.mapping_bytes);
        _ = write!(text, "\n\t{memory} memory used for removed device mappings");
    }
    text
}

/// What a vdev that is being removed is called, or one that was to be.
pub fn removed_name(pool: &PoolInfo, removal: RemovalInfo) -> String {
    let top = pool.root.children.iter().find(|top| top.id == removal.vdev);
    top.map_or_else(|| removal.vdev.to_string(), |top| vdev_name(top, NameStyle::default()))
}

/// Longer than that is not foretold: 30 days.
const HOURS_LEFT_MAX: u64 = 30 * 24;

fn removal_progress(removal: RemovalInfo) -> String {
    let (copied, total) = (removal.copied_bytes.max(1), removal.to_copy_bytes.max(1));
    let rate = (copied / removal.elapsed_secs.max(1)).max(1);
    let minutes = total.saturating_sub(copied) / rate / 60;
    let percent = 100.0 * copied as f64 / total as f64;
    let to_go = match minutes / 60 {
        hours if hours < HOURS_LEFT_MAX => format!("{hours}h{}m to go", minutes % 60),
        _ => "(copy is slow, no estimated time)".to_owned(),
    };
    let [copied, total, rate] = [copied, removal.to_copy_bytes, rate].map(nice::number);
    format!("{copied} copied out of {total} at {rate}/s, {percent:.2}% done, {to_go}")
}

fn checkpoint_line(checkpoint: CheckpointInfo) -> String {
    let kept = nice::number(checkpoint.kept_bytes);
    match checkpoint.is_discarding {
        true => format!("discarding, {kept} remaining."),
        false => format!("created {}, consumes {kept}", ctime(checkpoint.created_secs)),
    }
}

/// No log of the pool's is usable.
const NO_LOG: &str = "no log is usable; the intent logs go on in the main pool";

/// Where intent logs go while a log vdev cannot take them.
fn log_line(pool: &PoolInfo) -> Option<&'static str> {
    let is_out = |log: &VdevInfo| !log.state.is_readable();
    let mut logs = pool.tops(VdevClass::Log);
    match (logs.clone().any(is_out), logs.any(|log| !is_out(log))) {
        (false, _) => None,
        (true, true) => Some("a log is out of use; the intent logs go on on the others"),
        (true, false) => Some(NO_LOG),
    }
}

/// How far the replay of one log is; records as they are, for people wait for the last one.
fn replay_line(replay: &ReplayInfo) -> String {
    let ReplayInfo { dataset, records, total_records, left_secs } = replay;
    let to_go = left_secs.map_or_else(String::new, |left| format!(", {} to go", duration(left)));
    format!("{dataset}: {records} of {total_records} records{to_go}")
}

/// The lines of `-x` when nothing ails.
pub fn is_healthy(pool: &PoolInfo) -> bool {
    matches!(condition(pool), Condition::Healthy | Condition::LacksFeatures)
}

/// The scan line, as status and JSON tell it.
pub fn scan_line(scan: ScanInfo) -> String {
    let (done, doing) = match scan.function {
        ScanFunction::Scrub => ("scrub repaired", "scrub"),
        ScanFunction::Resilver => ("resilvered", "resilver"),
    };
    match scan.state {
        ScanState::Finished => format!(
            "{done} {} in {} with {} errors on {}",
            nice::bytes(scan.repaired_bytes),
            duration(scan.end_secs.saturating_sub(scan.start_secs)),
            scan.errors,
            ctime(scan.end_secs)
        ),
        ScanState::Canceled => format!("{doing} canceled on {}", ctime(scan.end_secs)),
        ScanState::Scanning => format!("{}\n{}", since(scan, doing), progress(scan)),
    }
}

fn since(scan: ScanInfo, doing: &str) -> String {
    let start = ctime(scan.start_secs);
    match scan.paused_secs {
        Some(pause) => format!("{doing} paused since {}\n\t{doing} started on {start}", ctime(pause)),
        None => format!("{doing} in progress since {start}"),
    }
}

/// Below this speed no end is foretold: 10 MiB/s.
const RATE_MIN: u64 = 10 << 20;

fn progress(scan: ScanInfo) -> String {
    let is_paused = scan.paused_secs.is_some();
    let (done, total) = (nice::bytes(scan.issued_bytes), nice::bytes(scan.total_bytes));
    let rate = scan.pass_bytes / scan.pass_secs.max(1);
    let speed = if is_paused || rate == 0 { String::new() } else { format!(" at {}/s", nice::bytes(rate)) };
    let mended = if scan.function == ScanFunction::Scrub { "repaired" } else { "resilvered" };
    let percent = 100.0 * scan.issued_bytes as f64 / scan.total_bytes.max(1) as f64;
    let to_go = match (is_paused, scan.total_bytes.checked_sub(scan.issued_bytes)) {
        (true, _) => String::new(),
        (_, Some(left)) if rate >= RATE_MIN && scan.issued_bytes > 0 => {
            format!(", {} to go", duration(left / rate))
        }
        _ => ", no estimated completion time".to_owned(),
    };
    format!(
        "\t{done} / {total} scanned{speed}, {done} / {total} issued{speed}\n\t{} {mended}, {percent:.2}% done{to_go}",
        nice::bytes(scan.repaired_bytes)
    )
}

fn duration(secs: u64) -> String {
    let clock = format!("{:02}:{:02}:{:02}", secs % 86_400 / 3600, secs / 60 % 60, secs % 60);
    if secs < 86_400 { clock } else { format!("{} days {clock}", secs / 86_400) }
}

fn errors(pool: &PoolInfo, verbose: bool) -> String {
    match (pool.error_count, verbose) {
        // The pool is closed, and its errors are not known.
        (0, _) if pool.is_absent => String::new(),
        (0, _) => "errors: No known data errors\n".to_owned(),
        (n, false) => format!("errors: {n} data errors, use '-v' for a list\n"),
        (_, true) => {
            let mut text =
                String::from("errors: Permanent errors have been detected in the following files:\n\n");
            for file in &pool.error_files {
                _ = writeln!(text, "        {file}");
            }
            text
        }
    }
}

fn config(pool: &PoolInfo, style: StatusStyle<'_>) -> String {
    let indented = |(depth, vdev): &(usize, &VdevInfo)| 2 * depth + vdev_name(vdev, style.names).len();
    let widest = all_rows(pool).iter().map(indented).max().unwrap_or(0);
    let table = Table { pool: &pool.name, style, width: widest.max(pool.name.len()).max(NAME_MIN) };
    let mut text = format!(
        "\t{:width$}  {:8} {:>5} {:>5} {:>5}",
        "NAME",
        "STATE",
        "READ",
        "WRITE",
        "CKSUM",
        width = table.width
    );
    text.push_str(if style.slow { "  SLOW" } else { "" });
    text.push_str(if style.direct { "   DIO" } else { "" });
    text.push_str(&style.scripts.map_or_else(String::new, ScriptColumns::heading));
    text.push('\n');
    table.row(&mut text, 0, &pool.name, &pool.root);
    for vdev in pool.tops(VdevClass::Normal) {
        table.tree(&mut text, vdev);
    }
    for section in sections(pool) {
        let tab = match section.class {
            VdevClass::Cache | VdevClass::Spare => "",
            _ => "\t",
        };
        _ = writeln!(text, "\t{}{tab}", heading(section.class));
        for vdev in section.vdevs {
            table.tree(&mut text, vdev);
        }
    }
    text
}

struct Table<'a> {
    pool: &'a str,
    style: StatusStyle<'a>,
    width: usize,
}

impl Table<'_> {
    fn tree(&self, text: &mut String, vdev: &VdevInfo) {
        for (depth, vdev) in flatten(vdev, 1) {
            if self.style.only_ailing && !vdev.walk().any(ails) {
                continue;
            }
            self.row(text, depth, &vdev_name(vdev, self.style.names), vdev);
        }
    }

    fn row(&self, text: &mut String, depth: usize, name: &str, vdev: &VdevInfo) {
        let indent = 2 * depth;
        let width = self.width - indent.min(self.width);
        let state = state_word(vdev);
        _ = write!(text, "\t{:indent$}{name:width$}  {state:8}", "");
        if vdev.class != VdevClass::Spare {
            let stats = &vdev.stats;
            for count in [stats.read_errors, stats.write_errors, stats.checksum_errors] {
                _ = write!(text, " {:>5}", self.count(count));
            }
            if self.style.slow {
                _ = write!(text, " {:>5}", self.count(stats.slow_ios));
            }
            if self.style.direct {
                _ = write!(text, " {:>5}", 0);
            }
        }
        if let Some(reason) = reason(vdev) {
            _ = write!(text, "  {reason}");
        }
        text.push_str(match (vdev.removing, vdev.non_allocating) {
            (true, _) => "  (removing)",
            (false, true) => "  (non-allocating)",
            (false, false) => "",
        });
        text.push_str(if vdev.resilvering { "  (resilvering)" } else { "" });
        if let (Some(scripts), Some(path)) = (self.style.scripts, &vdev.path) {
            text.push_str(&scripts.row(self.pool, path));
        }
        if vdev.kind.is_leaf() {
            text.push_str(&initialized(vdev, self.style.initialized));
            text.push_str(&trimmed(vdev, self.style.trimmed));
        }
        text.push('\n');
    }

    fn count(&self, count: u64) -> String {
        if self.style.exact { count.to_string() } else { nice::number(count) }
    }
}

fn initialized(vdev: &VdevInfo, in_full: bool) -> String {
    let under_way = vdev.initialize.state == SweepState::Active;
    match (in_full, swept(vdev, vdev.initialize)) {
        (true, Some(since)) => format!("  ({}% initialized, {since})", vdev.initialize.percent()),
        (true, None) => "  (uninitialized)".to_owned(),
        (false, _) if under_way => "  (initializing)".to_owned(),
        _ => String::new(),
    }
}

fn trimmed(vdev: &VdevInfo, in_full: bool) -> String {
    let under_way = vdev.trim.state == SweepState::Active;
    match (in_full, swept(vdev, vdev.trim)) {
        (true, Some(since)) => format!("  ({}% trimmed, {since})", vdev.trim.percent()),
        (true, None) if vdev.cannot_trim => "  (trim unsupported)".to_owned(),
        (true, None) => "  (untrimmed)".to_owned(),
        (false, _) if under_way => "  (trimming)".to_owned(),
        _ => String::new(),
    }
}

/// Since when it stands so; nothing of what counts as never begun, nor of a device that failed. A device that somebody
/// took offline keeps its state.
fn swept(vdev: &VdevInfo, sweep: SweepInfo) -> Option<String> {
    if !matches!(vdev.state, VdevState::Online | VdevState::Degraded | VdevState::Offline) {
        return None;
    }
    let at = ctime(sweep.changed_secs);
    match sweep.state {
        SweepState::Active => Some(format!("started at {at}")),
        SweepState::Suspended => Some(format!("suspended, started at {at}")),
        SweepState::Complete => Some(format!("completed at {at}")),
        SweepState::None | SweepState::Canceled => None,
    }
}

/// The state as tables show it; spares have states of their own.
pub fn state_word(vdev: &VdevInfo) -> &'static str {
    match (vdev.class, vdev.state, vdev.aux) {
        (VdevClass::Spare, _, VdevAux::Spared) => "INUSE",
        (VdevClass::Spare, VdevState::Online, _) => "AVAIL",
        (_, state, aux) => state.word(aux),
    }
}

/// Why a vdev is as it is, behind its counters.
pub fn reason(vdev: &VdevInfo) -> Option<String> {
    match (&vdev.path, vdev.not_present) {
        (Some(path), true) => Some(format!("was {path}")),
        _ if vdev.works_for.is_some() => {
            vdev.works_for.as_ref().map(|pool| format!("in use by pool '{pool}'"))
        }
        _ => vdev.aux.reason().map(str::to_owned),
    }
}

fn ails(vdev: &VdevInfo) -> bool {
    let errors = vdev.stats.read_errors + vdev.stats.write_errors + vdev.stats.checksum_errors;
    vdev.state != VdevState::Online || errors != 0
}

#[cfg(test)]
mod tests;
