//! Builds the range of a case, with its storage and its twin, and runs the operations.

use pool_core::{Borrowed, ConfigError, Node, OffsetAllocator};

use super::discrepancy::{Discrepancy, Finding};
use super::drive::Driver;
use super::operation::Case;
use super::shape::{NodeBudget, Shape, Storage};
use super::subject::Subject;

/// How often the whole structure is gone through. Books, spans and the answer itself are compared
/// at each step whatever is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verify {
    /// `verify()` and `blocks()` after each operation.
    EachStep,
    /// After each so many operations, and at the end.
    Every(usize),
}

/// What a case came to, so that a test can see that it did something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Requests served.
    pub served: u64,
    /// Requests refused for want of memory.
    pub refused: u64,
    /// Calls refused for want of metadata.
    pub starved: u64,
    /// Requests served from spans.
    pub from_spans: u64,
    /// Blocks that grew or shrank in place.
    pub resized: u64,
    /// Handles of no live block that were refused.
    pub misuses: u64,
    /// Times that the range's end moved.
    pub end_moves: u64,
}

impl Summary {
    /// Adds another case's counts.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_mock::oracle::Summary;
    ///
    /// let mut sum = Summary { served: 1, ..Summary::default() };
    /// sum.add(&Summary { served: 2, ..Summary::default() });
    /// assert_eq!(sum.served, 3);
    /// ```
    pub fn add(&mut self, other: &Self) {
        self.served += other.served;
        self.refused += other.refused;
        self.starved += other.starved;
        self.from_spans += other.from_spans;
        self.resized += other.resized;
        self.misuses += other.misuses;
        self.end_moves += other.end_moves;
    }
}

/// Runs a case and then frees everything and asks for the whole range.
///
/// Each step costs time in proportion to the granules of the range.
///
/// # Errors
///
/// The first place where the range and the model part.
///
/// # Example
///
/// ```
/// use pool_mock::oracle::{check, Case, Shape, Verify};
///
/// let summary = check(&Case { shape: Shape::new(7), operations: vec![] }, Verify::EachStep)?;
/// assert_eq!(summary.served, 1, "the whole range, at the end");
/// # Ok::<(), pool_mock::oracle::Discrepancy>(())
/// ```
pub fn check(case: &Case, verify: Verify) -> Result<Summary, Discrepancy> {
    let shape = &case.shape;
    let config = shape.config();
    let ample = Storage::Borrowed { nodes: NodeBudget::Ample, spans: Shape::MOST_GROWTH };
    let lent = if shape.storage == Storage::Chunked { ample } else { shape.storage };
    let mut tables = Tables::new(shape, lent);
    let result = if let Storage::Borrowed { nodes, .. } = shape.storage {
        tables.range(shape).map(|mut range| {
            // A range of few nodes is followed by nothing: its twin would have other nodes.
            let twin = shape.twin && nodes == NodeBudget::Ample;
            let mut chunked = twin.then(|| OffsetAllocator::new(&config).ok()).flatten();
            run(case, verify, &mut range, as_subject(&mut chunked))
        })
    } else {
        OffsetAllocator::new(&config).map(|mut range| {
            let mut lent = shape.twin.then(|| tables.range(shape).ok()).flatten();
            run(case, verify, &mut range, as_subject(&mut lent))
        })
    };
    match result {
        Ok(outcome) => outcome,
        Err(ConfigError::TooFewNodes { nodes, needed }) if nodes < needed && needed <= 64 => {
            Ok(Summary::default())
        }
        Err(error) => Err(Discrepancy {
            operation: 0,
            call: format!("{shape:?}"),
            finding: Box::new(Finding::Construction(error)),
        }),
    }
}

fn as_subject<S: Subject>(range: &mut Option<S>) -> Option<&mut dyn Subject> {
    range.as_mut().map(|range| range as &mut dyn Subject)
}

fn run<'a>(
    case: &'a Case,
    verify: Verify,
    range: &'a mut dyn Subject,
    twin: Option<&'a mut dyn Subject>,
) -> Result<Summary, Discrepancy> {
    let mut driver = Driver::new(&case.shape, range, twin);
    let full_every = match verify {
        Verify::EachStep => 1,
        Verify::Every(steps) => steps.max(1),
    };
    let blame = |index: usize, call: String| {
        move |finding| Discrepancy { operation: index, call, finding: Box::new(finding) }
    };
    for (index, operation) in case.operations.iter().enumerate() {
        driver
            .step(operation)
            .and_then(|()| {
                if (index + 1).is_multiple_of(full_every) { driver.go_through() } else { Ok(()) }
            })
            .map_err(|finding| blame(index, format!("{operation:?}"))(finding))?;
    }
    driver.finish().map_err(blame(case.operations.len(), "final clean-up".into()))?;
    Ok(driver.summary())
}

/// Storage lent to a range.
struct Tables {
    nodes: Vec<Node>,
    words: Vec<u64>,
}

impl Tables {
    fn new(shape: &Shape, storage: Storage) -> Self {
        let (nodes, spans) = match storage {
            Storage::Borrowed { nodes, spans } => (shape.node_count(nodes), spans),
            Storage::Chunked => (0, 0),
        };
        // More spans than the range can hold are never used.
        let spans = spans.min((shape.granules + Shape::MOST_GROWTH) / 64);
        let words = shape.config().span_words_for(spans).unwrap_or(0);
        Self { nodes: vec![Node::UNUSED; nodes], words: vec![0; words] }
    }

    fn range(&mut self, shape: &Shape) -> Result<OffsetAllocator<Borrowed<'_>>, ConfigError> {
        OffsetAllocator::in_storage(&shape.config(), &mut self.nodes, &mut self.words)
    }
}
