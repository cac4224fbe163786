//! Mounts of several pools: one pool may be mounted below another.

use std::sync::Arc;

use control::{Failure, Mount, MountInfo, Mounts, ProcessDueMounts, Unmount, UnmountScope};

use crate::seat::PoolSeat;
use crate::{Inner, Supervisor};

type Done<T = ()> = Result<T, Failure>;

impl Supervisor {
    /// Mounts all that is to be mounted by itself.
    pub(crate) async fn mount_all(&self, call: Mount) -> Done {
        self.0.mount_those(&self.0.seats.all(), &call).await
    }
}

impl Inner {
    /// Mounts what is to be mounted of these pools, in the order of mount points. Returns the first failure;
    /// the others are still mounted.
    pub async fn mount_those(&self, seats: &[Arc<PoolSeat>], call: &Mount) -> Done {
        let mut outcome = Ok(());
        let mut due = Vec::new();
        for seat in seats {
            let ask = ProcessDueMounts { pool: seat.name.clone(), mount: call.clone() };
            match seat.ask(&ask).await {
                Ok(found) => {
                    outcome = outcome.and(found.failure.map_or(Ok(()), Err));
                    due.extend(found.mounts.into_iter().map(|mount| (mount, seat)));
                }
                Err(failure) => outcome = outcome.and(Err(failure)),
            }
        }
        due.sort_by(|(a, _), (b, _)| a.order().cmp(&b.order()));
        for (due, seat) in due {
            outcome = outcome.and(seat.ask(&due.mount).await);
        }
        outcome
    }

    /// Lists what is mounted of all pools that are open.
    pub async fn list_mounts(&self) -> Vec<MountInfo> {
        self.of_each_open(&Mounts {}).await.into_iter().flatten().collect()
    }

    /// Unmounts everything, the deepest mount points first.
    pub async fn unmount_all(&self, force: bool) -> Done {
        let mut mounted = self.list_mounts().await;
        mounted.sort_by(|a, b| std::path::Path::new(&b.mountpoint).cmp(std::path::Path::new(&a.mountpoint)));
        for mount in mounted {
            let Some(seat) = self.seats.of(&mount.dataset) else { continue };
            let target = Some(mount.mountpoint);
            seat.ask(&Unmount { target, force, scope: UnmountScope::OfAll }).await?;
        }
        Ok(())
    }

    /// Unmounts a dataset, or what is mounted at a path.
    pub async fn unmount_one(&self, target: String, call: Unmount) -> Done {
        let seat = match target.starts_with('/') {
            true => {
                let mounted = self.list_mounts().await;
                let found = mounted.iter().find(|mount| mount.mountpoint == target);
                found.and_then(|mount| self.seats.of(&mount.dataset))
            }
            false => self.seats.of(&target),
        };
        match seat {
            Some(seat) => seat.ask(&call).await,
            None => self.blank.unmount(call).await,
        }
    }
}
