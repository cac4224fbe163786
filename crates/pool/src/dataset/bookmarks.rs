//! Bookmarks.

use std::sync::Arc;

use dsl::BookmarkInfo;
use env::boxed;

use crate::space::task_room::DATASET_BYTES;
use crate::{Pool, PoolError};

impl Pool {
    /// Makes a bookmark, `pool/fs#mark`, of a snapshot or of another bookmark.
    ///
    /// # Errors
    /// [`dsl::DslError::NoSuchDataset`], [`dsl::DslError::Exists`], [`dsl::DslError::BadName`],
    /// [`dsl::DslError::NotOfDataset`], [`dsl::DslError::BookmarksDisabled`], [`dsl::DslError::NoSpace`].
    #[boxed]
    pub async fn bookmark(self: &Arc<Self>, source: String, name: String) -> Result<(), PoolError> {
        self.in_sync(move |pool, tx| async move {
            pool.dsl.check_bookmark(&source, &name).await?;
            pool.check_task_room(&name, DATASET_BYTES)?;
            pool.dsl.create_bookmark(&tx, &source, &name).await?;
            let (of, mark) = name.split_once('#').unwrap_or((&name, ""));
            let of = pool.dsl.resolve(of).await?;
            pool.note_event(&tx, "bookmark", Some(&of), &format!("name={mark}")).await
        })
        .await
    }

    /// Destroys a bookmark.
    ///
    /// # Errors
    /// [`dsl::DslError::NoSuchDataset`].
    #[boxed]
    pub async fn destroy_bookmark(self: &Arc<Self>, name: String) -> Result<(), PoolError> {
        self.in_sync(move |pool, tx| async move {
            let (of, mark) = name.split_once('#').unwrap_or((&name, ""));
            let of = pool.dsl.resolve(of).await?;
            pool.dsl.destroy_bookmark(&tx, &name).await?;
            pool.note_event(&tx, "remove bookmark", Some(&of), &format!("name={mark}")).await
        })
        .await
    }

    /// Bookmarks of a file system or volume, by name.
    ///
    /// # Errors
    /// [`dsl::DslError::NoSuchDataset`]; when they cannot be read.
    #[boxed]
    pub async fn bookmarks(&self, of: &str) -> Result<Vec<BookmarkInfo>, PoolError> {
        Ok(self.dsl.bookmarks(&self.dsl.resolve(of).await?).await?)
    }
}
