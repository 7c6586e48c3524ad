//! PyTorch's memory snapshot: a pickle, of protocol 2 to 5.
//!
//! The reader is a pickle machine of our own, because the existing crates build the
//! whole value first, and a snapshot of 5·10⁷ events with their stacks does not fit. This
//! one keeps of a value only what can still matter: events go to the trace as soon as
//! they are complete, stack frames and other strings are passed over as they are read,
//! and a remembered value (the pickle's memo) takes four bytes. What it holds in the
//! end is the trace, the addresses seen and the memo: under 200 bytes an event.
//!
//! It never builds an object and never calls anything: an opcode that would is refused,
//! by name and place. No length in the file is believed: nothing is allocated for
//! bytes that have not arrived, and nesting takes no recursion. Integers are
//! little-endian on every machine, as the format has it.

mod bytes;
mod error;
mod history;
mod machine;
mod memo;
mod opcode;
mod record;
mod stack;
mod value;
mod word;

use std::io::Read;

use super::{error::LogError, source::Bytes, trace::Trace};
pub use error::PickleError;

/// The first byte of every pickle from protocol 2 on.
pub(super) const MAGIC: u8 = opcode::PROTO;

/// Reads a snapshot into a trace of one device: `device`, or else the first one with
/// any event.
pub(super) fn read(bytes: Bytes<impl Read>, device: Option<u32>) -> Result<Trace, LogError> {
    let history = machine::run(bytes, history::History::new(device))?;
    history.finish()
}
