//! A synthetic program in a steady state: so many live blocks, one freed for one allocated.

use fastrand::Rng;
use pool_mock::replay::Placer;

/// The largest block in granules. 10^7 blocks of these sizes, 148 granules on average, are well
/// within the 2^32 granules of one range.
pub const MOST_GRANULES: u32 = 1024;

/// One step: the block in `slot` is freed, then one of `granules` allocated in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Which block goes.
    pub slot: u32,
    /// The size of the one that comes.
    pub granules: u32,
}

/// The program, drawn before any clock starts: sizes log-uniform from 1 to
/// [`MOST_GRANULES`] granules, victims uniform. The same arguments give the same program.
///
/// ```
/// use peers::churn::Churn;
/// use pool_mock::reference::BestFit;
///
/// let churn = Churn::new(100, 100, 1000, 7);
/// let mut range = BestFit::new(churn.capacity_granules(150));
/// let mut live = churn.fill(&mut range);
/// assert_eq!(churn.run(&mut range, &mut live), 0);
/// ```
#[derive(Clone, Debug)]
pub struct Churn {
    /// The sizes of the first blocks.
    pub first: Vec<u32>,
    /// What follows until the holes are spread, before anything is measured.
    pub warm_up: Vec<Exchange>,
    /// What is measured.
    pub exchanges: Vec<Exchange>,
}

impl Churn {
    /// Draws a program of `live` blocks (at least one), so many exchanges to warm up and so many
    /// to measure.
    #[must_use]
    pub fn new(live: u32, warm_up: u32, exchanges: u32, seed: u64) -> Self {
        Self::up_to(MOST_GRANULES, live, warm_up, exchanges, seed)
    }

    /// The same with blocks of at most `most_granules`.
    ///
    /// ```
    /// use peers::churn::Churn;
    ///
    /// let churn = Churn::up_to(64, 100, 0, 1000, 7);
    /// assert!(churn.exchanges.iter().all(|exchange| (1..=64).contains(&exchange.granules)));
    /// ```
    #[must_use]
    pub fn up_to(most_granules: u32, live: u32, warm_up: u32, exchanges: u32, seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let live = live.max(1);
        let first = (0..live).map(|_| size(&mut rng, most_granules)).collect();
        let mut draw = |count| {
            let exchange =
                |_| Exchange { slot: rng.u32(0..live), granules: size(&mut rng, most_granules) };
            (0..count).map(exchange).collect()
        };
        Self { first, warm_up: draw(warm_up), exchanges: draw(exchanges) }
    }

    /// So many hundredths of what is live at the start.
    #[must_use]
    pub fn capacity_granules(&self, percent: u64) -> u64 {
        let live: u64 = self.first.iter().map(|granules| u64::from(*granules)).sum();
        (live * percent).div_ceil(100)
    }

    /// Allocates the first blocks and warms up; returns the live blocks.
    pub fn fill<P: Placer>(&self, placer: &mut P) -> Vec<Option<P::Block>> {
        let mut live: Vec<_> =
            self.first.iter().map(|granules| placer.place(u64::from(*granules))).collect();
        run(&self.warm_up, placer, &mut live);
        live
    }

    /// Does the exchanges; returns how many requests were refused.
    pub fn run<P: Placer>(&self, placer: &mut P, live: &mut [Option<P::Block>]) -> u64 {
        run(&self.exchanges, placer, live)
    }
}

fn run<P: Placer>(exchanges: &[Exchange], placer: &mut P, live: &mut [Option<P::Block>]) -> u64 {
    let mut failures = 0;
    for exchange in exchanges {
        let slot = &mut live[exchange.slot as usize];
        if let Some(block) = slot.take() {
            placer.release(block);
        }
        *slot = placer.place(u64::from(exchange.granules));
        failures += u64::from(slot.is_none());
    }
    failures
}

/// Draws a size, log-uniform from 1 to `most_granules`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "from 1 to `most_granules`"
)]
fn size(rng: &mut Rng, most_granules: u32) -> u32 {
    let exponent = rng.f64() * f64::from(most_granules).ln();
    (exponent.exp() as u32).clamp(1, most_granules)
}
