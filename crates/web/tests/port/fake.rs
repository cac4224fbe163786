//! A pool that is made up.

use control::{
    DaemonStatus, DatasetInfo, DatasetKind, Failure, LogDatasetInfo, LogFacts, LogUsers, PoolInfo, Prop,
    Source as Of, VdevClass, VdevInfo, VdevKind,
};
use web::Source;

/// One pool, `tank`.
pub struct Fake;

impl Source for Fake {
    async fn daemon(&self) -> Result<DaemonStatus, Failure> {
        Ok(DaemonStatus {
            pid: 1,
            version: "1.2.3".into(),
            pools: vec!["tank".into()],
            ..DaemonStatus::default()
        })
    }

    async fn pools(&self) -> Result<Vec<PoolInfo>, Failure> {
        Ok(vec![pool()])
    }

    async fn logs(&self, pool: &str) -> Result<LogFacts, Failure> {
        match pool {
            "tank" => Ok(LogFacts { open_nanos: 1, commits: 7, ..LogFacts::default() }),
            other => Err(Failure::no_such_pool(other)),
        }
    }

    async fn users(&self, _: &str) -> Result<LogUsers, Failure> {
        let home = LogDatasetInfo { name: "tank/home".into(), commits: 7, ..LogDatasetInfo::default() };
        Ok(LogUsers { datasets: vec![home], ..LogUsers::default() })
    }

    async fn datasets(&self) -> Result<Vec<DatasetInfo>, Failure> {
        let props = [("used".to_owned(), Prop { value: 8.into(), source: Of::None })].into();
        Ok(vec![DatasetInfo {
            name: "tank/home".into(),
            kind: DatasetKind::Filesystem,
            createtxg: 1,
            props,
            received: std::collections::BTreeMap::new(),
        }])
    }
}

fn pool() -> PoolInfo {
    let mut root = VdevInfo::new(VdevKind::Root, 0, 9, VdevClass::Normal);
    let mut leaf = VdevInfo::new(VdevKind::File, 0, 11, VdevClass::Normal);
    leaf.path = Some("/d1".into());
    root.children = vec![leaf];
    PoolInfo { txg: 42, open_nanos: 1, ..PoolInfo::new("tank", root) }
}
