use super::*;
use crate::view::json::document;
use crate::view::testing::{json_p1, replays};

/// The capture in one line, as the command printed it.
fn compact(pretty: &str) -> String {
    pretty.lines().map(str::trim_start).collect::<String>().replace("\": ", "\":")
}

fn shown(style: JsonStyle) -> String {
    let pools = Json::object().with("p1", status(&json_p1(), style));
    document("zpool status").with("pools", pools).to_string()
}

#[test]
fn status_is_the_captured_text_to_the_letter() {
    assert_eq!(shown(JsonStyle::default()), compact(include_str!("../../../tests/golden/status.json")));
    let as_int = JsonStyle { as_int: true, ..JsonStyle::default() };
    assert_eq!(shown(as_int), compact(include_str!("../../../tests/golden/status-int.json")));
    let flat = JsonStyle { flat: true, ..JsonStyle::default() };
    assert_eq!(shown(flat), compact(include_str!("../../../tests/golden/status-flat.json")));
}

#[test]
fn a_missing_vdev_tells_where_it_was() {
    let mut pool = json_p1();
    let log = &mut pool.root.children[2];
    log.not_present = true;
    (log.state, log.aux) = (control::VdevState::CantOpen, control::VdevAux::OpenFailed);
    let text = shown_of(&pool);
    assert!(text.contains(r#""state":"CANT_OPEN""#), "{text}");
    assert!(text.contains(r#""not_present":"1","was":"/tmp/w/l3""#), "{text}");
    assert!(text.contains(r#""msgid":"ZFS-8000-2Q""#), "{text}");
}

fn shown_of(pool: &PoolInfo) -> String {
    status(pool, JsonStyle::default()).to_string()
}

#[test]
fn replays_under_way_are_told_by_dataset() {
    let pool = PoolInfo { replays: replays(), ..json_p1() };
    let text = shown_of(&pool);
    let told = r#""replays":{"p1":{"records":"12345","total_records":"1000000","seconds_left":"64"},"p1/a":{"records":"0","#;
    assert!(text.contains(told), "{text}");
    assert!(!shown_of(&json_p1()).contains("replays"));
}
