//! One request as it came from the kernel.

use rustix::io::Errno;
use units::ObjectId;
use zerocopy::{FromBytes, Immutable, KnownLayout};
use zpl::Cred;

use crate::abi::{InHeader, ReadIn, WRITE_CACHE, WriteIn, opcode};
use crate::attr::Inodes;
use crate::data::handle_epoch;
use crate::handshake::REQUEST_BYTES;

/// A request's header, and the rest of its body as far as it has not been read.
pub(crate) struct Request<'a> {
    pub header: InHeader,
    body: &'a [u8],
    /// What comes behind the body, where the kernel does not put both into one place.
    rest: &'a [u8],
    inodes: Inodes,
}

impl<'a> Request<'a> {
    /// # Errors
    /// When it is shorter than it says.
    pub fn parse(bytes: &'a [u8], inodes: Inodes) -> Result<Self, Errno> {
        let (header, body) = InHeader::read_from_prefix(bytes).map_err(|_| Errno::IO)?;
        if header.len as usize != bytes.len() {
            return Err(Errno::IO);
        }
        Ok(Self::new(header, body, &[], inodes))
    }

    /// One whose body lies in two places: what the operation begins with, and the names or data behind that.
    pub fn new(header: InHeader, body: &'a [u8], rest: &'a [u8], inodes: Inodes) -> Self {
        Self { header, body, rest, inodes }
    }

    /// What has not been read yet, as far as it lies in one place.
    fn left(&mut self) -> &'a [u8] {
        if self.body.is_empty() {
            self.body = std::mem::take(&mut self.rest);
        }
        self.body
    }

    /// The same request to the file system whose numbers these are.
    pub fn put_to(&mut self, inodes: Inodes) {
        self.inodes = inodes;
    }

    /// Whether the next name is this one.
    pub fn is_next(&self, name: &[u8]) -> bool {
        let left = if self.body.is_empty() { self.rest } else { self.body };
        left.strip_prefix(name).is_some_and(|rest| rest.first() == Some(&0))
    }

    /// The object that the request is about.
    pub fn object(&self) -> ObjectId {
        self.inodes.object(self.header.nodeid)
    }

    /// The next structure of the body.
    ///
    /// # Errors
    /// When the body ends before.
    pub fn take<T: FromBytes + KnownLayout + Immutable>(&mut self) -> Result<T, Errno> {
        let (value, rest) = T::read_from_prefix(self.left()).map_err(|_| Errno::IO)?;
        self.body = rest;
        Ok(value)
    }

    /// What is to be read, and no more than was agreed upon.
    ///
    /// # Errors
    /// When the body ends before.
    pub fn take_read(&mut self) -> Result<ReadIn, Errno> {
        let args: ReadIn = self.take()?;
        Ok(ReadIn { size: args.size.min(REQUEST_BYTES), ..args })
    }

    /// The next name, which a zero byte ends.
    ///
    /// # Errors
    /// When none does.
    pub fn name(&mut self) -> Result<&'a [u8], Errno> {
        let left = self.left();
        let end = left.iter().position(|&byte| byte == 0).ok_or(Errno::IO)?;
        let (name, rest) = left.split_at(end);
        self.body = &rest[1..];
        Ok(name)
    }

    /// The next `len` bytes.
    ///
    /// # Errors
    /// When there are fewer.
    pub fn bytes(&mut self, len: u32) -> Result<&'a [u8], Errno> {
        let (bytes, rest) = self.left().split_at_checked(len as usize).ok_or(Errno::IO)?;
        self.body = rest;
        Ok(bytes)
    }

    /// The most that the answer's body may have, where the asker says so; others are short.
    pub fn answer_bytes(&self) -> usize {
        match self.header.opcode {
            opcode::READ | opcode::READDIR | opcode::READDIRPLUS => {
                ReadIn::read_from_prefix(self.body).map_or(0, |(args, _)| args.size as usize)
            }
            _ => 0,
        }
    }

    /// True for a write of pages from the kernel's cache.
    pub fn is_written_back(&self) -> bool {
        let args = WriteIn::read_from_prefix(self.body).map(|(args, _)| args);
        args.is_ok_and(|args| args.write_flags & WRITE_CACHE != 0)
    }

    /// Returns the epoch of the handle in the request.
    pub fn handle_epoch(&self) -> Option<u32> {
        match self.header.opcode {
            opcode::READ
            | opcode::WRITE
            | opcode::FSYNC
            | opcode::FALLOCATE
            | opcode::LSEEK
            | opcode::RELEASE => {}
            opcode::IOCTL | opcode::COPY_FILE_RANGE => {}
            _ => return None,
        }
        u64::read_from_prefix(self.body).ok().map(|(handle, _)| handle_epoch(handle))
    }

    /// Who asks for something new. Other requests do not tell: the kernel checks them, and where it may show a mount
    /// with other ids (`FUSE_ALLOW_IDMAP`) it leaves the ids out.
    pub fn cred(&self, umask: u32) -> Cred {
        Cred { uid: self.header.uid, gid: self.header.gid, umask }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::{InHeader, RenameIn};
    use crate::attr::Fsid;
    use zerocopy::IntoBytes;

    fn request(body: &[u8], len: usize) -> Vec<u8> {
        let header = InHeader { len: len as u32, nodeid: 1, ..InHeader::default() };
        [header.as_bytes(), body].concat()
    }

    fn parse(bytes: &[u8]) -> Result<Request<'_>, Errno> {
        Request::parse(bytes, Inodes { root: ObjectId::new(34), fsid: Fsid::LIVE })
    }

    #[test]
    fn a_request_is_read_piece_by_piece() {
        let body = [RenameIn { newdir: 7 }.as_bytes(), b"from\0to\0"].concat();
        let bytes = request(&body, 40 + body.len());
        let mut request = parse(&bytes).expect("whole");
        assert_eq!(request.object(), ObjectId::new(34));
        assert_eq!(request.take::<RenameIn>().expect("there").newdir, 7);
        assert_eq!((request.name(), request.name()), (Ok(b"from".as_slice()), Ok(b"to".as_slice())));
        assert_eq!(request.name(), Err(Errno::IO));
    }

    #[test]
    fn a_body_in_two_places_is_read_on_where_the_first_ends() {
        let operation = RenameIn { newdir: 7 };
        let inodes = Inodes { root: ObjectId::new(34), fsid: Fsid::LIVE };
        let mut request = Request::new(InHeader::default(), operation.as_bytes(), b"from\0to\0", inodes);
        assert_eq!(request.take::<RenameIn>().expect("there").newdir, 7);
        assert_eq!((request.name(), request.bytes(2)), (Ok(b"from".as_slice()), Ok(b"to".as_slice())));
        let mut request = Request::new(InHeader::default(), b"", b"name\0", inodes);
        assert_eq!(request.name(), Ok(b"name".as_slice()));
        let mut request = Request::new(InHeader::default(), b"1234", b"5678", inodes);
        assert_eq!(request.take::<RenameIn>().expect_err("a structure lies in one place"), Errno::IO);
    }

    #[test]
    fn a_request_that_ends_early_is_an_error() {
        assert!(parse(&[0; 39]).is_err());
        assert!(parse(&request(b"", 41)).is_err());
        let bytes = request(b"name without an end", 59);
        let mut request = parse(&bytes).expect("whole");
        assert_eq!(request.name(), Err(Errno::IO));
        assert!(request.bytes(20).is_err());
        assert!(request.take::<crate::abi::SetattrIn>().is_err());
    }
}
