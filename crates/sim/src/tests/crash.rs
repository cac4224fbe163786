use std::collections::BTreeSet;

use env::Durability::{Cached, Stable};
use env::{Env, FaultOp};
use futures::future::join;
use futures::join;

use super::{SECTOR, open, put, sectors, world};
use crate::{CrashPlan, Cuts, DiskModel, DiskSpec, Recording, Sim};

/// The distinct states of the first `count` sectors of `/a`, with the last mark before.
fn states(recording: &Recording, plan: CrashPlan, count: usize) -> BTreeSet<(String, Vec<u8>)> {
    let images = recording.crash_images_by(plan);
    let state = |image: crate::CrashImage| {
        let mark = image.marks().last().map_or(String::new(), |mark| mark.label.clone());
        (mark, sectors(&image.peek("/a", 0, count * SECTOR)))
    };
    images.map(state).collect()
}

fn everywhere() -> CrashPlan {
    CrashPlan { cuts: Cuts::Everywhere, ..CrashPlan::new(1) }
}

fn set(expected: &[(&str, &[u8])]) -> BTreeSet<(String, Vec<u8>)> {
    expected.iter().map(|&(mark, bytes)| (mark.to_owned(), bytes.to_vec())).collect()
}

#[test]
fn a_world_without_events_has_one_image() {
    let sim = world(1, &["/a"]);
    assert_eq!(sim.recording().crash_images().count(), 1);
}

#[test]
fn all_states_of_one_cached_write_are_made_and_no_others() {
    let sim = world(1, &["/a"]);
    sim.run_until(async {
        let disk = open(&sim.env(), "/a").await;
        put(&*disk, 0, 3, 1, Cached).await.expect("written");
        sim.mark("done");
    });
    let any: [&[u8]; 6] = [&[0, 0, 0], &[1, 0, 0], &[1, 1, 0], &[1, 1, 1], &[0, 1, 1], &[0, 0, 1]];
    let boundaries = any.map(|state| ("done", state));
    assert_eq!(states(&sim.recording(), CrashPlan::new(1), 3), set(&boundaries));
    let all: Vec<_> = any.into_iter().flat_map(|state| [("", state), ("done", state)]).collect();
    assert_eq!(states(&sim.recording(), everywhere(), 3), set(&all));
}

#[test]
fn all_states_of_two_writes_are_made_and_no_others() {
    let sim = world(1, &["/a"]);
    sim.run_until(async {
        let disk = open(&sim.env(), "/a").await;
        let (first, second) = join(put(&*disk, 0, 1, 1, Cached), put(&*disk, 1, 1, 2, Cached)).await;
        first.and(second).expect("written");
        disk.flush().await.expect("flushed");
        sim.mark("flushed");
    });
    let expected = set(&[("", &[0, 0]), ("", &[1, 0]), ("", &[0, 2]), ("", &[1, 2]), ("flushed", &[1, 2])]);
    assert_eq!(states(&sim.recording(), CrashPlan::new(1), 2), expected);
    assert_eq!(states(&sim.recording(), everywhere(), 2), expected);
}

#[test]
fn a_stable_write_is_torn_or_lost_only_before_it_is_done() {
    let sim = world(1, &["/a"]);
    sim.run_until(async {
        let disk = open(&sim.env(), "/a").await;
        put(&*disk, 0, 2, 1, Stable).await.expect("written");
        sim.mark("done");
    });
    let expected = set(&[("", &[0, 0]), ("", &[1, 0]), ("", &[0, 1]), ("", &[1, 1]), ("done", &[1, 1])]);
    assert_eq!(states(&sim.recording(), CrashPlan::new(1), 2), expected);
}

#[test]
fn a_flush_does_not_save_what_began_or_ended_after_it_began() {
    // The write takes longer than the flush that begins with it.
    let sim = Sim::seed(1);
    let slow = DiskModel { write: crate::Latency::us([50; 5]), ..DiskModel::instant() };
    sim.add_disk("/a", DiskSpec::new(1 << 20, slow));
    sim.run_until(async {
        let disk = open(&sim.env(), "/a").await;
        let (write, flush) = join!(put(&*disk, 0, 1, 1, Cached), disk.flush());
        write.and(flush).expect("both succeed");
        sim.mark("both done");
    });
    let expected = set(&[("", &[0]), ("", &[1]), ("both done", &[0]), ("both done", &[1])]);
    assert_eq!(states(&sim.recording(), everywhere(), 1), expected);
}

#[test]
fn a_durable_write_is_not_undone_by_an_older_one_at_risk() {
    let sim = world(1, &["/a"]);
    sim.run_until(async {
        let disk = open(&sim.env(), "/a").await;
        put(&*disk, 0, 3, 1, Cached).await.expect("written");
        put(&*disk, 1, 1, 2, Stable).await.expect("written");
        sim.mark("second");
    });
    let after: Vec<Vec<u8>> = states(&sim.recording(), CrashPlan::new(1), 3)
        .into_iter()
        .filter_map(|(mark, state)| (mark == "second").then_some(state))
        .collect();
    let expected: [&[u8]; 4] = [&[0, 2, 0], &[0, 2, 1], &[1, 2, 0], &[1, 2, 1]];
    assert_eq!(after, expected);
}

#[test]
fn a_cached_rewrite_may_surface_in_either_version() {
    let sim = world(1, &["/a"]);
    sim.run_until(async {
        let disk = open(&sim.env(), "/a").await;
        put(&*disk, 0, 1, 1, Cached).await.expect("written");
        put(&*disk, 0, 1, 2, Cached).await.expect("written");
        sim.mark("both");
    });
    assert_eq!(
        states(&sim.recording(), CrashPlan::new(1), 1),
        set(&[("both", &[0]), ("both", &[1]), ("both", &[2])])
    );
}

#[test]
fn without_a_volatile_cache_what_is_done_stays() {
    let sim = Sim::seed(1);
    sim.add_disk("/a", DiskSpec::new(1 << 20, DiskModel::nvram()));
    sim.run_until(async {
        let disk = open(&sim.env(), "/a").await;
        put(&*disk, 0, 1, 1, Cached).await.expect("written");
        sim.mark("done");
    });
    assert_eq!(states(&sim.recording(), everywhere(), 1), set(&[("", &[0]), ("", &[1]), ("done", &[1])]));
}

#[test]
fn a_lying_disk_saves_nothing() {
    let sim = world(1, &["/a"]);
    sim.disk("/a").set_lying(true);
    sim.run_until(async {
        let disk = open(&sim.env(), "/a").await;
        put(&*disk, 0, 1, 1, Stable).await.expect("acknowledged");
        disk.flush().await.expect("acknowledged");
        sim.mark("flushed");
    });
    assert_eq!(states(&sim.recording(), CrashPlan::new(1), 1), set(&[("flushed", &[0]), ("flushed", &[1])]));
    assert_eq!(sim.disk("/a").writes_at_risk(), 1);
}

#[test]
fn what_a_failed_flush_was_to_save_no_later_flush_saves() {
    let sim = world(1, &["/a"]);
    sim.disk("/a").faults().fail_nth(FaultOp::Flush, 1);
    sim.run_until(async {
        let disk = open(&sim.env(), "/a").await;
        put(&*disk, 0, 1, 1, Cached).await.expect("written");
        disk.flush().await.expect_err("ordered");
        put(&*disk, 1, 1, 2, Cached).await.expect("written");
        disk.flush().await.expect("the second succeeds");
        sim.mark("second flush");
    });
    let after: Vec<_> = states(&sim.recording(), CrashPlan::new(1), 2)
        .into_iter()
        .filter(|(mark, _)| mark == "second flush")
        .collect();
    assert_eq!(after, [("second flush".to_owned(), vec![0, 2]), ("second flush".to_owned(), vec![1, 2])]);
}

#[test]
fn tears_keep_to_their_unit() {
    let sim = world(1, &["/a"]);
    sim.run_until(async {
        let disk = open(&sim.env(), "/a").await;
        put(&*disk, 0, 24, 1, Cached).await.expect("written");
    });
    let plan = CrashPlan { tear_unit_bytes: 4096, ..CrashPlan::new(1) };
    let written = |(_, state): (String, Vec<u8>)| state.iter().map(|&byte| usize::from(byte)).sum::<usize>();
    let counts: BTreeSet<usize> = states(&sim.recording(), plan, 24).into_iter().map(written).collect();
    assert_eq!(counts, BTreeSet::from([0, 8, 16, 24]));
}

#[test]
fn halves_of_a_mirror_are_cut_apart() {
    let sim = world(1, &["/a", "/b"]);
    sim.run_until(async {
        let (a, b) = (open(&sim.env(), "/a").await, open(&sim.env(), "/b").await);
        for at in 0..5 {
            let (first, second) = join!(put(&*a, at, 1, 1, Cached), put(&*b, at, 1, 1, Cached));
            first.and(second).expect("written");
        }
    });
    let recording = sim.recording();
    let halves = recording.crash_images().map(|image| {
        let sum = |path: &str| sectors(&image.peek(path, 0, 5 * SECTOR)).iter().sum::<u8>();
        (sum("/a"), sum("/b"))
    });
    let halves: BTreeSet<(u8, u8)> = halves.collect();
    for expected in [(0, 0), (5, 5), (0, 5), (5, 0)] {
        assert!(halves.contains(&expected), "{expected:?} in {halves:?}");
    }
}

#[test]
fn many_writes_at_risk_give_a_bounded_number_of_images() {
    let sim = world(1, &["/a"]);
    sim.run_until(async {
        let disk = open(&sim.env(), "/a").await;
        for at in 0..500 {
            put(&*disk, at, 4, 1, Cached).await.expect("written");
        }
    });
    let recording = sim.recording();
    let images = recording.crash_images().count();
    assert!((5..=7).contains(&images), "{images}");
    assert_eq!(recording.writes(), 500);
    let again: Vec<String> = recording.crash_images().map(|image| image.story().to_owned()).collect();
    let once_more: Vec<String> = recording.crash_images().map(|image| image.story().to_owned()).collect();
    assert_eq!(again, once_more);
}

#[test]
fn rot_is_in_every_image_after_it() {
    let sim = world(1, &["/a"]);
    sim.run_until(async {
        let disk = open(&sim.env(), "/a").await;
        put(&*disk, 0, 1, 1, Cached).await.expect("written");
        sim.disk("/a").rot(0, &[9; 512]);
        sim.mark("rotten");
    });
    assert_eq!(states(&sim.recording(), CrashPlan::new(1), 1), set(&[("rotten", &[9])]));
}

#[test]
fn an_image_boots_into_a_world_with_the_same_disks() {
    let sim = world(1, &["/a", "/b"]);
    sim.run_until(async {
        let disk = open(&sim.env(), "/b").await;
        put(&*disk, 0, 1, 1, Stable).await.expect("written");
        sim.mark_with("promised", [4, 2]);
    });
    let recording = sim.recording();
    let image = recording.crash_images().last().expect("there is a last one");
    assert_eq!((image.marks()[0].label.as_str(), &image.marks()[0].payload[..]), ("promised", &[4, 2][..]));
    let second = image.boot(2);
    second.run_until(async {
        let disk = open(&second.env(), "/b").await;
        assert_eq!(sectors(&disk.read(units::LeafOffset::new(0), SECTOR).await.expect("read")), [1]);
        put(&*disk, 0, 1, 5, Stable).await.expect("written");
        second.mark("again");
    });
    // The second world's crash images begin where the image ended.
    assert_eq!(image.peek("/b", 0, 1), [1]);
    let after: Vec<_> = second
        .recording()
        .crash_images()
        .filter_map(|image| image.is_after("again").then(|| image.peek("/b", 0, 1)))
        .collect();
    assert_eq!(after, [[5]]);
}

#[test]
fn a_recording_started_late_begins_with_what_was_at_risk_then() {
    let sim = world(1, &["/a"]);
    sim.run_until(async {
        let disk = open(&sim.env(), "/a").await;
        sim.stop_recording();
        put(&*disk, 0, 1, 1, Cached).await.expect("written");
        sim.mark("first");
        assert!(sim.recording().is_empty());
        sim.start_recording();
        put(&*disk, 1, 1, 2, Stable).await.expect("written");
        sim.mark("second");
    });
    let expected = set(&[
        ("first", &[0, 0]),
        ("first", &[1, 0]),
        ("first", &[0, 2]),
        ("first", &[1, 2]),
        ("second", &[0, 2]),
        ("second", &[1, 2]),
    ]);
    assert_eq!(states(&sim.recording(), everywhere(), 2), expected);
}

#[test]
fn a_power_cut_now_gives_one_of_the_states_possible_now() {
    let mut seen = BTreeSet::new();
    for draw in 0..100 {
        let sim = world(1, &["/a"]);
        sim.run_until(async {
            let disk = open(&sim.env(), "/a").await;
            put(&*disk, 0, 1, 1, Stable).await.expect("written");
            put(&*disk, 1, 2, 2, Cached).await.expect("written");
            sim.mark("done");
        });
        let image = sim.power_cut(draw);
        assert!(image.is_after("done"));
        seen.insert(sectors(&image.peek("/a", 0, 3 * SECTOR)));
        let next = image.boot(draw);
        next.run_until(next.sleep(std::time::Duration::from_secs(1)));
    }
    let expected: [&[u8]; 4] = [&[1, 0, 0], &[1, 0, 2], &[1, 2, 0], &[1, 2, 2]];
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), expected);
}
