//! A pickle in the opcodes that PyTorch's viewers know: every value stays as it is.
//!
//! The viewer in a browser takes protocols 2 to 4 and few opcodes of them, where Python writes
//! protocol 5 by now. For a snapshot there is hardly a difference but the number: frames, which
//! only say how much to read at once, are left away, and lengths are written as the viewer
//! reads them.

use std::io::{self, Read, Write};

use super::{error::PickleError, opcode as op};

/// Copies what is read, recoded, on its way to whoever reads.
pub(super) struct Recoded<R, W> {
    inner: R,
    writer: W,
    state: State,
    /// How many bytes came before the current opcode.
    offset: u64,
    /// Why it did not go on; the reader above knows only `io::Error`.
    fault: Option<Fault>,
}

/// Why a pickle is not recoded.
pub(super) enum Fault {
    Write(io::Error),
    /// The opcode at this byte has no other form.
    Pickle(u64, PickleError),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

/// Where in the pickle we are.
enum State {
    Opcode,
    /// In the operand of an opcode, of so many bytes.
    Operand {
        opcode: u8,
        operand: [u8; 8],
        have: usize,
        need: usize,
    },
    /// In what follows an operand that is a length.
    Payload {
        left: u64,
    },
    /// Behind the end.
    Ended,
}

impl<R, W: Write> Recoded<R, W> {
    pub(super) fn new(inner: R, writer: W) -> Self {
        Self { inner, writer, state: State::Opcode, offset: 0, fault: None }
    }

    pub(super) fn take_fault(&mut self) -> Option<Fault> {
        self.fault.take()
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }

    fn push(&mut self, mut bytes: &[u8]) -> Result<(), Fault> {
        while let Some((&byte, rest)) = bytes.split_first() {
            match &mut self.state {
                State::Opcode => {
                    bytes = rest;
                    self.begin(byte)?;
                }
                State::Operand { opcode, operand, have, need } => {
                    bytes = rest;
                    if let Some(place) = operand.get_mut(*have) {
                        *place = byte;
                    }
                    *have += 1;
                    if have == need {
                        let (opcode, operand, need) = (*opcode, *operand, *need);
                        self.end(opcode, operand.get(..need).unwrap_or(&operand))?;
                        self.offset += 1 + need as u64;
                    }
                }
                State::Payload { left } => {
                    let count = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                    let (payload, rest) = bytes.split_at(count);
                    self.writer.write_all(payload)?;
                    bytes = rest;
                    self.offset += count as u64;
                    *left -= count as u64;
                    if *left == 0 {
                        self.state = State::Opcode;
                    }
                }
                State::Ended => return Ok(()),
            }
        }
        Ok(())
    }

    /// Takes an opcode up.
    fn begin(&mut self, opcode: u8) -> Result<(), Fault> {
        let need = match opcode {
            op::PROTO
            | op::BININT1
            | op::LONG1
            | op::SHORT_BINUNICODE
            | op::BINGET
            | op::BINPUT => 1,
            op::BININT2 => 2,
            op::BININT | op::LONG4 | op::BINUNICODE | op::LONG_BINGET | op::LONG_BINPUT => 4,
            op::FRAME | op::BINFLOAT | op::BINUNICODE8 => 8,
            op::MARK
            | op::NONE
            | op::NEWTRUE
            | op::NEWFALSE
            | op::EMPTY_DICT
            | op::EMPTY_LIST
            | op::EMPTY_TUPLE
            | op::DICT
            | op::LIST
            | op::TUPLE
            | op::TUPLE1
            | op::TUPLE2
            | op::TUPLE3
            | op::SETITEM
            | op::SETITEMS
            | op::APPEND
            | op::APPENDS
            | op::MEMOIZE
            | op::STOP => 0,
            byte => {
                let known = op::refused(byte).or_else(|| unviewable(byte));
                let error = known.map_or(PickleError::UnknownOpcode { byte }, |opcode| {
                    PickleError::Unsupported { opcode }
                });
                return Err(Fault::Pickle(self.offset, error));
            }
        };
        if need > 0 {
            self.state = State::Operand { opcode, operand: [0; 8], have: 0, need };
            return Ok(());
        }
        self.writer.write_all(&[opcode])?;
        self.offset += 1;
        if opcode == op::STOP {
            self.state = State::Ended;
        }
        Ok(())
    }

    /// Writes an opcode with its operand.
    fn end(&mut self, opcode: u8, operand: &[u8]) -> Result<(), Fault> {
        let number = operand.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
        let mut payload = 0;
        match opcode {
            op::PROTO => self.writer.write_all(&[op::PROTO, super::pickler::PROTOCOL])?,
            op::FRAME => {}
            op::LONG1 | op::LONG4 => {
                payload = number;
                let length = u8::try_from(number).map_err(|_| self.too_long("LONG4"))?;
                self.writer.write_all(&[op::LONG1, length])?;
            }
            op::SHORT_BINUNICODE => {
                payload = number;
                self.copy(opcode, operand)?;
            }
            op::BINUNICODE | op::BINUNICODE8 => {
                payload = number;
                let length = u32::try_from(number).map_err(|_| self.too_long("BINUNICODE8"))?;
                self.copy(op::BINUNICODE, &length.to_le_bytes())?;
            }
            _ => self.copy(opcode, operand)?,
        }
        self.state = if payload > 0 { State::Payload { left: payload } } else { State::Opcode };
        Ok(())
    }

    fn copy(&mut self, opcode: u8, operand: &[u8]) -> io::Result<()> {
        self.writer.write_all(&[opcode])?;
        self.writer.write_all(operand)
    }

    fn too_long(&self, opcode: &'static str) -> Fault {
        Fault::Pickle(self.offset, PickleError::Unsupported { opcode })
    }
}

/// The name of an opcode that the reader takes and the viewers do not.
fn unviewable(byte: u8) -> Option<&'static str> {
    Some(match byte {
        op::POP => "POP",
        op::POP_MARK => "POP_MARK",
        op::DUP => "DUP",
        op::BINBYTES => "BINBYTES",
        op::SHORT_BINBYTES => "SHORT_BINBYTES",
        op::BINBYTES8 => "BINBYTES8",
        op::BYTEARRAY8 => "BYTEARRAY8",
        op::BINSTRING => "BINSTRING",
        op::SHORT_BINSTRING => "SHORT_BINSTRING",
        op::EMPTY_SET => "EMPTY_SET",
        op::ADDITEMS => "ADDITEMS",
        op::FROZENSET => "FROZENSET",
        _ => return None,
    })
}

impl<R: Read, W: Write> Read for Recoded<R, W> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        match self.push(buffer.get(..count).unwrap_or_default()) {
            Ok(()) => Ok(count),
            Err(fault) => {
                self.fault = Some(fault);
                Err(io::Error::other("a pickle that cannot be recoded"))
            }
        }
    }
}
