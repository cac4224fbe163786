//! `zpool history`.

use super::pools::select;
use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session};
use crate::view::history::HistoryStyle;
use control::{Failure, FailureKind, PoolHistory};
use ondisk::NvList;

pub const COMMAND: Command = Command::new(
    Spec {
        name: "history",
        alias: None,
        about: "shows what was done to pools",
        flags: &[Flag::switch('i', "what became of it inside, too"), Flag::switch('l', "with user and host")],
        operands: "[pool] ...",
    },
    run,
);

fn run(session: &mut Session, args: &Args) -> Outcome {
    let (pools, code) = select(session, &args.operands)?;
    if pools.is_empty() && args.operands.is_empty() {
        eprintln!("no pools available");
    }
    let style = HistoryStyle::new(args.has('l'), args.has('i'));
    for pool in pools {
        let records = session.ask(&PoolHistory { pool: pool.name.clone() })?;
        writeln!(session.out(), "History for '{}':", pool.name)?;
        for record in &records {
            let garbled = |_| Failure::new(FailureKind::Other, "the history makes no sense");
            let record = NvList::decode(record).map_err(garbled)?;
            session.out().write_all(style.record(&record).as_bytes())?;
        }
        writeln!(session.out())?;
    }
    Ok(code)
}
