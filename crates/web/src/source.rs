//! What is asked of the daemon's engine: only questions. Nothing that is on the port can ask for more.

use control::{
    DaemonStatus, DaemonStatusCall, DatasetInfo, DatasetList, Failure, LogFacts, LogUsers, PoolInfo,
    PoolList, PoolLogFacts, PoolLogUsers, Service,
};
use metrics::{Looked, PoolLook};
use std::future::Future;
use std::sync::Arc;

/// Who knows the pools.
pub trait Source: Send + Sync + 'static {
    /// Who answers.
    fn daemon(&self) -> impl Future<Output = Result<DaemonStatus, Failure>> + Send;
    /// Open pools, by name.
    fn pools(&self) -> impl Future<Output = Result<Vec<PoolInfo>, Failure>> + Send;
    /// What a pool's intent logs had to do.
    fn logs(&self, pool: &str) -> impl Future<Output = Result<LogFacts, Failure>> + Send;
    /// Who uses a pool's intent logs.
    fn users(&self, pool: &str) -> impl Future<Output = Result<LogUsers, Failure>> + Send;
    /// All datasets.
    fn datasets(&self) -> impl Future<Output = Result<Vec<DatasetInfo>, Failure>> + Send;
}

/// A service, as far as the page asks it.
pub struct ServiceSource(pub Arc<dyn Service>);

impl Source for ServiceSource {
    async fn daemon(&self) -> Result<DaemonStatus, Failure> {
        self.0.daemon_status(DaemonStatusCall {}).await
    }

    async fn pools(&self) -> Result<Vec<PoolInfo>, Failure> {
        self.0.pool_list(PoolList { with_absent: true }).await
    }

    async fn logs(&self, pool: &str) -> Result<LogFacts, Failure> {
        self.0.pool_log_facts(PoolLogFacts { pool: pool.to_owned() }).await
    }

    async fn users(&self, pool: &str) -> Result<LogUsers, Failure> {
        self.0.pool_log_users(PoolLogUsers { pool: pool.to_owned() }).await
    }

    async fn datasets(&self) -> Result<Vec<DatasetInfo>, Failure> {
        self.0.dataset_list(DatasetList::default()).await
    }
}

/// What is looked at beside the daemon and its pools.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Beside {
    /// Each dataset.
    pub(crate) datasets: bool,
    /// Who uses the logs.
    pub(crate) users: bool,
}

/// The daemon, its pools, and what is beside them.
pub(crate) async fn looked<S: Source>(source: &S, beside: Beside) -> Result<Looked, Failure> {
    let daemon = source.daemon().await?;
    let mut pools = Vec::new();
    for pool in source.pools().await? {
        // It may have been closed since it was listed.
        let logs = source.logs(&pool.name).await.ok();
        let users = if beside.users {
            source.users(&pool.name).await.unwrap_or_default()
        } else {
            LogUsers::default()
        };
        pools.push(PoolLook { pool, logs, users });
    }
    let datasets = if beside.datasets { source.datasets().await? } else { Vec::new() };
    Ok(Looked { daemon, pools, datasets })
}
