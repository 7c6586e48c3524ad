//! Pages: physical memory that comes and goes under addresses.

use super::case::listed;
use super::report::{Outcome, Stop};
use super::trial::{Pace, Trial};
use super::world::{PIECE, Row, World, demand};

listed! { "pages", Parts:
    sizes_are_multiples, [C::PAGES],
        "`page_sizes`: smallest first, each a multiple of the smallest";
    every_multiple_is_a_handle, [C::PAGES],
        "`create_pages`: takes every multiple of the smallest page";
    addresses_are_aligned, [C::PAGES, C::ADDRESSES],
        "`reserve`: addresses that are aligned to the smallest page";
    handles_lie_in_a_row, [C::PAGES],
        "`commit`: maps handles in a row from an offset on";
    handles_are_different_memory, [C::PAGES],
        "`create_pages`, `commit`: two handles are never the same memory";
    a_handle_moves_with_what_it_holds, [C::PAGES],
        "`commit`, `decommit`: what the handles hold is kept, wherever they are committed";
    what_others_hold_stays, [C::PAGES],
        "`decommit`: takes one handle from under a range, and no other";
    destroyed_pages_can_be_had_again, [C::PAGES, C::MEMORY],
        "`destroy_pages`: gives physical memory back to the device";
    too_many_pages_are_out_of_memory, [C::PAGES],
        "`severity`: pages for which there is no memory are `OutOfMemory`, and less may succeed";
    addresses_come_back, [C::PAGES],
        "`free`: gives addresses back once nothing is committed there";
    pages_go_without_a_wait, [C::PAGES, C::FENCES],
        "`decommit`, `destroy_pages`: never wait for work";
    a_refused_commit_maps_none, [C::PAGES],
        "`commit`: refused, none of the handles is mapped there";
}

/// The smallest page.
fn page<D: Trial>(world: &World<D>) -> Result<u64, Stop> {
    let smallest = world.page_sizes().first().copied().filter(|&bytes| bytes > 0);
    smallest.ok_or_else(|| Stop::broken("there is no smallest page"))
}

/// Handles of so many bytes each, with their sizes.
fn handles<D: Trial>(world: &World<D>, sizes: &[u64]) -> Result<Vec<(u64, D::Pages)>, Stop> {
    sizes.iter().map(|&bytes| Ok((bytes, world.create_pages(bytes)?))).collect()
}

/// Addresses with one handle each at their start.
fn rows<'w, D: Trial>(world: &'w World<D>, sizes: &[u64]) -> Result<Vec<Row<'w, D>>, Stop> {
    let made = sizes.iter().map(|&bytes| {
        let mut row = world.row(4 * bytes)?;
        row.put(0, handles(world, &[bytes])?)?;
        Ok(row)
    });
    made.collect()
}

fn sizes_are_multiples<D: Trial>(world: &World<D>) -> Outcome {
    let (page, sizes) = (page(world)?, world.page_sizes());
    let rising = sizes.windows(2).all(|pair| pair[0] < pair[1]);
    demand(rising && sizes.iter().all(|size| size.is_multiple_of(page)), || format!("{sizes:?}"))
}

fn every_multiple_is_a_handle<D: Trial>(world: &World<D>) -> Outcome {
    let (queue, page) = (world.queue()?, page(world)?);
    for times in [1, 2, 3, 5] {
        let rows = rows(world, &[times * page])?;
        world.mark(&queue.stream, &rows[0].range, 0, times * page, 1, Pace::Soon)?;
        world.settle()?;
        world.expect_at(
            &rows[0].range,
            0,
            times * page,
            1,
            &format!("in a handle of {times} pages"),
        )?;
    }
    Ok(())
}

fn addresses_are_aligned<D: Trial>(world: &World<D>) -> Outcome {
    let page = page(world)?;
    for times in [1, 3, 64] {
        let row = world.row(times * page)?;
        let address = world.address(&row.range);
        let start = address.ok_or_else(|| Stop::broken("reserved addresses have no address"))?;
        demand(start.is_multiple_of(page), || format!("{start:#x} is no multiple of {page}"))?;
    }
    Ok(())
}

fn handles_lie_in_a_row<D: Trial>(world: &World<D>) -> Outcome {
    let (queue, page) = (world.queue()?, page(world)?);
    let sizes = [page, 3 * page, 2 * page, page];
    let mut row = world.row(16 * page)?;
    row.put(2 * page, handles(world, &sizes)?)?;
    // Over the whole row, and then over each seam.
    world.mark(&queue.stream, &row.range, 2 * page, 7 * page, 1, Pace::Soon)?;
    world.settle()?;
    world.expect_at(&row.range, 2 * page, 7 * page, 1, "in a row of handles")?;
    let half = page / 2;
    for (seam, mark) in [3, 6, 8].into_iter().zip(2..) {
        world.mark(&queue.stream, &row.range, seam * page - half, page, mark, Pace::Soon)?;
    }
    world.settle()?;
    for (seam, mark) in [3, 6, 8].into_iter().zip(2..) {
        world.expect_at(&row.range, seam * page - half, page, mark, "where two handles meet")?;
    }
    world.expect_at(&row.range, 2 * page, half, 1, "before the first seam")?;
    world.expect_at(&row.range, 9 * page - half, half, 1, "behind the last seam")
}

fn handles_are_different_memory<D: Trial>(world: &World<D>) -> Outcome {
    let (queue, page) = (world.queue()?, page(world)?);
    let rows = rows(world, &[page; 6])?;
    let mut last = world.row(4 * page)?;
    last.put(0, handles(world, &[page, page])?)?;
    last.put(3 * page, handles(world, &[page])?)?;
    let ones = rows.iter().map(|row| (&row.range, 0));
    let places = ones.chain([0, page, 3 * page].map(|offset| (&last.range, offset)));
    let places: Vec<_> = places.zip(1..).collect();
    for &((range, offset), mark) in &places {
        world.mark(&queue.stream, range, offset, page, mark, Pace::Soon)?;
    }
    world.settle()?;
    for &((range, offset), mark) in &places {
        world.expect_at(range, offset, page, mark, "when other handles had been marked")?;
    }
    Ok(())
}

fn a_handle_moves_with_what_it_holds<D: Trial>(world: &World<D>) -> Outcome {
    let (queue, page) = (world.queue()?, page(world)?);
    let (mut from, mut to) = (world.row(8 * page)?, world.row(8 * page)?);
    from.put(0, handles(world, &[page, page, page])?)?;
    for (place, mark) in (0..3).zip(1..) {
        world.mark(&queue.stream, &from.range, place * page, page, mark, Pace::Soon)?;
    }
    world.settle()?;
    // The other way round, with new memory where they were.
    for place in 0..3 {
        let handle = from.take(place * page)?;
        to.put((5 - place) * page, vec![(page, handle)])?;
        from.put(place * page, handles(world, &[page])?)?;
        world.mark(&queue.stream, &from.range, place * page, page, 9, Pace::Soon)?;
    }
    world.settle()?;
    for (place, mark) in (0..3).zip(1..) {
        let at = (5 - place) * page;
        world.expect_at(&to.range, at, page, mark, "in a handle that was committed elsewhere")?;
        world.expect_at(&from.range, place * page, page, 9, "in a handle where another was")?;
    }
    // And back, with several in one call, and written anew on the way.
    for place in 0..3 {
        let handle = from.take(place * page)?;
        world.destroy_pages(handle)?;
    }
    world.mark(&queue.stream, &to.range, 4 * page, page, 7, Pace::Soon)?;
    world.settle()?;
    let moved = (3..6).map(|place| Ok((page, to.take(place * page)?)));
    let moved = moved.collect::<Result<Vec<_>, Stop>>()?;
    from.put(page, moved)?;
    for (place, mark) in [(1, 3), (2, 7), (3, 1)] {
        world.expect_at(&from.range, place * page, page, mark, "in a handle that came back")?;
    }
    Ok(())
}

fn what_others_hold_stays<D: Trial>(world: &World<D>) -> Outcome {
    let (queue, page) = (world.queue()?, page(world)?);
    let mut row = world.row(8 * page)?;
    row.put(0, handles(world, &[page, page, 2 * page])?)?;
    world.mark(&queue.stream, &row.range, 0, 4 * page, 4, Pace::Soon)?;
    world.settle()?;
    world.destroy_pages(row.take(page)?)?;
    world.expect_at(&row.range, 0, page, 4, "before a handle that was taken out")?;
    world.expect_at(&row.range, 2 * page, 2 * page, 4, "behind a handle that was taken out")?;
    world.mark(&queue.stream, &row.range, 2 * page, 2 * page, 5, Pace::Soon)?;
    world.settle()?;
    world.expect_at(&row.range, 2 * page, 2 * page, 5, "behind a handle that was taken out")
}

fn destroyed_pages_can_be_had_again<D: Trial>(world: &World<D>) -> Outcome {
    let (page, before) = (page(world)?, world.free_bytes()?);
    let bytes = (before / 4 / page).max(1) * page;
    for time in 0..24 {
        let handle = world.create_pages(bytes).map_err(|error| {
            Stop::broken(format!("{bytes} bytes were destroyed {time} times, and then: {error}"))
        })?;
        let during = world.free_bytes()?;
        world.destroy_pages(handle)?;
        let after = world.free_bytes()?;
        demand(during + bytes / 2 <= before && during + bytes / 2 <= after, || {
            format!(
                "of {before} bytes were {during} free, with {bytes} in a handle, and {after} after"
            )
        })?;
    }
    Ok(())
}

fn too_many_pages_are_out_of_memory<D: Trial>(world: &World<D>) -> Outcome {
    let page = page(world)?;
    let too_many = world
        .too_many_bytes()
        .ok_or_else(|| Stop::passed_over("nobody knows how much is too much"))?;
    let too_many = too_many.next_multiple_of(page);
    let queue = world.queue()?;
    for _ in 0..4 {
        let refused = world.create_pages(too_many);
        world.expect_out_of_memory(&format!("a handle of {too_many} bytes"), refused)?;
        let rows = rows(world, &[page])?;
        world.mark(&queue.stream, &rows[0].range, 0, page, 1, Pace::Soon)?;
        world.settle()?;
        world.expect_at(&rows[0].range, 0, page, 1, "after a refusal")?;
    }
    Ok(())
}

fn addresses_come_back<D: Trial>(world: &World<D>) -> Outcome {
    let page = page(world)?;
    for _ in 0..64 {
        let mut row = world.row(64 * page)?;
        row.put(63 * page, handles(world, &[page])?)?;
        let handle = row.take(63 * page)?;
        world.destroy_pages(handle)?;
    }
    Ok(())
}

fn pages_go_without_a_wait<D: Trial>(world: &World<D>) -> Outcome {
    let (page, queue, memory) = (page(world)?, world.queue()?, world.memory(PIECE)?);
    let row = world.row(2 * page)?;
    world.does_not_wait("what took pages out and destroyed them", &memory, |mark| {
        world.fill(&queue, &memory, mark, Pace::Slow)?;
        let handle = world.create_pages(page)?;
        world.commit(&row.range, page, &[&handle])?;
        world.decommit(&row.range, page, &handle)?;
        Ok(world.destroy_pages(handle)?)
    })
}

fn a_refused_commit_maps_none<D: Trial>(world: &World<D>) -> Outcome {
    let (queue, page) = (world.queue()?, page(world)?);
    let mut row = world.row(8 * page)?;
    let [one, other] = [world.create_pages(page)?, world.create_pages(page)?];
    if !world.fail_commit() {
        world.destroy_pages(one)?;
        world.destroy_pages(other)?;
        return Err(Stop::passed_over("nobody can have a commit fail"));
    }
    let refused = world.commit(&row.range, page, &[&one, &other]);
    demand(refused.is_err(), || "the commit that was to fail went well".into())?;
    // What is mapped nowhere can be mapped, there and elsewhere.
    row.put(page, vec![(page, other)])?;
    row.put(2 * page, vec![(page, one)])?;
    world.mark(&queue.stream, &row.range, page, 2 * page, 3, Pace::Soon)?;
    world.mark(&queue.stream, &row.range, 2 * page, PIECE.min(page), 4, Pace::Soon)?;
    world.settle()?;
    world.expect_at(&row.range, page, page, 3, "after a commit was refused")?;
    world.expect_at(&row.range, 2 * page, PIECE.min(page), 4, "after a commit was refused")
}
