//! Every answer of the zone, encoded in advance.
//!
//! Invariant: no answer is longer than [`ANSWER_BYTES_MAX`].
//! Invariant: an answer's bytes are right behind a question for the name that they were made for, and nowhere else.

use std::collections::{BTreeMap, HashMap};

use crate::wire::{CLASS_IN, NAME_OF_QUESTION, code, is_within, kind, parent};
use crate::zone::{Record, ZoneError};

/// A message over TCP has at most 65,535 bytes; the rest is for header, question and EDNS.
const ANSWER_BYTES_MAX: usize = 60_000;
/// The longest chain of aliases. A longer one is a mistake or a cycle.
const ALIASES_MAX: usize = 8;

/// What follows the question.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) code: u8,
    pub(crate) answers: u16,
    pub(crate) authorities: u16,
    pub(crate) bytes: Vec<u8>,
}

/// All that is known of a name.
#[derive(Debug)]
struct Node {
    by_kind: Vec<(u16, Answer)>,
    /// For every other type.
    other: Answer,
}

/// The zone, ready to answer.
#[derive(Debug)]
pub(crate) struct Table {
    nodes: HashMap<Box<[u8]>, Node>,
    apex: Option<Vec<u8>>,
    no_such_name: Answer,
    refused: Answer,
}

/// By name, by type.
type Sets<'a> = BTreeMap<&'a [u8], BTreeMap<u16, Vec<&'a Record>>>;

impl Table {
    pub(crate) fn new(records: &[Record]) -> Result<Self, ZoneError> {
        let mut sets = Sets::new();
        for record in records {
            sets.entry(&record.owner).or_default().entry(record.kind).or_default().push(record);
        }
        let soa = check(records, &sets)?;
        let apex = soa.map(|soa| soa.owner.clone());
        // A name that has names below it is there, even without records: RFC 8020.
        let owners: Vec<&[u8]> = sets.keys().copied().collect();
        for owner in owners {
            let mut above = parent(owner);
            while apex.as_ref().is_some_and(|apex| above.len() > apex.len()) {
                sets.entry(above).or_default();
                above = parent(above);
            }
        }
        let zone = Zone { sets: &sets, soa };
        let nodes = sets.iter().map(|(&name, kinds)| Ok((name.into(), zone.node(name, kinds)?)));
        let mut no_such_name = Answer { code: code::NO_SUCH_NAME, ..Answer::default() };
        zone.add_soa(&mut no_such_name);
        Ok(Self {
            nodes: nodes.collect::<Result<_, ZoneError>>()?,
            apex,
            no_such_name,
            refused: Answer { code: code::REFUSED, ..Answer::default() },
        })
    }

    pub(crate) fn names(&self) -> usize {
        self.nodes.len()
    }

    /// The answer for `name`, in lower case, and type `wanted`.
    pub(crate) fn answer(&self, name: &[u8], wanted: u16) -> &Answer {
        match self.nodes.get(name) {
            Some(node) => node
                .by_kind
                .iter()
                .find(|(kind, _)| *kind == wanted)
                .map_or(&node.other, |(_, answer)| answer),
            None if self.apex.as_ref().is_some_and(|apex| !is_within(name, apex)) => &self.refused,
            None => &self.no_such_name,
        }
    }
}

/// What the parser of single records cannot see. Returns the zone's SOA, if it has one.
fn check<'a>(records: &'a [Record], sets: &Sets<'_>) -> Result<Option<&'a Record>, ZoneError> {
    let refuse =
        |record: &Record, problem: &str| Err(ZoneError { line: record.line, problem: problem.to_owned() });
    let mut soas = records.iter().filter(|record| record.kind == kind::SOA);
    let soa = soas.next();
    if let Some(second) = soas.next() {
        return refuse(second, "a second SOA; a zone has one");
    }
    for record in records {
        let kinds = &sets[record.owner.as_slice()];
        if record.kind == kind::CNAME && (kinds.len() > 1 || kinds[&kind::CNAME].len() > 1) {
            return refuse(record, "a name with a CNAME has no other records (RFC 1034, section 3.6.2)");
        }
        if soa.is_some_and(|soa| !is_within(&record.owner, &soa.owner)) {
            return refuse(record, "its name is not in the zone that the SOA is for");
        }
    }
    Ok(soa)
}

struct Zone<'a> {
    sets: &'a Sets<'a>,
    soa: Option<&'a Record>,
}

impl Zone<'_> {
    fn node(&self, name: &[u8], kinds: &BTreeMap<u16, Vec<&Record>>) -> Result<Node, ZoneError> {
        let mut wanted: Vec<u16> = kinds.keys().copied().collect();
        if wanted == [kind::CNAME] {
            wanted = kind::ALL.iter().map(|(_, kind)| *kind).collect();
        }
        let mut by_kind: Vec<(u16, Answer)> =
            wanted.iter().map(|&wanted| (wanted, self.resolve(name, wanted))).collect();
        if let Some(&first) = kinds.keys().next() {
            by_kind.push((kind::ANY, self.resolve(name, first))); // one set is enough: RFC 8482, section 4.1
        }
        if by_kind.iter().any(|(_, answer)| answer.bytes.len() > ANSWER_BYTES_MAX) {
            let line = kinds.values().flatten().map(|record| record.line).max().unwrap_or(0);
            let problem = format!("the records of this name have more than {ANSWER_BYTES_MAX} bytes");
            return Err(ZoneError { line, problem });
        }
        Ok(Node { by_kind, other: self.resolve(name, 0) })
    }

    /// Follows aliases to the records wanted, or to where there are none.
    fn resolve(&self, name: &[u8], wanted: u16) -> Answer {
        let mut answer = Answer::default();
        let mut owner = name.to_vec();
        for _ in 0..ALIASES_MAX {
            let field = if answer.answers == 0 { &NAME_OF_QUESTION[..] } else { &owner };
            let Some(kinds) = self.sets.get(owner.as_slice()) else {
                if self.soa.is_none_or(|soa| is_within(&owner, &soa.owner)) {
                    answer.code = code::NO_SUCH_NAME;
                    self.add_soa(&mut answer);
                }
                break;
            };
            if let Some(records) = kinds.get(&wanted) {
                for record in records {
                    add(&mut answer.bytes, field, record, record.ttl);
                    answer.answers += 1;
                }
                break;
            }
            let Some(alias) = kinds.get(&kind::CNAME).and_then(|records| records.first()) else {
                self.add_soa(&mut answer);
                break;
            };
            add(&mut answer.bytes, field, alias, alias.ttl);
            answer.answers += 1;
            owner = alias.data.to_ascii_lowercase();
        }
        answer
    }

    /// What says how long "there is no such thing" may be remembered: RFC 2308, section 3.
    fn add_soa(&self, answer: &mut Answer) {
        let Some(soa) = self.soa else { return };
        let minimum = soa.data.last_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
        add(&mut answer.bytes, &soa.owner, soa, soa.ttl.min(minimum));
        answer.authorities += 1;
    }
}

/// `name` type class TTL length data: RFC 1035, section 4.1.3.
fn add(bytes: &mut Vec<u8>, name: &[u8], record: &Record, ttl: u32) {
    bytes.extend(name);
    bytes.extend(record.kind.to_be_bytes());
    bytes.extend(CLASS_IN.to_be_bytes());
    bytes.extend(ttl.to_be_bytes());
    bytes.extend((record.data.len() as u16).to_be_bytes());
    bytes.extend(&record.data);
}
