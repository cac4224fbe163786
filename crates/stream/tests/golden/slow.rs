//! A slow disk, simulated: a send waits for several reads at a time.

use std::time::Duration;

use ondisk::send::DrrType;
use oracle::golden;
use pool::{ImportSpec, Pool, Tuning};
use sim::{DiskSpec, Sim};
use stream::{Features, Form, SendOrder, Target};

/// What each request takes longer.
const DELAY: Duration = Duration::from_millis(10);
/// How many of them a send has under way on average, at least.
const AT_ONCE: u32 = 4;

#[test]
fn reads_overlap() {
    let image = std::fs::read(golden::path("g30-streams").join("a.img")).expect("a golden image");
    let sim = Sim::seed(7);
    sim.stop_recording();
    let disk = sim.add_disk("/a", DiskSpec::instant(image.len() as u64));
    let pages = image.chunks(4096).zip((0..).step_by(4096));
    pages.filter(|(page, _)| !codec::is_all_zero(page)).for_each(|(page, at)| disk.rot(at, page));
    let (took, blocks) = sim.run_until(async {
        let spec = ImportSpec {
            paths: vec!["/a".into()],
            name: Some("whirl".into()),
            read_only: true,
            force: true,
            ..ImportSpec::default()
        };
        let pool = Pool::import(sim.env(), &spec, Tuning::default()).await.expect("a sound pool");
        let name = "whirl/fs/vol@r";
        let dataset = pool.dsl().resolve(name).await.expect("a snapshot").dataset;
        let phys = pool.dsl().dataset(dataset).await.expect("readable");
        let target = Target::of(name, &phys, Features::default());
        let order = SendOrder {
            target,
            origin: None,
            form: Form::default(),
            resume: None,
            redaction: Default::default(),
            cut_after: None,
        };
        let objset = pool.frozen_objset(name).await.expect("readable").expect("a volume");
        disk.set_delay(DELAY);
        let begun = sim.env().now();
        let sent = stream::send(&objset, &order, futures::io::sink()).await.expect("a sound pool");
        (sim.env().now() - begun, sent.records(DrrType::Write) as u32)
    });
    assert!(blocks > 50 && took >= DELAY * 2, "{blocks} blocks in {took:?}");
    assert!(took < DELAY * blocks / AT_ONCE, "{blocks} blocks in {took:?}");
}
