//! What streams say of properties, and of holds.

use std::sync::Arc;

use dsl::PropValue;
use env::boxed;

use crate::{Pool, PoolError};

impl Pool {
    /// A stream said so of a dataset or snapshot, and of nothing else; gives what cannot be, and why.
    ///
    /// # Errors
    /// When the dataset does not exist; those of changing the meta-objset.
    #[boxed]
    pub async fn receive_props(
        self: &Arc<Self>,
        name: &str,
        props: Vec<(String, PropValue)>,
    ) -> Result<Vec<(String, PoolError)>, PoolError> {
        let name = name.to_owned();
        self.in_sync(move |pool, tx| async move {
            let dataset = pool.dsl.resolve(&name).await?;
            let kept: Vec<&str> = props.iter().map(|(prop, _)| prop.as_str()).collect();
            pool.dsl.forget_received_props(&tx, &dataset, &kept).await?;
            let mut refused = Vec::new();
            for (prop, value) in &props {
                let space = pool.space.pool_space();
                let fits = match dataset.is_snapshot() {
                    true => Ok(()),
                    false => pool.dsl.check_limit(&dataset, prop, value.number(), &space).await,
                };
                let set = match fits {
                    Ok(()) => pool.dsl.set_received_prop(&tx, &dataset, prop, value).await,
                    refused => refused,
                };
                if let Err(error) = set {
                    refused.push((prop.clone(), error.into()));
                }
            }
            pool.refresh_props().await?;
            Ok(refused)
        })
        .await
    }
}
