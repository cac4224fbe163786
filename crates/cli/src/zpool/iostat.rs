//! `zpool iostat`.

use super::pools::all;
use super::repeat::{Repeat, stamp};
use super::scripts::Scripts;
use super::status::names;
use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, Stop, usage};
use crate::view::iostat::{Histogram, IostatStyle, Sample};
use crate::view::names::{find_vdev, vdev_name};
use control::{Failure, FailureKind, PoolInfo, PoolIo, VdevInfo};
use std::collections::BTreeMap;

pub const COMMAND: Command = Command::new(
    Spec {
        name: "iostat",
        alias: None,
        about: "shows operations and bandwidth of pools and devices",
        flags: &[
            Flag::switch('g', "guids instead of names"),
            Flag::switch('H', "for programs: no heading, tabs"),
            Flag::switch('l', "average times in queues and at devices, too"),
            Flag::switch('L', "what links point to"),
            Flag::switch('n', "one heading only"),
            Flag::switch('p', "exact numbers"),
            Flag::switch('P', "full paths"),
            Flag::switch('q', "what waits in queues now and what devices have, too"),
            Flag::switch('r', "only how large I/Os were, by powers of two"),
            Flag::switch('v', "vdevs, too"),
            Flag::switch('w', "only how long I/Os took and waited, by powers of two"),
            Flag::switch('y', "leave out the averages since the pool was opened"),
            Flag::value(
                'c',
                "script[,script]...",
                "what these scripts say of devices; alone: which there are",
            )
            .or_alone(),
            Flag::value('T', "d|u", "a date or Unix time before each round"),
        ],
        operands: "[[pool ...]|[pool vdev ...]|[vdev ...]] [interval [count]]",
    },
    run,
);

/// What was asked for: pools by name, and vdevs among them.
struct Subject {
    pools: Vec<String>,
    vdevs: Vec<String>,
}

fn run(session: &mut Session, args: &Args) -> Outcome {
    let mut operands = args.operands.clone();
    let repeat = Repeat::take(&mut operands)?;
    let scripts = Scripts::take(session, args, "iostat")?;
    if matches!(scripts, Scripts::Listed) {
        return Ok(0);
    }
    let pools = all(session)?;
    let subject = subject(&pools, &operands)?;
    if pools.is_empty() && repeat.interval.is_none() {
        eprintln!("no pools available");
        return Ok(1);
    }
    let histogram = histogram(args)?;
    let vdevs = !subject.vdevs.is_empty();
    let style = IostatStyle {
        scripted: args.has('H'),
        exact: args.has('p'),
        verbose: args.has('v') || vdevs || args.has('c'),
        latency: args.has('l'),
        queues: args.has('q'),
        histogram,
        only: subject.vdevs.clone(),
        names: names(args),
        scripts: None,
    };
    let mut watch = Watch { style, scripts, args, earlier: BTreeMap::new(), printed: false };
    let skip_first = args.has('y') && repeat.interval.is_some();
    let repeat = match repeat.count {
        Some(count) if skip_first => Repeat { count: Some(count + 1), ..repeat },
        _ => repeat,
    };
    repeat.run(|round| watch.round(session, &subject, skip_first && round == 0))?;
    Ok(0)
}

/// The table of powers of two that is shown instead of all else, if one is.
fn histogram(args: &Args) -> Result<Option<Histogram>, Stop> {
    let (sizes, times) = (args.has('r'), args.has('w'));
    if (sizes || times) && ['c', 'l', 'q'].iter().any(|flag| args.has(*flag)) {
        return usage("[-r|-w] isn't allowed with [-c|-l|-q]");
    }
    match (sizes, times) {
        (true, true) => usage("Only one of [-r|-w] can be passed at a time"),
        (true, false) => Ok(Some(Histogram::Size)),
        (false, true) => Ok(Some(Histogram::Latency)),
        (false, false) => Ok(None),
    }
}

/// Pools only, one pool and vdevs of it, or vdevs only.
fn subject(pools: &[PoolInfo], operands: &[String]) -> Result<Subject, Stop> {
    let is_pool = |word: &String| pools.iter().any(|p| p.name == *word);
    let all_names = || pools.iter().map(|p| p.name.clone()).collect();
    let named = |pool: &[PoolInfo], words: &[String]| -> Option<Vec<String>> {
        let find = |word: &String| pool.iter().find_map(|p| find_vdev(p, word));
        words.iter().map(|w| find(w).map(|v| vdev_name(v, Default::default()))).collect()
    };
    if operands.is_empty() {
        return Ok(Subject { pools: all_names(), vdevs: Vec::new() });
    }
    if operands.iter().all(is_pool) {
        return Ok(Subject { pools: operands.to_vec(), vdevs: Vec::new() });
    }
    let first = pools.iter().find(|p| p.name == operands[0]);
    if let Some(pool) = first.filter(|_| operands.len() > 1) {
        if let Some(vdevs) = named(std::slice::from_ref(pool), &operands[1..]) {
            return Ok(Subject { pools: vec![pool.name.clone()], vdevs });
        }
        let mut failure = Failure::new(
            FailureKind::Invalid,
            format!("Expected either a list of pools, or list of vdevs in \"{}\", but got:", pool.name),
        );
        for word in operands[1..].iter().filter(|w| find_vdev(pool, w).is_none()) {
            failure = failure.and(format!("\t{word} (unknown)"));
        }
        return Err(failure.and("").into());
    }
    match named(pools, operands) {
        Some(vdevs) => Ok(Subject { pools: all_names(), vdevs }),
        None => Err(Failure::new(FailureKind::Invalid, "Unable to parse pools/vdevs list.").and("").into()),
    }
}

/// What is kept from one round to the next.
struct Watch<'a> {
    style: IostatStyle,
    scripts: Scripts,
    args: &'a Args,
    earlier: BTreeMap<String, Sample>,
    printed: bool,
}

impl Watch<'_> {
    fn round(&mut self, session: &mut Session, subject: &Subject, silent: bool) -> Result<(), Stop> {
        let pools = all(session)?;
        let pools = subject.pools.iter().filter_map(|name| pools.iter().find(|p| p.name == *name));
        let samples = pools.map(|pool| self.look(session, pool)).collect::<Result<Vec<_>, _>>()?;
        if !silent {
            let text = self.text(&samples)?;
            session.out().write_all(text.as_bytes())?;
            session.out().flush()?;
        }
        self.earlier.extend(samples.into_iter().map(|sample| (sample.pool.name.clone(), sample)));
        Ok(())
    }

    fn look(&self, session: &Session, pool: &PoolInfo) -> Result<Sample, Stop> {
        let ask = || session.ask(&PoolIo { pool: pool.name.clone() });
        let io = self.style.needs_queues().then(ask).transpose()?;
        Ok(Sample { pool: pool.clone(), io })
    }

    fn text(&mut self, samples: &[Sample]) -> Result<String, Stop> {
        let pools: Vec<&PoolInfo> = samples.iter().map(|sample| &sample.pool).collect();
        let IostatStyle { only, names, .. } = &self.style;
        let is_meant = |leaf: &VdevInfo| only.is_empty() || only.contains(&vdev_name(leaf, *names));
        self.style.scripts = self.scripts.columns(&pools, &is_meant);
        let width = self.style.name_width(&pools);
        let mut text = stamp(self.args.value('T'))?.unwrap_or_default();
        let again = self.style.verbose && !self.args.has('n');
        let has_heading = !self.style.scripted && self.style.histogram.is_none();
        if has_heading && (again || !self.printed) {
            text.push_str(&self.style.header(width));
        }
        self.printed = true;
        for sample in samples {
            text.push_str(&self.style.pool(sample, self.earlier.get(&sample.pool.name), width));
        }
        if pools.len() > 1 && has_heading && !self.style.verbose {
            text.push_str(&self.style.separator(width));
        }
        Ok(text)
    }
}
