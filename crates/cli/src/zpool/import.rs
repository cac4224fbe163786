//! `zpool import`.

use super::create::split;
use super::pools::all;
use super::status::names;
use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, Stop, usage};
use crate::view::import::candidate;
use crate::view::names::NameStyle;
use crate::view::replay_plan;
use crate::visit::{Access, Visit};
use control::{Failure, FailureKind, ImportCandidate, ImportScan, Imported, PoolImport};
use engine::{refusal, rewind_lines};
use ondisk::{NvList, NvValue};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

pub const COMMAND: Command = Command::new(
    Spec {
        name: "import",
        alias: None,
        about: "lists pools that could be opened, or opens them",
        flags: &[
            Flag::switch('a', "all pools found"),
            Flag::switch('D', "destroyed pools"),
            Flag::switch('f', "even if they look in use elsewhere"),
            Flag::switch('F', "go back a few transaction groups if the newest one cannot be opened"),
            Flag::switch('X', "with -F: go back to any readable state, which may be damaged"),
            Flag::value(
                'T',
                "txg",
                "go back to this transaction group, or the newest before it; implies -FX",
            ),
            Flag::switch('m', "even if a log is missing: what only it held is lost"),
            Flag::switch('n', "with -F: try, change nothing"),
            Flag::switch('N', "mount nothing"),
            Flag::switch('l', "load encryption keys; has no effect"),
            Flag::switch('s', "search the devices; this is the default"),
            Flag::switch('t', "the new name lasts until the pool is exported"),
            Flag::value('c', "cachefile", "search the devices that this cache file of OpenZFS names"),
            Flag::value('d', "dir|device", "search here").repeated(),
            Flag::value('o', "mntopts|property=value", "mount options, or a property of the pool").repeated(),
            Flag::long(
                "replay-plan",
                "tell what would be replayed from intent logs, and what lost; change nothing",
            ),
            Flag::long(
                "rewind-to-checkpoint",
                "as the pool was when its checkpoint was made; what came later is given up",
            ),
            Flag::switch('j', "with --replay-plan: as JSON").or("json"),
            Flag::value('R', "root", "a directory that all mount points are under, until export"),
        ],
        operands: "[<pool | id> [newpool]]",
    },
    run,
);

fn run(session: &mut Session, args: &Args) -> Outcome {
    check(args)?;
    if args.has_long("replay-plan") {
        return replay_plan(session, args);
    }
    let listed = args.value('c').map(ListedPools::read).transpose()?;
    let call = read(args, listed.as_ref())?;
    match args.operands.as_slice() {
        [] if args.has('a') => import_all(session, args, &call, listed.as_ref()),
        [] => list(session, args, &call.search, listed.as_ref()),
        [pool, new @ ..] if new.len() < 2 => {
            let guid = listed.as_ref().and_then(|listed| listed.guids.get(pool)).copied();
            let call = PoolImport { pool: pool.clone(), guid, new_name: new.first().cloned(), ..call };
            import_one(session, call)
        }
        _ => usage("too many arguments"),
    }
}

/// In this process: nothing is imported.
fn replay_plan(session: &mut Session, args: &Args) -> Outcome {
    let [name] = args.operands.as_slice() else { return usage("--replay-plan needs one pool") };
    let visit = Visit::open(args, name, Access::Read)?;
    let planned = visit.env().block_on(visit.pool().replay_plan());
    let plans = planned.map_err(|error| refusal::pool("open", name, &error))?;
    let text = match args.has('j') {
        true => replay_plan::json(name, &plans).to_string(),
        false => replay_plan::text(name, &plans),
    };
    writeln!(session.out(), "{text}")?;
    Ok(0)
}

fn check(args: &Args) -> Result<(), Stop> {
    if args.has('j') && !args.has_long("replay-plan") {
        return usage("-j only meaningful with --replay-plan");
    }
    if (args.has('n') || args.has('X')) && !args.has('F') {
        return usage("-n or -X only meaningful with -F");
    }
    if args.has('c') && args.has('d') {
        return usage("-c is incompatible with -d");
    }
    if args.has('c') && args.has('s') {
        return usage("-c is incompatible with -s");
    }
    if args.has('l') && args.has('N') {
        return usage("-l is incompatible with -N");
    }
    if args.has('l') && !args.has('a') && args.operands.is_empty() {
        return usage("-l is only meaningful during an import");
    }
    if args.has('a') && !args.operands.is_empty() {
        return usage("too many arguments");
    }
    Ok(())
}

fn read(args: &Args, listed: Option<&ListedPools>) -> Result<PoolImport, Stop> {
    let mut call = PoolImport {
        search: listed.map_or_else(|| search(args), |listed| listed.search.clone()),
        altroot: args.value('R').map(str::to_owned),
        force: args.has('f'),
        allow_missing_log: args.has('m'),
        no_mount: args.has('N'),
        destroyed: args.has('D'),
        rewind: args.has('F'),
        extreme: args.has('X'),
        rewind_to: args.value('T').map(txg).transpose()?,
        to_checkpoint: args.has_long("rewind-to-checkpoint"),
        dry_run: args.has('n'),
        temporary: args.has('t'),
        ..PoolImport::default()
    };
    for text in args.values('o') {
        match text.contains('=') {
            true => call.props.push(split(text, 'o')?),
            false => call.mount_options.push(text.to_owned()),
        }
    }
    Ok(call)
}

/// Parses a txg. As `strtoull(3)`, accepts decimal, octal and hexadecimal numbers.
fn txg(text: &str) -> Result<u64, Stop> {
    let number = match (text.strip_prefix("0x").or(text.strip_prefix("0X")), text.strip_prefix('0')) {
        (Some(hex), _) => u64::from_str_radix(hex, 16),
        (None, Some(octal)) if !octal.is_empty() => u64::from_str_radix(octal, 8),
        _ => text.parse(),
    };
    number.or_else(|_| usage("invalid txg value"))
}

/// Where to look: `-d`, else `$ZPOOL_IMPORT_PATH`; full paths, as the daemon stands elsewhere.
pub fn search(args: &Args) -> Vec<String> {
    let given: Vec<String> = args.values('d').map(str::to_owned).collect();
    let given = match std::env::var("ZPOOL_IMPORT_PATH") {
        Ok(path) if given.is_empty() => path.split(':').map(str::to_owned).collect(),
        _ => given,
    };
    let full =
        |dir: String| std::path::absolute(&dir).map_or(dir, |path| path.to_string_lossy().into_owned());
    given.into_iter().filter(|dir| !dir.is_empty()).map(full).collect()
}

/// The pools in a cache file.
struct ListedPools {
    /// The paths of the devices of all pools and their directories, where a device may have another
    /// name now.
    search: Vec<String>,
    /// The guids of the pools, by name.
    guids: BTreeMap<String, u64>,
}

impl ListedPools {
    fn read(file: &str) -> Result<Self, Failure> {
        let other = |line: String| Failure::new(FailureKind::Invalid, line);
        let bytes = std::fs::read(file)
            .map_err(|error| other(format!("failed to open cache file: {}", refusal::words(&error))))?;
        let list =
            NvList::decode(&bytes).map_err(|_| other("invalid or corrupt cache file contents".to_owned()))?;
        let (mut paths, mut guids) = (Vec::new(), BTreeMap::new());
        for (name, value) in list.iter() {
            let NvValue::List(pool) = value else { continue };
            pool.get_nvlist("vdev_tree").into_iter().for_each(|tree| put_paths(tree, &mut paths));
            guids.extend(pool.get_u64("pool_guid").map(|guid| (name.to_owned(), guid)));
        }
        let directories = paths.iter().filter_map(|path| Path::new(path).parent());
        let directories: BTreeSet<String> =
            directories.map(|directory| directory.to_string_lossy().into_owned()).collect();
        paths.extend(directories);
        Ok(Self { search: paths, guids })
    }

    fn lists(&self, guid: u64) -> bool {
        self.guids.values().any(|listed| *listed == guid)
    }
}

fn put_paths(vdev: &NvList, paths: &mut Vec<String>) {
    paths.extend(vdev.get_str("path").map(str::to_owned));
    let children = vdev.get_nvlist_array("children").unwrap_or_default();
    children.iter().for_each(|child| put_paths(child, paths));
}

fn scan(
    session: &Session,
    args: &Args,
    search: &[String],
    listed: Option<&ListedPools>,
) -> Result<Vec<ImportCandidate>, Stop> {
    let mut found: Vec<ImportCandidate> =
        session.ask(&ImportScan { search: search.to_vec(), destroyed: args.has('D') })?;
    found.retain(|found| listed.is_none_or(|listed| listed.lists(found.pool.guid)));
    Ok(found)
}

fn list(session: &mut Session, args: &Args, search: &[String], listed: Option<&ListedPools>) -> Outcome {
    let found = scan(session, args, search, listed)?;
    if found.is_empty() {
        eprintln!("no pools available to import");
    }
    let mut code = 0;
    for place in search.iter().filter(|place| args.has('d') && !Path::new(place).exists()) {
        eprintln!("cannot resolve path '{place}': No such file or directory");
        code = 1;
    }
    let style: NameStyle = names(args);
    for (place, pool) in found.iter().enumerate() {
        let gap = if place > 0 { "\n" } else { "" };
        write!(session.out(), "{gap}{}", candidate(pool, style))?;
    }
    Ok(code)
}

fn import_one(session: &mut Session, call: PoolImport) -> Outcome {
    let taken = call.new_name.as_ref().unwrap_or(&call.pool);
    if all(session)?.iter().any(|pool| pool.name == *taken) {
        let reason = "a pool with that name already exists";
        let failure = Failure::cannot(FailureKind::Exists, "import", taken, reason);
        let hint = "use the form 'zpool import <pool | id> <newpool>' to give it a new name";
        return Err(failure.and(hint).into());
    }
    let imported = session.ask(&call)?;
    tell(session, &imported, call.dry_run)?;
    Ok(0)
}

/// Notes the import, and tells what was given up for it, or is lost.
fn tell(session: &mut Session, imported: &Imported, dry_run: bool) -> Result<(), Stop> {
    let name = &imported.name;
    if !dry_run {
        session.note(name);
    }
    imported.lost.iter().for_each(|line| eprintln!("warning: {line}"));
    let Some(rewound) = imported.rewound else { return Ok(()) };
    for line in rewind_lines(name, rewound, dry_run) {
        writeln!(session.out(), "{line}")?;
    }
    Ok(())
}

fn import_all(
    session: &mut Session,
    args: &Args,
    call: &PoolImport,
    listed: Option<&ListedPools>,
) -> Outcome {
    let found = scan(session, args, &call.search, listed)?;
    if found.is_empty() {
        eprintln!("no pools available to import");
    }
    let mut code = 0;
    for pool in found {
        let one = PoolImport { pool: pool.pool.guid.to_string(), ..call.clone() };
        match session.ask(&one) {
            Err(Stop::Failed(failure)) => code = session.complain(&failure),
            result => tell(session, &result?, call.dry_run)?,
        }
    }
    Ok(code)
}
