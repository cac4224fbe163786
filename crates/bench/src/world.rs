//! Pools that are made to be measured.

use std::path::PathBuf;
use std::sync::Arc;

use device::RealEnv;
use dsl::PropValue;
use env::Env;
use pool::{ImportSpec, Pool, PoolError, PoolSpec, Tuning};
use vdev::NewVdev;
use zpl::WriteFlags;

use crate::unflushed::Unflushed;

/// The name of all of them.
pub(crate) const POOL: &str = "sawmill-bench";

/// A write that returns when it is stable.
pub(crate) const STABLE: WriteFlags = WriteFlags { append: false, sync: true, drop_setid: false };

/// What a pool is made of.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shape {
    /// Devices of the pool, striped.
    pub main: Vec<PathBuf>,
    /// Log devices.
    pub log: Vec<PathBuf>,
    /// The log devices are one mirror.
    pub log_mirror: bool,
    /// Devices are never flushed.
    pub unflushed: bool,
    /// Record size.
    pub record: u64,
    /// More properties of the root dataset.
    pub props: Vec<(String, PropValue)>,
}

/// Makes a pool, whatever was on the devices.
pub(crate) fn make(env: &Arc<RealEnv>, shape: &Shape, tuning: Tuning) -> Result<Arc<Pool>, PoolError> {
    make_called(env, POOL, shape, tuning)
}

/// The same, for a second one beside it.
pub(crate) fn make_called(
    env: &Arc<RealEnv>,
    name: &str,
    shape: &Shape,
    tuning: Tuning,
) -> Result<Arc<Pool>, PoolError> {
    let world: Arc<dyn Env> = match shape.unflushed {
        true => Arc::new(Unflushed(Arc::clone(env))),
        false => Arc::clone(env) as Arc<dyn Env>,
    };
    env.block_on(create(world, name, shape, tuning))
}

/// The same in any world.
pub(crate) async fn create(
    env: Arc<dyn Env>,
    name: &str,
    shape: &Shape,
    tuning: Tuning,
) -> Result<Arc<Pool>, PoolError> {
    let vdev = |paths: Vec<PathBuf>, is_log| NewVdev {
        paths,
        ashift: None,
        bias: vdev::Bias::log(is_log),
        create_txg: 4,
        parity: 0,
        ..NewVdev::default()
    };
    let mut vdevs: Vec<NewVdev> = shape.main.iter().map(|path| vdev(vec![path.clone()], false)).collect();
    if shape.log_mirror {
        vdevs.push(vdev(shape.log.clone(), true));
    } else {
        vdevs.extend(shape.log.iter().map(|path| vdev(vec![path.clone()], true)));
    }
    let mut root_props = vec![
        ("recordsize".to_owned(), PropValue::Number(shape.record)),
        ("mountpoint".to_owned(), PropValue::Text("none".into())),
    ];
    root_props.extend(shape.props.iter().cloned());
    let spec =
        PoolSpec { name: name.into(), stored_name: None, vdevs, root_props, comment: None, force: true };
    Pool::create(env, spec, tuning).await
}

/// The record size for writes of so many bytes: each is one block, where that can be.
pub(crate) fn record_of(bytes: usize) -> u64 {
    (bytes as u64).next_power_of_two().clamp(4096, 128 << 10)
}

/// Imports it again.
pub(crate) fn import(env: &Arc<RealEnv>, paths: &[PathBuf], tuning: Tuning) -> Result<Arc<Pool>, PoolError> {
    let spec = ImportSpec { paths: paths.to_vec(), name: Some(POOL.into()), ..ImportSpec::default() };
    env.block_on(Pool::import(Arc::clone(env) as Arc<dyn Env>, &spec, tuning))
}
