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
        Decision::Leave(LeftAlone::SilentTooLong { .. } | LeftAlone::Ending) => 'x',
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

fn heartbeat(interval: Option<Duration>, delay: Duration, fail_intervals: u32) -> Heartbeat {
    Heartbeat { interval, delay, fail_intervals }
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn no_watch_is_shorter_than_an_owner_may_be_silent() {
    let intervals = [None, Some(0), Some(100), Some(1000), Some(60_000), Some((1 << 24) - 1)];
    let delays = [1, 1_000_000_000, 60_000_000_000, 1 << 56, u64::MAX];
    let ours = Heartbeats::default();
    for (interval, delay) in intervals.into_iter().flat_map(|interval| delays.map(|delay| (interval, delay)))
    {
        let (interval, delay) = (interval.map(Duration::from_millis), Duration::from_nanos(delay));
        for stops in [0, 1, 2, 10, 127, u16::MAX.into()] {
            let beat = heartbeat(interval, delay, stops);
            let silent = match (interval, stops) {
                (Some(interval), 1..) => interval * stops,
                (Some(interval), 0) => interval + delay,
                (None, _) => delay,
            };
            match beat.patience(&ours) {
                Ok(span) => assert!(span >= silent.max(WATCH_MIN) && span <= WATCH_MAX, "{beat:?}: {span:?}"),
                Err(LeftAlone::SilentTooLong { silent_secs, most_secs }) => {
                    assert!(silent_secs >= most_secs && most_secs == WATCH_MAX.as_secs(), "{beat:?}");
                    assert!(beat.silence(&ours) > WATCH_MAX, "{beat:?}");
                }
                Err(other) => panic!("{beat:?}: {other}"),
            }
        }
    }
    let usual = heartbeat(Some(SECOND), Duration::MAX, 10);
    assert_eq!(usual.patience(&ours), Ok(20 * SECOND), "the delay is not the limit of this owner");
}

#[test]
fn a_host_believes_the_times_that_it_would_state_itself() {
    let slow = Heartbeats { interval: 60 * SECOND, fail_intervals: 100, ..Heartbeats::default() };
    let beat = heartbeat(Some(60 * SECOND), SECOND, 100);
    assert_eq!(beat.patience(&slow), Ok(12_000 * SECOND));
    assert!(beat.patience(&Heartbeats::default()).is_err());
    // A host that is told to wait for longer does so.
    let patient = Heartbeats { import_intervals: 20_000, ..Heartbeats::default() };
    assert_eq!(beat.patience(&patient), Ok(12_000 * SECOND));
}

#[test]
fn a_time_that_is_too_long_is_told_in_words() {
    let told = LeftAlone::SilentTooLong { silent_secs: 72_057_594, most_secs: 3600 }.to_string();
    assert!(told.contains("for 833 days (60 minutes is the longest wait)"), "{told}");
    assert_eq!(spoken(0), "0 seconds");
    assert_eq!(
        (spoken(119), spoken(120), spoken(7200)),
        ("119 seconds".into(), "2 minutes".into(), "2 hours".into())
    );
}
