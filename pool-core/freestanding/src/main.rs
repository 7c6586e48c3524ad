//! A program without `std`, `alloc` and a heap: ranges of all placements in static storage.
//!
//! It ends with exit code 0 if every range kept its promises, else with the number of the
//! [`Fault`] and ten times the number of the placement. Of the C library it uses `abort`, and
//! what starts a program.

#![no_std]
#![no_main]

use core::ffi::{c_char, c_int};

use pool_core::{
    AllocError, Handle, Node, OffsetAllocator, Options, Placement, RangeConfig, Request,
    ResizeError,
};

/// The capacity of each range, a power of two so that buddy placement can hand it out whole.
const CAPACITY_BYTES: u64 = 64 << 20;
/// Live blocks at most.
const BLOCKS: u32 = 128;
/// Nodes enough for them under each placement.
const NODES: usize = 4096;
/// Words enough for some spans of the automatic size.
const SPAN_WORDS: usize = 8192;
/// Operations on each range.
const STEPS: u32 = 20_000;

#[link(name = "c")]
unsafe extern "C" {
    safe fn abort() -> !;
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    abort()
}

/// Named by the unwinding tables of `core` as it is delivered. A panic aborts, so nobody calls it.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {
    abort()
}

/// What went wrong.
#[derive(Clone, Copy)]
enum Fault {
    /// The storage is too small, or the configuration is refused.
    Config = 1,
    /// A request was refused that must be served, or the other way round.
    Allocate,
    /// A live block could not be freed, or a stale handle could.
    Free,
    /// A shrink failed, or a growth for another reason than room.
    Resize,
    /// The structure is not what its invariants say, or the books do not balance.
    Books,
}

/// Where the program starts. Called once, by the C runtime.
#[unsafe(no_mangle)]
extern "C" fn main(_arguments: c_int, _values: *const *const c_char) -> c_int {
    static mut NODE_STORAGE: [Node; NODES] = [Node::UNUSED; NODES];
    static mut SPAN_STORAGE: [u64; SPAN_WORDS] = [0; SPAN_WORDS];
    let (nodes, span_words) = (&raw mut NODE_STORAGE, &raw mut SPAN_STORAGE);
    // SAFETY: only this function names the storage, and it runs once.
    let (nodes, span_words) = unsafe { (&mut *nodes, &mut *span_words) };

    for (number, placement) in
        (0..).zip([Placement::BestFit, Placement::FirstFit, Placement::Buddy])
    {
        if let Err(fault) = exercise(placement, nodes, span_words) {
            return 10 * number + fault as c_int;
        }
    }
    0
}

/// Allocates, frees and resizes at random, verifies, and demands the whole range at the end.
fn exercise(placement: Placement, nodes: &mut [Node], span_words: &mut [u64]) -> Result<(), Fault> {
    let config = RangeConfig::new(CAPACITY_BYTES).placement(placement);
    let mut range =
        OffsetAllocator::in_storage(&config, nodes, span_words).map_err(|_| Fault::Config)?;
    let mut live: [Option<Handle>; BLOCKS as usize] = [None; BLOCKS as usize];
    let mut random = Random(1);

    for step in 0..STEPS {
        let place = random.below(BLOCKS) as usize;
        match live[place] {
            None => {
                let request = random.request();
                let fits = range.fits(request);
                match range.allocate(request) {
                    Ok(block) if fits => live[place] = Some(block.handle()),
                    Err(AllocError::OutOfMemory { .. }) if !fits => {}
                    _ => return Err(Fault::Allocate),
                }
            }
            Some(handle) if random.below(4) == 0 => {
                match range.resize(handle, random.size_bytes(2 << 20)) {
                    Ok(_) | Err(ResizeError::NoRoom { .. }) => {}
                    Err(_) => return Err(Fault::Resize),
                }
            }
            Some(handle) => {
                range.free(handle).map_err(|_| Fault::Free)?;
                if range.free(handle).is_ok() {
                    return Err(Fault::Free);
                }
                live[place] = None;
            }
        }
        if step % 64 == 0 {
            range.verify().map_err(|_| Fault::Books)?;
        }
    }

    for handle in live.into_iter().flatten() {
        range.free(handle).map_err(|_| Fault::Free)?;
    }
    range.verify().map_err(|_| Fault::Books)?;
    if range.stats().live_blocks != 0 || range.stats().free_bytes != CAPACITY_BYTES {
        return Err(Fault::Books);
    }
    let whole = range.allocate(CAPACITY_BYTES).map_err(|_| Fault::Allocate)?;
    if whole.offset_bytes() == 0 { Ok(()) } else { Err(Fault::Books) }
}

/// Numbers that look random, the same in each run.
struct Random(u32);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0 % bound
    }

    /// From one byte to `most_bytes`.
    fn size_bytes(&mut self, most_bytes: u32) -> u64 {
        u64::from(self.below(most_bytes)) + 1
    }

    /// Small sizes and large ones, now and then aligned or at the high end.
    fn request(&mut self) -> Request {
        let most_bytes = if self.below(2) == 0 { 16 << 10 } else { 2 << 20 };
        let request = Request::new(self.size_bytes(most_bytes));
        match self.below(4) {
            0 => request.align_bytes(64 << 10),
            1 => request.options(Options::HIGH_END),
            _ => request,
        }
    }
}
