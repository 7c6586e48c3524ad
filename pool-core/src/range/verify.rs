//! Every invariant of a range, checked from its tables alone.

use super::address_index::{self, AddressIndex};
use super::allocator::{Free, OffsetAllocator};
use super::buddies::Buddies;
use super::class::Class;
use super::error::VerifyError;
use super::node::{NONE, Node, State};
use super::runs::Runs;
use super::size_index::SizeIndex;
use super::storage::Storage;
use super::storage::sealed::Tables;
use super::table::Table;
use super::trie::{self, CHILDREN, REST, UP};

type Check = Result<(), VerifyError>;

fn hold(holds: bool, what: &'static str, at: u32) -> Check {
    if holds { Ok(()) } else { Err(VerifyError { what, at: at.into() }) }
}

/// What the chain of pieces adds up to.
#[derive(Default)]
struct Totals {
    pieces: u32,
    granules: u64,
    free_runs: u32,
    spans: u32,
    empty_spans: u32,
    live_granules: u64,
    live_blocks: u64,
    bare_granules: u64,
    unmerged_blocks: u32,
}

impl<S: Storage> OffsetAllocator<S> {
    /// Checks every invariant: the chain, the indices, every span, and all books recounted.
    ///
    /// # Errors
    ///
    /// [`VerifyError`] names the first invariant that does not hold: a fault of this crate, or
    /// of whoever wrote into lent storage.
    ///
    /// # Complexity
    ///
    /// Linear in the blocks and in the granules of open spans; constant memory.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::{OffsetAllocator, RangeConfig};
    ///
    /// let mut range = OffsetAllocator::new(&RangeConfig::new(1 << 30))?;
    /// range.allocate(1 << 20)?;
    /// range.verify()?;
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn verify(&self) -> Result<(), VerifyError> {
        let totals = self.verify_chain()?;
        let indexed = match &self.free {
            Free::Runs(runs, spans) => {
                if let Some((what, at)) = spans.fault(&self.table) {
                    return hold(false, what, at);
                }
                hold(totals.spans == spans.open_count(), "open spans miscounted", totals.spans)?;
                hold(totals.empty_spans <= 1, "more than one empty span", totals.empty_spans)?;
                match runs {
                    Runs::BySize(index) => verify_sizes(&self.table, index)?,
                    Runs::ByAddress(index) => verify_addresses(&self.table, index)?,
                }
            }
            Free::Buddies(buddies) => verify_buddies(&self.table, buddies)?,
        };
        hold(indexed == totals.free_runs, "free runs that no index holds", indexed)?;
        self.verify_unmerged(totals.unmerged_blocks)?;
        let table = &self.table;
        hold(totals.pieces == table.used(), "used nodes miscounted", totals.pieces)?;
        let spare = table.count_spare();
        hold(table.used() + spare == table.touched(), "nodes are lost", spare)?;
        let books = &self.books;
        hold(books.live_granules == totals.live_granules, "live granules miscounted", NONE)?;
        hold(books.live_blocks == totals.live_blocks, "live blocks miscounted", NONE)?;
        hold(self.bare == totals.bare_granules, "bare granules miscounted", NONE)?;
        hold(books.peak_live_granules >= books.live_granules, "a peak below the present", NONE)
    }

    fn verify_chain(&self) -> Result<Totals, VerifyError> {
        let mut totals = Totals::default();
        if let Some(owned) = self.islands {
            for head in self.table.heads() {
                let start = u64::from(self.table.storage.node(head).start);
                self.verify_chain_from(head, start, &mut totals)?;
            }
            hold(totals.granules == owned, "granules of islands miscounted", NONE)?;
            return Ok(totals);
        }
        let last = self.verify_chain_from(self.table.chain.first, 0, &mut totals)?;
        hold(self.table.chain.last == last, "the chain ends elsewhere", last)?;
        let whole = totals.granules == self.shape.capacity;
        hold(whole, "the chain does not end at the capacity", last)?;
        Ok(totals)
    }

    /// A chain of pieces without a gap, from a granule on. Its last piece.
    fn verify_chain_from(
        &self,
        first: u32,
        start: u64,
        totals: &mut Totals,
    ) -> Result<u32, VerifyError> {
        let (mut before, mut end) = (NONE, start);
        for index in self.table.chain_from(first) {
            let piece = self.table.storage.node(index);
            totals.pieces += 1;
            hold(totals.pieces <= self.table.touched(), "the chain has no end", index)?;
            hold(piece.before() == before, "a piece does not know the one before it", index)?;
            let known = piece.after() == NONE || piece.after() < self.table.touched();
            hold(known, "a piece leads out of the table", index)?;
            hold(u64::from(piece.start) == end, "a gap or an overlap before a piece", index)?;
            end = piece.end();
            match piece.state() {
                State::Unused => {
                    return hold(false, "an unused node in the chain", index).map(|()| index);
                }
                State::Free => {
                    totals.free_runs += 1;
                    self.verify_merged(index)?;
                }
                #[cfg(feature = "alloc")]
                State::Live if piece.is_bare() => totals.bare_granules += piece.len(),
                State::Live => {
                    totals.live_blocks += 1;
                    totals.live_granules += piece.len();
                    hold(piece.links[0] != 0, "a live block without a generation", index)?;
                }
                State::Span => self.verify_span(index, totals)?,
            }
            before = index;
        }
        totals.granules += end - start;
        Ok(before)
    }

    fn verify_merged(&self, index: u32) -> Check {
        let piece = self.table.storage.node(index);
        match &self.free {
            Free::Runs(..) => {
                let merged = self.table.free_neighbour(piece.after()).is_none();
                hold(merged, "two free runs side by side", index)
            }
            Free::Buddies(_) => {
                let aligned = piece.len().is_power_of_two()
                    && u64::from(piece.start) & (piece.len() - 1) == 0;
                hold(aligned, "a buddy that is not aligned to its size", index)?;
                hold(Buddies::is_merged(&self.table, index), "two free buddies side by side", index)
            }
        }
    }

    fn verify_span(&self, index: u32, totals: &mut Totals) -> Check {
        let Free::Runs(_, spans) = &self.free else {
            return hold(false, "a span under buddy placement", index);
        };
        let piece = self.table.storage.node(index);
        let granules = self.shape.span_granules;
        let whole = piece.len() == u64::from(granules) && piece.start.is_multiple_of(granules);
        hold(whole, "a span of a wrong size or alignment", index)?;
        let slot = piece.links[0];
        let mapped = self.table.storage.span_at(piece.start / granules) == slot;
        let known = slot < spans.touched();
        hold(mapped && known, "a span that the map does not know", index)?;
        let span = spans.read(&self.table, slot);
        hold(span.node() == index, "a span's table is another's", index)?;
        if let Some(granule) = span.fault() {
            return hold(false, "a span's bits and tags differ", granule);
        }
        let is_empty = span.live() == 0;
        hold(is_empty == spans.is_kept_empty(slot), "an empty span is not known", index)?;
        totals.spans += 1;
        totals.empty_spans += u32::from(is_empty);
        totals.live_blocks += u64::from(span.live());
        let mut live = 0;
        for granule in 0..granules {
            if let Some(order) = span.live_order(granule) {
                live += 1;
                totals.live_granules += 1 << order;
            } else if span.taken_order(granule).is_some() {
                totals.unmerged_blocks += 1;
            }
        }
        hold(live == span.live(), "a span's live blocks miscounted", index)
    }

    /// That the quick lists hold what the spans take for freed and not merged.
    fn verify_unmerged(&self, in_spans: u32) -> Check {
        let Free::Runs(_, spans) = &self.free else { return Ok(()) };
        let mut listed = 0;
        for block in spans.unmerged() {
            let open = spans.is_open(&self.table, block.slot);
            hold(open, "a quick list holds a block of a closed span", block.slot)?;
            let span = spans.read(&self.table, block.slot);
            let unmerged = span.taken_order(spans.inside(block.granule)) == Some(block.order)
                && span.live_order(spans.inside(block.granule)).is_none();
            hold(unmerged, "a quick list holds a block that is not freed", block.granule)?;
            listed += 1;
        }
        hold(listed == in_spans, "freed blocks that are in no quick list", in_spans)
    }
}

/// Walks every node of a trie; returns how many there are.
fn verify_trie<S: Tables>(
    table: &Table<S>,
    root: u32,
    mut check: impl FnMut(&Node, u32) -> Check,
) -> Result<u32, VerifyError> {
    let tables = &table.storage;
    let mut count = 0;
    let mut at = root;
    while at != NONE {
        hold(at < table.touched(), "a trie leads out of the table", at)?;
        let node = tables.node(at);
        hold(at != root || node.links[UP] == NONE, "the first of a trie has one above it", at)?;
        hold(node.state() == State::Free, "a piece in a trie is not free", at)?;
        for side in CHILDREN {
            let child = node.links[side];
            let known =
                child == NONE || (child < table.touched() && tables.node(child).links[UP] == at);
            hold(known, "a child does not know its parent", at)?;
        }
        check(node, at)?;
        count += 1;
        hold(count <= table.touched(), "a trie has no end", root)?;
        at = trie::next(tables, at);
    }
    Ok(count)
}

/// That the keys below each child differ from their parent's side as they should: every key is
/// where a search for it would pass.
fn is_on_its_path<S: Tables>(
    table: &Table<S>,
    root: u32,
    node: u32,
    bits: u32,
    key: impl Fn(&Node) -> u64,
) -> bool {
    let tables = &table.storage;
    let wanted = key(tables.node(node));
    let (mut at, mut bit) = (root, bits);
    while at != node {
        if bit == 0 {
            return false;
        }
        bit -= 1;
        at = tables.node(at).links[trie::side(wanted, bit)];
        if at >= table.touched() {
            return false;
        }
    }
    true
}

fn verify_sizes<S: Tables>(table: &Table<S>, index: &SizeIndex) -> Result<u32, VerifyError> {
    let tables = &table.storage;
    let mut count = 0;
    for (class, root, marked) in index.tries() {
        hold((root != NONE) == marked, "a class and its mark differ", class.0)?;
        let mut twins = 0;
        count += verify_trie(table, root, |run, at| {
            hold(Class::of(run.len()) == class, "a run in another's class", at)?;
            hold(!run.is_twin(), "a twin in a trie", at)?;
            let placed = is_on_its_path(table, root, at, class.free_bits(), Node::len);
            hold(placed, "a run that a search for its size does not pass", at)?;
            let (mut before, mut twin) = (at, run.links[REST]);
            while twin != NONE {
                hold(twin < table.touched(), "a list of twins leads out of the table", twin)?;
                let node = tables.node(twin);
                let alike =
                    node.state() == State::Free && node.is_twin() && node.len() == run.len();
                hold(alike, "a twin unlike its first", twin)?;
                hold(node.links[UP] == before, "a twin does not know the one before it", twin)?;
                twins += 1;
                hold(twins <= table.touched(), "a list of twins has no end", at)?;
                (before, twin) = (twin, node.links[REST]);
            }
            Ok(())
        })?;
        count += twins;
    }
    Ok(count)
}

fn verify_addresses<S: Tables>(table: &Table<S>, index: &AddressIndex) -> Result<u32, VerifyError> {
    let root = index.root();
    verify_trie(table, root, |_, at| {
        let placed = is_on_its_path(table, root, at, index.bits(), |run| u64::from(run.start));
        hold(placed, "a run that a search for its offset does not pass", at)?;
        let noted = address_index::longest_is_true(&table.storage, at);
        hold(noted, "a wrong note of the longest run below", at)
    })
}

fn verify_buddies<S: Tables>(table: &Table<S>, buddies: &Buddies) -> Result<u32, VerifyError> {
    let mut count = 0;
    for (order, first, marked) in buddies.lists() {
        hold((first != NONE) == marked, "an order and its mark differ", order)?;
        let mut at = first;
        while at != NONE {
            hold(at < table.touched(), "a list of buddies leads out of the table", at)?;
            let piece = table.storage.node(at);
            let right = piece.state() == State::Free && piece.len() == 1 << order;
            hold(right, "a piece in another order's list", at)?;
            count += 1;
            hold(count <= table.touched(), "a list of buddies has no end", order)?;
            at = Buddies::next(&table.storage, at);
        }
    }
    Ok(count)
}
