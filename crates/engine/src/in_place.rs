//! Exchanges the contents of mounted datasets. Open files stay open.
//!
//! ```text
//!  suspended: requests wait ─► exchanged, or not ─► opened again ─► resumed with these contents
//!                                                        │ cannot be opened
//!                                                        └─► unmounted by force
//! ```

use crate::front::{Suspended, UnmountReach};
use crate::props::Value;
use crate::taken::MountPlaces;
use crate::{Held, Holder, refusal};
use control::Failure;
use std::sync::Arc;

/// The values of properties that are fixed for a session when it begins.
#[derive(PartialEq, Eq)]
pub struct SessionTerms([Option<Value>; 3]);

impl Holder {
    /// Suspends the requests to a mounted dataset. Returns `None` if the dataset is not mounted, or
    /// must be unmounted for the exchange.
    pub(super) async fn suspend(&self, dataset: &str) -> Result<Option<Box<dyn Suspended>>, Failure> {
        match self.mounts.entries().iter().find(|entry| entry.is_of(dataset)) {
            Some(entry) => entry.suspend().await,
            None => Ok(None),
        }
    }

    /// Returns the properties of a mounted dataset that are fixed for its session.
    pub(super) async fn session_terms(&self, held: &Held, dataset: &str) -> Option<SessionTerms> {
        self.mounts.place_of(dataset)?;
        let info = self.dataset_info(held, dataset).await.ok()?;
        let of = |name: &str| info.props.get(name).map(|prop| prop.value.clone());
        Some(SessionTerms([of("mountpoint"), of("canmount"), of("acltype")]))
    }

    /// After a stream has brought properties: applies them to the mount of the dataset, and
    /// remounts the dataset at one of these places if they are fixed for its session.
    pub(super) async fn follow_terms(
        &self,
        held: &Held,
        dataset: &str,
        before: Option<SessionTerms>,
        places: MountPlaces,
    ) -> Result<(), Failure> {
        let now = self.session_terms(held, dataset).await;
        if before.is_some() && now.is_some() && now != before {
            let taken = self.take(&self.named_below(dataset), UnmountReach::Everywhere).await?;
            self.mount_taken(held, &taken, places).await?;
        }
        self.allow_below(held, dataset).await?;
        self.show_ctldir_below(held, dataset).await
    }

    /// Resumes the requests with the present contents of the dataset. These are the former contents
    /// if the exchange was refused.
    pub(super) async fn resume(
        &self,
        held: &Held,
        dataset: &str,
        suspended: Box<dyn Suspended>,
    ) -> Result<(), Failure> {
        match held.pool.filesystem_with_open(dataset, &suspended.open_objects()).await {
            Ok(fs) => {
                suspended.resume(Arc::clone(&fs.zfs)).await;
                Ok(())
            }
            Err(error) => {
                drop(suspended);
                let unmounted =
                    self.take(&self.mounts.sessions_of(&[dataset.to_owned()]), UnmountReach::ByForce).await;
                let failure = refusal::pool("mount", dataset, &error);
                Err(unmounted.err().into_iter().flat_map(|f| f.stderr).fold(failure, Failure::and))
            }
        }
    }
}
