//! The daemon itself.

use crate::family::{Family, Known, one, write as write_all};
use crate::text::{Text, Unit};
use control::DaemonStatus;

const BUILD: Family<DaemonStatus> =
    Family::gauge("sawmill_build_info", Unit::None, "The program that answers; always 1.", |_| one(1));

const FAMILIES: &[Family<DaemonStatus>] = &[
    Family::gauge("sawmill_uptime", Unit::Seconds, "How long the daemon has run.", |daemon| {
        one(daemon.uptime_secs)
    }),
    Family::gauge("sawmill_pools_open", Unit::None, "Open pools.", |daemon| one(daemon.pools.len() as u64)),
    Family::gauge(
        "sawmill_pools_missing",
        Unit::None,
        "Pools that were open when the last daemon ended, and could not be opened again.",
        |daemon| one(daemon.failed.len() as u64),
    ),
    Family::gauge(
        "sawmill_changes_under_way",
        Unit::None,
        "Changes of pools that are under way.",
        |daemon| one(daemon.under_way.len() as u64),
    ),
];

pub(crate) fn write(text: &mut Text, daemon: &DaemonStatus) {
    let version = vec![("version", daemon.version.as_str())];
    write_all(text, &[BUILD], &[Known { labels: version, thing: daemon }]);
    write_all(text, FAMILIES, &[Known { labels: Vec::new(), thing: daemon }]);
}
