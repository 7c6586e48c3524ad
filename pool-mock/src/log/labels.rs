//! Which operation is whose.

use std::sync::Arc;

use super::strings::Strings;

/// What in the recorded program asked for memory: an index into [`Trace::labels`].
///
/// [`Trace::labels`]: super::Trace::labels
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LabelId(pub u32);

/// Marks an operation that has none.
const NONE: u32 = u32::MAX;

/// The labels, and the label of each operation: four bytes an operation up to the last that has
/// one, nothing behind.
#[derive(Clone, Debug, Default)]
pub(super) struct Labels {
    texts: Strings,
    of_operations: Vec<u32>,
    /// While reading, those of the blocks live at the start.
    of_start: Vec<u32>,
}

impl Labels {
    pub(super) fn texts(&self) -> &[Arc<str>] {
        &self.texts.texts
    }

    /// The number of a label; `None` if there are too many.
    pub(super) fn number(&mut self, text: &str) -> Option<LabelId> {
        self.texts.number(text).filter(|number| *number != NONE).map(LabelId)
    }

    pub(super) fn get(&self, index: usize) -> Option<LabelId> {
        let number = *self.of_operations.get(index)?;
        (number != NONE).then_some(LabelId(number))
    }

    /// Notes the label of operation `index`, which is behind all noted so far.
    pub(super) fn push(&mut self, index: usize, label: Option<LabelId>) {
        push(&mut self.of_operations, index, label);
    }

    /// Notes the label of block `index` of those live at the start, as above.
    pub(super) fn push_first(&mut self, index: usize, label: Option<LabelId>) {
        push(&mut self.of_start, index, label);
    }

    /// Puts the blocks live at the start, so many, before all others.
    pub(super) fn put_in_order(&mut self, starts: usize) {
        let mut first = core::mem::take(&mut self.of_start);
        if !self.of_operations.is_empty() {
            first.resize(starts, NONE);
        }
        first.append(&mut self.of_operations);
        self.of_operations = first;
    }
}

fn push(list: &mut Vec<u32>, index: usize, label: Option<LabelId>) {
    if let Some(LabelId(number)) = label {
        list.resize(index, NONE);
        list.push(number);
    }
}
