use super::*;
use events::Event;

const ALL: EventStyle = EventStyle { scripted: false, verbose: true };

/// What the lines say behind the time, which is local.
fn lines(text: &str) -> Vec<&str> {
    text.lines().skip(1).collect()
}

#[test]
fn an_event_is_a_line_of_time_and_class() {
    let mut event = Event::done("config_sync");
    event.payload().add(TIME, NvValue::I64Array(vec![1_795_288_704, 12_345]));
    let event = event.into_payload();
    let brief = EventStyle { verbose: false, ..ALL };
    assert_eq!(brief.heading(), "TIME                           CLASS\n");
    let text = brief.event(&event);
    let (time, class) = text.split_at(30);
    assert!(time.starts_with("Nov 2") && time.ends_with(".000012345"), "{time}");
    assert_eq!(class, " sysevent.fs.zfs.config_sync\n");
    let scripted = EventStyle { scripted: true, ..brief };
    assert_eq!((scripted.heading().as_str(), &scripted.event(&event)[30..31]), ("", "\t"));
}

#[test]
fn all_that_an_event_tells_is_shown_as_openzfs_shows_it() {
    let mut event = Event::error("io", 5, 16, Some(17));
    let payload = event.payload();
    payload.add_str("pool", "tank").add_u64(VDEV_STATE, 5).add_u32(ZIO_TYPE, 2);
    payload.add("zio_err", NvValue::I32(5)).add_str_array("vdev_spare_paths", vec!["a".into(), "b".into()]);
    payload.add(TIME, NvValue::I64Array(vec![1, 2]));
    let text = ALL.event(&event.into_payload());
    let told = [
        "        class = \"ereport.fs.zfs.io\"",
        "        ena = 0x5",
        "        detector = (embedded nvlist)",
        "                version = 0x0",
        "                scheme = \"zfs\"",
        "                pool = 0x10",
        "                vdev = 0x11",
        "        (end detector)",
        "        pool = \"tank\"",
        "        vdev_state = \"FAULTED\" (0x5)",
        "        zio_type = 0x2 [WRITE]",
        "        zio_err = 0x5",
        "        vdev_spare_paths = \"a\" \"b\" ",
        "        time = 0x1 0x2 ",
        "",
    ];
    assert_eq!(lines(&text), told);
}
