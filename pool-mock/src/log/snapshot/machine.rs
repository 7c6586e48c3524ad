//! The pickle machine: opcode by opcode, it finds the events, blocks and segments and
//! hands each over as soon as it is complete.
//!
//! Only the dicts that matter have a [`Record`], and at most one of each kind is open at a
//! time: the next one beside it, or the end of its list, completes it.

use std::io::Read;

use super::{
    bytes::{Fault, PickleBytes},
    error::PickleError,
    frames::{Frame, FrameId},
    history::History,
    memo::Memo,
    opcode as op,
    record::Record,
    stack::{Stack, check_loose, not_a_snapshot},
    value::{Kind, Role, Value},
    word::Word,
};
use crate::log::{LogError, Progress, source::read_error};

/// Reads a pickle to its end.
pub(super) fn run(bytes: impl Read, history: History) -> Result<History, LogError> {
    let mut machine = Machine {
        bytes: PickleBytes::new(bytes),
        at: 0,
        stack: Stack::default(),
        memo: Memo::default(),
        segment: None,
        block: None,
        event: None,
        frame: None,
        frames: None,
        text: Vec::new(),
        seen_segments: false,
        seen_devices: false,
        history,
    };
    match machine.run() {
        Ok(()) => Ok(machine.history),
        Err(fault) => Err(machine.error(fault)),
    }
}

/// A frame or a list of frames at a place of the stack that may still get more items.
struct Open<T> {
    place: usize,
    /// Under which number it is remembered: picklers do that before it has any items.
    memo: Option<u32>,
    /// What is known of it so far.
    found: T,
}

struct Machine<R> {
    bytes: PickleBytes<R>,
    /// Where the current opcode is.
    at: u64,
    stack: Stack,
    memo: Memo,
    // The open dict of each kind.
    segment: Option<Record>,
    block: Option<Record>,
    event: Option<Record>,
    // What is being read of a stack.
    frame: Option<Open<Frame>>,
    frames: Option<Open<FrameId>>,
    text: Vec<u8>,
    seen_segments: bool,
    seen_devices: bool,
    history: History,
}

impl<R: Read> Machine<R> {
    fn run(&mut self) -> Result<(), Fault> {
        loop {
            self.bytes.check_frame()?;
            self.at = self.bytes.offset();
            match self.bytes.u8()? {
                op::STOP => break,
                opcode => self.step(opcode)?,
            }
        }
        if self.stack.top()? != Value::Dict(Kind::Snapshot) {
            return Err(not_a_snapshot("its top is no dict").into());
        }
        if !(self.seen_devices || self.seen_segments) {
            return Err(not_a_snapshot("it has neither segments nor device traces").into());
        }
        if let Some(offset) = self.bytes.rest()? {
            self.history.trailing_bytes(offset);
        }
        Ok(())
    }

    fn step(&mut self, opcode: u8) -> Result<(), Fault> {
        match opcode {
            op::PROTO => match self.bytes.u8()? {
                2..=5 => Ok(()),
                protocol => Err(PickleError::Protocol { protocol }.into()),
            },
            op::FRAME => {
                let length_bytes = self.bytes.u64()?;
                self.bytes.begin_frame(length_bytes)
            }

            op::NONE | op::NEWTRUE | op::NEWFALSE | op::EMPTY_TUPLE | op::EMPTY_SET => {
                self.push(Value::Opaque)
            }
            op::BINFLOAT => {
                // The one big-endian number of the format; none is needed.
                self.bytes.skip(8)?;
                self.push(Value::Opaque)
            }
            op::BININT1 => {
                let number = self.bytes.u8()?;
                self.push(Value::Int(number.into()))
            }
            op::BININT2 => {
                let number = self.bytes.u16()?;
                self.push(Value::Int(number.into()))
            }
            op::BININT => {
                let number = self.bytes.i32()?;
                self.push_number(u64::try_from(number).ok())
            }
            op::LONG1 => {
                let count = self.bytes.u8()?;
                let number = self.bytes.long(count.into())?;
                self.push_number(number)
            }
            op::LONG4 => {
                let count = self.bytes.signed_length()?;
                let number = self.bytes.long(count)?;
                self.push_number(number)
            }
            op::SHORT_BINUNICODE | op::SHORT_BINSTRING => {
                let count = self.bytes.u8()?;
                self.push_word(count.into())
            }
            op::BINUNICODE => {
                let count = self.bytes.u32()?;
                self.push_word(count.into())
            }
            op::BINUNICODE8 => {
                let count = self.bytes.u64()?;
                self.push_word(count)
            }
            op::BINSTRING => {
                let count = self.bytes.signed_length()?;
                self.push_word(count)
            }
            op::SHORT_BINBYTES => {
                let count = self.bytes.u8()?;
                self.push_skipped(count.into())
            }
            op::BINBYTES => {
                let count = self.bytes.u32()?;
                self.push_skipped(count.into())
            }
            op::BINBYTES8 | op::BYTEARRAY8 => {
                let count = self.bytes.u64()?;
                self.push_skipped(count)
            }
            _ => self.step_containers(opcode),
        }
    }

    /// Opcodes that make, fill and take away containers.
    fn step_containers(&mut self, opcode: u8) -> Result<(), Fault> {
        match opcode {
            op::MARK => {
                self.stack.mark()?;
                Ok(())
            }
            op::EMPTY_DICT => {
                let kind = self.begin_dict()?;
                self.push_dict(kind)
            }
            op::EMPTY_LIST => {
                let role = self.begin_list()?;
                self.push_list(role)
            }
            op::SETITEM => {
                let end = self.stack.len();
                let first = end.saturating_sub(2);
                self.set_items(first)
            }
            op::SETITEMS => {
                let mark = self.stack.pop_mark()?;
                self.set_items(mark)
            }
            op::DICT => {
                let mark = self.stack.pop_mark()?;
                let items = self.stack.split_off(mark);
                let kind = self.begin_dict()?;
                self.push_dict(kind)?;
                let first = self.stack.len();
                for item in items {
                    self.push(item)?;
                }
                self.set_items(first)
            }
            op::APPEND => {
                let first = self.stack.len().saturating_sub(1);
                self.append(first)
            }
            op::APPENDS => {
                let mark = self.stack.pop_mark()?;
                self.append(mark)
            }
            op::LIST => {
                let mark = self.stack.pop_mark()?;
                self.stack.forget(mark)?;
                self.push(Value::List(Role::Other))
            }
            op::TUPLE1 => self.wrap(1),
            op::TUPLE2 => self.wrap(2),
            op::TUPLE3 => self.wrap(3),
            op::TUPLE | op::FROZENSET => {
                let mark = self.stack.pop_mark()?;
                self.wrap_from(mark)
            }
            op::ADDITEMS | op::POP_MARK => {
                let mark = self.stack.pop_mark()?;
                self.stack.forget(mark)?;
                Ok(())
            }
            op::POP if self.stack.is_mark_at_top() => {
                self.stack.pop_mark()?;
                Ok(())
            }
            op::POP => {
                let first = self.stack.len().saturating_sub(1);
                self.stack.forget(first)?;
                Ok(())
            }
            _ => self.step_memo(opcode),
        }
    }

    /// Opcodes that remember values and name them again.
    fn step_memo(&mut self, opcode: u8) -> Result<(), Fault> {
        match opcode {
            op::MEMOIZE => {
                let value = self.stack.top()?;
                if let Some(index) = self.memo.push(value) {
                    self.note_memo(index);
                }
                Ok(())
            }
            op::BINPUT => {
                let index = self.bytes.u8()?;
                self.remember(index.into())
            }
            op::LONG_BINPUT => {
                let index = self.bytes.u32()?;
                self.remember(index)
            }
            op::BINGET => {
                let index = self.bytes.u8()?;
                self.recall(index.into())
            }
            op::LONG_BINGET => {
                let index = self.bytes.u32()?;
                self.recall(index)
            }
            op::DUP => match self.stack.top()? {
                Value::Dict(_) | Value::List(_) => self.push(Value::Shared),
                value => self.push(value),
            },
            byte => Err(match op::refused(byte) {
                Some(opcode) => PickleError::Unsupported { opcode }.into(),
                None => PickleError::UnknownOpcode { byte }.into(),
            }),
        }
    }

    /// Begins the dict that comes next; completes the one beside it.
    fn begin_dict(&mut self) -> Result<Kind, Fault> {
        let kind = self.stack.kind_here();
        if self.open(kind).is_some_and(|open| open.is_some()) {
            self.complete_sibling(kind)?;
        }
        let record = Record::new(self.at);
        if let Some(open) = self.open(kind) {
            *open = Some(record);
        }
        Ok(kind)
    }

    /// Begins the list that comes next.
    fn begin_list(&mut self) -> Result<Role, Fault> {
        let role = self.stack.role_here(self.history.devices());
        let seen = match role {
            Role::Devices => &mut self.seen_devices,
            Role::Segments => &mut self.seen_segments,
            _ => return Ok(role),
        };
        if core::mem::replace(seen, true) {
            return Err(not_a_snapshot("a part of it comes twice").into());
        }
        Ok(role)
    }

    /// Completes the dict at the top, since another of its kind begins beside it. What
    /// is left of it is one more in a count.
    fn complete_sibling(&mut self, kind: Kind) -> Result<(), Fault> {
        if self.stack.top_here() != Some(Value::Dict(kind)) {
            return Err(not_a_snapshot("its parts are not where they belong").into());
        }
        self.complete(kind)?;
        self.stack.count_top_as_done();
        Ok(())
    }

    /// Hands over the open dict of this kind.
    fn complete(&mut self, kind: Kind) -> Result<(), Fault> {
        let Some(record) = self.open(kind).and_then(Option::take) else { return Ok(()) };
        match kind {
            Kind::Segment => self.history.segment(&record)?,
            Kind::Block => self.history.block(&record)?,
            Kind::Event(device) => self.history.event(device, &record)?,
            Kind::Snapshot | Kind::Frame | Kind::Other => {}
        }
        Ok(())
    }

    /// Where the open dict of this kind is; `None` for a kind of which nothing is kept.
    fn open(&mut self, kind: Kind) -> Option<&mut Option<Record>> {
        match kind {
            Kind::Segment => Some(&mut self.segment),
            Kind::Block => Some(&mut self.block),
            Kind::Event(_) => Some(&mut self.event),
            Kind::Snapshot | Kind::Frame | Kind::Other => None,
        }
    }

    /// Sets the pairs from `first` on in the dict beneath them.
    fn set_items(&mut self, first: usize) -> Result<(), Fault> {
        let kind = match self.stack.target(first)? {
            Value::Dict(kind) => kind,
            Value::Frame(_) => return self.set_frame(first),
            Value::Shared => return Err(not_a_snapshot("it changes a dict named before").into()),
            _ => return Err(not_a_snapshot("it sets items of something else than a dict").into()),
        };
        let mut place = first;
        while let Some(key) = self.stack.get(place) {
            let value = self.stack.get(place + 1).ok_or(PickleError::MissingValue)?;
            self.set(kind, key, value)?;
            place += 2;
        }
        self.stack.truncate(first);
        Ok(())
    }

    fn set(&mut self, kind: Kind, key: Value, value: Value) -> Result<(), Fault> {
        let Value::Word(key) = key else {
            check_loose(key)?;
            check_loose(value)?;
            return Ok(());
        };
        match (kind, key, value) {
            (Kind::Snapshot, Word::DeviceTraces, Value::List(Role::Devices))
            | (Kind::Snapshot, Word::Segments, Value::List(Role::Segments))
            | (Kind::Segment, Word::Blocks, Value::List(Role::Blocks)) => return Ok(()),
            (Kind::Snapshot, Word::DeviceTraces | Word::Segments, _)
            | (Kind::Segment, Word::Blocks, _) => {
                return Err(not_a_snapshot("a part of it is no list in its place").into());
            }
            _ => check_loose(value)?,
        }
        if let Some(Some(record)) = self.open(kind) {
            record.set(key, value);
        }
        Ok(())
    }

    /// Appends the values from `first` on to the list beneath them.
    fn append(&mut self, first: usize) -> Result<(), Fault> {
        let role = match self.stack.target(first)? {
            Value::List(role) => role,
            Value::Frames(_) => return self.append_frames(first),
            Value::Shared => return Err(not_a_snapshot("it changes a list named before").into()),
            _ => return Err(not_a_snapshot("it appends to something else than a list").into()),
        };
        let mut place = first;
        while let Some(item) = self.stack.get(place) {
            match (role, item) {
                (Role::Other, item) => check_loose(item)?,
                (Role::Devices, Value::List(Role::Events(_))) => self.history.end_device(),
                (Role::Segments | Role::Blocks | Role::Events(_), Value::Done(_)) => {}
                (Role::Segments, Value::Dict(kind @ Kind::Segment))
                | (Role::Blocks, Value::Dict(kind @ Kind::Block))
                | (Role::Events(_), Value::Dict(kind @ Kind::Event(_))) => self.complete(kind)?,
                _ => return Err(not_a_snapshot("a list of it holds something else").into()),
            }
            place += 1;
        }
        self.stack.truncate(first);
        Ok(())
    }

    /// Sets the pairs from `first` on in the frame beneath them.
    fn set_frame(&mut self, first: usize) -> Result<(), Fault> {
        let frames = &mut self.history.frames;
        // One that was named before stays as it was.
        let mut open = self.frame.as_mut().filter(|open| open.place + 1 == first);
        let mut place = first;
        while let Some(key) = self.stack.get(place) {
            let value = self.stack.get(place + 1).ok_or(PickleError::MissingValue)?;
            check_loose(value)?;
            if let Some(Open { found, .. }) = open.as_deref_mut() {
                match (key, value) {
                    (Value::Word(Word::FileName), value) => found.file = frames.text_of(value),
                    (Value::Word(Word::Name), value) => found.function = frames.text_of(value),
                    (Value::Word(Word::Line), Value::Int(line)) => {
                        found.line = u32::try_from(line).unwrap_or(0);
                    }
                    _ => check_loose(key)?,
                }
            }
            place += 2;
        }
        if let Some(Open { place, memo, found }) = open {
            let value = Value::Frame(frames.number(*found));
            self.stack.replace(*place, value);
            if let Some(index) = memo {
                self.memo.put(*index, value);
            }
        }
        self.stack.truncate(first);
        Ok(())
    }

    /// Appends the values from `first` on to the list of frames beneath them.
    fn append_frames(&mut self, first: usize) -> Result<(), Fault> {
        let mut open = self.frames.as_mut().filter(|open| open.place + 1 == first);
        let mut place = first;
        while let Some(item) = self.stack.get(place) {
            check_loose(item)?;
            if let (Some(Open { found, .. }), Value::Frame(frame)) = (open.as_deref_mut(), item) {
                *found = self.history.frames.better(*found, frame);
            }
            place += 1;
        }
        if let Some(Open { place, memo, found }) = open {
            let value = Value::Frames(*found);
            self.stack.replace(*place, value);
            if let Some(index) = memo {
                self.memo.put(*index, value);
            }
        }
        self.stack.truncate(first);
        Ok(())
    }

    /// Makes one value of the last `count`.
    fn wrap(&mut self, count: usize) -> Result<(), Fault> {
        let first = self.stack.len().checked_sub(count).ok_or(PickleError::MissingValue)?;
        self.wrap_from(first)
    }

    /// Makes one value of those from `first` on.
    fn wrap_from(&mut self, first: usize) -> Result<(), Fault> {
        self.stack.forget(first)?;
        self.push(Value::Opaque)
    }

    fn remember(&mut self, index: u32) -> Result<(), Fault> {
        let value = self.stack.top()?;
        self.memo.put(index, value);
        self.note_memo(index);
        Ok(())
    }

    /// Takes note that what is at the top is remembered under a number.
    fn note_memo(&mut self, index: u32) {
        let length = self.stack.len();
        if let Some(open) = self.frame.as_mut().filter(|open| open.place + 1 == length) {
            open.memo = Some(index);
        }
        if let Some(open) = self.frames.as_mut().filter(|open| open.place + 1 == length) {
            open.memo = Some(index);
        }
    }

    fn recall(&mut self, index: u32) -> Result<(), Fault> {
        let value = self.memo.get(index).ok_or(PickleError::NotRemembered { index })?;
        self.push(value)
    }

    fn push_word(&mut self, count: u64) -> Result<(), Fault> {
        if self.stack.is_text_here() {
            return self.push_text(count);
        }
        let word = self.bytes.word(count)?;
        self.push(Value::Word(word))
    }

    fn push_text(&mut self, count: u64) -> Result<(), Fault> {
        self.bytes.text(count, &mut self.text)?;
        // It may be named again where it is a key or an action.
        let value = match Word::of(&self.text) {
            Word::Other => {
                let text = String::from_utf8_lossy(&self.text);
                Value::Text(self.history.frames.text(&text))
            }
            word => Value::Word(word),
        };
        self.push(value)
    }

    fn push_dict(&mut self, kind: Kind) -> Result<(), Fault> {
        if kind != Kind::Frame {
            return self.push(Value::Dict(kind));
        }
        self.push(Value::Frame(FrameId::default()))?;
        let place = self.stack.len() - 1;
        self.frame = Some(Open { place, memo: None, found: Frame::default() });
        Ok(())
    }

    fn push_list(&mut self, role: Role) -> Result<(), Fault> {
        if role != Role::Frames {
            return self.push(Value::List(role));
        }
        self.push(Value::Frames(FrameId::default()))?;
        let place = self.stack.len() - 1;
        self.frames = Some(Open { place, memo: None, found: FrameId::default() });
        Ok(())
    }

    fn push_skipped(&mut self, count: u64) -> Result<(), Fault> {
        self.bytes.skip(count)?;
        self.push(Value::Opaque)
    }

    fn push_number(&mut self, number: Option<u64>) -> Result<(), Fault> {
        self.push(number.map_or(Value::Opaque, Value::Int))
    }

    fn push(&mut self, value: Value) -> Result<(), Fault> {
        // What was here is gone from the stack, and with it from what can get more items.
        let length = self.stack.len();
        if self.frame.as_ref().is_some_and(|open| open.place >= length) {
            self.frame = None;
        }
        if self.frames.as_ref().is_some_and(|open| open.place >= length) {
            self.frames = None;
        }
        self.stack.push(value)?;
        Ok(())
    }

    fn error(&self, fault: Fault) -> LogError {
        let events = self.history.events();
        match fault {
            Fault::Read(error) => read_error(error, Progress::Events(events)),
            Fault::Log(error) => error,
            Fault::Pickle(source) => {
                let cut = source == PickleError::Cut;
                let offset = if cut { self.bytes.offset() } else { self.at };
                LogError::Pickle { offset, events, source }
            }
        }
    }
}
