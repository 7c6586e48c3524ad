//! The stack of the pickle machine, and what can be told from it: a pickle writes a
//! container first and its items after it, so a new value belongs to what lies beneath.

use super::{
    error::PickleError,
    value::{Kind, Role, Value},
    word::Word,
};

/// The most values on the stack. Picklers append in batches of 1000 or less; where one
/// does not, finished items are counted, not kept.
const MAX_VALUES: usize = 1 << 16;

/// The most marks on the stack: how deep tuples, lists and dicts are nested.
const MAX_MARKS: usize = 1 << 10;

/// Values and, among them, marks.
#[derive(Debug, Default)]
pub(super) struct Stack {
    values: Vec<Value>,
    /// How many values lie under each mark.
    marks: Vec<usize>,
}

impl Stack {
    pub(super) fn push(&mut self, value: Value) -> Result<(), PickleError> {
        if self.values.len() >= MAX_VALUES {
            return Err(PickleError::TooDeep);
        }
        self.values.push(value);
        Ok(())
    }

    pub(super) fn pop_mark(&mut self) -> Result<usize, PickleError> {
        self.marks.pop().ok_or(PickleError::MissingValue)
    }

    /// The value beneath those from `first` on.
    pub(super) fn target(&self, first: usize) -> Result<Value, PickleError> {
        let place = first.checked_sub(1).filter(|place| *place >= self.floor());
        let value = place.and_then(|place| self.values.get(place));
        value.copied().ok_or(PickleError::MissingValue)
    }

    pub(super) fn top(&self) -> Result<Value, PickleError> {
        self.top_here().ok_or(PickleError::MissingValue)
    }

    /// The last value, if it is above the last mark.
    pub(super) fn top_here(&self) -> Option<Value> {
        self.values.get(self.floor()..)?.last().copied()
    }

    /// The value just beneath the last mark.
    fn under_mark(&self) -> Option<Value> {
        let place = self.marks.last()?.checked_sub(1)?;
        self.values.get(place).copied()
    }

    /// Where the values above the last mark begin.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    pub(super) fn mark(&mut self) -> Result<(), PickleError> {
        if self.marks.len() >= MAX_MARKS {
            return Err(PickleError::TooDeep);
        }
        self.marks.push(self.values.len());
        Ok(())
    }

    pub(super) fn is_mark_at_top(&self) -> bool {
        self.marks.last() == Some(&self.values.len())
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    pub(super) fn get(&self, place: usize) -> Option<Value> {
        self.values.get(place).copied()
    }

    /// Puts another value in the place of one.
    pub(super) fn replace(&mut self, place: usize, value: Value) {
        if let Some(old) = self.values.get_mut(place) {
            *old = value;
        }
    }

    pub(super) fn truncate(&mut self, length: usize) {
        self.values.truncate(length);
    }

    pub(super) fn split_off(&mut self, first: usize) -> Vec<Value> {
        self.values.split_off(first.min(self.values.len()))
    }

    /// Makes of the value at the top one more in a count of items done.
    pub(super) fn count_top_as_done(&mut self) {
        self.values.pop();
        match self.values.get_mut(self.marks.last().copied().unwrap_or(0)..) {
            Some([.., Value::Done(count)]) => *count = count.saturating_add(1),
            _ => self.values.push(Value::Done(1)),
        }
    }

    /// Takes away the values from `first` on, which must not be parts of the snapshot.
    pub(super) fn forget(&mut self, first: usize) -> Result<(), PickleError> {
        if first < self.floor() {
            return Err(PickleError::MissingValue);
        }
        for value in self.values.iter().skip(first) {
            check_loose(*value)?;
        }
        self.values.truncate(first);
        Ok(())
    }

    /// What a dict is that begins here.
    pub(super) fn kind_here(&self) -> Kind {
        if self.values.is_empty() && self.marks.is_empty() {
            return Kind::Snapshot;
        }
        match self.list_here(|role| !matches!(role, Role::Devices | Role::Other)) {
            Some(Role::Segments) => Kind::Segment,
            Some(Role::Blocks) => Kind::Block,
            Some(Role::Events(device)) => Kind::Event(device),
            Some(Role::Frames) => Kind::Frame,
            _ => Kind::Other,
        }
    }

    /// What a list holds that begins here, after `devices` complete lists of events.
    pub(super) fn role_here(&self, devices: u32) -> Role {
        match (self.top_here(), self.dict_here()) {
            (Some(Value::Word(Word::DeviceTraces)), Some(Kind::Snapshot)) => Role::Devices,
            (Some(Value::Word(Word::Segments)), Some(Kind::Snapshot)) => Role::Segments,
            (Some(Value::Word(Word::Blocks)), Some(Kind::Segment)) => Role::Blocks,
            // Of whatever: the stack of a segment is often that of an event as well.
            (Some(Value::Word(Word::Frames)), Some(_)) => Role::Frames,
            _ if self.list_here(|role| role == Role::Devices).is_some() => {
                // Those beside it are complete as well, but not yet appended.
                let beside = self.values.iter().skip(self.floor());
                let traces = beside.filter(|value| matches!(value, Value::List(Role::Events(_))));
                Role::Events(
                    u32::try_from(traces.count())
                        .map_or(u32::MAX, |traces| devices.saturating_add(traces)),
                )
            }
            _ => Role::Other,
        }
    }

    /// The list, of a wanted role, whose next item begins here.
    fn list_here(&self, wanted: fn(Role) -> bool) -> Option<Role> {
        let role = |value: Option<Value>| value?.role().filter(|role| wanted(*role));
        // A list at the top takes single items; one under the mark takes many.
        let top = self.top_here();
        role(top).or_else(|| match top {
            None
            | Some(
                Value::Dict(_)
                | Value::List(_)
                | Value::Frame(_)
                | Value::Frames(_)
                | Value::Done(_)
                | Value::Shared,
            ) => role(self.under_mark()),
            // The value of a key, or a part of something.
            Some(Value::Int(_) | Value::Word(_) | Value::Text(_) | Value::Opaque) => None,
        })
    }

    /// The dict whose key is at the top.
    fn dict_here(&self) -> Option<Kind> {
        let key = self.values.len().checked_sub(1)?;
        let is_key = (key.checked_sub(self.floor())?).is_multiple_of(2);
        match self.under_mark().and_then(Value::kind) {
            Some(kind) if is_key => Some(kind),
            _ => self.values.get(key.checked_sub(1)?)?.kind(),
        }
    }

    /// Whether a string that begins here is one to keep.
    pub(super) fn is_text_here(&self) -> bool {
        match self.top_here() {
            Some(Value::Word(Word::FileName | Word::Name)) => self.dict_here() == Some(Kind::Frame),
            Some(Value::Word(Word::UserMetadata)) => {
                matches!(self.dict_here(), Some(Kind::Event(_) | Kind::Block))
            }
            _ => false,
        }
    }
}

pub(super) fn not_a_snapshot(what: &'static str) -> PickleError {
    PickleError::NotASnapshot { what }
}

/// Checks that a value is no part of the snapshot, so that its loss loses nothing.
pub(super) fn check_loose(value: Value) -> Result<(), PickleError> {
    match value {
        Value::Int(_)
        | Value::Word(_)
        | Value::Text(_)
        | Value::Frame(_)
        | Value::Frames(_)
        | Value::Opaque
        | Value::Shared
        | Value::Dict(Kind::Other | Kind::Frame)
        | Value::List(Role::Other | Role::Frames) => Ok(()),
        Value::Dict(_) | Value::List(_) | Value::Done(_) => {
            Err(not_a_snapshot("its parts are not where they belong"))
        }
    }
}
