//! Redaction: bookmarks that tell what of a snapshot is not to be sent, and streams without that.

use crate::props::Value;
use crate::send::{Part, refuse};
use crate::{Held, Holder, names, refusal};
use control::{BookmarkRedact, DatasetSend, Failure, FailureKind};
use dsl::{DslError, RedactionList};
use pool::{PoolError, RedactRefusal};
use stream::Redaction;

/// The property that tells by which snapshots something is redacted.
pub(crate) const SNAPS: &str = "redact_snaps";

/// The property's value.
pub(crate) fn shown(snaps: &[u64]) -> Value {
    match snaps {
        [] => Value::Text("none".to_owned()),
        snaps => Value::Text(snaps.iter().map(u64::to_string).collect::<Vec<_>>().join(",")),
    }
}

impl Holder {
    /// Makes a redaction bookmark. It takes as long as reading what its snapshots have changed, in nobody's turn.
    pub(super) async fn redact(&self, call: BookmarkRedact) -> Result<(), Failure> {
        let BookmarkRedact { snapshot, bookmark, by } = call;
        let head = names::head_of(&snapshot);
        let name = format!("{head}#{bookmark}");
        let Ok(held) = self.pool_of(&snapshot) else { return Err(absent(&[&snapshot])) };
        if by.iter().any(|one| names::pool_of(one) != names::pool_of(&snapshot)) {
            let line = "potentially invalid redaction snapshot; full dataset names required";
            return Err(Failure::new(FailureKind::Invalid, line).exits(EXDEV));
        }
        let mut missing = Vec::new();
        for one in [&snapshot].into_iter().chain(&by) {
            if !one.contains('@') || held.pool.dsl().resolve(one).await.is_err() {
                missing.push(one.as_str());
            }
        }
        if !missing.is_empty() {
            return Err(absent(&missing));
        }
        if bookmark.contains('#') {
            let line = "redaction bookmark name must not contain '#'";
            return Err(Failure::new(FailureKind::Invalid, line).exits(EINVAL));
        }
        let made = held.pool.redact(snapshot.clone(), name, by).await;
        made.map_err(|error| refused(&bookmark, &snapshot, &error))
    }

    /// What a stream leaves out, and what of the one that it starts from was.
    pub(super) async fn redaction(
        &self,
        held: &Held,
        call: &DatasetSend,
        part: &Part,
    ) -> Result<Redaction, Failure> {
        let snapshot = part.snapshot.as_str();
        let cannot = |error: DslError| refuse(FailureKind::Other, snapshot, &refusal::chain(&error));
        let snaps_of = async |name: &str| {
            let dataset = self.dataset(held, name).await?;
            held.pool.dsl().redact_snaps(&dataset).await.map_err(cannot)
        };
        let mut redaction = match &call.redact {
            Some(mark) => {
                let mark = mark.rsplit('#').next().unwrap_or_default();
                let name = format!("{}#{mark}", names::head_of(snapshot));
                let list = self.list_of(held, snapshot, &name).await?;
                let list =
                    list.ok_or_else(|| refuse(FailureKind::Invalid, snapshot, "not a redaction bookmark"))?;
                Redaction { snaps: Some(list.snaps), blocks: list.blocks, ..Redaction::default() }
            }
            None => Redaction { snaps: snaps_of(snapshot).await?, ..Redaction::default() },
        };
        match part.from.as_deref() {
            Some(from) if from.contains('#') => {
                if let Some(list) = self.list_of(held, snapshot, from).await? {
                    (redaction.from_snaps, redaction.from_blocks) = (Some(list.snaps), list.blocks);
                }
            }
            Some(from) => redaction.from_snaps = snaps_of(from).await?,
            None => {}
        }
        Ok(redaction)
    }

    /// What a redaction bookmark lists.
    async fn list_of(
        &self,
        held: &Held,
        snapshot: &str,
        mark: &str,
    ) -> Result<Option<RedactionList>, Failure> {
        let found = held.pool.dsl().redaction_list(mark).await.map_err(|error| match error {
            DslError::NoSuchDataset { .. } => {
                Failure::cannot(FailureKind::NoSuchDataset, "open", mark, "no such pool or dataset")
            }
            error => refuse(FailureKind::Other, snapshot, &refusal::chain(&error)),
        })?;
        match found {
            Some(list) if !list.is_complete => {
                Err(refuse(FailureKind::Invalid, snapshot, "incomplete redaction bookmark provided"))
            }
            found => Ok(found),
        }
    }
}

/// Exit codes of `zfs redact` are the numbers of Linux's errors.
const ENOENT: u8 = 2;
const EEXIST: u8 = 17;
const EXDEV: u8 = 18;
const EINVAL: u8 = 22;
const E2BIG: u8 = 7;
const ENAMETOOLONG: u8 = 36;
const ENOTSUP: u8 = 95;
const EALREADY: u8 = 114;

fn absent(names: &[&str]) -> Failure {
    let line = |name: &&str| format!("provided snapshot {name} does not exist");
    let mut lines = names.iter().map(line);
    let first = Failure::new(FailureKind::NoSuchDataset, lines.next().unwrap_or_default());
    lines.fold(first, Failure::and).exits(ENOENT)
}

fn refused(bookmark: &str, snapshot: &str, error: &PoolError) -> Failure {
    let failure = |kind, line: String, exit| Failure::new(kind, line).exits(exit);
    match error {
        PoolError::Redact(refusal) => {
            let exit = match refusal {
                RedactRefusal::Redacted => EALREADY,
                RedactRefusal::NotDescendent => EINVAL,
                RedactRefusal::TooMany => E2BIG,
            };
            failure(FailureKind::Invalid, refusal.to_string(), exit)
        }
        PoolError::NeedsFeature { .. } | PoolError::Dsl(DslError::BookmarksDisabled) => {
            let line = "redaction bookmarks feature not enabled".to_owned();
            failure(FailureKind::Unsupported, line, ENOTSUP)
        }
        PoolError::Dsl(DslError::Exists { .. }) => {
            let line = format!("specified redaction bookmark ({bookmark}) provided already exists");
            failure(FailureKind::Exists, line, EEXIST)
        }
        PoolError::Dsl(DslError::BadName { why: "too long", .. }) => {
            let line = "provided bookmark name cannot be used, final name would be too long".to_owned();
            failure(FailureKind::Invalid, line, ENAMETOOLONG)
        }
        error => refusal::pool("redact", snapshot, error),
    }
}
