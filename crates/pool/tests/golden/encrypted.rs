//! Encrypted datasets: listed, and refused by name.

use pool::PoolError;

use crate::manifest::Leave;
use crate::props;
use crate::world::{World, judge};

const ENCRYPTED: [&str; 4] = ["whirl/ccm", "whirl/gcm", "whirl/gcm/kid", "whirl/raw"];

#[test]
fn g19_encrypted_datasets_are_listed_and_refused_by_name_and_the_plain_one_is_read() {
    let world = World::golden("g19-encrypted");
    let mut walked = world.read();
    for dataset in ENCRYPTED {
        let error = walked.errors.remove(&(dataset.to_owned(), Vec::new())).expect("it is refused");
        assert!(matches!(error, PoolError::Encrypted { name } if name == dataset));
    }
    let mut told = world.told("manifest.jsonl");
    told.retain(|(dataset, _), _| !ENCRYPTED.contains(&dataset.as_str()));
    judge("g19-encrypted", &walked, &told, Leave::default());
    props::check(&world);
}
