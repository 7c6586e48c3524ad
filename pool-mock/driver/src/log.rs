//! Which calls were made, which are to fail, and which had to wait.

use std::collections::BTreeMap;

/// What a test asks about calls.
#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) calls: Vec<&'static str>,
    /// The calls that had to wait for queued work.
    pub(crate) waited: Vec<&'static str>,
    /// Codes of single calls, by their places.
    faults: BTreeMap<usize, i32>,
    /// How often the next calls of a name fail, and with what.
    next: BTreeMap<String, (u64, i32)>,
}

impl Log {
    /// Notes a call; gives the code that it is to fail with.
    pub(crate) fn begin(&mut self, name: &'static str) -> Option<i32> {
        let index = self.calls.len();
        self.calls.push(name);
        if let Some(&code) = self.faults.get(&index) {
            return Some(code);
        }
        let (times, code) = self.next.get_mut(name)?;
        *times = times.checked_sub(1)?;
        Some(*code)
    }

    /// The call at a place is to fail.
    pub(crate) fn fail_at(&mut self, index: usize, code: i32) {
        self.faults.insert(index, code);
    }

    /// The next calls of a name are to fail.
    pub(crate) fn fail_next(&mut self, name: &str, times: u64, code: i32) {
        self.next.insert(name.to_owned(), (times, code));
    }
}
