//! What was done to the pool: commands, as users gave them, and what became of them.

use std::sync::Arc;

use dmu::Tx;
use dsl::DatasetName;
use env::boxed;
use ondisk::NvList;
use ondisk::history::names;

use crate::{Pool, PoolError};

/// Where history says that commands were given.
const ZONE: &str = "linux";
/// Commands are cut off here, as OpenZFS does.
const COMMAND_MAX_CHARS: usize = 8192;

/// Replaces a control character of a command, because a line feed or an escape sequence would let
/// a command look like several records.
fn shown(character: char) -> char {
    if character.is_control() { '?' } else { character }
}

impl Pool {
    /// Has the next group note a command that was carried out, and who gave it (a uid). Nobody
    /// waits for that: what the command did is stable by itself.
    ///
    /// # Errors
    /// When the pool may not be changed.
    pub fn log_history(self: &Arc<Self>, command: &str, who: u64) -> Result<(), PoolError> {
        let command: String = command.chars().take(COMMAND_MAX_CHARS).map(shown).collect();
        let mut record = self.record();
        record.add_str(names::COMMAND, command).add_u64(names::WHO, who).add_str(names::ZONE, ZONE);
        self.in_next_sync("history", move |pool, tx| async move {
            Ok(pool.dsl.add_history(&tx, &record, pool.room().capacity).await?)
        })
    }

    /// All that the history still knows, oldest first.
    ///
    /// # Errors
    /// When it cannot be read.
    #[boxed]
    pub async fn history(&self) -> Result<Vec<NvList>, PoolError> {
        if !self.read_only && self.suspended().is_none() {
            self.sync_now().await?;
        }
        Ok(self.dsl.history().await?)
    }

    /// Notes what a txg did, to a dataset or to the pool.
    pub(crate) async fn note_event(
        &self,
        tx: &Tx,
        what: &str,
        dataset: Option<&DatasetName>,
        detail: &str,
    ) -> Result<(), PoolError> {
        let mut record = self.record();
        record.add_str(names::INTERNAL_NAME, what).add_u64(names::TXG, tx.txg().get());
        if let Some(dataset) = dataset {
            record.add_str(names::DATASET_NAME, dataset.name.as_str());
            record.add_u64(names::DATASET_ID, dataset.dataset.get());
        }
        record.add_str(names::INTERNAL_STR, detail);
        self.tell_history(&record);
        Ok(self.dsl.add_history(tx, &record, self.room().capacity).await?)
    }

    /// Notes that the pool was made or imported, and by what.
    pub(crate) async fn note_version(&self, tx: &Tx, what: &str) -> Result<(), PoolError> {
        let version = self.config.lock().version();
        let detail =
            format!("pool version {version}; software version sawmill-{}", env!("CARGO_PKG_VERSION"));
        self.note_event(tx, what, None, &detail).await
    }

    /// What every record begins with.
    fn record(&self) -> NvList {
        let mut record = NvList::new();
        record.add_u64(names::TIME, self.env.wall_clock().as_secs());
        record.add_str(names::HOST, self.tuning.host.name.as_str());
        record
    }
}
