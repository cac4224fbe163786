//! Setting properties of datasets, and taking them back.

use std::sync::Arc;

use dmu::Tx;
use dsl::{DatasetName, PropValue};
use env::boxed;

use crate::space::task_room::DATASET_BYTES;
use crate::{Pool, PoolError};

/// How a property is taken back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inherit {
    /// In all datasets below, too.
    pub recursive: bool,
    /// To the value that a received stream brought, where one did.
    pub received: bool,
}

impl Pool {
    /// Sets a property of a dataset (none: has it inherited again), and has every open dataset
    /// heed it.
    ///
    /// # Errors
    /// When the dataset does not exist, or the value makes no sense, or a limit or reservation
    /// does not fit what is used already; [`dsl::DslError::NoSpace`] for a property of users.
    #[boxed]
    pub async fn set_prop(
        self: &Arc<Self>,
        name: &str,
        prop: &str,
        value: Option<PropValue>,
    ) -> Result<(), PoolError> {
        let Some(value) = value else {
            return self.inherit_prop(name, prop, Inherit::default()).await;
        };
        self.set_props(name, vec![(prop.to_owned(), value)]).await
    }

    /// Sets several properties of a dataset, all of them or none, and applies them to every open
    /// dataset.
    ///
    /// # Errors
    /// As [`Self::set_prop`], for the first property that cannot be set.
    #[boxed]
    pub async fn set_props(
        self: &Arc<Self>,
        name: &str,
        props: Vec<(String, PropValue)>,
    ) -> Result<(), PoolError> {
        let name = name.to_owned();
        self.in_sync(move |pool, tx| async move {
            let dataset = pool.dsl.resolve(&name).await?;
            pool.check_props(&dataset, &props).await?;
            for (prop, value) in &props {
                if dataset.is_snapshot() {
                    pool.dsl.set_snapshot_prop(&tx, dataset.dataset, prop, value).await?;
                } else {
                    pool.dsl.set_prop(&tx, dataset.dir, prop, value).await?;
                }
                let shown = match value {
                    PropValue::Number(number) => number.to_string(),
                    PropValue::Text(text) => text.clone(),
                };
                pool.note_event(&tx, "set", Some(&dataset), &format!("{prop}={shown}")).await?;
            }
            pool.refresh_props().await
        })
        .await
    }

    /// Checks that all of these properties of a dataset may be set.
    pub(crate) async fn check_props(
        &self,
        dataset: &DatasetName,
        props: &[(String, PropValue)],
    ) -> Result<(), PoolError> {
        // User properties need space. Other properties are not counted, because they may be what
        // frees space.
        let of_users = props.iter().filter(|(prop, _)| prop.contains(':')).count() as u64;
        if of_users > 0 {
            self.check_task_room(&dataset.name, of_users * DATASET_BYTES)?;
        }
        for (prop, value) in props {
            if dataset.is_snapshot() {
                self.dsl.check_snapshot_prop(prop, value).await?;
            } else {
                self.dsl.check_prop(prop, value).await?;
            }
        }
        if !dataset.is_snapshot() {
            self.dsl.check_limits(dataset, props, &self.space.pool_space()).await?;
        }
        Ok(())
    }

    /// Takes a property of a dataset back, so that it is inherited, or the default.
    ///
    /// # Errors
    /// When the dataset does not exist, or there is no such property.
    #[boxed]
    pub async fn inherit_prop(
        self: &Arc<Self>,
        name: &str,
        prop: &str,
        how: Inherit,
    ) -> Result<(), PoolError> {
        let (name, prop) = (name.to_owned(), prop.to_owned());
        self.in_sync(move |pool, tx| async move {
            let datasets = if how.recursive {
                pool.dsl.list(&name).await?
            } else {
                vec![pool.dsl.resolve(&name).await?]
            };
            for dataset in &datasets {
                pool.take_back(&tx, dataset, &prop, how.received).await?;
                pool.note_event(&tx, "inherit", Some(dataset), &prop).await?;
            }
            pool.refresh_props().await
        })
        .await
    }

    async fn take_back(
        &self,
        tx: &Tx,
        dataset: &DatasetName,
        prop: &str,
        received: bool,
    ) -> Result<(), PoolError> {
        if dataset.is_snapshot() {
            self.dsl.clear_snapshot_prop(tx, dataset.dataset, prop).await?;
        } else if received {
            self.dsl.revert_prop(tx, dataset.dir, prop).await?;
        } else {
            self.dsl.clear_prop(tx, dataset.dir, prop).await?;
        }
        Ok(())
    }
}
