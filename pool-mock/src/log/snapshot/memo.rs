//! The values that a pickle remembers, to name them again by number.

use core::cmp::Ordering;
use std::collections::BTreeMap;

use super::{frames::FrameId, value::Value, word::Word};

/// Values by number, four bytes each as long as the numbers count up, as every pickler's
/// do; a number out of turn costs more, but never more than the opcode that gave it.
#[derive(Debug, Default)]
pub(super) struct Memo {
    in_turn: Vec<u32>,
    out_of_turn: BTreeMap<u32, u32>,
    /// No pickler remembers numbers; should one do so, they are here.
    numbers: Vec<u64>,
}

// A slot: one of these, or what kind of value it is and which.
const SHARED: u32 = u32::MAX;
const OPAQUE: u32 = u32::MAX - 1;
const KIND_SHIFT: u32 = 29;
const WORD: u32 = 0;
/// By its place in `numbers`.
const NUMBER: u32 = 1;
const TEXT: u32 = 2;
const FRAME: u32 = 3;
const FRAMES: u32 = 4;

fn slot(kind: u32, which: u32) -> u32 {
    if which >> KIND_SHIFT == 0 { kind << KIND_SHIFT | which } else { OPAQUE }
}

impl Memo {
    /// Remembers a value under the next number, and gives that.
    pub(super) fn push(&mut self, value: Value) -> Option<u32> {
        let count = self.in_turn.len() + self.out_of_turn.len();
        // Past u32 no opcode can ask for it.
        let index = u32::try_from(count).ok()?;
        self.put(index, value);
        Some(index)
    }

    /// Remembers a value under a number.
    pub(super) fn put(&mut self, index: u32, value: Value) {
        let slot = match value {
            Value::Word(word) => slot(WORD, u32::from(word as u8)),
            Value::Int(number) => self.number_slot(number),
            Value::Text(text) => slot(TEXT, text),
            Value::Frame(FrameId(frame)) => slot(FRAME, frame),
            Value::Frames(FrameId(best)) => slot(FRAMES, best),
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
        let which = slot & ((1 << KIND_SHIFT) - 1);
        Some(match (slot, slot >> KIND_SHIFT) {
            (SHARED, _) => Value::Shared,
            (_, WORD) => Word::from_number(which).map_or(Value::Opaque, Value::Word),
            (_, NUMBER) => {
                let number = self.numbers.get(which as usize);
                number.map_or(Value::Opaque, |number| Value::Int(*number))
            }
            (_, TEXT) => Value::Text(which),
            (_, FRAME) => Value::Frame(FrameId(which)),
            (_, FRAMES) => Value::Frames(FrameId(which)),
            _ => Value::Opaque,
        })
    }

    fn number_slot(&mut self, number: u64) -> u32 {
        let slot = u32::try_from(self.numbers.len()).map_or(OPAQUE, |place| slot(NUMBER, place));
        if slot != OPAQUE {
            self.numbers.push(number);
        }
        slot
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
