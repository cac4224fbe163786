//! Snapshots sent and received in the same pool: whole, what is new, and in two parts.

use pool::{PoolError, ReceiveOrder};
use stream::Resume;
use units::ObjectId;

use super::Lives;
use super::model::{Contents, Head};
use crate::streams::{WHOLE_FORM, receive, sent};

/// Blocks that are larger are a feature of the format.
const OLD_BLOCK_BYTES_MAX: u32 = 128 << 10;
/// A stream's first record, with what it says of the snapshot, is shorter.
const BEGIN_BYTES: usize = 1000;

/// What is sent, and as what it is received.
struct Transfer {
    from: Option<String>,
    source: String,
    head: String,
    is_new: bool,
}

impl Lives {
    /// What is new for a dataset that has an older snapshot of another's; or all, as a new dataset.
    pub(super) async fn transfer(&mut self) {
        let (new, older) = (self.newer_ones(), self.model.snapshots());
        let which = self.dice.word() as usize;
        let (of, at, from, to) = match (new.len(), older.len()) {
            (_, 0) => return,
            (1.., _) if self.dice.below(3) > 0 => new[which % new.len()].clone(),
            _ => {
                let (of, at) = older[which % older.len()].clone();
                (of, at, None, format!("whirl/{}", self.name()))
            }
        };
        let named = |at: usize| format!("{of}@{}", self.model.heads[&of].snapshots[at].name);
        let is_new = from.is_none();
        let way = Transfer { from: from.map(named), source: named(at), head: to, is_new };
        let snapshot = format!("{}@{}", way.head, self.name());
        self.receive(&way, &snapshot).await;
        let mut contents = self.model.heads[&of].snapshots[at].contents.clone();
        if let Contents::Volume { block_bytes, .. } = &mut contents {
            // As with OpenZFS a stream says nothing of large blocks before the first of them was written.
            let found = self.pool.open_volume(&way.head).await.unwrap().block_bytes();
            let is_cut = *block_bytes > OLD_BLOCK_BYTES_MAX && found == OLD_BLOCK_BYTES_MAX;
            assert!(found == *block_bytes || is_cut, "{found} and not {block_bytes}");
            *block_bytes = found;
        }
        if way.is_new {
            let object = self.pool.dsl().resolve(&way.head).await.unwrap().dataset;
            self.model.heads.insert(way.head.clone(), Head::new(object, contents));
        } else {
            self.model.heads.get_mut(&way.head).expect("it is there").contents = contents;
        }
        self.know_snapshot(&way.head, &snapshot).await;
        self.received += 1;
    }

    /// Snapshots that others lack who have an older one of the same dataset as their latest: the dataset, its snapshot,
    /// the older one, who.
    fn newer_ones(&self) -> Vec<(String, usize, Option<usize>, String)> {
        let mut found = Vec::new();
        for (name, head) in &self.model.heads {
            let Some(latest) = head.snapshots.last() else { continue };
            if head.bookmarks.values().any(|made| *made > latest.made) {
                continue;
            }
            for (other, of) in self.model.heads.iter().filter(|(other, _)| *other != name) {
                let same = of.snapshots.iter().position(|snapshot| snapshot.guid == latest.guid);
                let Some(same) = same else { continue };
                let newer = same + 1..of.snapshots.len();
                found.extend(newer.map(|at| (other.clone(), at, Some(same), name.clone())));
            }
        }
        found
    }

    async fn receive(&mut self, way: &Transfer, snapshot: &str) {
        let stream = sent(&self.pool, &way.source, way.from.as_deref(), WHOLE_FORM, None).await;
        let kept = |order: &mut ReceiveOrder| (order.force, order.resumable) = (!way.is_new, true);
        if self.dice.below(2) == 0 || stream.len() < 2 * BEGIN_BYTES {
            return receive(&self.pool, &stream, snapshot, kept).await.unwrap();
        }
        // A record that is cut off breaks the stream off.
        let part = BEGIN_BYTES + self.dice.below((stream.len() - BEGIN_BYTES) as u64) as usize;
        let broken = receive(&self.pool, &stream[..part], snapshot, kept).await;
        assert!(matches!(broken, Err(PoolError::Receive(_) | PoolError::Stream(_))), "{broken:?}");
        let state = match self.pool.dsl().resolve(&way.head).await {
            Ok(head) => self.pool.resume_state(&head).await.unwrap(),
            Err(_) => None,
        };
        let rest = match state {
            Some(state) => {
                let point = Resume { object: ObjectId::new(state.point.object), offset: state.point.offset };
                sent(&self.pool, &way.source, way.from.as_deref(), WHOLE_FORM, Some(point)).await
            }
            None => stream,
        };
        receive(&self.pool, &rest, snapshot, kept).await.unwrap();
    }
}
