//! What `zinject` prints.

use control::{InjectAdd, InjectBlocks, InjectFault, InjectHandler, InjectRequests};
use std::fmt::Write;

/// How requests fail, and what that is called.
pub const FAULTS: [(InjectFault, &str); 5] = [
    (InjectFault::Io, "io"),
    (InjectFault::Nxio, "nxio"),
    (InjectFault::IoPrefail, "io-prefail"),
    (InjectFault::Noop, "noop"),
    (InjectFault::Corrupt, "corrupt"),
];

/// Requests, and what they are called.
pub const REQUESTS: [(InjectRequests, &str); 5] = [
    (InjectRequests::Read, "read"),
    (InjectRequests::Write, "write"),
    (InjectRequests::Flush, "flush"),
    (InjectRequests::Trim, "trim"),
    (InjectRequests::All, "all"),
];

/// What is told of a new order.
pub fn added(id: u64, call: &InjectAdd) -> String {
    if let Some(blocks) = &call.blocks {
        return added_blocks(id, &call.pool, blocks);
    }
    let (pool, requests) = (&call.pool, requests(call.order.requests));
    format!(
        "Added handler {id} with the following properties:\n  pool: {pool}\n  vdev: {:x}\niotype: {requests}\n",
        call.vdev
    )
}

fn added_blocks(id: u64, pool: &str, blocks: &InjectBlocks) -> String {
    let InjectBlocks { dataset, object, level, .. } = blocks;
    let (kind, range) = (kind(blocks), range(blocks));
    format!(
        "Added handler {id} with the following properties:\n  pool: {pool}\ndataset: {dataset}\nobject: {object}\n  \
         type: {kind}\n level: {level}\n range: {range}\n"
    )
}

fn kind(blocks: &InjectBlocks) -> &'static str {
    if blocks.is_dnode { "dnode" } else { "data" }
}

fn range(blocks: &InjectBlocks) -> String {
    blocks.range.map_or("all".to_owned(), |(first, last)| format!("[{first}, {last}]"))
}

/// The orders of blocks.
fn put_blocks(text: &mut String, handlers: &[InjectHandler]) {
    let of_blocks = handlers.iter().filter_map(|handler| Some((handler, handler.blocks.as_ref()?)));
    let of_blocks: Vec<_> = of_blocks.collect();
    if of_blocks.is_empty() {
        return;
    }
    _ = writeln!(
        text,
        "{:>3}  {:15}  {:6}  {:6}  {:8}  {:>3}  {:15}  {:6}  {:6}",
        "ID", "POOL", "OBJSET", "OBJECT", "TYPE", "LVL", "RANGE", "MATCH", "INJECT"
    );
    text.push_str("---  ---------------  ------  ------  --------  ---  ---------------  ------  ------\n");
    for (InjectHandler { id, pool, matched, injected, .. }, blocks) in of_blocks {
        let InjectBlocks { objset, object, level, .. } = blocks;
        let (kind, range) = (kind(blocks), range(blocks));
        _ = writeln!(
            text,
            "{id:3}  {pool:15}  {objset:<6}  {object:<6}  {kind:8}  {level:3}  {range:15}  {matched:6}  {injected:6}"
        );
    }
    text.push('\n');
}

/// All orders: devices that fail, devices that are slow, then blocks.
pub fn table(handlers: &[InjectHandler]) -> String {
    let of_devices = handlers.iter().filter(|handler| handler.blocks.is_none());
    let (delays, faults): (Vec<_>, Vec<_>) =
        of_devices.partition(|handler| matches!(handler.order.fault, InjectFault::Delay { .. }));
    let mut text = String::new();
    if !faults.is_empty() {
        _ = writeln!(
            text,
            "{:>3}  {:15}  {:16}  {:5}  {:10}  {:9}  {:6}  {:6}",
            "ID", "POOL", "GUID", "TYPE", "ERROR", "FREQ", "MATCH", "INJECT"
        );
        text.push_str(
            "---  ---------------  ----------------  -----  ----------  ---------  ------  ------\n",
        );
        faults.into_iter().for_each(|handler| put(&mut text, handler, &what(handler)));
        text.push('\n');
    }
    if !delays.is_empty() {
        _ = writeln!(
            text,
            "{:>3}  {:15}  {:16}  {:10}  {:5}  {:9}  {:6}  {:6}",
            "ID", "POOL", "GUID", "DELAY (ms)", "LANES", "FREQ", "MATCH", "INJECT"
        );
        text.push_str(
            "---  ---------------  ----------------  ----------  -----  ---------  ------  ------\n",
        );
        delays.into_iter().for_each(|handler| put(&mut text, handler, &what(handler)));
        text.push('\n');
    }
    put_blocks(&mut text, handlers);
    text
}

fn put(text: &mut String, handler: &InjectHandler, what: &str) {
    let InjectHandler { id, pool, vdev, order, matched, injected, .. } = handler;
    let percent = f64::from(order.frequency) / f64::from(u32::MAX) * 100.0;
    _ = writeln!(text, "{id:3}  {pool:15}  {vdev:x}  {what}  {percent:8.4}%  {matched:6}  {injected:6}");
}

fn what(handler: &InjectHandler) -> String {
    match handler.order.fault {
        InjectFault::Delay { latency_millis, lanes } => format!("{latency_millis:10}  {lanes:5}"),
        fault => {
            let name = FAULTS.iter().find(|(known, _)| *known == fault).map_or("?", |(_, name)| name);
            format!("{:5}  {name:10}", requests(handler.order.requests))
        }
    }
}

fn requests(of: InjectRequests) -> &'static str {
    REQUESTS.iter().find(|(known, _)| *known == of).map_or("?", |(_, name)| name)
}
