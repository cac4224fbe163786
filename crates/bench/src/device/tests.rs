use std::time::Duration;

use device::Options;

use super::*;

#[test]
fn what_was_measured_is_read_back_as_a_model() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("disk");
    let env = RealEnv::new(Options::default());
    let plan = Plan { path: path.clone(), time: Duration::from_millis(900), force: false };
    let Ok(report) = run(&env, &plan) else { panic!("a file can be measured") };
    assert!(!path.exists(), "what was made is removed");
    assert!(report.lone.count > 0 && report.batch_flush.count > 0 && report.read.count > 0, "{report:?}");
    assert!(report.model.bytes_per_second > 1 << 20, "{report:?}");
    let file = dir.path().join("model.json");
    std::fs::write(&file, serde_json::to_vec(&report).expect("plain data")).expect("room");
    assert_eq!(ModelFile::load(&file).expect("it was just written"), report.model);
}

#[test]
fn what_is_there_is_overwritten_only_when_that_is_asked_for() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("precious");
    std::fs::write(&path, b"precious").expect("room");
    let env = RealEnv::new(Options::default());
    for force in [false, true] {
        let plan = Plan { path: path.clone(), time: Duration::from_millis(50), force };
        assert!(run(&env, &plan).is_err(), "it is there, and too small");
    }
    assert_eq!(std::fs::read(&path).expect("it is there"), b"precious");
}

#[test]
fn two_draws_have_the_maximum_that_was_measured() {
    let mut times = Latencies::default();
    (1..=1000).for_each(|ms| times.push(Duration::from_millis(ms)));
    let [least, median, .., most] = quantiles(&times.sorted(), 2, 0.0).map(|us| (us / 1e3).round());
    // Half of all draws lie below the time that a quarter of all pairs of draws stay below.
    assert_eq!((least, median, most), (1.0, 251.0, 1000.0));
}

#[test]
fn nonsense_is_no_model() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("model.json");
    let sound = "{\"model\":{\"read_us\":[1,2,3,4,5],\"write_us\":[1,2,3,4,5],\"stable_write_us\":[1,2,3,4,5],\
        \"flush_us\":[0,0,0,0,0],\"bytes_per_second\":1000000,\"parallel\":1,\"has_volatile_cache\":true,\"processor_us\":10,\"lone_us\":10,\"processors\":2}}";
    let load = |text: String| {
        std::fs::write(&file, text).expect("room");
        ModelFile::load(&file)
    };
    assert!(load(sound.to_owned()).is_ok());
    for (right, wrong) in
        [("[1,2,3,4,5]", "[2,1,3,4,5]"), ("1000000", "0"), ("\"parallel\":1", "\"parallel\":0")]
    {
        assert!(matches!(load(sound.replacen(right, wrong, 1)), Err(ModelError::Nonsense { .. })), "{wrong}");
    }
    assert!(matches!(load("{}".into()), Err(ModelError::Malformed { .. })));
    assert!(matches!(ModelFile::load(&dir.path().join("none")), Err(ModelError::Unread { .. })));
}
