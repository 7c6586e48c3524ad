//! The order of operations: several threads, lines out of order, replays.

use core::fmt::Write as _;

use pool_mock::log::{Location, Oddity};

use crate::helpers::{HEADER, allocate, bundled, check_order, free, read, with_header};

#[test]
fn p119_a_trace_replays_the_same_any_number_of_times_and_from_any_thread() {
    // Thread 2 frees what thread 1 allocated.
    let mut rows = String::from(HEADER);
    for number in 0..500 {
        let size_bytes = number + 1;
        writeln!(rows, "1,10:00:00.000000,allocate,{number:#x}00,{size_bytes},0").unwrap();
        if number >= 3 {
            writeln!(rows, "2,10:00:00.000000,free,{:#x}00,0,0", number - 3).unwrap();
        }
    }
    let traces = [read(&rows), bundled("multi_stream.csv.gz")];
    for trace in &traces {
        let expected = check_order(trace);
        std::thread::scope(|scope| {
            let replays: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| (0..3).map(|_| check_order(trace)).collect::<Vec<_>>()))
                .collect();
            for replay in replays {
                assert_eq!(replay.join().unwrap(), [expected; 3]);
            }
        });
    }
    assert_eq!(traces[0].threads(), [1, 2]);
    // Reading again gives the same trace.
    assert_eq!(read(&rows).operations, traces[0].operations);
}

#[test]
fn p120_lines_in_the_wrong_order_are_put_in_order() {
    // The free of an allocation that comes later in the file.
    let late = with_header(
        "1,10:00:00.000001,allocate,0xb0,8,0\n\
         2,10:00:00.000005,free,0xa0,64,3\n\
         1,10:00:00.000004,allocate,0xa0,64,0\n\
         1,10:00:00.000006,allocate,0xc0,8,0\n",
    );
    check_order(&late);
    assert_eq!(
        late.operations,
        [allocate(0, 0, 0, 8), allocate(0, 0, 1, 64), free(1, 1, 1), allocate(0, 0, 2, 8)]
    );
    assert_eq!(late.unknown_frees(), 0);
    assert_eq!(late.report().count(Oddity::LateAllocation), 1);
    assert_eq!(late.report().first(Oddity::LateAllocation), Some(Location::Line(4)));
    assert_eq!(late.report().first(Oddity::ClockBack), Some(Location::Line(4)));

    // The free that makes room for an allocation, after it.
    let late = with_header(
        "1,10:00:00.000001,allocate,0xa0,64,0\n\
         2,10:00:00.000005,allocate,0xa0,32,0\n\
         1,10:00:00.000004,free,0xa0,64,0\n\
         2,10:00:00.000006,free,0xa0,32,0\n",
    );
    check_order(&late);
    let expected = [allocate(0, 0, 0, 64), free(1, 0, 0), allocate(1, 0, 1, 32), free(1, 0, 1)];
    assert_eq!(late.operations, expected);
    assert_eq!(late.report().count(Oddity::LateFree), 1);
    assert_eq!(late.report().count(Oddity::ImplicitFree), 0);

    // The same over midnight.
    let late = with_header(
        "1,23:59:59.999999,allocate,0xa0,64,0\n\
         2,00:00:00.000001,allocate,0xa0,32,0\n\
         1,23:59:59.999999,free,0xa0,64,0\n\
         2,00:00:00.000006,free,0xa0,32,0\n",
    );
    check_order(&late);
    assert_eq!(late.operations, expected);
    assert_eq!(late.report().count(Oddity::LateFree), 1);
    assert!(late.report().count(Oddity::MidnightWrap) > 0);
}

#[test]
fn p120_where_the_times_do_not_say_so_the_order_of_the_file_holds() {
    for time in ["10:00:00.000001", "10:00:00.000009", "10:00:02.000000", "", "?"] {
        // Equal, later, later by far, or no time: nothing is moved.
        let trace = with_header(&format!(
            "1,10:00:00.000001,free,0xa0,64,0\n1,{time},allocate,0xa0,64,0\n"
        ));
        check_order(&trace);
        assert_eq!(trace.unknown_frees(), 1, "{time}");
        assert_eq!(trace.peak_live_blocks(), 1);
        let live = with_header(&format!(
            "1,10:00:00.000001,allocate,0xa0,64,0\n\
             1,10:00:00.000001,allocate,0xa0,32,0\n\
             1,{time},free,0xa0,32,0\n"
        ));
        check_order(&live);
        assert_eq!(
            live.operations,
            [allocate(0, 0, 0, 64), free(0, 0, 0), allocate(0, 0, 1, 32), free(0, 0, 1)]
        );
        assert_eq!(live.report().count(Oddity::ImplicitFree), 1, "{time}");
        assert_eq!(live.report().first(Oddity::ImplicitFree), Some(Location::Line(3)));
        assert_eq!(live.report().count(Oddity::UnreadableTime), u64::from(time == "?"));
    }
    // Earlier, but by more than the window: not the same moment.
    let far =
        with_header("1,10:00:05.000000,free,0xa0,64,0\n1,10:00:00.000000,allocate,0xa0,64,0\n");
    assert_eq!(far.unknown_frees(), 1);
    assert_eq!(far.report().count(Oddity::ClockBack), 1);
    // Close in time, but too many lines between: the window has passed.
    for (between, unknown) in [(1023, 0), (1024, 1)] {
        let rows = "1,10:00:00.000005,allocate failure,,1,0\n".repeat(between);
        let trace = with_header(&format!(
            "1,10:00:00.000005,free,0xa0,64,0\n{rows}1,10:00:00.000004,allocate,0xa0,64,0\n"
        ));
        assert_eq!(trace.unknown_frees(), unknown, "{between}");
        check_order(&trace);
    }
}

#[test]
fn p120_odd_rows_are_reported() {
    let trace = with_header(
        "1,10:00:00.000001,allocate,(nil),0,0\n\
         1,10:00:00.000001,free,(nil),0,0\n\
         1,10:00:00.000001,allocate,0xa0,0,0\n\
         1,10:00:00.000001,free,0xa0,0,0\n\
         1,10:00:00.000001,allocate,0x0,64,0\n\
         1,10:00:00.000001,allocate,0xa0,64,0\n\
         1,10:00:00.000001,free,0xa0,32,0\n\
         1,10:00:00.000001,free,0x0,8,0\n",
    );
    check_order(&trace);
    assert_eq!(trace.operations.len(), 4);
    let report = trace.report();
    assert_eq!(report.count(Oddity::ZeroSize), 2);
    assert_eq!(report.count(Oddity::NullAllocation), 1);
    assert_eq!(report.first(Oddity::NullAllocation), Some(Location::Line(6)));
    assert_eq!(report.count(Oddity::SizeMismatch), 1);
    assert_eq!((trace.recorded_failures(), trace.unknown_frees()), (1, 1));
    assert_eq!(trace.location(1), Some(Location::Line(7)));
}
