//! A set of recent senders: two Bloom filters, one for the current generation and one for the last.
//!
//! It may have a sender that was never noted, but it has every sender that was noted in the current generation and the last. With
//! 100,000 senders in a generation it wrongly has 1 of 140, with 500,000 1 of 4.
//!
//! Invariant: noting a sender that is noted already writes nothing.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use crate::steering::key::mix;

/// How long a generation lasts. A sender that was silent for two may get another worker; a NAT may have forgotten it, too.
pub(crate) const GENERATION_MS: u64 = 30_000;

/// 256 KiB for each generation.
const WORDS: usize = 32 * 1024;
const WORD_BITS: u32 = WORDS.ilog2();

/// A sender in the filter: which word, and which three bits of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fingerprint {
    word: usize,
    bits: u64,
}

impl Fingerprint {
    pub(crate) fn new(hash: u64) -> Self {
        let hash = mix(hash);
        let bit = |place: u32| 1_u64 << (hash >> (6 * place) & 63);
        Self { word: (hash >> (u64::BITS - WORD_BITS)) as usize, bits: bit(0) | bit(1) | bit(2) }
    }
}

#[derive(Debug)]
pub(crate) struct SenderFilter {
    generations: [Box<[AtomicU64]>; 2],
    current: AtomicUsize,
    /// When the current generation began, in milliseconds of a clock that never goes back.
    began_ms: AtomicU64,
}

impl SenderFilter {
    pub(crate) fn new(now_ms: u64) -> Self {
        Self {
            generations: std::array::from_fn(|_| (0..WORDS).map(|_| AtomicU64::new(0)).collect()),
            current: AtomicUsize::new(0),
            began_ms: AtomicU64::new(now_ms),
        }
    }

    pub(crate) fn note(&self, fingerprint: Fingerprint) {
        let word = &self.generations[self.current.load(Relaxed)][fingerprint.word];
        if word.load(Relaxed) & fingerprint.bits != fingerprint.bits {
            word.fetch_or(fingerprint.bits, Relaxed);
        }
    }

    pub(crate) fn has(&self, fingerprint: Fingerprint) -> bool {
        let is_in = |words: &[AtomicU64]| {
            words[fingerprint.word].load(Relaxed) & fingerprint.bits == fingerprint.bits
        };
        self.generations.iter().any(|words| is_in(words))
    }

    /// Adds all senders of another filter to the current generation.
    pub(crate) fn add(&self, other: &Self) {
        let current = &self.generations[self.current.load(Relaxed)];
        for words in &other.generations {
            for (word, other) in current.iter().zip(words.iter()) {
                word.fetch_or(other.load(Relaxed), Relaxed);
            }
        }
    }

    /// Begins a new generation if it is time. Returns whether one began. Any thread may call it at any time.
    pub(crate) fn age(&self, now_ms: u64) -> bool {
        let began = self.began_ms.load(Relaxed);
        let age_ms = now_ms.saturating_sub(began);
        if age_ms < GENERATION_MS || self.began_ms.compare_exchange(began, now_ms, Relaxed, Relaxed).is_err()
        {
            return false;
        }
        let clear = |words: &[AtomicU64]| words.iter().for_each(|word| word.store(0, Relaxed));
        let current = self.current.load(Relaxed);
        // Cleared before anybody notes in it.
        clear(&self.generations[1 - current]);
        if age_ms >= 2 * GENERATION_MS {
            clear(&self.generations[current]);
        }
        self.current.store(1 - current, Relaxed);
        true
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.generations.iter().flatten().all(|word| word.load(Relaxed) == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_is_forgotten_after_two_generations_by_the_clock() {
        let filter = SenderFilter::new(5);
        let fingerprint = Fingerprint::new(7);
        filter.note(fingerprint);
        assert!(!filter.age(5 + GENERATION_MS - 1));
        assert!(filter.age(5 + GENERATION_MS) && filter.has(fingerprint));
        assert!(filter.age(5 + 2 * GENERATION_MS) && !filter.has(fingerprint));
        filter.note(fingerprint);
        // Nobody looked for long.
        assert!(filter.age(5 + 9 * GENERATION_MS) && !filter.has(fingerprint) && filter.is_empty());
    }

    #[test]
    fn every_noted_sender_is_there_and_few_others() {
        let filter = SenderFilter::new(0);
        let fingerprints = |from: u64| (from..from + 100_000).map(|number| Fingerprint::new(mix(number)));
        fingerprints(0).for_each(|fingerprint| filter.note(fingerprint));
        assert!(fingerprints(0).all(|fingerprint| filter.has(fingerprint)));
        let wrong = fingerprints(1_000_000).filter(|fingerprint| filter.has(*fingerprint)).count();
        assert!(wrong < 1000, "{wrong} of 100,000");
        let copy = SenderFilter::new(0);
        copy.add(&filter);
        assert!(fingerprints(0).all(|fingerprint| copy.has(fingerprint)));
    }
}
