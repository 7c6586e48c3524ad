//! What went wrong, as a number and in words.

use core::ffi::{CStr, c_char};

use pool_core::{AllocError, ConfigError, HandleError, ResizeError};

/// What the functions answer. Whatever is no success has changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Error {
    /// Success.
    None = 0,
    /// A pointer is null that must not be, or not aligned to its type.
    Pointer = 1,
    /// The pointer is not that of a range: none was created there, it has ended, or its storage was
    /// moved or overwritten.
    NoRange = 2,
    /// A call on this range is under way: an interrupt came into it, or the lock does not lock.
    Busy = 3,
    /// The lock has one function of two.
    Lock = 4,
    /// The granule is not a power of two of at least 16 bytes.
    Granule = 5,
    /// The capacity is less than one granule, or more than 2^32 of them.
    Capacity = 6,
    /// There is no placement with this number.
    Placement = 7,
    /// A span is not a power of two from 64 to 4096 granules, or small requests are not from one
    /// granule to half a span.
    Spans = 8,
    /// The tolerance is over 100 percent.
    Tolerance = 9,
    /// The storage is not aligned to `POOL_RANGE_STORAGE_ALIGN` bytes.
    StorageAlignment = 10,
    /// The storage is too small for even an empty range; or a machine's addresses are too few for
    /// as much as was asked about.
    StorageSize = 11,
    /// A size of zero.
    ZeroSize = 12,
    /// The alignment is not a power of two.
    Alignment = 13,
    /// There is no such option.
    Options = 14,
    /// The size, or the size at that alignment, is larger than the whole range.
    TooLarge = 15,
    /// No free block serves the request as things are.
    OutOfMemory = 16,
    /// A free block serves it, but the storage is full: there are as many blocks as it has room
    /// for.
    OutOfStorage = 17,
    /// The handle never named a block of this range.
    ForeignHandle = 18,
    /// The handle's block was freed.
    StaleHandle = 19,
    /// The block cannot grow to that size where it lies.
    NoRoom = 20,
    /// The offset is in no live block, or the walk has come to the end of the range.
    NoBlock = 21,
    /// The range is damaged: the program wrote into its storage, or the library has a fault.
    Damaged = 22,
}

/// What a call gives.
pub(crate) type Result<T> = core::result::Result<T, Error>;

impl From<ConfigError> for Error {
    fn from(error: ConfigError) -> Self {
        match error {
            ConfigError::Granule { .. } => Self::Granule,
            ConfigError::CapacityBelowGranule { .. } | ConfigError::CapacityTooLarge { .. } => {
                Self::Capacity
            }
            ConfigError::SpanSize { .. } | ConfigError::SmallLimit { .. } => Self::Spans,
            ConfigError::Tolerance { .. } => Self::Tolerance,
            // Too few nodes; a heap, which could be short too, there is not.
            _ => Self::StorageSize,
        }
    }
}

impl From<AllocError> for Error {
    fn from(error: AllocError) -> Self {
        match error {
            AllocError::ZeroSize => Self::ZeroSize,
            AllocError::Alignment { .. } => Self::Alignment,
            AllocError::TooLarge { .. } => Self::TooLarge,
            AllocError::OutOfMetadata(_) => Self::OutOfStorage,
            _ => Self::OutOfMemory,
        }
    }
}

impl From<HandleError> for Error {
    fn from(error: HandleError) -> Self {
        match error {
            HandleError::Foreign => Self::ForeignHandle,
            _ => Self::StaleHandle,
        }
    }
}

impl From<ResizeError> for Error {
    fn from(error: ResizeError) -> Self {
        match error {
            ResizeError::Handle(error) => error.into(),
            ResizeError::ZeroSize => Self::ZeroSize,
            _ => Self::NoRoom,
        }
    }
}

/// An error in words, in static memory; of a number that is none too.
#[unsafe(no_mangle)]
pub extern "C" fn pool_range_error_text(error: i32) -> *const c_char {
    let text: &CStr = match error {
        0 => c"success",
        1 => c"a pointer is null or not aligned",
        2 => c"no range is there",
        3 => c"a call on this range is under way",
        4 => c"a lock needs both functions",
        5 => c"the granule is not a power of two from 16 bytes",
        6 => c"the capacity is not from 1 to 2^32 granules",
        7 => c"there is no such placement",
        8 => {
            c"a span is a power of two from 64 to 4096 granules, small requests at most half of it"
        }
        9 => c"the tolerance is over 100 percent",
        10 => c"the storage is not aligned",
        11 => c"the storage is too small",
        12 => c"a size of zero",
        13 => c"the alignment is not a power of two",
        14 => c"there is no such option",
        15 => c"the size is larger than the whole range",
        16 => c"no free block serves the request",
        17 => c"the storage has no room for one more block",
        18 => c"the handle never named a block of this range",
        19 => c"the handle's block was freed",
        20 => c"the block cannot grow to that size where it lies",
        21 => c"no live block is there",
        22 => c"the range is damaged",
        _ => c"no such error",
    };
    text.as_ptr()
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::collections::HashSet;

    use super::*;

    fn text(error: i32) -> &'static str {
        // SAFETY: all texts are static and end with zero.
        unsafe { CStr::from_ptr(pool_range_error_text(error)) }.to_str().unwrap()
    }

    #[test]
    fn each_error_has_a_text_of_its_own() {
        let last = Error::Damaged as i32;
        let none = text(-1);
        let texts: HashSet<_> = (0..=last).map(text).collect();
        assert_eq!(texts.len(), (0..=last).count());
        assert!(!texts.contains(none));
        assert_eq!((text(last + 1), text(i32::MAX)), (none, none));
    }
}
