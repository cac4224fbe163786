//! The requests, one type each, with the path it is posted to and the type of its answer. Those that
//! only `show` are answered to every user, all others to the daemon's own: those that `look` at devices
//! or `found` pools on them, and those that `change` pools. Some of these `may` be delegated to others.

use crate::{
    DatasetInfo, DatasetMade, Delegated, EventsPage, EventsSeen, Failure, FailureKind, ImportCandidate,
    MountInfo, Peer, PoolInfo, VdevSpec, Work,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A request that can be sent.
pub trait Call: Serialize + DeserializeOwned + Send + 'static {
    /// Where it is posted to.
    const PATH: &'static str;
    /// It only looks: asking again does no harm.
    const LOOKS: bool;
    /// Other users than the daemon's own may ask for it, too.
    const PUBLIC: bool;
    /// It is about devices that are in no open pool: every user can ask a daemon of his own.
    const FOUNDS: bool;
    /// What it takes of the daemon while it lasts.
    const WORK: Work;
    /// What comes back when it succeeds.
    type Answer: Serialize + DeserializeOwned + Send + 'static;

    /// The pool that it changes, or a dataset of that pool: in its history the command is noted.
    fn subject(&self) -> Option<&str> {
        None
    }

    /// It says what would be done, and does nothing: no history tells of it.
    fn is_dry(&self) -> bool {
        false
    }

    /// What it is where others than the daemon's own user may ask for it, if that was delegated to them.
    fn delegated(&self) -> Option<Delegated> {
        None
    }

    /// Somebody else than the daemon's own user asks.
    fn set_maker(&mut self, _peer: &Peer) {}

    /// The refusal for a user who may only look.
    fn denied(&self) -> Failure {
        Failure::new(FailureKind::Denied, "permission denied")
    }
}

/// What was typed, and by whom: what the history of a pool keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    /// The command with its words.
    pub command: String,
    /// Number of the user.
    pub uid: u64,
}

/// A property and its value as typed.
pub type NameValue = (String, String);

macro_rules! calls {
    (@looks show) => { true };
    (@looks look) => { true };
    (@looks $verb:ident) => { false };
    (@public show) => { true };
    (@public $verb:ident) => { false };
    (@founds look) => { true };
    (@founds found) => { true };
    (@founds $verb:ident) => { false };
    (@work) => { $crate::Work::Answer };
    (@work $work:ident) => { $crate::Work::$work };
    ($($(#[$doc:meta])* $verb:ident $name:ident at $path:literal $(of $of:ident $(unless $dry:ident)?)? $(to $doing:literal $what:ident)?
       $(may $delegated:ident $(by $maker:ident)?)? $(as $work:ident)? gives $answer:ty {
        $($(#[$field_doc:meta])* $field:ident: $type:ty,)*
    })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
            #[serde(default)]
            pub struct $name {
                $($(#[$field_doc])* pub $field: $type,)*
            }

            impl Call for $name {
                const PATH: &'static str = $path;
                const LOOKS: bool = calls!(@looks $verb);
                const PUBLIC: bool = calls!(@public $verb);
                const FOUNDS: bool = calls!(@founds $verb);
                const WORK: $crate::Work = calls!(@work $($work)?);
                type Answer = $answer;

                $(
                    fn subject(&self) -> Option<&str> {
                        Some(&self.$of)
                    }

                    $(
                        fn is_dry(&self) -> bool {
                            self.$dry
                        }
                    )?
                )?

                $(
                    fn delegated(&self) -> Option<$crate::Delegated> {
                        Some($crate::Delegated::$delegated(self.clone()))
                    }

                    $(
                        fn set_maker(&mut self, peer: &$crate::Peer) {
                            self.$maker = Some(peer.into());
                        }
                    )?
                )?

                $(
                    fn denied(&self) -> Failure {
                        Failure::cannot(FailureKind::Denied, $doing, &self.$what, "permission denied")
                    }
                )?
            }
        )*
    };
}

pub(crate) use calls;

calls! {
    /// Makes a pool.
    found PoolCreate at "/v1/pool/create" of name to "create" name gives () {
        /// Name.
        name: String,
        /// The name that labels have, where `name` is only for this time.
        stored_name: Option<String>,
        /// Its vdevs, in the order typed.
        vdevs: Vec<VdevSpec>,
        /// Pool properties.
        props: Vec<NameValue>,
        /// Properties of its root dataset.
        fs_props: Vec<NameValue>,
        /// Where the root dataset is mounted: a path, `legacy`, `none`; by default `/NAME`.
        mountpoint: Option<String>,
        /// Directory that all mount points are under, for this import only.
        altroot: Option<String>,
        /// Enable no feature but those asked for by name.
        no_features: bool,
        /// Take devices that only look used, and mixed redundancy.
        force: bool,
        /// Check, change nothing.
        dry_run: bool,
    }

    /// Adds vdevs to a pool.
    change PoolAdd at "/v1/pool/add" of pool unless dry_run to "add to" pool gives () {
        /// Pool.
        pool: String,
        /// New vdevs, in the order typed.
        vdevs: Vec<VdevSpec>,
        /// Properties: only `ashift`.
        props: Vec<NameValue>,
        /// Take devices that only look used.
        allow_in_use: bool,
        /// Take vdevs of other redundancy.
        allow_replication_mismatch: bool,
        /// Take vdevs of other sector size.
        allow_ashift_mismatch: bool,
        /// Came as `-f`, which words the refusal differently.
        force: bool,
        /// Check, change nothing.
        dry_run: bool,
    }

    /// Takes a device or vdev out of a pool; of a data vdev only the beginning of that.
    change PoolRemove at "/v1/pool/remove" of pool to "remove" name gives () {
        /// Pool.
        pool: String,
        /// Guid of the device, or of the mirror.
        vdev: u64,
        /// What it was called.
        name: String,
    }

    /// Gives up the removal of a data vdev.
    change PoolRemoveStop at "/v1/pool/remove/stop" of pool to "cancel removal in" pool gives () {
        /// Pool.
        pool: String,
    }

    /// How much memory the mapping of a vdev would take if it were removed, in bytes.
    show PoolRemoveCost at "/v1/pool/remove/cost" gives u64 {
        /// Pool.
        pool: String,
        /// Guid of the device, or of the mirror.
        vdev: u64,
    }

    /// Destroys a pool.
    change PoolDestroy at "/v1/pool/destroy" to "destroy" pool gives () {
        /// Pool.
        pool: String,
        /// Unmount by force.
        force: bool,
        /// For its history: afterwards it is too late.
        said: Said,
    }

    /// Closes a pool and leaves its devices ready for import elsewhere.
    change PoolExport at "/v1/pool/export" to "export" pool gives () {
        /// Pool.
        pool: String,
        /// Unmount by force.
        force: bool,
        /// For its history: afterwards it is too late.
        said: Said,
    }

    /// Looks for pools that could be imported.
    look ImportScan at "/v1/import/scan" gives Vec<ImportCandidate> {
        /// Directories or devices to search; where empty, `/dev` and the last known paths.
        search: Vec<String>,
        /// Look for destroyed pools instead.
        destroyed: bool,
    }

    /// Wipes the labels of a device that is not in use.
    found LabelClear at "/v1/label/clear" gives () {
        /// Its full path.
        device: String,
        /// Though it may be a pool's.
        force: bool,
    }

    /// Opens a pool from its devices.
    found PoolImport at "/v1/import/pool" to "import" pool gives Imported {
        /// Directories or devices to search.
        search: Vec<String>,
        /// Name or guid.
        pool: String,
        /// The guid of the pool, if several pools may have the name.
        guid: Option<u64>,
        /// New name.
        new_name: Option<String>,
        /// The new name lasts until the pool is exported.
        temporary: bool,
        /// Pool properties for this import.
        props: Vec<NameValue>,
        /// Mount options.
        mount_options: Vec<String>,
        /// Directory that all mount points are under, for this import only.
        altroot: Option<String>,
        /// Even if it looks in use elsewhere.
        force: bool,
        /// Even if a log is missing: what only it held is lost.
        allow_missing_log: bool,
        /// Mount nothing.
        no_mount: bool,
        /// Bring back a destroyed pool.
        destroyed: bool,
        /// As it was when its checkpoint was made.
        to_checkpoint: bool,
        /// Go back to a recent earlier transaction group if the newest one cannot be opened.
        rewind: bool,
        /// Go back to any earlier transaction group that can be read.
        extreme: bool,
        /// Go back to the newest transaction group up to this one.
        rewind_to: Option<u64>,
        /// Check whether that would work, change nothing.
        dry_run: bool,
    }

    /// Enables every feature that new pools have, as far as its `compatibility` allows; gives their
    /// names.
    change PoolUpgrade at "/v1/pool/upgrade" of pool to "upgrade" pool gives Vec<String> {
        /// Pool.
        pool: String,
    }

    /// The features that an upgrade would enable.
    show PoolMissing at "/v1/pool/missing" gives Vec<String> {
        /// Pool.
        pool: String,
    }

    /// What was set on vdevs of a pool, in the order of the question.
    show PoolVdevProps at "/v1/pool/vdev-props" gives Vec<Vec<NameValue>> {
        /// Pool.
        pool: String,
        /// Their guids.
        vdevs: Vec<u64>,
    }

    /// Notes in a pool's history what was done to it.
    change PoolNote at "/v1/pool/note" may Note by maker gives () {
        /// Pool.
        pool: String,
        /// What.
        said: Said,
        /// Who, if it is somebody else than the daemon's own user.
        maker: Option<u32>,
    }

    /// What was done to a pool, oldest first: nvlists in XDR, as the format names their pairs.
    show PoolHistory at "/v1/pool/history" gives Vec<Vec<u8>> {
        /// Pool.
        pool: String,
    }

    /// What happened after what somebody has seen, lately.
    show Events at "/v1/events" as Watch gives EventsPage {
        /// What he has seen.
        seen: EventsSeen,
        /// Wait so long for something if there is nothing, in milliseconds.
        wait_millis: u64,
    }

    /// Forgets what happened; gives how many events there were.
    change EventsClear at "/v1/events/clear" gives u64 {}

    /// All open pools.
    show PoolList at "/v1/pool/list" gives Vec<PoolInfo> {
        /// Also those that were open when the daemon went down, and could not be opened again.
        with_absent: bool,
    }

    /// Sets a pool's (or one of its vdevs') property.
    change PoolSet at "/v1/pool/set" of pool to "set property for" pool gives () {
        /// Pool.
        pool: String,
        /// A vdev, as it was called: then it is a property of that.
        vdev: Option<String>,
        /// Which one that is.
        vdev_guid: u64,
        /// Property.
        name: String,
        /// Value as typed.
        value: String,
    }

    /// Starts, pauses or stops the scrub of a pool.
    change PoolScrub at "/v1/pool/scrub" of pool to "scrub" pool gives () {
        /// Pool.
        pool: String,
        /// What to do.
        how: ScrubHow,
    }

    /// Keeps the state of a pool, or gives up the one that is kept.
    change PoolCheckpoint at "/v1/pool/checkpoint" of pool to "checkpoint" pool gives () {
        /// Pool.
        pool: String,
        /// Give it up.
        discard: bool,
    }

    /// Sets error counters back, and tries failed devices again.
    change PoolClear at "/v1/pool/clear" of pool to "clear errors for" pool gives () {
        /// Pool.
        pool: String,
        /// Only this vdev, and those below it.
        vdev: Option<u64>,
        /// The vdev as it was typed.
        device: String,
    }

    /// Waits until all that was written is in a synced transaction group.
    change PoolSync at "/v1/pool/sync" gives () {
        /// Pools; none means all.
        pools: Vec<String>,
        /// Even where nothing was written; labels and configuration are written anew.
        force: bool,
    }

    /// Datasets and their properties, parents first, in order of their names.
    show DatasetList at "/v1/dataset/list" gives Vec<DatasetInfo> {
        /// Only this dataset and those below.
        root: Option<String>,
        /// How many levels below; none means all.
        depth: Option<u32>,
        /// Tell also what was written since snapshots and bookmarks: properties `written@snap` and `written#mark`, of each
        /// dataset's own, or with full names behind the delimiter.
        written_since: Vec<String>,
        /// Their bookmarks, too.
        bookmarks: bool,
        /// Leave out the snapshots, but for the root.
        without_snapshots: bool,
        /// The snapshots of pools whose property `listsnapshots` is on are not left out.
        snapshots_if_listed: bool,
        /// Leave out file systems and volumes, but for the root.
        without_heads: bool,
        /// The properties that are needed. `None` stands for all properties. The daemon reads less for a few properties.
        properties: Option<Vec<String>>,
        /// Also the values that came with a stream.
        received: bool,
    }

    /// Makes a dataset.
    change DatasetCreate at "/v1/dataset/create" of name unless dry_run to "create" name may Create by maker gives DatasetMade {
        /// Full name.
        name: String,
        /// Properties; those of a volume, its size among them.
        props: Vec<NameValue>,
        /// Make missing parents, and do not mind that it exists.
        parents: bool,
        /// Do not mount it.
        no_mount: bool,
        /// Who makes it, where that is not the daemon's own user.
        maker: Option<Peer>,
        /// A volume instead of a file system.
        volume: bool,
        /// Set nothing aside for the volume.
        sparse: bool,
        /// Make nothing.
        dry_run: bool,
    }

    /// Destroys a dataset; gives the names of all that goes, in the order in which it goes.
    change DatasetDestroy at "/v1/dataset/destroy" of name unless dry_run to "destroy" name may Destroy gives Vec<String> {
        /// Full name of a file system or volume.
        name: String,
        /// And all below it, with its snapshots.
        recursive: bool,
        /// And all clones of those.
        clones: bool,
        /// Unmount by force.
        force: bool,
        /// Tell what would go, and change nothing.
        dry_run: bool,
    }

    /// Sets properties of a dataset.
    change DatasetSet at "/v1/dataset/set" of name to "set property for" name may Set by maker gives () {
        /// Dataset.
        name: String,
        /// Properties and values as typed.
        props: Vec<NameValue>,
        /// Leave what is mounted where it is, whatever its mount point is from now on.
        keep_mounted: bool,
        /// The user that asks, if not the daemon's own user. For this user, nothing is mounted and no mount moves.
        maker: Option<Peer>,
    }

    /// Lets a dataset inherit a property again.
    change DatasetInherit at "/v1/dataset/inherit" of name to "inherit property for" name may Inherit by maker gives () {
        /// Dataset.
        name: String,
        /// Property.
        property: String,
        /// And all below it.
        recursive: bool,
        /// To what a received stream brought, where one did.
        received: bool,
        /// The user that asks, if not the daemon's own user. For this user, nothing is mounted and no mount moves.
        maker: Option<Peer>,
    }

    /// Gives a dataset another name, and another parent perhaps; or a snapshot another name.
    change DatasetRename at "/v1/dataset/rename" of name to "rename" name may Rename by maker gives () {
        /// Full name.
        name: String,
        /// Its new name; of a snapshot what stands behind the `@` will do.
        new_name: String,
        /// Of a snapshot: and those of the same name of all datasets below.
        recursive: bool,
        /// Make missing parents.
        parents: bool,
        /// Leave it, and what is below, mounted where it is.
        keep_mounted: bool,
        /// Unmount by force.
        force: bool,
        /// The user that asks, if not the daemon's own user.
        maker: Option<Peer>,
    }

    /// Mounts file systems.
    change Mount at "/v1/mount" gives () {
        /// Dataset; none means all that are to be mounted by themselves.
        dataset: Option<String>,
        /// Mount options.
        options: Vec<String>,
        /// Mount over a directory that is not empty.
        overlay: bool,
        /// Of the dataset, and all below it, what is to be mounted by itself.
        recursive: bool,
        /// Also what was received redacted.
        force: bool,
        /// The directory, in place of that of the properties. One dataset only.
        at: Option<String>,
        /// Who chooses the directory.
        placer: MountPlacer,
    }

    /// Unmounts file systems.
    change Unmount at "/v1/unmount" gives () {
        /// Dataset or mount point; none means all.
        target: Option<String>,
        /// Even if in use.
        force: bool,
        /// Which mounts.
        scope: UnmountScope,
    }

    /// What is mounted, in order of mounting.
    show Mounts at "/v1/mounts" gives Vec<MountInfo> {}

    /// Who answers.
    show DaemonStatusCall at "/v1/daemon/status" gives DaemonStatus {}

    /// Syncs all pools, then ends the daemon. Pools stay in the cache file.
    change DaemonStop at "/v1/daemon/stop" gives () {}
}

/// Who chooses the directory of a mount, if the properties do not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MountPlacer {
    /// Whoever has unmounted the file system there a moment ago.
    #[default]
    Former,
    /// mount(8), for a file system with `mountpoint=legacy`.
    Legacy,
    /// mount(8) with `-o zfsutil`, for a file system with another mount point.
    Zfsutil,
}

/// Which mounts a request unmounts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnmountScope {
    /// The mounts of the dataset and of the datasets below.
    #[default]
    WithDescendants,
    /// The mount of the dataset alone.
    Alone,
    /// The mount of the dataset alone, as a part of `zfs unmount -a`. Mounts that mount(8) has made,
    /// and mounts of file systems with `canmount=noauto`, stay.
    OfAll,
}

/// What to do with a scrub.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScrubHow {
    /// Begin, or go on after a pause.
    #[default]
    Start,
    /// The same with what was written since the last scrub only.
    StartSinceLast,
    /// Start an error scrub, which reads only the blocks of the list of errors again, or resume a
    /// paused error scrub.
    StartErrors,
    /// Begin to resilver devices that lack something, anew if that is under way.
    Resilver,
    /// Wait until it is started again.
    Pause,
    /// Give it up.
    Stop,
}

/// A pool that was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Imported {
    /// Its name from now on.
    pub name: String,
    /// The moments between which everything was given up, in seconds since 1970: what it was
    /// brought back to, and what could not be opened.
    pub rewound: Option<(u64, u64)>,
    /// What logs seem to have lost, a line for each.
    #[serde(default)]
    pub lost: Vec<String>,
}

/// Who answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonStatus {
    /// Process.
    pub pid: u32,
    /// Version of the program.
    pub version: String,
    /// Seconds since it started.
    pub uptime_secs: u64,
    /// Names of open pools.
    pub pools: Vec<String>,
    /// Pools of the cache file that were not opened again, and why, as lines.
    #[serde(default)]
    pub failed: Vec<(String, Vec<String>)>,
    /// What is being changed.
    #[serde(default)]
    pub under_way: Vec<UnderWay>,
    /// The processes that hold pools. A daemon that holds all pools itself has none.
    #[serde(default)]
    pub processes: Vec<ProcessOfPool>,
}

/// A process that holds a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessOfPool {
    /// Pool.
    pub pool: String,
    /// Process.
    pub pid: u32,
}

/// A change that the daemon is at; others of the same pool wait for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnderWay {
    /// Pool.
    pub pool: String,
    /// In a word or two.
    pub what: String,
    /// For how long already, in milliseconds.
    pub millis: u64,
}
