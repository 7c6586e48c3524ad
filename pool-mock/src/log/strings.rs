//! Strings by number, each kept once.

use std::{collections::HashMap, sync::Arc};

/// Strings, numbered by first appearance.
#[derive(Clone, Debug, Default)]
pub(super) struct Strings {
    /// Each one's place is its number.
    pub(super) texts: Vec<Arc<str>>,
    known: HashMap<Arc<str>, u32>,
}

impl Strings {
    /// The number of `text`, a new one if it was not seen before; `None` if there are 2^32.
    pub(super) fn number(&mut self, text: &str) -> Option<u32> {
        if let Some(number) = self.known.get(text) {
            return Some(*number);
        }
        let number = u32::try_from(self.texts.len()).ok()?;
        let text: Arc<str> = text.into();
        self.texts.push(Arc::clone(&text));
        self.known.insert(text, number);
        Some(number)
    }

    /// The string with that number; empty if there is none.
    pub(super) fn get(&self, number: u32) -> &str {
        self.texts.get(number as usize).map_or("", |text| text)
    }
}
