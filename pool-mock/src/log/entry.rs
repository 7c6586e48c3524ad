//! One entry of a log, as either format can hold it.

/// What a program did with memory, when, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// What was done.
    pub step: Step,
    /// The raw handle of the stream.
    pub stream: u64,
    /// The raw number of the host thread; 0 where it is not known.
    pub thread: u64,
    /// Microseconds: since 1970 in a snapshot, since midnight before the first row (local time)
    /// in a CSV log. `None` where it is not known.
    pub time_us: Option<u64>,
    /// What in the program asked for it.
    pub label: Option<&'a str>,
}

/// What an [`Entry`] records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Memory was handed out.
    Allocate {
        /// Where.
        address: u64,
        /// The bytes asked for, unrounded.
        size_bytes: u64,
    },
    /// Memory was given back.
    Free {
        /// Where.
        address: u64,
        /// The bytes that were asked for.
        size_bytes: u64,
    },
    /// A request was refused.
    Failure {
        /// The bytes asked for.
        size_bytes: u64,
        /// How much of the device was free, if that is known.
        device_free_bytes: Option<u64>,
    },
}
