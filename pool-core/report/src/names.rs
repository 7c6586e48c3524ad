//! Names that events refer to by number. Number 0 is no name.

use std::collections::HashMap;

/// Each name once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    list: Vec<String>,
    numbers: HashMap<String, u32>,
}

impl Names {
    /// The number of a name: a new one if it is new, 0 if it is empty or one too many.
    pub(crate) fn number(&mut self, name: &str) -> u32 {
        if name.is_empty() {
            return 0;
        }
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let Ok(number) = u32::try_from(self.list.len() + 1) else { return 0 };
        self.list.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }

    /// The number if it is one of these, else 0.
    pub(crate) fn known(&self, number: u32) -> u32 {
        if number as usize <= self.list.len() { number } else { 0 }
    }

    /// The names, from number 1.
    pub(crate) fn list(&self) -> &[String] {
        &self.list
    }
}
