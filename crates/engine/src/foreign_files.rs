//! Set-id files and device nodes in what a user has received or cloned.
//!
//! A user to whom `receive` or `clone` is delegated decides what is in the new dataset: a set-id program of
//! root's, for example. Root's daemon mounts the dataset at its next start. So `setuid` and `devices` are
//! off, locally, on what users receive and clone. The user cannot set them without the permissions of
//! these properties. Root allows both for a dataset and all below it by `zfs set setuid=on devices=on`.
//! (test: `what_a_user_receives_or_clones_has_no_set_id_programs`)

use control::Failure;
use dsl::PropValue;

use crate::{Held, Holder, datasets};

const OFF: PropValue = PropValue::Number(0);
const ON: PropValue = PropValue::Number(1);

impl Holder {
    /// Adds the properties to those that a file system of a user gets.
    pub(super) async fn distrust_files(
        &self,
        held: &Held,
        dataset: &str,
        props: &mut Vec<(String, PropValue)>,
    ) -> Result<(), Failure> {
        let dsl = held.pool.dsl();
        let there = match dsl.resolve(dataset).await {
            Ok(_) => Some(dataset.to_owned()),
            Err(_) => self.parent_of_new(dataset, true).await?,
        };
        let there = there.ok_or_else(|| Failure::no_such_dataset(dataset))?;
        let cannot = |error| datasets::cannot_open(&there, error);
        let set = dsl.props(&dsl.resolve(&there).await.map_err(cannot)?).await.map_err(cannot)?;
        for name in ["setuid", "devices"] {
            let known = set.iter().find(|prop| prop.name == name && !prop.received);
            let is_settled = known.is_some_and(|prop| prop.value == ON || prop.set_on == dataset);
            if !is_settled && !props.iter().any(|(given, _)| given == name) {
                props.push((name.to_owned(), OFF));
            }
        }
        Ok(())
    }
}
