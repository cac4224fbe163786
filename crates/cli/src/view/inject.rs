//! What `zinject` prints.

use control::{InjectAdd, InjectFault, InjectHandler, InjectRequests};
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
    let (pool, requests) = (&call.pool, requests(call.order.requests));
    format!(
        "Added handler {id} with the following properties:\n  pool: {pool}\n  vdev: {:x}\niotype: {requests}\n",
        call.vdev
    )
}

/// All orders: those that fail, then those that delay.
pub fn table(handlers: &[InjectHandler]) -> String {
    let (delays, faults): (Vec<_>, Vec<_>) =
        handlers.iter().partition(|handler| matches!(handler.order.fault, InjectFault::Delay { .. }));
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
    text
}

fn put(text: &mut String, handler: &InjectHandler, what: &str) {
    let InjectHandler { id, pool, vdev, order, matched, injected } = handler;
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
