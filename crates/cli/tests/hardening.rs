//! What the linker made of the program: where its memory may be written to, and where code may be.
#![forbid(unsafe_code)]

use std::fs;

/// Facts about ELF files from elf(5).
const TYPE: usize = 16;
const PROGRAM_HEADERS: usize = 32;
const PROGRAM_HEADER_COUNT: usize = 56;
const PROGRAM_HEADER_BYTES: usize = 56;
const TYPE_SHARED: u16 = 3;
const LOAD: u32 = 1;
const DYNAMIC: u32 = 2;
const STACK: u32 = 0x6474_e551;
const READ_ONLY_AFTER_RELOCATION: u32 = 0x6474_e552;
const EXECUTE: u32 = 1;
const WRITE: u32 = 2;
const TAG_FLAGS: u64 = 30;
const FLAG_BIND_NOW: u64 = 8;

fn number<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("as many bytes")
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(number(bytes, at))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(number(bytes, at))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(number(bytes, at))
}

/// A part of the file that is mapped, or that says something about the mappings.
struct Segment {
    kind: u32,
    flags: u32,
    offset: usize,
    size: usize,
}

fn segments(file: &[u8]) -> Vec<Segment> {
    let first = u64_at(file, PROGRAM_HEADERS) as usize;
    let count = usize::from(u16_at(file, PROGRAM_HEADER_COUNT));
    let of = |nth: usize| {
        let at = first + nth * PROGRAM_HEADER_BYTES;
        Segment {
            kind: u32_at(file, at),
            flags: u32_at(file, at + 4),
            offset: u64_at(file, at + 8) as usize,
            size: u64_at(file, at + 32) as usize,
        }
    };
    (0..count).map(of).collect()
}

fn find(segments: &[Segment], kind: u32) -> &Segment {
    segments.iter().find(|segment| segment.kind == kind).expect("the program has such a segment")
}

#[test]
fn the_program_lies_anywhere_and_its_memory_is_never_written_and_run() {
    let file = fs::read(env!("CARGO_BIN_EXE_sawmill")).expect("the program");
    assert_eq!(&file[..4], b"\x7fELF");
    assert_eq!(u16_at(&file, TYPE), TYPE_SHARED, "it can be loaded at any address");
    let segments = segments(&file);
    assert_eq!(find(&segments, STACK).flags & EXECUTE, 0, "no code runs on the stack");
    let is_both = |segment: &&Segment| segment.flags & (WRITE | EXECUTE) == WRITE | EXECUTE;
    assert_eq!(segments.iter().filter(|segment| segment.kind == LOAD).filter(is_both).count(), 0);
    // Together: what the linker resolves is resolved at the start, and read-only afterwards.
    find(&segments, READ_ONLY_AFTER_RELOCATION);
    let dynamic = find(&segments, DYNAMIC);
    let entries = file[dynamic.offset..dynamic.offset + dynamic.size].chunks_exact(16);
    let flags = entries.filter(|entry| u64_at(entry, 0) == TAG_FLAGS).map(|entry| u64_at(entry, 8)).next();
    assert_ne!(flags.unwrap_or_default() & FLAG_BIND_NOW, 0, "all symbols are bound at the start");
}

/// Rust code checks its own bounds. The C library zstd reads blocks of strangers.
#[test]
fn the_c_code_of_the_program_guards_its_stack() {
    let file = fs::read(env!("CARGO_BIN_EXE_sawmill")).expect("the program");
    let guard = b"__stack_chk_fail";
    assert!(
        file.windows(guard.len()).any(|bytes| bytes == guard),
        "compiled without CFLAGS of .cargo/config.toml"
    );
}
