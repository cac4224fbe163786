//! Who comes from whom, and what they are called: clones, promotions, names, ends.

use std::collections::BTreeMap;

use dsl::DslError;
use pool::PoolError;

use super::model::{Head, is_below};
use super::{Lives, ROOT};

impl Lives {
    pub(super) async fn clone_of(&mut self) {
        let all = self.model.snapshots();
        if all.is_empty() {
            return;
        }
        let (of, at) = all[self.dice.below(all.len() as u64) as usize].clone();
        let snapshot = &self.model.heads[&of].snapshots[at];
        let source = format!("{of}@{}", snapshot.name);
        let (origin, contents, is_deferred) =
            (snapshot.object, snapshot.contents.clone(), snapshot.is_deferred);
        let name = format!("{}/{}", self.some_filesystem(), self.name());
        let made = self.pool.clone_snapshot(source, name.clone(), Vec::new()).await;
        made.unwrap_or_else(|error| panic!("{is_deferred}: {error}"));
        let object = self.pool.dsl().resolve(&name).await.unwrap().dataset;
        self.model.heads.insert(name, Head { origin: Some(origin), ..Head::new(object, contents) });
    }

    /// What its origin's head had up to the origin is the clone's from now on.
    pub(super) async fn promote(&mut self, name: &str) {
        let done = self.pool.promote(name.to_owned()).await;
        let Some(origin) = self.model.heads[name].origin else {
            assert!(matches!(done, Err(PoolError::Dsl(DslError::NotClone { .. }))), "{done:?}");
            return;
        };
        let (of, at) = self.model.find(origin).expect("origins stay");
        let of = of.to_owned();
        let moving: Vec<_> = self.model.heads[&of].snapshots[..=at].to_vec();
        let made = self.model.heads[&of].snapshots[at].made;
        let own = &self.model.heads[name].snapshots;
        if moving.iter().any(|snapshot| own.iter().any(|other| other.name == snapshot.name)) {
            assert!(matches!(done, Err(PoolError::Dsl(DslError::Exists { .. }))), "{done:?}");
            return;
        }
        done.unwrap();
        let old = self.model.heads.get_mut(&of).expect("it is there");
        old.snapshots.drain(..=at);
        let before = old.origin.replace(origin);
        let marks = std::mem::take(&mut old.bookmarks);
        let (marks, stay): (BTreeMap<_, _>, _) = marks.into_iter().partition(|(_, of)| *of <= made);
        old.bookmarks = stay;
        let head = self.model.heads.get_mut(name).expect("it is there");
        head.bookmarks.extend(marks);
        head.origin = before;
        head.snapshots.splice(..0, moving);
    }

    /// With all that is below it, to below another file system.
    pub(super) async fn rename(&mut self, name: &str) {
        let to = self.some_filesystem();
        if name == ROOT || to == name || is_below(&to, name) {
            return;
        }
        let new_name = format!("{to}/{}", self.name());
        self.pool.rename_dataset(name, &new_name).await.unwrap();
        let old = std::mem::take(&mut self.model.heads);
        let renamed = |of: String| match of.strip_prefix(name) {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{new_name}{rest}"),
            _ => of,
        };
        self.model.heads = old.into_iter().map(|(of, head)| (renamed(of), head)).collect();
    }

    pub(super) async fn destroy(&mut self, name: &str) {
        let done = self.pool.destroy_filesystem(name).await;
        let has_children = self.model.heads.keys().any(|of| is_below(of, name));
        if name == ROOT || has_children || !self.model.heads[name].snapshots.is_empty() {
            let is_refused = matches!(
                done,
                Err(PoolError::Dsl(
                    DslError::HasSnapshots { .. } | DslError::HasChildren { .. } | DslError::InUse { .. },
                ))
            );
            assert!(is_refused, "{name}: {done:?}");
            return;
        }
        done.unwrap();
        let gone = self.model.heads.remove(name).expect("it was there");
        gone.origin.into_iter().for_each(|origin| self.model.reap(origin));
    }
}
