//! What is kept of a dict: an event, a block or a segment.

use super::{error::PickleError, frames::FrameId, value::Value, word::Word};

/// The values of a dict that matter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    /// Where in the file the dict begins.
    pub(super) offset: u64,
    /// What happened (an event's action) or is the case (a block's state).
    pub(super) action: Option<Word>,
    pub(super) address: Number,
    pub(super) size: Number,
    pub(super) requested_size: Number,
    pub(super) stream: Number,
    pub(super) time: Number,
    pub(super) device: Number,
    /// How much of the device was free, with a failure.
    pub(super) device_free: Number,
    /// The frame that says the most of where it was.
    pub(super) frame: FrameId,
    /// The program's own note, a text.
    pub(super) note: u32,
}

impl Record {
    pub(super) fn new(offset: u64) -> Self {
        Self {
            offset,
            action: None,
            address: Number::new("addr"),
            size: Number::new("size"),
            requested_size: Number::new("requested_size"),
            stream: Number::new("stream"),
            time: Number::new("time_us"),
            device: Number::new("device"),
            device_free: Number::new("device_free"),
            frame: FrameId::default(),
            note: 0,
        }
    }

    /// Takes up one pair of the dict; a key that means nothing is passed over.
    pub(super) fn set(&mut self, key: Word, value: Value) {
        match key {
            Word::Action | Word::State => {
                self.action = Some(if let Value::Word(word) = value { word } else { Word::Other });
            }
            Word::Address => self.address.set(value),
            Word::Size => self.size.set(value),
            Word::RequestedSize => self.requested_size.set(value),
            Word::Stream => self.stream.set(value),
            Word::Time => self.time.set(value),
            Word::Device => self.device.set(value),
            Word::DeviceFree => self.device_free.set(value),
            Word::Frames => {
                if let Value::Frames(frame) = value {
                    self.frame = frame;
                }
            }
            Word::UserMetadata => {
                if let Value::Text(text) = value {
                    self.note = text;
                }
            }
            _ => {}
        }
    }
}

/// A number of a dict, which is judged only where it is needed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number {
    key: &'static str,
    value: Found,
}

#[derive(Clone, Copy, Debug)]
enum Found {
    /// There is nothing under the key.
    Nothing,
    Number(u64),
    /// There is something other than a whole number from 0 to 2^64 - 1.
    Unfit,
}

impl Number {
    fn new(key: &'static str) -> Self {
        Self { key, value: Found::Nothing }
    }

    fn set(&mut self, value: Value) {
        self.value = match value {
            Value::Int(number) => Found::Number(number),
            _ => Found::Unfit,
        };
    }

    /// The number, which must be there.
    pub(super) fn need(self) -> Result<u64, PickleError> {
        self.optional()?.ok_or(PickleError::MissingKey { key: self.key })
    }

    /// The number; `None` if there is nothing under the key.
    pub(super) fn optional(self) -> Result<Option<u64>, PickleError> {
        match self.value {
            Found::Nothing => Ok(None),
            Found::Number(number) => Ok(Some(number)),
            Found::Unfit => Err(PickleError::BadNumber { key: self.key, max: u64::MAX }),
        }
    }

    /// The number, where it does no harm if there is none.
    pub(super) fn lenient(self) -> Option<u64> {
        match self.value {
            Found::Number(number) => Some(number),
            Found::Nothing | Found::Unfit => None,
        }
    }

    /// The number of a device; 0 if there is nothing under the key.
    pub(super) fn device(self) -> Result<u32, PickleError> {
        u32::try_from(self.optional()?.unwrap_or(0))
            .map_err(|_| PickleError::BadNumber { key: self.key, max: u64::from(u32::MAX) })
    }
}
