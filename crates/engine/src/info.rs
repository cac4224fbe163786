//! A pool as commands see it.

use crate::props::{Prop, Source, Value};
use crate::upgrade::VERSION_FEATURES;
use crate::{Held, features, settings, vdevs};
use control::{CheckpointInfo, DedupInfo, PoolHealth, PoolInfo, ReplayInfo, VdevClass, VdevInfo, VdevState};
use env::{Machine, boxed};
use pool::{CheckpointReport, DedupFacts, Pool, Replay};

/// Everything about a pool that is held.
#[boxed]
pub async fn pool_info(machine: &dyn Machine, held: &Held) -> PoolInfo {
    let mut info = bare(&held.pool).await;
    settings::put(&mut info.props, held).await;
    let load_guid = Prop { value: Value::Number(held.load_guid), source: Source::None };
    info.props.insert("load_guid".to_owned(), load_guid);
    info.lacks_features = lacks_features(machine, &held.pool).await;
    info.replays = held.pool.replays().into_iter().map(replay_info).collect();
    info
}

/// Whether there is something for `zpool upgrade` to enable.
async fn lacks_features(machine: &dyn Machine, pool: &Pool) -> bool {
    let Ok(counts) = pool.dsl().features().await else { return false };
    let missing = crate::choice::missing(
        machine,
        crate::choice::Offer::of(pool.tuning()),
        &counts,
        pool.compatibility().as_deref(),
    );
    pool.version() >= VERSION_FEATURES
        && !pool.is_read_only()
        && missing.is_ok_and(|missing| !missing.is_empty())
}

fn replay_info(replay: Replay) -> ReplayInfo {
    let Replay { dataset, progress } = replay;
    ReplayInfo {
        dataset,
        records: progress.records,
        total_records: progress.records_total,
        left_secs: progress.left().map(|left| left.as_secs()),
    }
}

/// What is known of a pool without regard to who holds it.
#[boxed]
pub async fn bare(pool: &Pool) -> PoolInfo {
    let root = vdevs::root(pool);
    let health = health(pool, &root);
    // A pool whose tables cannot be read is shown without its features.
    let props = pool.dsl().features().await.map(|counts| features::props(&counts)).unwrap_or_default();
    let mut info = PoolInfo {
        name: pool.name(),
        guid: pool.guid().get(),
        health,
        txg: pool.txgs().synced_txg().get(),
        version: pool.version(),
        open_nanos: u64::try_from(pool.open_for().as_nanos()).unwrap_or(u64::MAX),
        props,
        root,
        caches: vdevs::caches(pool),
        spares: vdevs::spares(pool),
        scan: None,
        error_scrub: None,
        removal: None,
        is_releasing: pool.is_letting_go(),
        checkpoint: pool.checkpoint().map(checkpoint_info),
        replays: Vec::new(),
        error_count: 0,
        error_files: Vec::new(),
        lacks_features: false,
        bad_log: false,
        stopped: pool.stopped().is_some(),
        heartbeats_failed: pool.is_suspended_for_heartbeats(),
        is_absent: false,
        absent_because: Vec::new(),
        lost_metaslabs: pool.lost_metaslabs().len() as u64,
        dedup: None,
    };
    put_facts(&mut info, pool).await;
    info
}

fn checkpoint_info(report: CheckpointReport) -> CheckpointInfo {
    let CheckpointReport { created_secs, kept_bytes, is_discarding } = report;
    CheckpointInfo { created_secs, kept_bytes, is_discarding }
}

/// A pool that lost a log works on, degraded; one that lost data does not.
pub(crate) fn health(pool: &Pool, root: &VdevInfo) -> PoolHealth {
    if pool.suspended().is_some() {
        return PoolHealth::Suspended;
    }
    let tops = || root.shown_children();
    match (root.state, tops().any(|top| top.state != VdevState::Online)) {
        _ if tops().any(|top| top.class != VdevClass::Log && !top.state.is_readable()) => PoolHealth::Unavail,
        (VdevState::Online, false) => PoolHealth::Online,
        _ => PoolHealth::Degraded,
    }
}

fn dedup_info(facts: DedupFacts) -> DedupInfo {
    let DedupFacts { blocks: _, table_bytes, entries, core_bytes, rows } = facts;
    let used = rows.iter().rposition(|row| row[0] > 0).map_or(0, |last| last + 1);
    DedupInfo { entries, disk_bytes: table_bytes, core_bytes, rows: rows[..used].to_vec() }
}

/// What is so, and nobody set; absent where it is not known.
async fn put_facts(info: &mut PoolInfo, pool: &Pool) {
    let told = pool.facts().await;
    let known = |fact: Option<u64>| fact.map_or(Value::Absent, Value::Number);
    let space = info.root.stats.space_bytes;
    let allocated = info.root.stats.allocated_bytes;
    let fragmentation = info.root.stats.fragmentation.map_or(Value::Absent, Value::Number);
    let facts: [(&str, Value); 18] = [
        ("size", space.into()),
        (
            "capacity",
            (u128::from(allocated) * 100 / u128::from(space.max(1))).try_into().unwrap_or(100).into(),
        ),
        ("health", info.health.word().into()),
        ("guid", info.guid.into()),
        ("dedupratio", known(told.dedup.as_ref().map(|dedup| dedup.blocks.ratio_hundredths()))),
        ("free", space.saturating_sub(allocated).into()),
        ("allocated", allocated.into()),
        ("expandsize", known(Some(info.root.stats.expand_bytes).filter(|bytes| *bytes > 0))),
        ("freeing", known(told.freeing_bytes)),
        ("fragmentation", fragmentation),
        ("leaked", known(told.leaked_bytes)),
        ("checkpoint", known(info.checkpoint.map(|kept| kept.kept_bytes).filter(|bytes| *bytes > 0))),
        ("bcloneused", known(told.cloned.map(|cloned| cloned.used_bytes))),
        ("bclonesaved", known(told.cloned.map(|cloned| cloned.saved_bytes))),
        ("bcloneratio", known(told.cloned.map(|cloned| cloned.ratio_hundredths()))),
        ("dedup_table_size", known(told.dedup.as_ref().map(|dedup| dedup.table_bytes))),
        ("last_scrubbed_txg", known(told.last_scrubbed_txg)),
        ("readonly", u64::from(pool.is_read_only()).into()),
    ];
    info.dedup = told.dedup.map(dedup_info);
    for (name, value) in facts {
        info.props.insert(name.to_owned(), Prop { value, source: Source::None });
    }
    if info.version < VERSION_FEATURES {
        let version = Prop { value: info.version.into(), source: Source::Local };
        info.props.insert("version".to_owned(), version);
    }
}
