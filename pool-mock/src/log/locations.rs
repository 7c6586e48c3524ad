//! Where each operation of a trace came from, in a few bytes.

use super::report::Location;

/// The places of operations 0, 1, 2, ...: only where they do not simply go up by one
/// is anything stored, so a clean CSV log costs one entry.
#[derive(Clone, Debug)]
pub(super) struct Locations {
    kind: fn(u64) -> Location,
    /// From this operation on, the place is this number and goes up by one each.
    runs: Vec<(u32, u64)>,
    length: u32,
}

impl Locations {
    pub(super) fn new(kind: fn(u64) -> Location) -> Self {
        Self { kind, runs: Vec::new(), length: 0 }
    }

    /// Notes the place of the next operation.
    pub(super) fn push(&mut self, number: u64) {
        let expected = self.runs.last().and_then(|run| place(*run, self.length));
        if expected != Some(number) {
            self.runs.push((self.length, number));
        }
        self.length += 1;
    }

    pub(super) fn get(&self, index: usize) -> Option<Location> {
        let index = u32::try_from(index).ok().filter(|index| *index < self.length)?;
        let after = self.runs.partition_point(|run| run.0 <= index);
        let run = *self.runs.get(after.checked_sub(1)?)?;
        place(run, index).map(self.kind)
    }

    /// The place that `number` stands for.
    pub(super) fn location(&self, number: u64) -> Location {
        (self.kind)(number)
    }
}

/// The place of operation `index` if the run goes on that far.
fn place((first, place): (u32, u64), index: u32) -> Option<u64> {
    place.checked_add(u64::from(index.checked_sub(first)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_and_cost_nothing_within() {
        let mut locations = Locations::new(Location::Line);
        let lines = [2, 3, 4, 4, 5, 9, 10, 7];
        for line in lines {
            locations.push(line);
        }
        assert_eq!(locations.runs.len(), 4);
        for (index, line) in lines.into_iter().enumerate() {
            assert_eq!(locations.get(index), Some(Location::Line(line)));
        }
        assert_eq!(locations.get(lines.len()), None);
    }
}
