use super::*;
use crate::spec;

const MIB: u64 = 1 << 20;

/// Files: d1 d2 of 160 MiB, l1 l2 of 80 MiB, small of 63 MiB; a of an open pool, e of an
/// exported one, p of one torn down; disk is a block device.
fn facts() -> Facts {
    let sizes = [("d1", 160), ("d2", 160), ("d3", 160), ("l1", 80), ("l2", 80), ("small", 63)];
    let claims = [("a", Claim::Active), ("e", Claim::Exported), ("p", Claim::PotentiallyActive)];
    let mut all = Facts::new();
    for (number, (name, mib)) in sizes.into_iter().enumerate() {
        let identity = (1, number as u64);
        all.insert(
            name.into(),
            LeafFacts { size_bytes: mib * MIB, identity: Some(identity), ..LeafFacts::default() },
        );
    }
    for (number, (name, claim)) in claims.into_iter().enumerate() {
        let claim = Some((claim, "p1".to_owned()));
        let identity = (2, number as u64);
        all.insert(
            name.into(),
            LeafFacts {
                size_bytes: 160 * MIB,
                is_block_device: false,
                identity: Some(identity),
                claim,
                foreign: None,
            },
        );
    }
    let disk = LeafFacts {
        size_bytes: 160 * MIB,
        is_block_device: true,
        identity: Some((3, 0)),
        claim: None,
        foreign: None,
    };
    all.insert("disk".into(), disk);
    all
}

fn specs(words: &str) -> Vec<VdevSpec> {
    let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
    spec::parse(&words, |w| Ok(w.to_owned())).expect("a specification")
}

fn force() -> Allowance {
    Allowance { in_use: true, replication_mismatch: true, forced: true }
}

fn lines(result: Result<(), Failure>) -> Vec<String> {
    result.err().map(|f| f.stderr).unwrap_or_default()
}

const HEAD: [&str; 2] = ["invalid vdev specification", "use '-f' to override the following errors:"];
const FORCED: [&str; 2] = ["invalid vdev specification", "the following errors must be manually repaired:"];

fn head_and(head: [&str; 2], rest: &[&str]) -> Vec<String> {
    head.iter().chain(rest).map(|s| (*s).to_owned()).collect()
}

#[test]
fn every_device_in_use_is_named() {
    let got = lines(check_spec(&specs("a log a e"), &facts(), None, Allowance::default()));
    let active = "a is part of active pool 'p1'";
    assert_eq!(got, head_and(HEAD, &[active, active, "e is part of exported pool 'p1'"]));
}

#[test]
fn force_takes_devices_that_only_look_used() {
    assert_eq!(check_spec(&specs("e log p"), &facts(), None, force()), Ok(()));
    let got = lines(check_spec(&specs("p"), &facts(), None, Allowance::default()));
    assert_eq!(got, head_and(HEAD, &["p is part of potentially active pool 'p1'"]));
}

#[test]
fn force_never_takes_a_device_of_an_open_pool() {
    let got = lines(check_spec(&specs("d1 log e a"), &facts(), None, force()));
    assert_eq!(got, head_and(FORCED, &["a is part of active pool 'p1'"]));
}

#[test]
fn a_pool_needs_a_general_vdev() {
    let got = lines(check_spec(&specs("log d1"), &facts(), None, Allowance::default()));
    assert_eq!(got, head_and(HEAD, &["at least one general top-level vdev must be specified"]));
}

#[test]
fn data_vdevs_must_be_alike_and_logs_need_not() {
    for (words, line) in [
        ("mirror d1 l1", "mirror contains devices of different sizes"),
        ("mirror d1 disk", "mismatched replication level: mirror contains both files and devices"),
        ("mirror d1 d2 special d3", "mismatched replication level: both mirror and file vdevs are present"),
        ("d1 disk", "mismatched replication level: both file and disk vdevs are present"),
        (
            "mirror d1 d2 mirror d1 d2 d3",
            "mismatched replication level: both 2-way and 3-way mirror vdevs are present",
        ),
    ] {
        assert_eq!(
            lines(check_spec(&specs(words), &facts(), None, Allowance::default())),
            head_and(HEAD, &[line]),
            "{words}"
        );
        assert_eq!(check_spec(&specs(words), &facts(), None, force()), Ok(()), "{words}");
    }
    for words in ["d1 log mirror d2 l1", "mirror d1 d2 log l1", "mirror d1 d2 raidz l1 l2"] {
        assert_eq!(check_spec(&specs(words), &facts(), None, Allowance::default()), Ok(()), "{words}");
    }
}

#[test]
fn one_device_twice_is_refused_as_each_command_words_it() {
    let twice = specs("d1 log d1");
    assert_eq!(
        lines(check_devices(Purpose::Create, "p2", &twice, &facts())),
        [
            "cannot create 'p2': one or more vdevs refer to the same device, or one of",
            "the devices is part of an active md or lvm device"
        ]
    );
    assert_eq!(
        lines(check_devices(Purpose::Add, "p2", &twice, &facts())),
        ["cannot add to 'p2': one or more vdevs refer to the same device"]
    );
}

#[test]
fn small_devices_are_refused_as_each_command_words_it() {
    let message = |purpose, words| lines(check_devices(purpose, "p", &specs(words), &facts()));
    let unavailable = "one or more devices is currently unavailable";
    assert_eq!(message(Purpose::Create, "d1 log small"), [format!("cannot create 'p': {unavailable}")]);
    assert_eq!(message(Purpose::Add, "log small"), [format!("cannot add to 'p': {unavailable}")]);
    assert_eq!(
        message(Purpose::Create, "small log l1"),
        ["cannot create 'p': one or more devices is less than the minimum size (64M)"]
    );
    assert_eq!(
        message(Purpose::Add, "small"),
        ["cannot add to 'p': device is less than the minimum size (64M)"]
    );
}
