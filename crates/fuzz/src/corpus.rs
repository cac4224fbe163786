//! What OpenZFS wrote, by kind.
//!
//! Every golden pool on plain files and mirrors is walked, from labels to the last object. Of each
//! kind the corpus keeps the first few of each length: thousands of alike dnodes teach nothing new.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;

use ondisk::config;
use ondisk::{ByteSwap, DnodeImage, DslDatasetPhys, ObjectType, ObjsetPhys, ZilHeader};
use oracle::golden;
use oracle::image::{Image, label_config, uberblocks};
use units::Ashift;
use zerocopy::IntoBytes;

/// What a piece of the corpus is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The configuration part of a label.
    Label,
    /// An nvlist, in XDR or native form.
    NvList,
    /// An uberblock slot.
    Uberblock,
    /// An objset block.
    Objset,
    /// A block of dnodes.
    Dnodes,
    /// Blkptrs: an indirect block or a list.
    Blkptrs,
    /// A bonus of the MOS.
    Bonus,
    /// A bonus or spill block of system attributes, or an old znode.
    Attributes,
    /// A block of a ZAP.
    Zap,
    /// A space map.
    SpaceMap,
    /// The history.
    History,
    /// A log block.
    Log,
    /// Records of a send stream, from its start.
    Stream,
    /// A compressed block: the number of its compression, its size in sectors, its bytes.
    Packed,
}

/// Kept of one kind and length, at most.
const ALIKE_MAX: usize = 6;
/// Kept of a send stream.
const STREAM_BYTES: usize = 12 << 10;
/// Kept of one kind, at most.
const KIND_MAX: usize = 400;

/// Samples by kind.
#[derive(Debug, Default)]
pub struct Corpus {
    samples: BTreeMap<Kind, Vec<Vec<u8>>>,
    alike: BTreeMap<(Kind, usize), usize>,
    known: BTreeSet<(Kind, Vec<u8>)>,
}

impl Corpus {
    /// That of the golden pools.
    #[must_use]
    pub fn golden() -> Self {
        let mut corpus = Self::default();
        for name in golden::names() {
            corpus.add_pool(&name);
        }
        corpus.add_streams();
        corpus.known.clear();
        corpus
    }

    /// The beginnings of the streams that OpenZFS sent.
    fn add_streams(&mut self) {
        for path in golden::images("g30-streams") {
            if path.extension().is_some_and(|extension| extension == "zstream") {
                let stream = std::fs::read(&path).expect("a golden stream can be read");
                self.add(Kind::Stream, &stream[..stream.len().min(STREAM_BYTES)]);
            }
        }
    }

    /// The samples of one kind.
    #[must_use]
    pub fn of(&self, kind: Kind) -> Vec<&[u8]> {
        self.samples.get(&kind).into_iter().flatten().map(Vec::as_slice).collect()
    }

    fn add(&mut self, kind: Kind, bytes: &[u8]) {
        let alike = self.alike.entry((kind, bytes.len())).or_default();
        let samples = self.samples.entry(kind).or_default();
        let wanted = !bytes.is_empty() && *alike < ALIKE_MAX && samples.len() < KIND_MAX;
        if wanted && self.known.insert((kind, bytes.to_vec())) {
            *alike += 1;
            samples.push(bytes.to_vec());
        }
    }

    fn add_pool(&mut self, name: &str) {
        let images = golden::images(name);
        for path in &images {
            self.add_labels(&File::open(path).expect("the image is there"));
        }
        let Some(image) = Image::open(&images) else { return };
        let mut objsets = vec![image.uberblock.rootbp];
        while let Some(bp) = objsets.pop() {
            self.add_objset(&image, &bp, &mut objsets);
        }
    }

    fn add_labels(&mut self, file: &File) {
        let (part, list) = label_config(file, 0);
        self.add(Kind::Label, &part);
        self.add(Kind::NvList, &list.encode());
        self.add(Kind::NvList, &list.encode_native());
        let top = list.lookup_nvlist(config::VDEV_TREE).expect("every label has it");
        let ashift = top.lookup_u64(config::ASHIFT).expect("every vdev has it");
        for uberblock in uberblocks(file, 0, Ashift::new(ashift as u8)) {
            self.add(Kind::Uberblock, &uberblock.encode_slot(1024, [0; 4]));
        }
    }

    fn add_objset(&mut self, image: &Image, bp: &ondisk::Blkptr, objsets: &mut Vec<ondisk::Blkptr>) {
        let Ok(block) = image.read(bp) else { return };
        self.add(Kind::Objset, &block);
        let objset = ObjsetPhys::decode(&block).expect("OpenZFS wrote it");
        self.add_log(image, &objset.zil_header);
        for (_, slots) in image.objects(bp) {
            self.add(Kind::Dnodes, &slots);
            let dnode = DnodeImage::decode(&slots).expect("OpenZFS wrote it");
            if dnode.bonus_type == ObjectType::DSL_DATASET {
                let dataset = DslDatasetPhys::decode(&dnode.bonus).expect("OpenZFS wrote it");
                objsets.extend(Some(dataset.bp).filter(|bp| !bp.is_hole()));
            }
            self.add_object(image, &dnode);
        }
    }

    fn add_log(&mut self, image: &Image, header: &ZilHeader) {
        if !header.log.is_hole() {
            self.add(Kind::Log, &image.raw(&header.log));
        }
    }

    fn add_object(&mut self, image: &Image, dnode: &DnodeImage) {
        let is_file = matches!(dnode.bonus_type, ObjectType::SA | ObjectType::ZNODE);
        self.add(if is_file { Kind::Attributes } else { Kind::Bonus }, &dnode.bonus);
        self.add(Kind::Blkptrs, dnode.blkptrs.as_bytes());
        if let Some(Ok(spill)) = dnode.spill.map(|bp| image.read(&bp)) {
            self.add(Kind::Attributes, &spill);
        }
        let kind = match dnode.object_type {
            ObjectType::SPACE_MAP => Some(Kind::SpaceMap),
            ObjectType::SPA_HISTORY => Some(Kind::History),
            ObjectType::PACKED_NVLIST => Some(Kind::NvList),
            ObjectType::BPOBJ => Some(Kind::Blkptrs),
            other => other.props().filter(|props| props.byte_swap == ByteSwap::Zap).map(|_| Kind::Zap),
        };
        image.blocks(dnode, &mut |_, bp| {
            self.add_packed(image, bp);
            if let (Some(kind), Ok(block)) = (kind, image.read(bp)) {
                self.add(kind, &block);
            }
        });
    }

    fn add_packed(&mut self, image: &Image, bp: &ondisk::Blkptr) {
        let sectors = u16::try_from(bp.lsize().get() / units::SECTOR_BYTES).unwrap_or(u16::MAX);
        let kind = bp.compression().expect("checked").raw();
        let stored = match bp.embedded_payload() {
            Ok(payload) if bp.is_embedded() => payload,
            _ => image.raw(bp),
        };
        let mut packed = vec![kind];
        packed.extend(sectors.to_le_bytes());
        packed.extend(stored);
        self.add(Kind::Packed, &packed);
    }
}
