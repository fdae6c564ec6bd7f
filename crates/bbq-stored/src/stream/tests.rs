//! Where a stream's next batch goes, and what of it is known.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::*;

type ToPlace = fn(u32) -> u64;
type ToState = fn(u32) -> LaneState;

const UNREAD: ToPlace = |_| 0;
const OPEN: ToState = |_| LaneState::Open;

fn lanes(here: u32) -> Lanes<ToPlace, ToState> {
    Lanes::new(here, UNREAD, OPEN)
}

fn numbers(first: u64, last: u64) -> Numbers {
    Numbers { records: Span { first, last }, given_up: 0 }
}

fn append(stream: &Stream, way: Way, here: u32, first: u64, last: u64) -> Result<Appended, NotAppended> {
    stream.append(way, &lanes(here), numbers(first, last), |_| Ok(1))
}

fn added(missing: u64) -> Result<Appended, NotAppended> {
    Ok(Appended::New { group: 1, missing, order_lost: None })
}

const RELAY: Way = Way::Relay { gives_up_order: false };

fn taken_over(stream: &Stream, owner: u64) {
    assert_eq!(stream.take_over(owner, 0, &lanes(0)), Home::Here);
}

#[test]
fn what_comes_late_is_stored_by_every_way_and_what_comes_twice_by_none() {
    let stream = Stream::default();
    taken_over(&stream, 1);
    for way in [RELAY, Way::Session(1)] {
        let stream = Stream::default();
        taken_over(&stream, 1);
        assert_eq!(append(&stream, way, 0, 1001, 1100), added(1000));
        assert_eq!(append(&stream, way, 0, 1, 1000), added(0));
        assert_eq!(append(&stream, way, 0, 1, 1000), Ok(Appended::Known { is_durable: false }));
        stream.set_durable(Span { first: 1001, last: 1100 }, 1, 1);
        stream.set_durable(Span { first: 1, last: 1000 }, 1, 1);
        assert_eq!(append(&stream, way, 0, 500, 1100), Ok(Appended::Known { is_durable: true }));
        assert_eq!(
            append(&stream, way, 0, 1100, 1101),
            Ok(Appended::Partly(Span { first: 1101, last: 1101 }))
        );
    }
    // A client that numbers its requests skips none.
    assert_eq!(append(&stream, Way::Request, 0, 2, 3), Err(NotAppended::Gap { known: 0 }));
    assert_eq!(append(&stream, Way::Request, 0, 1, 3), added(0));
}

#[test]
fn entries_of_a_journal_may_begin_anywhere_skip_numbers_and_come_late() {
    let stream = Stream::default();
    assert_eq!(append(&stream, Way::Upload, 0, 101, 110), added(100));
    assert_eq!(append(&stream, Way::Upload, 0, 121, 130), added(10));
    assert_eq!(append(&stream, Way::Upload, 0, 101, 105), Ok(Appended::Known { is_durable: false }));
    assert_eq!(append(&stream, Way::Upload, 0, 1, 100), added(0));
    assert_eq!(
        append(&stream, Way::Upload, 0, 105, 130),
        Ok(Appended::Partly(Span { first: 111, last: 120 }))
    );
}

#[test]
fn a_file_goes_on_behind_what_is_on_disk_and_the_bytes_between_records_leave_no_gap() {
    let stream = Stream::default();
    let add = |first, last, given_up| {
        let numbers = Numbers { records: Span { first, last }, given_up };
        stream.append(Way::Request, &lanes(0), numbers, |_| Ok(1))
    };
    assert_eq!(add(98, 100, 97), added(0));
    assert_eq!(stream.position(), 0);
    stream.set_durable(Span { first: 1, last: 100 }, 1, 1);
    assert_eq!(stream.position(), 100);
    assert_eq!(add(199, 200, 97), Err(NotAppended::Gap { known: 100 }), "byte 101 is missing");
    assert_eq!(add(199, 200, 98), added(0));
    stream.set_durable(Span { first: 101, last: 200 }, 2, 1);
    assert_eq!(stream.position(), 200);
}

#[test]
fn what_its_client_has_given_up_is_known() {
    let stream = Stream::default();
    taken_over(&stream, 1);
    let batch = Numbers { records: Span { first: 11, last: 20 }, given_up: 10 };
    assert_eq!(stream.append(Way::Session(1), &lanes(0), batch, |_| Ok(1)), added(0));
    assert_eq!(append(&stream, RELAY, 0, 1, 10), Ok(Appended::Known { is_durable: false }));
    stream.set_durable(batch.settled(), 1, 1);
    let progress = Some(Progress { done: 0, is_kept: false });
    let until = Settled::Until { last: 20, highest: 20, is_certain: true };
    assert_eq!(stream.settled_now(1, progress), Some(until));
}

#[test]
fn the_welcome_asks_for_what_is_missing_here_and_for_nothing_else() {
    let stream = Stream::default();
    for (first, last) in [(1, 10), (21, 30), (41, 50)] {
        stream.recover(Span { first, last }, (0, 0), last == 30, 1);
    }
    taken_over(&stream, 1);
    let last = |done: Option<u64>| {
        let progress = done.map(|done| Progress { done, is_kept: false });
        let Some(Settled::Until { last, highest: 50, is_certain }) = stream.settled_now(1, progress) else {
            panic!()
        };
        assert_eq!(is_certain, done.is_none_or(|done| done >= 21));
        last
    };
    assert_eq!(
        [0, 5, 10, 15, 20, 25, 30, 35, 40, 60].map(|done| last(Some(done))),
        [10, 10, 10, 10, 30, 30, 30, 30, 50, 50]
    );
    // A client that does not say where it is was told of 30.
    assert_eq!(last(None), 30);
}

/// A link may bring a part of a forgotten stream again: its client is not to believe that the rest is lost.
#[test]
fn what_a_link_has_brought_alone_says_nothing_of_what_the_client_was_told() {
    let stream = Stream::default();
    taken_over(&stream, 1);
    let until = |done| {
        let progress = Some(Progress { done, is_kept: false });
        let Some(Settled::Until { last, is_certain, .. }) = stream.settled_now(1, progress) else { panic!() };
        (last, is_certain)
    };
    assert_eq!(until(0), (0, false), "nobody has sent anything");
    for (first, last, missing) in [(10, 12, 9), (16, 16, 3)] {
        assert_eq!(append(&stream, RELAY, 0, first, last), added(missing));
        stream.set_durable(Span { first, last }, 1, 1);
    }
    assert_eq!((until(5), until(14), until(15)), ((0, false), (12, false), (16, false)));
    assert_eq!(append(&stream, Way::Session(1), 0, 6, 7), added(5));
    stream.set_durable(Span { first: 6, last: 7 }, 2, 1);
    assert_eq!((until(5), until(6), until(7)), ((7, false), (7, true), (7, true)));
}

/// A client whose stream the table has forgotten goes on in its middle. If the client's machine then loses power, the client may know less
/// than it was told, and the table nothing of that.
#[test]
fn what_the_client_sent_since_it_was_forgotten_says_nothing_of_what_it_was_told_before() {
    let (begun, recovered) = (Stream::default(), Stream::default());
    taken_over(&begun, 1);
    for (way, first, last) in [(Way::Session(1), 49, 52), (RELAY, 1, 3)] {
        assert!(matches!(append(&begun, way, 0, first, last), Ok(Appended::New { .. })));
        begun.set_durable(Span { first, last }, 1, 1);
        recovered.recover(Span { first, last }, (0, 0), way != RELAY, 1);
    }
    let remembered = Stream::default();
    remembered.remember(begun.known(StreamId([1; 16])));
    for (stream, owner) in [(begun, 2), (recovered, 3), (remembered, 4)] {
        taken_over(&stream, owner);
        let until = |done| {
            let progress = Some(Progress { done, is_kept: true });
            stream.settled_now(owner, progress)
        };
        let highest = 52;
        assert_eq!(until(37), Some(Settled::Until { last: 3, highest, is_certain: false }), "{owner}");
        assert_eq!(until(60), Some(Settled::Until { last: 52, highest, is_certain: true }), "{owner}");
    }
}

#[test]
fn after_a_lane_failed_with_batches_of_the_stream_nothing_is_taken_by_any_way() {
    let stream = Stream::default();
    taken_over(&stream, 1);
    assert_eq!(append(&stream, Way::Session(1), 0, 1, 10), added(0));
    stream.set_failed();
    for way in [Way::Session(1), RELAY, Way::Request] {
        for here in [0, 1] {
            assert!(matches!(append(&stream, way, here, 11, 20), Err(NotAppended::Failed(_))), "{way:?}");
            assert!(matches!(append(&stream, way, here, 1, 10), Err(NotAppended::Failed(_))), "{way:?}");
        }
    }
}

#[test]
fn batches_of_two_lanes_are_never_on_their_way_at_a_time() {
    let stream = Stream::default();
    assert_eq!(append(&stream, RELAY, 0, 1, 10), added(0));
    let gives_up = Way::Relay { gives_up_order: true };
    for way in [RELAY, gives_up, Way::Request] {
        assert_eq!(append(&stream, way, 1, 11, 20), Err(NotAppended::Elsewhere(Some(0))), "{way:?}");
    }
    stream.set_durable(Span { first: 1, last: 10 }, 100, 1);
    assert_eq!(append(&stream, RELAY, 1, 11, 20), Err(NotAppended::Elsewhere(Some(0))), "it is unread");
    assert_eq!(append(&stream, gives_up, 1, 1, 10), Ok(Appended::Known { is_durable: true }));
    assert_eq!(append(&stream, gives_up, 1, 11, 20), added(0));
    assert_eq!(append(&stream, RELAY, 0, 21, 30), Err(NotAppended::Elsewhere(Some(1))));
}

#[test]
fn a_stream_moves_when_all_of_it_was_passed_and_order_is_given_up_only_for_a_lane_that_takes_nothing() {
    let stream = Stream::default();
    taken_over(&stream, 1);
    assert_eq!(append(&stream, Way::Session(1), 0, 1, 5), added(0));
    let home = |here, passed: u64, state| stream.take_over(1, 0, &Lanes::new(here, |_| passed, |_| state));
    let (open, unwritten, failed) = (LaneState::Open, LaneState::Unwritten, LaneState::Failed);
    assert_eq!(home(1, u64::MAX, open), Home::Elsewhere(0), "it is not durable yet");
    stream.set_durable(Span { first: 1, last: 5 }, 100, 0);
    assert_eq!(home(1, 99, open), Home::Elsewhere(0));
    assert_eq!(home(0, 99, open), Home::Here);
    assert_eq!(home(1, 100, open), Home::Here, "every sink has committed it");
    assert_eq!(home(0, 0, open), Home::Here, "nothing of it is in lane 1");
    assert_eq!(append(&stream, Way::Session(1), 0, 6, 6), added(0));
    assert_eq!(home(1, 0, failed), Home::Lost(0));
    assert_eq!(home(2, 0, unwritten), Home::Here);
}

#[test]
fn a_stream_that_leaves_a_failed_lane_stays_there_until_its_next_batch() {
    let recovered = || {
        let stream = Stream::default();
        stream.recover(Span { first: 1, last: 12 }, (0, 100), true, 1);
        stream
    };
    let failed = Lanes::new(1, UNREAD, |_| LaneState::Failed);
    let request =
        |stream: &Stream, first| stream.append(Way::Request, &failed, numbers(first, first), |_| Ok(1));
    // Neither a hello nor a request that is refused has put anything into lane 1. The next start, where lane 0 is in order again, has to
    // put what comes next behind what is unread there.
    let stream = recovered();
    assert_eq!(stream.take_over(1, 0, &failed), Home::Lost(0));
    assert_eq!(request(&stream, 16), Err(NotAppended::Gap { known: 12 }));
    assert_eq!(request(&stream, 12), Ok(Appended::Known { is_durable: true }));
    let known = stream.known(StreamId([1; 16]));
    assert_eq!(known.home, Some((0, 100)));
    let restarted = Stream::default();
    restarted.remember(known);
    assert_eq!(append(&restarted, Way::Request, 1, 13, 15), Err(NotAppended::Elsewhere(Some(0))));
    // The order is lost with the next batch, by any way.
    let lost = Ok(Appended::New { group: 1, missing: 0, order_lost: Some(0) });
    assert_eq!(request(&stream, 13), lost);
    for way in [Way::Session(1), RELAY] {
        let stream = recovered();
        assert_eq!(stream.take_over(1, 0, &failed), Home::Lost(0));
        assert_eq!(stream.append(way, &failed, numbers(13, 13), |_| Ok(1)), lost);
        assert_eq!(stream.append(way, &failed, numbers(14, 14), |_| Ok(1)), added(0));
        stream.set_durable(Span { first: 13, last: 14 }, 10, 1);
        assert_eq!(stream.known(StreamId([1; 16])).home, Some((1, 10)));
    }
}

#[test]
fn who_waits_for_the_disk_hears_that_a_newer_connection_has_the_stream() {
    let stream = Stream::default();
    taken_over(&stream, 1);
    assert_eq!(append(&stream, Way::Session(1), 0, 1, 5), added(0));
    let mut context = Context::from_waker(Waker::noop());
    let mut waits = pin!(stream.settled(1));
    assert_eq!(waits.as_mut().poll(&mut context), Poll::Pending);
    taken_over(&stream, 2);
    assert_eq!(waits.as_mut().poll(&mut context), Poll::Ready(()));
    assert_eq!(stream.settled_now(1, None), Some(Settled::TakenOver));
    let mut waits = pin!(stream.settled(2));
    assert_eq!(waits.as_mut().poll(&mut context), Poll::Pending);
    stream.set_durable(Span { first: 1, last: 5 }, 0, 0);
    assert_eq!(waits.as_mut().poll(&mut context), Poll::Ready(()));
}

#[test]
fn a_request_takes_the_stream_from_its_connection() {
    let stream = Stream::default();
    taken_over(&stream, 1);
    assert_eq!(append(&stream, Way::Session(1), 0, 1, 3), added(0));
    assert_eq!(append(&stream, Way::Request, 0, 4, 4), added(0));
    assert_eq!(append(&stream, Way::Session(1), 0, 5, 5), Err(NotAppended::TakenOver));
    assert_eq!(append(&stream, Way::Request, 0, 5, 5), added(0));
}

#[test]
fn a_hello_of_an_earlier_connection_does_not_take_the_stream_back() {
    let stream = Stream::default();
    let take = |(owner, epoch)| stream.take_over(owner, epoch, &lanes(0)) == Home::Outdated;
    // Of two equal epochs the newest connection owns the stream. A hello without an epoch always takes over.
    let hellos = [(1, 8), (2, 7), (3, 8), (4, 0), (5, 7), (6, u64::MAX), (7, 8)];
    assert_eq!(hellos.map(take), [false, true, false, false, true, false, true]);
    assert!(stream.is_owned_by(6));
}
