//! PyTorch's memory snapshot: a pickle, of protocol 2 to 5; written in 4.
//!
//! The reader is a pickle machine of our own, because the existing crates build the
//! whole value first, and a snapshot of 5·10⁷ events with their stacks does not fit. This
//! one keeps of a value only what can still matter: events go to the trace as soon as
//! they are complete, of a stack only the frame that says the most stays, each frame once,
//! other strings are passed over as they are read, and a remembered value (the pickle's memo)
//! takes four bytes. What it holds in the end is the trace, the frames, the addresses seen and
//! the memo: under 200 bytes an event, beside the frames.
//!
//! It never builds an object and never calls anything: an opcode that would is refused,
//! by name and place. No length in the file is believed: nothing is allocated for
//! bytes that have not arrived, and nesting takes no recursion. Integers are
//! little-endian on every machine, as the format has it.
//!
//! [`Writer`] writes what PyTorch's viewers take: the one in a browser knows few opcodes, and
//! assumes that every block lies in a segment.

mod bytes;
mod error;
mod frames;
mod history;
mod machine;
mod memo;
mod opcode;
mod pickler;
mod recode;
mod record;
mod segments;
mod stack;
mod value;
mod word;
mod writer;

use std::io::{Read, Write};

use self::{history::History, recode::Recoded};
use super::{
    builder::{Builder, Source},
    convert::ConvertError,
    error::{LogError, Progress},
    recording::{Keep, Recording},
    source::Bytes,
};
pub use error::PickleError;
pub use writer::Writer;

/// The first byte of every pickle from protocol 2 on.
pub(super) const MAGIC: u8 = opcode::PROTO;

/// Reads a snapshot into a trace of one device: `device`, or else the first one with
/// any event.
pub(super) fn read(
    bytes: Bytes<impl Read>,
    device: Option<u32>,
    keep: Keep,
) -> Result<Recording, LogError> {
    let builder = Builder::new(Source::Snapshot, keep);
    let history = machine::run(bytes, History::new(builder, device))?;
    history.finish()
}

/// Copies a snapshot in opcodes that PyTorch's viewers know, and gives its operations.
pub(super) fn copy(bytes: Bytes<impl Read>, to: impl Write) -> Result<Recording, ConvertError> {
    let mut recoded = Recoded::new(bytes, to);
    let builder = Builder::new(Source::Snapshot, Keep::Operations);
    let history = machine::run(&mut recoded, History::new(builder, None));
    let history = history.map_err(|error| match recoded.take_fault() {
        None => ConvertError::Log(error),
        Some(recode::Fault::Write(error)) => ConvertError::Write(error),
        Some(recode::Fault::Pickle(offset, source)) => {
            ConvertError::Log(LogError::Pickle { offset, events: events(&error), source })
        }
    })?;
    recoded.flush()?;
    Ok(history.finish()?)
}

/// How many events were read before an error of the reader.
fn events(error: &LogError) -> u64 {
    match error {
        LogError::Io { read: Progress::Events(events), .. } => *events,
        _ => 0,
    }
}
