use super::*;
use crate::view::json::document;
use crate::view::testing::{captured, p1};

fn picks() -> Vec<Pick> {
    parse_columns(DEFAULT_COLUMNS).expect("known columns")
}

fn shown(style: ListStyle) -> String {
    list(&[&p1()], &picks(), style)
}

#[test]
fn the_list_reads_as_captured_under_every_flag() {
    let style = |scripted, exact, verbose| ListStyle { scripted, exact, verbose, ..ListStyle::default() };
    assert_eq!(shown(style(false, false, false)), captured("zpool list"));
    assert_eq!(shown(style(true, false, false)), captured("zpool list -H"));
    assert_eq!(shown(style(true, true, false)), captured("zpool list -Hp"));
    assert_eq!(shown(style(false, false, true)), captured("zpool list -v"));
    assert_eq!(shown(style(true, false, true)), captured("zpool list -vH"));
    assert_eq!(shown(style(true, true, true)), captured("zpool list -vHp"));
}

#[test]
fn columns_can_be_chosen() {
    let picks = parse_columns("name,size,health,free").expect("known columns");
    let style = ListStyle { scripted: true, ..ListStyle::default() };
    let want = captured("zpool list -o name,size,health,free -H");
    assert_eq!(list(&[&p1()], &picks, style), want);
    assert!(parse_columns("cap,frag,ckpoint").is_ok());
    assert_eq!(parse_columns("bogus").err().as_deref(), Some("invalid property 'bogus'"));
}

#[test]
fn a_lone_log_shows_its_size_and_its_space() {
    let mut pool = p1();
    let mut lone = pool.root.children[1].children[0].clone();
    (lone.stats.space_bytes, lone.stats.fragmentation) = (64 << 20, Some(0));
    pool.root.children[1] = lone;
    let text = list(&[&pool], &picks(), ListStyle { verbose: true, ..ListStyle::default() });
    let row = "  /tmp/w/l1      80M      0    64M        -         -     0%  0.00%      -    ONLINE\n";
    assert!(text.contains(row), "{text}");
}

/// The capture without the blanks that made it readable.
fn compact(pretty: &str) -> String {
    pretty.lines().map(str::trim_start).collect::<String>().replace("\": ", "\":")
}

#[test]
fn json_has_the_keys_of_the_capture_in_their_order() {
    let want = compact(include_str!("../../../tests/golden/list-v.json"));
    let style = ListStyle { verbose: true, ..ListStyle::default() };
    let pool = crate::view::testing::json_p1();
    let got = document("zpool list").with("pools", Json::object().with("p1", json(&pool, &picks(), style)));
    let got: serde_json::Value = serde_json::from_str(&got.to_string()).expect("JSON");
    let want: serde_json::Value = serde_json::from_str(&want).expect("JSON");
    assert_eq!(got, want);
}
