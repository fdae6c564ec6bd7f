//! The fields that each record of a batch has of its own, as entries of the journal have. Many records have the same ones, so each set of
//! fields is there once.
//!
//! ```text
//! sets                     how many (varint), of each: length (varint), fields as in the attribute `fields`
//! of each record           0 for no fields, or the place of its set from 1 (varint)
//! ```
//!
//! Invariant: every place that is read is that of a set.

use std::collections::HashMap;

use super::attributes::{Fields, encode_fields};
use crate::varint;

/// The places of the sets of records, one for each record, or none.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Places<'a>(&'a [u8]);

impl<'a> Places<'a> {
    /// Checks the value of the attribute; `None` if it does not fit these records.
    pub(super) fn read(value: &'a [u8], records: u32) -> Option<Places<'a>> {
        if value.is_empty() {
            return Some(Places::default());
        }
        let mut places = value;
        let sets = varint::take(&mut places)?;
        for _ in 0..sets {
            let bytes = varint::take(&mut places)? as usize;
            places = places.get(bytes..)?;
        }
        let mut rest = places;
        for _ in 0..records {
            if varint::take(&mut rest)? > sets {
                return None;
            }
        }
        rest.is_empty().then_some(Places(places))
    }

    /// Skips `records` records.
    pub(super) fn pass_over(&mut self, records: u32) {
        (0..records).for_each(|_| {
            // Checked: it is there, unless no record has fields.
            let _place = varint::take(&mut self.0);
        });
    }
}

/// Iterates the fields of the records of a batch, one item for each record, or none.
#[derive(Clone, Debug)]
pub struct RecordFields<'a> {
    sets: Vec<&'a [u8]>,
    places: &'a [u8],
}

impl<'a> RecordFields<'a> {
    /// Of the value of the attribute that the places were read from.
    pub(super) fn of(mut value: &'a [u8], places: Places<'a>) -> RecordFields<'a> {
        let count = varint::take(&mut value).unwrap_or(0);
        let mut sets = Vec::new();
        for _ in 0..count {
            // Checked: each of them is there.
            let bytes = varint::take(&mut value).unwrap_or(0) as usize;
            let Some((set, rest)) = value.split_at_checked(bytes) else { break };
            sets.push(set);
            value = rest;
        }
        RecordFields { sets, places: places.0 }
    }

    /// Appends the value of the attribute for the first `records` records, with the sets that they use; nothing if they use none. The sets
    /// keep their order, so no place takes more bytes than before.
    pub(super) fn encode_first(&self, records: u32, value: &mut Vec<u8>) {
        let old_places = || {
            let mut rest = self.places;
            (0..records).map_while(move |_| varint::take(&mut rest))
        };
        // By old place; 0 for a set that is not used, and for "no fields".
        let mut new_places = vec![0; self.sets.len() + 1];
        old_places().for_each(|place| {
            if let Some(used) = new_places.get_mut(place as usize) {
                *used = 1;
            }
        });
        new_places[0] = 0;
        let mut count = 0;
        for place in new_places.iter_mut().filter(|used| **used > 0) {
            count += 1;
            *place = count;
        }
        if count == 0 {
            return;
        }
        varint::put(count, value);
        for (set, _) in self.sets.iter().zip(&new_places[1..]).filter(|(_, place)| **place > 0) {
            varint::put(set.len() as u32, value);
            value.extend_from_slice(set);
        }
        old_places().for_each(|place| {
            varint::put(new_places.get(place as usize).copied().unwrap_or(0), value);
        });
    }
}

impl<'a> Iterator for RecordFields<'a> {
    type Item = Fields<'a>;

    fn next(&mut self) -> Option<Fields<'a>> {
        let place = varint::take(&mut self.places)? as usize;
        let set = place.checked_sub(1).and_then(|index| self.sets.get(index));
        Some(Fields::of(set.copied().unwrap_or_default()))
    }
}

/// Collects the fields of records, each set once.
#[derive(Debug, Default)]
pub(super) struct FieldsBuilder {
    /// The place of each set, from 1.
    known: HashMap<Vec<u8>, u32>,
    /// The encoded sets with their lengths.
    sets: Vec<u8>,
    /// Of each record so far.
    places: Vec<u8>,
    /// How many records have a place.
    placed: u32,
    /// The last set that is not empty, and its place: neighbours often have the same fields.
    last: Vec<u8>,
    last_place: u32,
    /// Memory for the next one.
    set: Vec<u8>,
}

impl FieldsBuilder {
    /// Notes the fields of the last one of `records` records. Those before it that have no place have no fields.
    pub(super) fn set<'a>(&mut self, records: u32, fields: impl Iterator<Item = (&'a str, &'a str)>) {
        let mut set = std::mem::take(&mut self.set);
        set.clear();
        encode_fields(fields, &mut set);
        self.set_encoded(records, &set);
        self.set = set;
    }

    /// The same of fields that are encoded, within their limits.
    pub(super) fn set_encoded(&mut self, records: u32, set: &[u8]) {
        self.fill(records.saturating_sub(1));
        let place = if set.is_empty() {
            0
        } else if set == self.last {
            self.last_place
        } else {
            let place = self.place(set);
            self.last.clear();
            self.last.extend_from_slice(set);
            self.last_place = place;
            place
        };
        if self.placed < records {
            varint::put(place, &mut self.places);
            self.placed = records;
        }
    }

    /// The place of a set, which may be new.
    fn place(&mut self, set: &[u8]) -> u32 {
        if let Some(place) = self.known.get(set) {
            return *place;
        }
        let place = self.known.len() as u32 + 1;
        self.known.insert(set.to_vec(), place);
        varint::put(set.len() as u32, &mut self.sets);
        self.sets.extend_from_slice(set);
        place
    }

    fn fill(&mut self, records: u32) {
        while self.placed < records {
            varint::put(0, &mut self.places);
            self.placed += 1;
        }
    }

    /// Bytes of the attribute so far.
    pub(super) fn bytes(&self) -> usize {
        self.sets.len() + self.places.len()
    }

    /// Appends the value of the attribute for so many records.
    pub(super) fn encode(&mut self, records: u32, value: &mut Vec<u8>) {
        self.fill(records);
        varint::put(self.known.len() as u32, value);
        value.extend_from_slice(&self.sets);
        value.extend_from_slice(&self.places);
    }
}
