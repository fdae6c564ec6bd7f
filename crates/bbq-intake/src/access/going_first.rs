//! Who has to go first when something that all senders share runs out: always the largest holder of the identity that holds the most.
//! So a sender that holds little keeps it, whatever others do and however long it takes.
//!
//! Invariant: while an identity that holds more than others has something to give, nobody else gives anything.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use bbq_stored::Identity;

/// What somebody holds.
#[derive(Debug)]
pub(crate) struct Claim<K> {
    pub(crate) identity: Identity,
    /// How much: bytes, or 1 for a connection.
    pub(crate) size: usize,
    /// Among those of the same size, the smallest goes first.
    pub(crate) since: u64,
    /// `None`: it counts towards its identity, and cannot go.
    pub(crate) key: Option<K>,
}

/// Size, `since`, and key of what can go: the largest goes first.
type Candidate<K> = (usize, Reverse<u64>, K);
/// What an identity can give, the next one last.
type Given<K> = Vec<Candidate<K>>;

/// Takes claims in the order in which they have to go, until `enough` returns true.
pub(crate) fn take_first<K: Ord>(
    claims: impl Iterator<Item = Claim<K>>,
    mut enough: impl FnMut(K, usize) -> bool,
) {
    let mut identities: HashMap<Identity, (usize, Given<K>)> = HashMap::new();
    for Claim { identity, size, since, key } in claims {
        let (held, given) = identities.entry(identity).or_default();
        *held += size;
        given.extend(key.map(|key| (size, Reverse(since), key)));
    }
    // By what they hold; then by what they would give.
    let mut holders: BinaryHeap<(usize, Candidate<K>, Given<K>)> = BinaryHeap::new();
    let add = |holders: &mut BinaryHeap<_>, held, mut given: Given<K>| {
        if let Some(next) = given.pop() {
            holders.push((held, next, given));
        }
    };
    for (held, mut given) in identities.into_values() {
        given.sort_unstable();
        add(&mut holders, held, given);
    }
    while let Some((held, (size, _, key), given)) = holders.pop() {
        if enough(key, size) {
            return;
        }
        add(&mut holders, held - size, given);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(claims: &[(u32, usize, u64, bool)], count: usize) -> Vec<usize> {
        let claims = claims.iter().enumerate().map(|(key, (user, size, since, can_go))| Claim {
            identity: Identity::User(*user),
            size: *size,
            since: *since,
            key: can_go.then_some(key),
        });
        let mut taken = Vec::new();
        take_first(claims, |key, _| {
            taken.push(key);
            taken.len() == count
        });
        taken
    }

    #[test]
    fn the_identity_with_the_most_gives_its_largest_until_another_has_as_much() {
        // One sender has two large ones, another many small ones that are more in sum, and a third little.
        let claims = [
            (1, 40, 0, true),
            (1, 30, 1, true),
            (2, 25, 2, true),
            (2, 25, 3, true),
            (2, 25, 4, true),
            (3, 20, 5, true),
        ];
        assert_eq!(taken(&claims, 3), [2, 0, 3], "75, then 70, then 50 to 30");
        assert_eq!(taken(&claims, 9), [2, 0, 3, 1, 4, 5]);
    }

    #[test]
    fn what_cannot_go_counts_and_the_oldest_goes_first_among_equals() {
        let claims = [(1, 1, 9, true), (1, 1, 7, true), (2, 1, 0, true), (1, 50, 1, false)];
        assert_eq!(taken(&claims, 9), [1, 0, 2]);
    }
}
