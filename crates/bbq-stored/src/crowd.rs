//! Which streams the table forgets when it is full.
//!
//! Each holder has a share, so that one sender with very many streams makes the server forget its own and no others:
//!
//! - Streams of senders with a token come first: those of others have what is left, at least an eighth of the table.
//! - Within each of the two classes, the shares of holders with many streams are cut down to the same number.
//! - Of a holder, streams without a record go first, then those that are single requests, then those that their clients do not keep over
//!   restarts, then the rest; and of these the one that is silent for longest.

use std::cmp::Reverse;
use std::collections::HashMap;

use bbq_spool::NameMark;

use super::belongs::Belongs;
use super::checkpoint::Known;
use crate::identity::Identity;
use crate::of_request::is_of_request;

/// The part of the table that senders without a token always have, as a divisor.
const OTHERS_SHARE: usize = 8;

/// Who has a share. Tokens are told apart by the marks of their names: of some streams only that is known.
#[derive(PartialEq, Eq, Hash)]
enum Holder {
    Token(NameMark),
    Other(Identity),
}

impl Holder {
    fn of(row: &Known) -> Holder {
        match (&row.belongs, &row.holder) {
            (Belongs::ToNobody, Identity::Token(name)) => Holder::Token(NameMark::of(name)),
            (Belongs::ToNobody, other) => Holder::Other(other.clone()),
            (belongs, _) => Holder::Token(belongs.mark()),
        }
    }

    fn has_token(&self) -> bool {
        matches!(self, Holder::Token(_))
    }
}

/// Takes the rows out of `rows` that are to be forgotten, so that at most `streams_max` are left.
pub(super) fn take_excess(rows: &mut Vec<Known>, streams_max: usize) -> Vec<Known> {
    if rows.len() <= streams_max {
        return Vec::new();
    }
    let mut by_holder: HashMap<Holder, Vec<Known>> = HashMap::new();
    for row in rows.drain(..) {
        by_holder.entry(Holder::of(&row)).or_default().push(row);
    }
    let count = |with_token: bool| -> Vec<usize> {
        by_holder
            .iter()
            .filter(|(holder, _)| holder.has_token() == with_token)
            .map(|(_, rows)| rows.len())
            .collect()
    };
    let (known, others) = (count(true), count(false));
    let others_total: usize = others.iter().sum();
    let known_room = streams_max - others_total.min(streams_max / OTHERS_SHARE);
    let known_kept = known.iter().sum::<usize>().min(known_room);
    let mut classes = [
        Class { share: share(known, known_room), room: known_room, next: Vec::new() },
        Class {
            share: share(others, streams_max - known_kept),
            room: streams_max - known_kept,
            next: Vec::new(),
        },
    ];
    let mut excess = Vec::new();
    for (holder, mut held) in by_holder {
        let class = &mut classes[usize::from(!holder.has_token())];
        if held.len() > class.share {
            held.sort_unstable_by_key(worth);
            let mut beyond = held.drain(class.share..);
            class.next.extend(beyond.next());
            excess.extend(beyond);
        }
        class.room = class.room.saturating_sub(held.len());
        rows.append(&mut held);
    }
    // Equal shares leave some room: all of it, where there are more holders than room. It goes to one more stream of some holders.
    for Class { room, mut next, .. } in classes {
        next.sort_unstable_by_key(worth);
        let fitting = room.min(next.len());
        rows.extend(next.drain(..fitting));
        excess.append(&mut next);
    }
    excess
}

/// Holders with a token, or those without.
struct Class {
    /// Streams that each holder keeps.
    share: usize,
    /// Streams for which there is room beside those.
    room: usize,
    /// Of each holder with more streams, the first one behind the share.
    next: Vec<Known>,
}

/// The order in which streams are kept.
fn worth(row: &Known) -> impl Ord + use<> {
    let is_kept = row.is_kept || !row.belongs.is_to_nobody();
    Reverse((!row.numbers.is_empty(), !is_of_request(row.id), is_kept, row.seen, row.id))
}

/// The largest share with which holders of so many streams have at most `room` together.
fn share(mut counts: Vec<usize>, mut room: usize) -> usize {
    counts.sort_unstable();
    let mut holders = counts.len();
    for count in counts {
        if count > room / holders {
            return room / holders;
        }
        room -= count;
        holders -= 1;
    }
    usize::MAX
}

#[cfg(test)]
mod tests {
    use bbq_wire::{Ranges, StreamId};

    use super::*;

    fn row(number: u32, holder: &str, seen: u64) -> Known {
        Known {
            id: StreamId(u128::from(number).to_be_bytes()),
            numbers: Ranges::up_to(1),
            seen,
            holder: Identity::parse(holder).unwrap(),
            ..Known::default()
        }
    }

    fn left(rows: &[Known], holder: &str) -> usize {
        rows.iter().filter(|row| row.holder.to_string() == holder).count()
    }

    #[test]
    fn shares_are_cut_down_to_the_same_number() {
        assert_eq!(share(vec![1, 2, 3], 6), usize::MAX);
        assert_eq!(share(vec![100, 1, 2], 9), 6);
        assert_eq!(share(vec![100, 100], 9), 4);
        assert_eq!(share(vec![], 9), usize::MAX);
    }

    #[test]
    fn a_flood_from_one_address_makes_the_server_forget_its_own_streams_alone() {
        let mut rows: Vec<Known> = (0..1000).map(|number| row(number, "192.0.2.1", 100)).collect();
        rows.extend((1000..1010).map(|number| row(number, "192.0.2.2", 1)));
        rows.extend((1010..1020).map(|number| row(number, "token:till-4", 1)));
        let excess = take_excess(&mut rows, 100);
        assert_eq!(left(&rows, "192.0.2.2"), 10);
        assert_eq!(left(&rows, "token:till-4"), 10);
        assert_eq!((left(&rows, "192.0.2.1"), excess.len()), (80, 920));
    }

    #[test]
    fn where_there_are_more_holders_than_room_those_stay_who_were_heard_of_last() {
        let mut rows: Vec<Known> =
            (0..100).map(|number| row(number, &format!("192.0.2.{number}"), number.into())).collect();
        rows.extend((100..200).map(|number| row(number, "192.0.2.200", 1000)));
        let excess = take_excess(&mut rows, 60);
        assert_eq!((rows.len(), excess.len()), (60, 140));
        assert_eq!(left(&rows, "192.0.2.200"), 1);
        assert!(rows.iter().all(|row| row.seen > 40), "{rows:?}");
    }

    #[test]
    fn what_has_records_and_is_kept_stays_longest() {
        let mut rows: Vec<Known> = (0..10).map(|number| row(number, "192.0.2.1", 100)).collect();
        rows[3].numbers = Ranges::default();
        (rows[4].is_kept, rows[4].seen) = (true, 1);
        rows[5].seen = 50;
        let gone = |rows: &mut Vec<Known>, max| {
            take_excess(rows, max).iter().map(|row| u128::from_be_bytes(row.id.0)).collect::<Vec<_>>()
        };
        assert_eq!(gone(&mut rows, 9), [3]);
        assert_eq!(gone(&mut rows, 8), [5]);
        gone(&mut rows, 1);
        assert!(rows[0].is_kept);
    }

    #[test]
    fn single_requests_go_before_streams_that_go_on() {
        let mut rows: Vec<Known> = (0..10).map(|number| row(number, "token:a", 1)).collect();
        rows.extend((0..10).map(|number| Known {
            id: crate::stream_of_request(&[number; 32]),
            is_kept: true,
            ..row(0, "token:a", 100)
        }));
        let excess = take_excess(&mut rows, 10);
        assert!(excess.len() == 10 && excess.iter().all(|row| is_of_request(row.id)));
    }

    #[test]
    fn others_have_an_eighth_beside_any_number_of_tokens() {
        let mut rows: Vec<Known> = (0..1000).map(|number| row(number, "token:a", 100)).collect();
        rows.extend((1000..2000).map(|number| row(number, "192.0.2.2", 1)));
        take_excess(&mut rows, 80);
        assert_eq!((left(&rows, "token:a"), left(&rows, "192.0.2.2")), (70, 10));
    }

    #[test]
    fn a_token_whose_name_only_the_lanes_tell_is_the_same_holder() {
        let mut rows: Vec<Known> = (0..10).map(|number| row(number, "192.0.2.1", number.into())).collect();
        let name = "till-4";
        for (number, row) in rows.iter_mut().enumerate().take(8) {
            row.belongs = match number % 2 {
                0 => Belongs::To(name.into()),
                _ => Belongs::ToMarked(NameMark::of(name)),
            };
        }
        (rows[8].belongs, rows[9].belongs) = (Belongs::To("a".into()), Belongs::To("b".into()));
        let excess = take_excess(&mut rows, 3);
        assert_eq!((rows.len(), excess.len()), (3, 7));
        let holders = rows.iter().map(|row| row.belongs.mark());
        assert_eq!(holders.collect::<std::collections::HashSet<_>>().len(), 3);
    }
}
