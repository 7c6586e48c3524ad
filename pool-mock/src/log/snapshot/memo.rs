//! The values that a pickle remembers, to name them again by number.

use core::cmp::Ordering;
use std::collections::BTreeMap;

use super::{value::Value, word::Word};

/// Values by number, four bytes each as long as the numbers count up, as every pickler's
/// do; a number out of turn costs more, but never more than the opcode that gave it.
#[derive(Debug, Default)]
pub(super) struct Memo {
    in_turn: Vec<u32>,
    out_of_turn: BTreeMap<u32, u32>,
    /// No pickler remembers numbers; should one do so, they are here.
    numbers: Vec<u64>,
}

// A slot: a word by its number, a number by its place in `numbers`, or one of these.
const SHARED: u32 = u32::MAX;
const OPAQUE: u32 = u32::MAX - 1;
const NUMBERS: u32 = 1 << 16;

impl Memo {
    /// Remembers a value under the next number.
    pub(super) fn push(&mut self, value: Value) {
        let count = self.in_turn.len() + self.out_of_turn.len();
        // Past u32 no opcode can ask for it.
        if let Ok(index) = u32::try_from(count) {
            self.put(index, value);
        }
    }

    /// Remembers a value under a number.
    pub(super) fn put(&mut self, index: u32, value: Value) {
        let slot = match value {
            Value::Word(word) => u32::from(word as u8),
            Value::Int(number) => self.number_slot(number),
            Value::Dict(_) | Value::List(_) | Value::Shared => SHARED,
            Value::Opaque | Value::Done(_) => OPAQUE,
        };
        match (index as usize).cmp(&self.in_turn.len()) {
            Ordering::Less => self.in_turn[index as usize] = slot,
            Ordering::Equal => {
                self.out_of_turn.remove(&index);
                self.in_turn.push(slot);
            }
            Ordering::Greater => {
                self.out_of_turn.insert(index, slot);
            }
        }
    }

    /// The value remembered under a number.
    pub(super) fn get(&self, index: u32) -> Option<Value> {
        let slot = *self.in_turn.get(index as usize).or_else(|| self.out_of_turn.get(&index))?;
        Some(match slot {
            SHARED => Value::Shared,
            OPAQUE => Value::Opaque,
            0..NUMBERS => Word::from_number(slot).map_or(Value::Opaque, Value::Word),
            _ => {
                let number = self.numbers.get((slot - NUMBERS) as usize);
                number.map_or(Value::Opaque, |number| Value::Int(*number))
            }
        })
    }

    fn number_slot(&mut self, number: u64) -> u32 {
        let slot = u32::try_from(self.numbers.len()).ok().and_then(|n| n.checked_add(NUMBERS));
        match slot {
            Some(slot) if slot < OPAQUE => {
                self.numbers.push(number);
                slot
            }
            _ => OPAQUE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_any_turn() {
        let mut memo = Memo::default();
        memo.put(2, Value::Int(u64::MAX));
        memo.push(Value::Word(Word::Alloc)); // number 1: one value is known
        assert_eq!(memo.get(0), None);
        assert_eq!(memo.get(1), Some(Value::Word(Word::Alloc)));
        memo.put(0, Value::Opaque);
        memo.put(1, Value::Word(Word::Size));
        memo.put(2, Value::Word(Word::State));
        assert_eq!(memo.get(0), Some(Value::Opaque));
        assert_eq!(memo.get(1), Some(Value::Word(Word::Size)));
        assert_eq!(memo.get(2), Some(Value::Word(Word::State)));
        assert!(memo.out_of_turn.is_empty());
        memo.put(u32::MAX, Value::Shared);
        assert_eq!(memo.get(u32::MAX), Some(Value::Shared));
        assert_eq!(memo.get(3), None);
    }
}
