//! What this version does not do yet, refused by name instead of done by halves.

use crate::props::{Value, dataset_prop};

/// Properties that OpenZFS heeds, or passes on to somebody who does, and that nothing here heeds. A
/// setting that changes nothing would be a promise that is not kept. A pool made elsewhere may have
/// them set: that is shown. What has no effect with OpenZFS on Linux either, or says something of devices of
/// volumes, can be set (docs/properties.md).
const UNHEEDED: [&str; 8] =
    ["context", "defcontext", "fscontext", "pbkdf2iters", "rootcontext", "sharenfs", "sharesmb", "zoned"];

const DEDUP_OFF: u64 = 2;
const ENCRYPTION_OFF: u64 = 2;

/// Whether a property can be set to this value on a dataset where it is `now`, if that is known; the
/// reason if not. What it is anyway, it can be set to.
pub fn check(name: &str, value: &Value, now: Option<&Value>) -> Result<(), String> {
    let default = dataset_prop(name).map(crate::props::PropDef::default_value);
    if default.as_ref() == Some(value) || now == Some(value) {
        return Ok(());
    }
    if name == "keylocation" {
        return Err("keylocation must be 'none' for unencrypted datasets".to_owned());
    }
    if name == "mlslabel" {
        return Err("mlslabels are unsupported".to_owned());
    }
    if UNHEEDED.contains(&name) {
        return Err(format!("property '{name}' is not supported yet"));
    }
    check_value(name, value)
}

fn check_value(name: &str, value: &Value) -> Result<(), String> {
    let Value::Number(number) = *value else { return Ok(()) };
    let fine = match name {
        "dedup" => number == DEDUP_OFF,
        "encryption" => number == ENCRYPTION_OFF,
        "keyformat" | "normalization" | "utf8only" | "casesensitivity" | "longname" => number == 0,
        "version" => (1..=zpl::ZPL_VERSION).contains(&number),
        _ => true,
    };
    if fine { Ok(()) } else { Err(format!("this value of '{name}' is not supported yet")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::props::{Access, DATASET_PROPS, Kind};

    #[test]
    fn every_default_is_supported() {
        for def in DATASET_PROPS {
            assert_eq!(check(def.name, &def.default_value(), None), Ok(()), "{}", def.name);
        }
    }

    #[test]
    fn what_needs_a_feature_is_refused_by_name() {
        let refused = |name, value| check(name, &Value::Number(value), None).is_err();
        assert!(refused("dedup", 1));
        assert!(refused("encryption", 3));
    }

    #[test]
    fn limits_are_on_properties_that_exist() {
        for name in ["dedup", "encryption"] {
            let def = dataset_prop(name).expect(name);
            assert!(!matches!(def.kind, Kind::Text), "{name}");
        }
    }

    #[test]
    fn what_nothing_heeds_is_refused_but_where_it_is_so_already() {
        let on = Value::Number(1);
        for name in UNHEEDED {
            let def = dataset_prop(name).expect(name);
            assert_ne!(def.access, Access::ReadOnly, "{name}");
            let other = if matches!(def.kind, Kind::Text) { Value::from("x") } else { Value::Number(77) };
            let refused = Err(format!("property '{name}' is not supported yet"));
            assert_eq!(check(name, &other, None), refused);
            assert_eq!(check(name, &other, Some(&on)), refused);
            assert_eq!(check(name, &other, Some(&other)), Ok(()));
        }
    }
}
