//! Volumes: made, and given another size.
//!
//! ```text
//!  zfs create -V 10M ─► volblocksize: as typed, or what suits the pool's vdevs
//!                    ─► volsize: rounded up to whole blocks
//!                    ─► refreservation: as typed, none (-s), or all that the volume can come to take
//!  zfs set volsize=20M ─► refreservation follows where it was all that the volume could come to take
//! ```

use crate::create::{parsed_props, stored};
use crate::datasets::cannot_open;
use crate::held::Held;
use crate::props::{AUTO, Occasion, Value};
use crate::{Holder, nice, refusal};
use control::{DatasetCreate, DatasetKind, DatasetMade, Failure, FailureKind};
use dsl::PropValue;
use pool::VolumeSpec;

/// `volblocksize` below which OpenZFS warns (`ZVOL_DEFAULT_BLOCKSIZE`).
const BLOCK_DEFAULT_BYTES: u64 = 16 << 10;

const BLOCK: &str = "volblocksize";
const SIZE: &str = "volsize";
const RESERVED: &str = "refreservation";

/// A volume that is to be made.
pub struct NewVolume {
    pub spec: VolumeSpec,
    pub props: Vec<(String, PropValue)>,
    /// What whoever asked for it is told.
    pub made: DatasetMade,
}

impl NewVolume {
    /// What a request comes to in a pool.
    ///
    /// # Errors
    /// When a property does not make sense, or the size does not.
    pub fn read(
        held: &Held,
        call: &DatasetCreate,
        cannot: &dyn Fn(&str) -> Failure,
    ) -> Result<Self, Failure> {
        let parsed = parsed_props(&call.props, DatasetKind::Volume, Occasion::Creation, cannot)?;
        let number =
            |of: &str| parsed.iter().find(|(name, _)| name == of).and_then(|(_, value)| as_number(value));
        let (suitable, unit) = held.pool.suitable_block();
        let block_bytes = number(BLOCK).unwrap_or(suitable.into());
        let asked = number(SIZE).ok_or_else(|| cannot("missing volume size"))?;
        let size_bytes = asked.checked_next_multiple_of(block_bytes);
        let spec = VolumeSpec {
            size_bytes: size_bytes.ok_or_else(|| cannot("volume size exceeds limit for this system"))?,
            block_bytes: u32::try_from(block_bytes).map_err(|_| cannot("invalid volume block size"))?,
        };
        if asked == 0 {
            return Err(cannot("volume size cannot be zero"));
        }
        spec.check().map_err(|_| cannot("volume size exceeds limit for this system"))?;
        let mut made = DatasetMade { props: call.props.clone(), ..DatasetMade::default() };
        made.warnings.extend(warning(number(BLOCK), suitable.into(), unit));
        if number(BLOCK).is_none() && block_bytes != BLOCK_DEFAULT_BYTES {
            made.props.push((BLOCK.to_owned(), block_bytes.to_string()));
        }
        if spec.size_bytes != asked {
            made.props.retain(|(name, _)| name != SIZE);
            made.props.push((SIZE.to_owned(), spec.size_bytes.to_string()));
        }
        let room = held.pool.volume_room(spec.size_bytes, spec.block_bytes);
        let is_own = |(name, _): &(String, Value)| name != SIZE && name != BLOCK;
        let mut props: Vec<_> = parsed
            .iter()
            .filter(|prop| is_own(prop))
            .filter_map(|(name, value)| stored(value.clone()).map(|value| (name.clone(), value)))
            .collect();
        if let Some((_, value)) = props.iter_mut().find(|(name, _)| name == RESERVED) {
            if *value == PropValue::Number(AUTO) {
                *value = PropValue::Number(room);
            }
        } else if !call.sparse {
            props.push((RESERVED.to_owned(), PropValue::Number(room)));
            made.props.push((RESERVED.to_owned(), room.to_string()));
        }
        Ok(Self { spec, props, made })
    }
}

/// What OpenZFS says of blocks that waste space.
fn warning(asked: Option<u64>, suitable: u64, unit: u64) -> Option<String> {
    let block = asked?;
    if block < BLOCK_DEFAULT_BYTES {
        return Some(format!(
            "Warning: volblocksize ({block}) is less than the default minimum block size ({BLOCK_DEFAULT_BYTES}).\n\
             To reduce wasted space a volblocksize of {suitable} is recommended."
        ));
    }
    let wasted = 100 * unit.saturating_sub(block) / unit.max(1);
    (block < suitable).then(|| {
        format!(
            "Warning: volblocksize ({block}) is much less than the minimum allocation\n\
             unit ({unit}), which wastes at least {wasted}% of space. To reduce wasted space,\n\
             use a larger volblocksize ({suitable} is recommended), fewer dRAID data disks\n\
             per group, or smaller sector size (ashift)."
        )
    })
}

fn as_number(value: &Value) -> Option<u64> {
    if let Value::Number(number) = value { Some(*number) } else { None }
}

/// Changes of a volume's properties that belong together.
pub struct VolumeChanges {
    /// Its new size, if it gets one.
    pub size_bytes: Option<u64>,
    /// It becomes smaller: what is set aside for it follows, and does not go before.
    pub shrinks: bool,
    /// What is set on it otherwise.
    pub props: Vec<(String, PropValue)>,
}

impl Holder {
    /// What setting properties of a volume comes to.
    ///
    /// # Errors
    /// When the volume cannot have the size.
    pub(crate) async fn volume_changes(
        &self,
        held: &Held,
        name: &str,
        mut props: Vec<(String, PropValue)>,
        refuse: &(dyn Fn(&str) -> Failure + Sync),
    ) -> Result<VolumeChanges, Failure> {
        let volume = held.pool.volume(name).await.map_err(|e| refusal::pool("open", name, &e))?;
        let (old, block) = (volume.size_bytes(), volume.block_bytes());
        let size_bytes = props.iter().find(|(prop, _)| prop == SIZE).and_then(|(_, value)| value.number());
        props.retain(|(prop, _)| prop != SIZE);
        let room = |size| held.pool.volume_room(size, block);
        match (size_bytes, props.iter_mut().find(|(prop, _)| prop == RESERVED)) {
            (size, Some((_, value))) if *value == PropValue::Number(AUTO) => {
                *value = PropValue::Number(room(size.unwrap_or(old)));
            }
            (Some(size), None) if self.stored_number(held, name, RESERVED).await? == room(old) => {
                props.push((RESERVED.to_owned(), PropValue::Number(room(size))));
            }
            _ => {}
        }
        if let Some(size) = size_bytes {
            check_size(size, block).map_err(|reason| refuse(&reason))?;
            // Found out later, what is set aside would be changed already.
            if self.stored_number(held, name, "readonly").await? != 0 {
                return Err(refuse("dataset is read-only"));
            }
        }
        Ok(VolumeChanges { size_bytes, shrinks: size_bytes.is_some_and(|size| size < old), props })
    }

    /// `refreservation=auto` of what begins as the snapshot `of` a volume is.
    pub(crate) async fn settle_auto(
        &self,
        held: &Held,
        of: &str,
        props: &mut [(String, PropValue)],
    ) -> Result<(), Failure> {
        let auto = PropValue::Number(AUTO);
        if let Some((_, value)) = props.iter_mut().find(|(name, value)| name == RESERVED && *value == auto) {
            let volume = held.pool.volume(of).await.map_err(|e| refusal::pool("open", of, &e))?;
            *value = PropValue::Number(held.pool.volume_room(volume.size_bytes(), volume.block_bytes()));
        }
        Ok(())
    }

    /// A property that is a number, set here or above; 0 where nobody set it.
    async fn stored_number(&self, held: &Held, name: &str, property: &str) -> Result<u64, Failure> {
        let dataset = self.dataset(held, name).await?;
        let set = held.pool.dsl().props(&dataset).await.map_err(|e| cannot_open(name, e))?;
        Ok(set.iter().find(|prop| prop.name == property).and_then(|prop| prop.value.number()).unwrap_or(0))
    }

    /// Gives a volume another size.
    pub(crate) async fn resize(
        &self,
        held: &Held,
        name: &str,
        size_bytes: Option<u64>,
    ) -> Result<(), Failure> {
        let Some(size_bytes) = size_bytes else { return Ok(()) };
        let resized = held.pool.resize_volume(name, size_bytes).await;
        resized.map_err(|e| refusal::pool("set property for", name, &e).exits(255))
    }

    /// Makes a volume on behalf of `maker`.
    pub(crate) async fn make_volume(
        &self,
        held: &Held,
        name: &str,
        new: NewVolume,
        maker: u32,
    ) -> Result<DatasetMade, Failure> {
        let made = held.pool.create_volume_by(name, new.spec, new.props, maker).await;
        made.map_err(|e| refusal::pool("create", name, &e))?;
        Ok(new.made)
    }

    /// Refuses a parent that is no file system: datasets are below those only.
    pub(crate) async fn check_parent(&self, held: &Held, verb: &str, name: &str) -> Result<(), Failure> {
        let parent = crate::names::parent_of(name).unwrap_or(name);
        match self.nature_of(held, parent).await.kind {
            DatasetKind::Volume => {
                Err(Failure::cannot(FailureKind::Invalid, verb, name, "parent is not a filesystem"))
            }
            _ => Ok(()),
        }
    }
}

/// Whether what becomes as something else is can have these properties: it has a size already, and what is set aside for
/// it by itself is not known before. The reason if not.
pub fn check_copied(props: &[(String, PropValue)]) -> Result<(), String> {
    let auto = PropValue::Number(AUTO);
    match props.iter().find(|(name, value)| name == SIZE || name == RESERVED && *value == auto) {
        Some((name, _)) if name == SIZE => Err(format!("'{SIZE}' is readonly")),
        Some(_) => Err(format!("'auto' is invalid value for '{RESERVED}'")),
        None => Ok(()),
    }
}

/// Whether a volume that is there can have this size; the reason if not.
fn check_size(size_bytes: u64, block_bytes: u32) -> Result<(), String> {
    if !size_bytes.is_multiple_of(block_bytes.into()) {
        let block = nice::bytes(block_bytes.into());
        return Err(format!("'{SIZE}' must be a multiple of volume block size ({block})"));
    }
    if size_bytes == 0 {
        return Err(format!("'{SIZE}' cannot be zero"));
    }
    let spec = VolumeSpec { size_bytes, block_bytes };
    spec.check().map_err(|_| "volume size exceeds limit for this system".to_owned())
}
