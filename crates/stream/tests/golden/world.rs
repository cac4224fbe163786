//! The golden pool, opened, and its streams.

use std::path::PathBuf;
use std::sync::Arc;

use device::{Options, RealEnv};
use dmu::Objset;
use dsl::DatasetName;
use dsl::features::{
    EMBEDDED_DATA, LARGE_BLOCKS, LARGE_DNODE, LARGE_MICROZAP, LONGNAME, LZ4_COMPRESS, ZSTD_COMPRESS,
};
use env::Env;
use futures::executor::block_on;
use oracle::golden;
use pool::{ImportSpec, Pool, Tuning};
use stream::{
    Features, Form, Origin, ReadError, Reader, SendError, SendOrder, StreamRecord, Summary, Target,
};
use units::Txg;

const POOL: &str = "g30-streams";

fn dir() -> PathBuf {
    golden::path(POOL)
}

/// All streams, by name without extension.
pub fn names() -> Vec<String> {
    let entries = std::fs::read_dir(dir()).expect("extracted");
    let files = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<_> =
        files.filter_map(|file| file.strip_suffix(".zstream").map(str::to_owned)).collect();
    names.sort();
    assert_eq!(names.len(), 15, "{names:?}");
    names
}

/// The bytes of a stream.
pub fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(dir().join(format!("{name}.zstream"))).expect("a stream of the golden pool")
}

/// What `zstream dump` said of each stream when they were made.
pub fn told() -> String {
    std::fs::read_to_string(dir().join("zstream-dump.txt")).expect("beside the streams")
}

/// All records of a stream.
pub fn records(bytes: &[u8]) -> Result<Vec<StreamRecord>, ReadError> {
    block_on(async {
        let mut reader = Reader::new(bytes);
        let mut records = Vec::new();
        while let Some(record) = reader.next_record().await? {
            records.push(record);
        }
        assert_eq!(reader.into_source().len(), 0, "nothing is left");
        Ok(records)
    })
}

/// What records a stream has.
pub fn summary(records: &[StreamRecord]) -> Summary {
    let mut summary = Summary::default();
    records.iter().for_each(|record| record.count_in(&mut summary));
    summary
}

/// The golden pool, for reading only.
pub struct World {
    pub env: Arc<RealEnv>,
    pool: Arc<Pool>,
}

impl World {
    /// The pool that the streams were sent from.
    pub fn open() -> Self {
        Self::of(POOL)
    }

    /// A golden pool.
    pub fn of(name: &str) -> Self {
        let env = RealEnv::new(Options::default());
        let images = golden::images(name).into_iter();
        let spec = ImportSpec {
            paths: images.filter(|path| path.extension().is_some_and(|ext| ext == "img")).collect(),
            name: Some("whirl".into()),
            read_only: true,
            force: true,
            ..ImportSpec::default()
        };
        let import = Pool::import(Arc::clone(&env) as Arc<dyn Env>, &spec, Tuning::default());
        let pool = env.block_on(import).expect("a sound pool");
        Self { env, pool }
    }

    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// All snapshots.
    pub fn snapshots(&self) -> Vec<DatasetName> {
        let datasets = self.datasets();
        datasets.into_iter().filter(DatasetName::is_snapshot).collect()
    }

    /// All file systems, volumes and snapshots. As nobody changes the pool, each can be sent.
    pub fn datasets(&self) -> Vec<DatasetName> {
        let dsl = self.pool.dsl();
        self.env.block_on(async {
            let mut found = Vec::new();
            for dataset in dsl.list("whirl").await.expect("readable") {
                let snapshots = dsl.snapshots(&dataset).await.expect("readable");
                found.push(dataset);
                found.extend(snapshots);
            }
            found
        })
    }

    /// The snapshot with this guid, as an origin.
    fn origin(&self, guid: u64, is_of_clone: bool) -> Origin {
        let mut phys = self
            .snapshots()
            .into_iter()
            .map(|snapshot| self.env.block_on(self.pool.dsl().dataset(snapshot.dataset)).expect("readable"));
        let phys = phys.find(|phys| phys.guid.get() == guid).expect("a snapshot of the pool");
        Origin { guid, creation_txg: Txg::new(phys.creation_txg.get()), is_of_clone }
    }

    async fn features(&self, dataset: &DatasetName) -> Features {
        let dsl = self.pool.dsl();
        let used = async |feature| dsl.dataset_uses(dataset, feature).await.expect("readable");
        let active =
            async |feature| dsl.feature_count(feature).await.expect("readable").is_some_and(|n| n > 0);
        Features {
            large_blocks: used(&LARGE_BLOCKS).await,
            zstd: used(&ZSTD_COMPRESS).await,
            large_dnode: used(&LARGE_DNODE).await,
            longname: used(&LONGNAME).await,
            large_microzap: used(&LARGE_MICROZAP).await,
            embedded_data: active(&EMBEDDED_DATA).await,
            lz4: active(&LZ4_COMPRESS).await,
        }
    }

    /// What `zfs send` with these options would be asked for; `origin` as in BEGIN, zero for none.
    pub fn order(&self, name: &str, origin: u64, is_of_clone: bool, form: Form) -> SendOrder {
        let target = self.env.block_on(async {
            let dataset = self.pool.dsl().resolve(name).await.expect("a snapshot");
            let phys = self.pool.dsl().dataset(dataset.dataset).await.expect("readable");
            Target::of(name, &phys, self.features(&dataset).await)
        });
        let origin = (origin != 0).then(|| self.origin(origin, is_of_clone));
        SendOrder { target, origin, form, resume: None, redaction: Default::default(), cut_after: None }
    }

    /// Whether one snapshot was taken before another.
    pub fn is_earlier(&self, one: &DatasetName, other: &DatasetName) -> bool {
        let txg = |dataset: &DatasetName| {
            self.env.block_on(self.pool.dsl().dataset(dataset.dataset)).expect("readable").creation_txg.get()
        };
        txg(one) < txg(other)
    }

    /// Whether there is anything in it that can be read without a key.
    pub fn can_be_opened(&self, name: &str) -> bool {
        matches!(self.env.block_on(self.pool.frozen_objset(name)), Ok(Some(_)))
    }

    pub fn objset(&self, name: &str) -> Arc<Objset> {
        self.env.block_on(self.pool.frozen_objset(name)).expect("readable").expect("something in it")
    }

    /// The stream, and what it is said to have.
    pub fn send(&self, order: &SendOrder) -> Result<(Vec<u8>, Summary), SendError> {
        let objset = self.objset(&order.target.name);
        let mut stream = Vec::new();
        let summary = self.env.block_on(stream::send(&objset, order, &mut stream))?;
        Ok((stream, summary))
    }
}
