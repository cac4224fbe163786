use super::*;
use crate::view::testing::{captured, p1, replays};
use control::{PoolHealth, VdevKind};

fn style() -> StatusStyle<'static> {
    StatusStyle::default()
}

fn vdev(pool: &mut PoolInfo, name: &str, change: impl Fn(&mut VdevInfo)) {
    fn visit(vdev: &mut VdevInfo, name: &str, change: &impl Fn(&mut VdevInfo)) -> bool {
        let path = format!("/tmp/w/{name}");
        let own = vdev_name(vdev, NameStyle::default());
        if own == name || vdev.path.as_deref() == Some(path.as_str()) {
            change(vdev);
            return true;
        }
        vdev.children.iter_mut().any(|child| visit(child, name, change))
    }
    let others = pool.caches.iter_mut().chain(&mut pool.spares);
    let found = visit(&mut pool.root, name, &change) || others.into_iter().any(|v| visit(v, name, &change));
    assert!(found, "no vdev {name}");
}

fn set(state: VdevState, aux: VdevAux) -> impl Fn(&mut VdevInfo) {
    move |vdev| (vdev.state, vdev.aux) = (state, aux)
}

fn scanned() -> ScanInfo {
    ScanInfo {
        function: ScanFunction::Scrub,
        state: ScanState::Scanning,
        start_secs: 1_795_288_708,
        end_secs: 0,
        repaired_bytes: 0,
        errors: 0,
        issued_bytes: 1 << 30,
        total_bytes: 4 << 30,
        paused_secs: None,
        pass_bytes: 1 << 30,
        pass_start_secs: 1_795_288_708,
        pass_secs: 10,
    }
}

#[test]
fn replays_under_way_tell_how_long_they_go_on() {
    let mut pool = p1();
    assert!(!status(&pool, style()).contains("replay"));
    pool.replays = replays();
    let told = " state: ONLINE\nreplay: p1: 12345 of 1000000 records, 00:01:04 to go\n\tp1/a: 0 of 1000000 records\nconfig:\n";
    let text = status(&pool, style());
    assert!(text.contains(told), "{text}");
}

#[test]
fn a_scrub_under_way_tells_its_speed_and_its_end() {
    let lines = |scan| scan_line(scan).lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(
        lines(scanned()),
        [
            "\t1G / 4G scanned at 102M/s, 1G / 4G issued at 102M/s",
            "\t0B repaired, 25.00% done, 00:00:30 to go"
        ]
    );
    assert!(scan_line(scanned()).starts_with("scrub in progress since "));
    let slow = ScanInfo { pass_secs: 1000, ..scanned() };
    assert_eq!(lines(slow)[1], "\t0B repaired, 25.00% done, no estimated completion time");
    let paused = ScanInfo { paused_secs: Some(1_795_288_800), ..scanned() };
    assert!(scan_line(paused).starts_with("scrub paused since "));
    assert!(lines(paused)[0].starts_with("\tscrub started on "));
    assert_eq!(lines(paused)[1..], ["\t1G / 4G scanned, 1G / 4G issued", "\t0B repaired, 25.00% done"]);
}

fn degrade(pool: &mut PoolInfo) {
    pool.health = PoolHealth::Degraded;
    pool.root.state = VdevState::Degraded;
}

/// Dates depend on the time zone: all of them read alike in what is compared.
fn without_dates(text: &str) -> String {
    let dateless = |line: &str| match line.split_once(" errors on ") {
        Some((before, _)) => format!("{before} errors on DATE"),
        None => line.to_owned(),
    };
    text.lines().map(dateless).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_healthy_pool_reads_as_captured_under_every_flag() {
    let pool = p1();
    assert_eq!(status(&pool, style()), captured("zpool status p1"));
    let verbose = StatusStyle { verbose: true, ..style() };
    assert_eq!(status(&pool, verbose), captured("zpool status -v p1"));
    let slow = StatusStyle { slow: true, exact: true, ..style() };
    assert_eq!(status(&pool, slow), captured("zpool status -sp p1"));
    let guids = StatusStyle { names: NameStyle { guids: true, ..NameStyle::default() }, ..style() };
    assert_eq!(status(&pool, guids), captured("zpool status -g p1"));
    let ailing = StatusStyle { only_ailing: true, ..style() };
    assert_eq!(status(&pool, ailing), captured("zpool status -e p1"));
    let initialized = StatusStyle { initialized: true, ..style() };
    assert_eq!(status(&pool, initialized), captured("zpool status -i p1"));
    let trimmed = StatusStyle { trimmed: true, ..style() };
    assert_eq!(status(&pool, trimmed), captured("zpool status -t p1"));
}

#[test]
fn one_side_of_each_mirror_offline_reads_as_captured() {
    let mut pool = p1();
    degrade(&mut pool);
    for name in ["d2", "l1", "c1"] {
        vdev(&mut pool, name, set(VdevState::Offline, VdevAux::None));
    }
    for name in ["mirror-0", "mirror-1"] {
        vdev(&mut pool, name, set(VdevState::Degraded, VdevAux::None));
    }
    assert_eq!(status(&pool, style()), captured("zpool status p1 #2"));
}

/// The line of a log that is out of use: OpenZFS does not tell what becomes of the chain.
fn with_log_line(want: &str, line: &str) -> String {
    want.replace("config:\n", &format!("   log: {line}\nconfig:\n"))
}

#[test]
fn a_pool_that_lost_its_log_reads_as_captured() {
    let mut pool = p1();
    degrade(&mut pool);
    pool.scan = Some(ScanInfo {
        function: ScanFunction::Scrub,
        state: ScanState::Finished,
        start_secs: 1_795_288_708,
        end_secs: 1_795_288_708,
        repaired_bytes: 0,
        ..scanned()
    });
    for name in ["l1", "l2"] {
        vdev(&mut pool, name, |v| {
            set(VdevState::CantOpen, VdevAux::OpenFailed)(v);
            v.not_present = true;
        });
    }
    vdev(&mut pool, "mirror-1", set(VdevState::CantOpen, VdevAux::NoReplicas));
    vdev(&mut pool, "c1", set(VdevState::Offline, VdevAux::None));
    let want = with_log_line(&captured("zpool status p1 #6"), NO_LOG);
    assert_eq!(without_dates(&status(&pool, style())), without_dates(&want));
}

#[test]
fn a_faulted_log_reads_as_captured() {
    let mut pool = p1();
    degrade(&mut pool);
    vdev(&mut pool, "mirror-0", |v| v.children.reverse());
    vdev(&mut pool, "l1", set(VdevState::Offline, VdevAux::None));
    vdev(&mut pool, "l2", set(VdevState::Faulted, VdevAux::External));
    vdev(&mut pool, "mirror-1", set(VdevState::CantOpen, VdevAux::NoReplicas));
    let mut lone = VdevInfo::new(VdevKind::File, 2, 10_985_802_132_979_349_881, VdevClass::Log);
    lone.path = Some("/tmp/w/l3".into());
    lone.state = VdevState::Offline;
    pool.root.children.push(lone);
    pool.scan = Some(ScanInfo {
        function: ScanFunction::Resilver,
        state: ScanState::Finished,
        start_secs: 1_795_288_940,
        end_secs: 1_795_288_941,
        repaired_bytes: 282 << 10,
        ..scanned()
    });
    let want = with_log_line(&captured("second session: zpool status p1"), NO_LOG);
    assert_eq!(without_dates(&status(&pool, style())), without_dates(&want));
}

#[test]
fn a_log_without_label_and_a_bad_spare_read_as_captured() {
    let mut pool = p1();
    degrade(&mut pool);
    pool.name = "p9".into();
    let mut data = pool.root.children[0].children[1].clone();
    data.id = 0;
    pool.root.children[0] = data;
    vdev(&mut pool, "l2", set(VdevState::Offline, VdevAux::None));
    vdev(&mut pool, "mirror-1", set(VdevState::Degraded, VdevAux::None));
    let mut lone = VdevInfo::new(VdevKind::File, 2, 10_985_802_132_979_349_881, VdevClass::Log);
    lone.path = Some("/tmp/w/l3".into());
    (lone.state, lone.aux, lone.not_present) = (VdevState::CantOpen, VdevAux::BadLabel, true);
    pool.root.children.push(lone);
    vdev(&mut pool, "s1", set(VdevState::CantOpen, VdevAux::CorruptData));
    let line = "a log is out of use; the intent logs go on on the others";
    let want = with_log_line(&captured("second session: zpool status p9"), line);
    let want: Vec<&str> = want.lines().filter(|line| !line.starts_with("  scan:")).collect();
    let got = status(&pool, style());
    assert_eq!(got.lines().collect::<Vec<_>>(), want);
}

#[test]
fn holes_are_never_shown() {
    let mut pool = p1();
    pool.root.children.insert(1, VdevInfo::new(VdevKind::Hole, 1, 0, VdevClass::Normal));
    pool.root.children[2].id = 2;
    let text = status(&pool, style());
    assert!(text.contains("mirror-2") && !text.contains("hole") && !text.contains("mirror-1"));
}

#[test]
fn damaged_files_are_listed_when_asked() {
    let mut pool = p1();
    pool.error_count = 1;
    pool.error_files = vec!["p1:<0x1>".into()];
    assert!(status(&pool, style()).ends_with("errors: 1 data errors, use '-v' for a list\n"));
    let text = status(&pool, StatusStyle { verbose: true, ..style() });
    assert!(text.ends_with("in the following files:\n\n        p1:<0x1>\n"));
}

#[test]
fn a_checkpoint_is_told_of_and_that_scans_pass_over_it() {
    let created_secs = 1_795_288_708;
    let mut pool = p1();
    pool.scan = None;
    pool.checkpoint = Some(CheckpointInfo { created_secs, kept_bytes: 987_648, is_discarding: false });
    let line =
        format!(" state: ONLINE\ncheckpoint: created {}, consumes 964K\nconfig:\n", ctime(created_secs));
    let text = status(&pool, style());
    assert!(text.contains(&line), "{text}");
    let skips = |pool: &PoolInfo| {
        let text = status(pool, style());
        let line = text.lines().find_map(|line| line.strip_prefix("    scan warning: ")).map(str::to_owned);
        line.map(|line| line.split(' ').next().unwrap_or_default().to_owned())
    };
    pool.scan = Some(scanned());
    assert_eq!(skips(&pool).as_deref(), Some("skipping"));
    let ended = |end_secs| Some(ScanInfo { state: ScanState::Finished, end_secs, ..scanned() });
    pool.scan = ended(created_secs);
    assert_eq!(skips(&pool).as_deref(), Some("skipped"));
    pool.scan = ended(created_secs - 1);
    assert_eq!(skips(&pool), None, "there was none then");
    pool.checkpoint = Some(CheckpointInfo { created_secs: 0, kept_bytes: 2048, is_discarding: true });
    pool.scan = ended(created_secs);
    assert!(status(&pool, style()).contains("\ncheckpoint: discarding, 2K remaining.\nconfig:\n"));
    assert_eq!(skips(&pool), None);
}

#[test]
fn a_device_that_is_brought_up_to_date_is_marked() {
    let mut pool = p1();
    pool.root.children[0].children[1].resilvering = true;
    let told = status(&pool, style());
    let marked: Vec<&str> = told.lines().filter(|line| line.ends_with("  (resilvering)")).collect();
    assert!(matches!(marked.as_slice(), [line] if line.contains("/tmp/w/d2 ")), "{told}");
}

fn removal(state: ScanState) -> RemovalInfo {
    RemovalInfo {
        vdev: 0,
        state,
        start_secs: 1_795_288_708,
        end_secs: 1_795_288_708 + 3725,
        elapsed_secs: 100,
        to_copy_bytes: 4 << 30,
        copied_bytes: 1 << 30,
        mapping_bytes: 0,
    }
}

#[test]
fn a_removal_is_told_of_as_openzfs_does() {
    let mut pool = p1();
    let mut told = |removal: RemovalInfo| {
        pool.removal = Some(removal);
        let text = status(&pool, style());
        let lines = text.lines().skip_while(|line| !line.starts_with("remove: "));
        lines.take_while(|line| !line.starts_with("config:")).map(str::to_owned).collect::<Vec<_>>()
    };
    let (start, end) = (ctime(1_795_288_708), ctime(1_795_288_708 + 3725));
    let under_way = removal(ScanState::Scanning);
    assert_eq!(
        told(under_way),
        [
            format!("remove: Evacuation of mirror-0 in progress since {start}"),
            "\t1G copied out of 4G at 10.2M/s, 25.00% done, 0h5m to go".to_owned(),
        ]
    );
    let slow = RemovalInfo { copied_bytes: 100_000, ..under_way };
    assert!(told(slow)[1].ends_with("0.00% done, (copy is slow, no estimated time)"));
    let done = RemovalInfo { mapping_bytes: 72, ..removal(ScanState::Finished) };
    assert_eq!(
        told(done),
        [
            format!("remove: Removal of vdev 0 copied 1G in 1h2m, completed on {end}"),
            "\t72 memory used for removed device mappings".to_owned(),
        ]
    );
    assert_eq!(
        told(removal(ScanState::Canceled)),
        [format!("remove: Removal of mirror-0 canceled on {end}")]
    );
    pool.root.children[0].removing = true;
    assert!(status(&pool, style()).contains("  (removing)\n"));
}
