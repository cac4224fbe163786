use super::*;

const STATES: [PoolState; 3] = [PoolState::Active, PoolState::Exported, PoolState::Destroyed];
const HOSTS: [LabelHost; 3] = [LabelHost::This, LabelHost::None, LabelHost::Another];
const ASKED: [Asked; 4] = [
    Asked::OnCommand,
    Asked::Forced,
    Asked::AtRestart { is_older: false },
    Asked::AtRestart { is_older: true },
];

/// Every row of the table, in the order of the arrays above.
fn all() -> impl Iterator<Item = (PoolState, LabelHost, bool, Asked)> {
    let pairs = STATES.into_iter().flat_map(|state| HOSTS.map(|host| (state, host)));
    let triples = pairs.flat_map(|(state, host)| [false, true].map(|beats| (state, host, beats)));
    triples.flat_map(|(state, host, beats)| ASKED.map(|asked| (state, host, beats, asked)))
}

/// What the page above says, in one letter for each way of asking: `o`pen, `w`atch, `r`efuse,
/// le`f`t (older), `e`xported, `d`estroyed.
const TABLE: [&str; 18] = [
    "ooof", "ooof", // active, this
    "oorr", "wwrr", // active, none
    "rorr", "rwrr", // active, another
    "ooee", "ooee", "ooee", "ooee", "ooee", "ooee", // exported
    "oodd", "oodd", "oodd", "oodd", "oodd", "oodd", // destroyed
];

#[test]
fn every_input_has_the_decision_that_the_table_tells() {
    let letter = |decision| match decision {
        Decision::Open => 'o',
        Decision::Watch => 'w',
        Decision::Refuse => 'r',
        Decision::Leave(LeftAlone::Older) => 'f',
        Decision::Leave(LeftAlone::Exported) => 'e',
        Decision::Leave(LeftAlone::Destroyed) => 'd',
    };
    let told = all().map(|(state, host, beats, asked)| letter(decide(state, host, beats, asked)));
    assert_eq!(told.collect::<String>(), TABLE.concat());
}

#[test]
fn a_restart_opens_only_what_this_host_left_active() {
    for (state, host, beats, asked) in all() {
        let is_restart = matches!(asked, Asked::AtRestart { .. });
        if is_restart && decide(state, host, beats, asked) == Decision::Open {
            assert_eq!((state, host), (PoolState::Active, LabelHost::This));
            assert_eq!(asked, Asked::AtRestart { is_older: false });
        }
    }
}

#[test]
fn no_command_takes_a_pool_from_another_host_that_may_live() {
    for (state, host, beats, asked) in all() {
        let may_live = state == PoolState::Active && host != LabelHost::This && beats;
        assert!(!may_live || decide(state, host, beats, asked) != Decision::Open, "{host:?} {asked:?}");
    }
}

#[test]
fn a_label_without_a_host_is_this_hosts_only_if_this_host_has_no_number() {
    assert_eq!(label_host(0, 0), LabelHost::This);
    assert_eq!(label_host(0, 7), LabelHost::None);
    assert_eq!(label_host(7, 7), LabelHost::This);
    assert_eq!((label_host(8, 7), label_host(8, 0)), (LabelHost::Another, LabelHost::Another));
}

#[test]
fn a_label_makes_nobody_wait_for_ever() {
    let beat = |interval_secs, fail_intervals| Heartbeat {
        interval: Some(Duration::from_secs(interval_secs)),
        delay: Duration::from_nanos(u64::MAX),
        fail_intervals,
    };
    let ours = Heartbeats::default();
    assert_eq!(beat(1, 10).patience(&ours), Duration::from_secs(20));
    assert_eq!(beat(1, 0).patience(&ours), WATCH_MAX);
    assert_eq!(beat(u64::MAX, u32::MAX).patience(&ours), WATCH_MAX);
}
