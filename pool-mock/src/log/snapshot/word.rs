//! The strings that mean something in a snapshot. Any other is just a string.

/// A string, as far as it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Word {
    Other,
    Segments,
    DeviceTraces,
    Blocks,
    Device,
    Address,
    Size,
    RequestedSize,
    Stream,
    Time,
    State,
    Action,
    Alloc,
    FreeRequested,
    FreeCompleted,
    OutOfMemory,
    /// An action that changes nothing for the program, such as `segment_alloc`.
    Upkeep,
    ActiveAllocated,
    Frames,
    FileName,
    Name,
    Line,
    UserMetadata,
    DeviceFree,
}

/// The longest string that means something.
pub(super) const MAX_BYTES: usize = 16;

impl Word {
    /// All of them, by the number that `as u8` gives.
    const ALL: [Self; 24] = [
        Self::Other,
        Self::Segments,
        Self::DeviceTraces,
        Self::Blocks,
        Self::Device,
        Self::Address,
        Self::Size,
        Self::RequestedSize,
        Self::Stream,
        Self::Time,
        Self::State,
        Self::Action,
        Self::Alloc,
        Self::FreeRequested,
        Self::FreeCompleted,
        Self::OutOfMemory,
        Self::Upkeep,
        Self::ActiveAllocated,
        Self::Frames,
        Self::FileName,
        Self::Name,
        Self::Line,
        Self::UserMetadata,
        Self::DeviceFree,
    ];

    pub(super) fn of(text: &[u8]) -> Self {
        match text {
            b"segments" => Self::Segments,
            b"device_traces" => Self::DeviceTraces,
            b"blocks" => Self::Blocks,
            b"device" => Self::Device,
            b"addr" | b"address" => Self::Address,
            b"size" => Self::Size,
            b"requested_size" => Self::RequestedSize,
            b"stream" => Self::Stream,
            b"time_us" => Self::Time,
            b"state" => Self::State,
            b"action" => Self::Action,
            b"alloc" => Self::Alloc,
            b"free_requested" => Self::FreeRequested,
            b"free_completed" => Self::FreeCompleted,
            b"oom" => Self::OutOfMemory,
            b"segment_alloc" | b"segment_free" | b"segment_map" | b"segment_unmap"
            | b"snapshot" => Self::Upkeep,
            b"active_allocated" => Self::ActiveAllocated,
            b"frames" => Self::Frames,
            b"filename" => Self::FileName,
            b"name" => Self::Name,
            b"line" => Self::Line,
            b"user_metadata" => Self::UserMetadata,
            b"device_free" => Self::DeviceFree,
            _ => Self::Other,
        }
    }

    pub(super) fn from_number(number: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_places() {
        for (number, word) in (0..).zip(Word::ALL) {
            assert_eq!(word as u32, number);
            assert_eq!(Word::from_number(number), Some(word));
        }
        assert_eq!(Word::of(b"active_allocated"), Word::ActiveAllocated);
        assert_eq!(b"active_allocated".len(), MAX_BYTES);
    }
}
