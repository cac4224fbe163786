//! `zpool events`.

use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, Stop, usage};
use crate::view::events::EventStyle;
use control::{Events, EventsClear, EventsPage, EventsSeen, Failure, FailureKind};
use events::names::POOL;
use ondisk::NvList;
use std::time::Duration;

/// So long one request of `-f` waits for an event.
const WAIT_MILLIS: u64 = 1000;
/// So long `-f` waits for a daemon, where there is none any more.
const DAEMON_WAIT: Duration = Duration::from_secs(1);

pub const COMMAND: Command = Command::new(
    Spec {
        name: "events",
        alias: None,
        about: "shows what happened to pools and their devices lately",
        flags: &[
            Flag::switch('v', "all that events tell"),
            Flag::switch('H', "for programs: no heading, tabs"),
            Flag::switch('f', "goes on with what happens from now on"),
            Flag::switch('c', "forgets what happened"),
        ],
        operands: "[pool]",
    },
    run,
);

fn run(session: &mut Session, args: &Args) -> Outcome {
    let pool = match args.operands.as_slice() {
        [] => None,
        [pool] => Some(pool.as_str()),
        _ => return usage("too many arguments"),
    };
    if let Some(pool) = pool.filter(|pool| engine::names::check_new_pool(pool).is_err()) {
        return usage(format!("invalid pool name '{pool}'"));
    }
    if !args.has('c') {
        return show(session, args, pool);
    }
    if pool.is_some() || ['v', 'H', 'f'].iter().any(|flag| args.has(*flag)) {
        return usage("invalid options combined with -c");
    }
    let cleared = session.ask(&EventsClear {})?;
    writeln!(session.out(), "cleared {cleared} events")?;
    Ok(0)
}

fn show(session: &mut Session, args: &Args, pool: Option<&str>) -> Outcome {
    let style = EventStyle { scripted: args.has('H'), verbose: args.has('v') };
    session.out().write_all(style.heading().as_bytes())?;
    let mut page = session.ask(&Events::default())?;
    loop {
        print(session, style, pool, &page)?;
        if !args.has('f') {
            return Ok(0);
        }
        page = next(session, page.seen)?;
    }
}

/// What comes next. A daemon that has ended is waited for, and not started.
fn next(session: &Session, seen: EventsSeen) -> Result<EventsPage, Stop> {
    let answer = session.ask_if_running(&Events { seen, wait_millis: WAIT_MILLIS })?;
    Ok(answer.unwrap_or_else(|| {
        std::thread::sleep(DAEMON_WAIT);
        EventsPage { seen, ..EventsPage::default() }
    }))
}

fn print(
    session: &mut Session,
    style: EventStyle,
    pool: Option<&str>,
    page: &EventsPage,
) -> Result<(), Stop> {
    if page.dropped > 0 {
        writeln!(session.out(), "dropped {} events", page.dropped)?;
    }
    for event in &page.events {
        let garbled = |_| Failure::new(FailureKind::Other, "the events make no sense");
        let event = NvList::decode(event).map_err(garbled)?;
        if pool.is_none_or(|pool| event.get_str(POOL).is_none_or(|of| of == pool)) {
            session.out().write_all(style.event(&event).as_bytes())?;
        }
    }
    Ok(session.out().flush()?)
}
