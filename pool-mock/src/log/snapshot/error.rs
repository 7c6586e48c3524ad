//! What can be wrong with a snapshot.

/// What is wrong with a snapshot, at the byte that [`LogError::Pickle`] names.
///
/// [`LogError::Pickle`]: super::super::LogError::Pickle
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PickleError {
    /// The bytes end before the pickle does.
    #[error("the pickle is cut short here")]
    Cut,
    /// A protocol that is not read.
    #[error("pickle protocol {protocol}; 2 to 5 can be read")]
    Protocol {
        /// The protocol that the pickle claims.
        protocol: u8,
    },
    /// An opcode that no protocol up to 5 has.
    #[error("unknown opcode {byte:#04x}")]
    UnknownOpcode {
        /// Its byte.
        byte: u8,
    },
    /// An opcode that a snapshot has no use for: it would build or call an object, read
    /// a buffer from elsewhere, or is of protocol 0.
    #[error("opcode {opcode} is not supported in a snapshot")]
    Unsupported {
        /// Its name.
        opcode: &'static str,
    },
    /// A length that is negative.
    #[error("a negative length, {length}")]
    NegativeLength {
        /// The length.
        length: i32,
    },
    /// A frame that begins inside another, or an opcode that runs past its frame.
    #[error("frames that do not fit together")]
    BadFrame,
    /// An opcode takes more values than there are.
    #[error("an opcode takes a value that is not there")]
    MissingValue,
    /// An opcode reads a value from the memo that was never put there.
    #[error("nothing is remembered under number {index}")]
    NotRemembered {
        /// The number.
        index: u32,
    },
    /// More values are open at once than a snapshot can need.
    #[error("nested too deep")]
    TooDeep,
    /// A number that does not fit where it stands.
    #[error("the value of {key:?} is not a whole number from 0 to {max}")]
    BadNumber {
        /// The key that it stands under.
        key: &'static str,
        /// The largest number that is read there.
        max: u64,
    },
    /// An event or block lacks a value that is needed.
    #[error("no value for {key:?}")]
    MissingKey {
        /// Its key.
        key: &'static str,
    },
    /// A well-formed pickle of something else.
    #[error("not a memory snapshot: {what}")]
    NotASnapshot {
        /// In what it differs.
        what: &'static str,
    },
}
