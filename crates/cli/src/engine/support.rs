//! What this version does not do yet, refused by name instead of done by halves.

use control::props::Value;

const DEDUP_OFF: u64 = 2;
const ENCRYPTION_OFF: u64 = 2;

/// Whether datasets can have this property at this value; the reason if not.
pub fn check(name: &str, value: &Value) -> Result<(), String> {
    let Value::Number(number) = *value else { return Ok(()) };
    let fine = match name {
        "dedup" => number == DEDUP_OFF,
        "encryption" => number == ENCRYPTION_OFF,
        "keyformat" | "normalization" | "utf8only" | "casesensitivity" | "longname" => number == 0,
        "version" => number == 5,
        _ => true,
    };
    if fine { Ok(()) } else { Err(format!("this value of '{name}' is not supported yet")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::props::{DATASET_PROPS, Kind};

    #[test]
    fn every_default_is_supported() {
        for def in DATASET_PROPS {
            assert_eq!(check(def.name, &def.default_value()), Ok(()), "{}", def.name);
        }
    }

    #[test]
    fn what_needs_a_feature_is_refused_by_name() {
        let refused = |name, value| check(name, &Value::Number(value)).is_err();
        assert!(refused("dedup", 1));
        assert!(refused("encryption", 3));
    }

    #[test]
    fn limits_are_on_properties_that_exist() {
        for name in ["dedup", "encryption"] {
            let def = control::props::dataset_prop(name).expect(name);
            assert!(!matches!(def.kind, Kind::Text), "{name}");
        }
    }
}
