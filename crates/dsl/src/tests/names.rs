use crate::{check_dataset_name, check_snapshot_name};

#[test]
fn names_are_judged_as_openzfs_judges_them() {
    for good in ["tank", "tank/a-b_c.d:e f", "tank/%recv", "t/1", &format!("t/{}", "x".repeat(253))] {
        check_dataset_name(good).unwrap();
    }
    let deep = ["t"; 60].join("/");
    let long = "x".repeat(256);
    for bad in
        ["", "/tank", "tank/", "tank//a", "tank/.", "tank/..", "tank/a@b", "tank/a#b", "tank/ä", &deep, &long]
    {
        assert!(check_dataset_name(bad).is_err(), "{bad:?}");
    }
    check_snapshot_name("2026-01-01 12:00").unwrap();
    for bad in ["", "a/b", "a@b", "ä", &long] {
        assert!(check_snapshot_name(bad).is_err(), "{bad:?}");
    }
}
