//! Figures: names with a value, that the source of a history counted.

/// What a figure is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Policy {
    /// When the pool takes memory before anyone asks.
    Preallocation = 0,
    /// How it uses memory again.
    Reuse = 1,
    /// When it gives memory back.
    Reclaim = 2,
    /// How it grows.
    Growth = 3,
    /// Anything else.
    Other = 4,
}

/// What a figure counts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Unit {
    /// Things.
    Count = 0,
    /// Bytes.
    Bytes = 1,
    /// Nanoseconds.
    Nanoseconds = 2,
    /// A part of one, shown as a percentage.
    Share = 3,
    /// How many times as much.
    Times = 4,
}

/// A line of the page's table of figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Under which heading.
    pub policy: Policy,
    /// What it is.
    pub name: String,
    /// How much.
    pub value: f64,
    /// Of what.
    pub unit: Unit,
}

impl Figure {
    /// A figure.
    ///
    /// ```
    /// use pool_report::{Figure, Policy, Unit};
    ///
    /// let figure = Figure::new(Policy::Reuse, "served from free memory", 0.97, Unit::Share);
    /// assert_eq!(figure.name, "served from free memory");
    /// ```
    #[must_use]
    pub fn new(policy: Policy, name: impl Into<String>, value: f64, unit: Unit) -> Self {
        Self { policy, name: name.into(), value, unit }
    }
}
