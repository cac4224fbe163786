use super::*;
use crate::view::testing::{captured, p1};
use crate::view::vdev_props;
use engine::props::pool_prop;

fn rows(names: &str, style: Style) -> Vec<Row> {
    let pool = p1();
    let def = |name| pool_prop(name).expect("a pool property");
    names.split(',').map(|name| row(&pool.name, def(name), &pool.props, style)).collect()
}

#[test]
fn properties_read_as_captured() {
    let plain = rows("health,size,guid,allocated,capacity", Style::Pool);
    let want = captured("zpool get health,size,guid,allocated,capacity p1");
    assert_eq!(print(&plain, &Field::USUAL, false), want);
    let exact = rows("size,capacity,fragmentation,dedupratio", Style::Exact);
    let want = captured("zpool get -Hp size,capacity,fragmentation,dedupratio p1");
    assert_eq!(print(&exact, &Field::USUAL, true), want);
    let fields = Field::parse_list("name,property,value,source", &Field::USUAL).expect("columns");
    let want = captured("zpool get -H -o name,property,value,source autoexpand p1");
    assert_eq!(print(&rows("autoexpand", Style::Pool), &fields, true), want);
    let value = Field::parse_list("value", &Field::USUAL).expect("a column");
    assert_eq!(
        print(&rows("health", Style::Pool), &value, true),
        captured("zpool get -H -o value health p1")
    );
}

#[test]
fn properties_of_a_vdev_read_as_captured() {
    let pool = p1();
    let leaf = &pool.root.children[1].children[0];
    let names = ["state", "allocating", "size"];
    let rows: Vec<Row> = names.iter().filter_map(|name| vdev_props::row(&pool, leaf, name, false)).collect();
    let want = captured("zpool get -H state,allocating,size p1 /tmp/w/l1");
    assert_eq!(print(&rows, &Field::USUAL, true), want);
}

#[test]
fn every_listed_vdev_property_exists() {
    let pool = p1();
    for name in vdev_props::NAMES {
        assert!(vdev_props::row(&pool, &pool.root.children[0], name, false).is_some(), "{name}");
    }
    assert!(vdev_props::row(&pool, &pool.root.children[0], "bogus", false).is_none());
}

#[test]
fn columns_that_are_none_are_refused() {
    assert_eq!(
        Field::parse_list("bogus", &Field::USUAL).err().as_deref(),
        Some("invalid column name 'bogus'")
    );
    assert!(Field::parse_list("name,all", &Field::USUAL).is_err());
    assert_eq!(Field::parse_list("all", &Field::USUAL).ok().as_deref(), Some(&Field::USUAL[..]));
    assert_eq!(Field::parse_list("all", &Field::OF_DATASETS).map(|all| all.len()), Ok(5));
    assert!(Field::parse_list("received", &Field::USUAL).is_err());
}
