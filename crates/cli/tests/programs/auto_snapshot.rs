//! `zfs-auto-snapshot`, unchanged: snapshots under its labels, the old ones destroyed, datasets left out by their properties.
//!
//! Names end in a minute, and a snapshot of the same minute is refused: `date` is one of the test's own, which says how
//! many hours have gone by.

use std::time::Duration;

use crate::sanoid::Place;

/// A dataset's snapshots, oldest first, without what their names have in common.
fn snapshots(place: &Place, dataset: &str) -> Vec<String> {
    let all = place.world.zfs_prints(&format!("list -Ho name -t snapshot -s creation -d 1 {dataset}"));
    let prefix = format!("{dataset}@zfs-auto-snap_");
    all.lines().map(|name| name.strip_prefix(&prefix).expect("its own name").to_owned()).collect()
}

struct Clock {
    place: Place,
    hours: usize,
}

impl Clock {
    fn new() -> Option<Self> {
        let place = Place::with(&["zfs-auto-snapshot", "date", "getopt", "awk"])?;
        place.program("date", "#!/bin/sh\nexec /bin/date --date=\"$HOURS hours\" \"$@\"\n");
        place.make_tree();
        Some(Self { place, hours: 0 })
    }

    /// An hour later; a second later for who made the last snapshots, so that their order is told by their times.
    fn run(&mut self, words: &str) -> String {
        self.hours += 1;
        std::thread::sleep(Duration::from_millis(1_050));
        self.again(words)
    }

    /// Gives the line in which it counts what it did.
    fn again(&self, words: &str) -> String {
        let said = self.place.sh(&format!("HOURS={} zfs-auto-snapshot {words} 2>&1", self.hours));
        let (_, counts) = said.lines().last().and_then(|line| line.split_once(", ")).expect("it counts");
        counts.to_owned()
    }
}

#[test]
fn zfs_auto_snapshot_keeps_so_many_of_each_label() {
    let Some(mut clock) = Clock::new() else { return };
    let hourly = "--label=hourly --keep=3 --recursive tank/src";
    for turn in 1..=3 {
        assert_eq!(clock.run(hourly), "1 created, 0 destroyed, 0 warnings.", "turn {turn}");
    }
    assert_eq!(clock.run("-l daily -k 1 -r tank/src"), "1 created, 0 destroyed, 0 warnings.");
    let first = snapshots(&clock.place, "tank/src/a/deep");
    assert_eq!(first.len(), 4, "{first:?}");
    // One more, and the oldest is gone from the whole tree; those of the other label stay.
    assert_eq!(clock.run(hourly), "1 created, 1 destroyed, 0 warnings.");
    for dataset in ["tank/src", "tank/src/a", "tank/src/a/deep"] {
        let now = snapshots(&clock.place, dataset);
        assert_eq!(now[..3], first[1..], "{dataset}");
        assert!(now.len() == 4 && now[3].starts_with("hourly-"), "{dataset}: {now:?}");
    }
    assert_eq!(clock.run("-l daily -k 1 -r tank/src"), "1 created, 1 destroyed, 0 warnings.");
    // In the same minute it has nothing to make, and nothing is destroyed for it.
    assert_eq!(clock.again("-l daily -k 1 -r tank/src"), "0 created, 0 destroyed, 1 warnings.");
    // Fewer are kept from now on; a snapshot that is held goes once it is held no more.
    let oldest = snapshots(&clock.place, "tank/src/a").remove(0);
    let oldest = format!("tank/src/a@zfs-auto-snap_{oldest}");
    clock.place.world.zfs(&format!("hold kept {oldest}"));
    assert_eq!(
        clock.again("--destroy-only -l hourly -k 1 -r tank/src"),
        "0 created, 3 destroyed, 0 warnings."
    );
    assert_eq!(clock.place.world.zfs_prints(&format!("get -Ho value defer_destroy {oldest}")), "on\n");
    clock.place.world.zfs(&format!("release kept {oldest}"));
    for dataset in ["tank/src", "tank/src/a", "tank/src/a/deep"] {
        let now = snapshots(&clock.place, dataset);
        assert!(now.len() == 1 && now[0].starts_with("daily-"), "{dataset}: {now:?}");
    }
    clock.place.finish();
}

#[test]
fn zfs_auto_snapshot_heeds_its_properties() {
    let Some(mut clock) = Clock::new() else { return };
    let has = |clock: &Clock| {
        ["tank", "tank/src", "tank/src/a", "tank/src/a/deep", "back"]
            .map(|dataset| snapshots(&clock.place, dataset).len())
    };
    let zfs = |clock: &Clock, line: &str| clock.place.world.zfs(line);
    // What is inherited leaves out all below it; a label of its own is only for that.
    zfs(&clock, "set com.sun:auto-snapshot=false tank/src/a");
    zfs(&clock, "set com.sun:auto-snapshot:daily=false back");
    assert_eq!(clock.run("-l hourly //"), "3 created, 0 destroyed, 0 warnings.");
    assert_eq!(has(&clock), [1, 1, 0, 0, 1]);
    assert_eq!(clock.run("-l daily //"), "2 created, 0 destroyed, 0 warnings.");
    assert_eq!(has(&clock), [2, 2, 0, 0, 1]);
    // Below what is left out, one is not.
    zfs(&clock, "set com.sun:auto-snapshot=true tank/src/a/deep");
    assert_eq!(
        clock.run("-l hourly -r tank tank/src tank/src/a/deep"),
        "3 created, 0 destroyed, 0 warnings."
    );
    assert_eq!(has(&clock), [3, 3, 0, 1, 1]);
    assert_eq!(clock.run("-l hourly --default-exclude //"), "1 created, 0 destroyed, 0 warnings.");
    assert_eq!(has(&clock), [3, 3, 0, 2, 1]);
    zfs(&clock, "inherit -r com.sun:auto-snapshot tank/src/a");
    assert_eq!(clock.run("-l daily -e upgrade --fast -k 1 //"), "1 created, 1 destroyed, 0 warnings.");
    assert_eq!(has(&clock), [3, 3, 1, 3, 1]);
    let told =
        clock.place.world.zfs_prints("get -Hr -t snapshot -o value com.sun:auto-snapshot-desc tank/src/a");
    assert_eq!(told.lines().filter(|line| *line == "upgrade").count(), 2, "{told}");
    // What it says it cannot do is refused by itself, before anything is asked of us.
    let said = clock.place.fails("zfs-auto-snapshot --send-incr=f -l hourly //");
    assert!(said.contains("unrecognized option '--send-incr=f'"), "{said}");
    clock.place.finish();
}
