//! Compares what a receiver has with what was promised, and with the sink's counts and dead letters.

use std::collections::{BTreeMap, BTreeSet};

use bbq_sink::REFUSED;
use bbq_wire::StreamId;

use super::{Key, Receiver};
use crate::history::{History, SKIPPED, Violation};
use crate::record::Record;

/// Of what a receiver says only how many it rejects, in a ledger.
const PARTIAL_SUCCESS: &str = "partial_success";

/// What was found of a sink when everything was drained.
#[derive(Debug)]
pub(crate) struct Found<'a> {
    pub(crate) sink: &'a str,
    pub(crate) delivered: u64,
    pub(crate) dropped: &'a BTreeMap<String, u64>,
    /// Records that were in the lanes.
    pub(crate) records: u64,
    pub(crate) letters: &'a BTreeSet<Record>,
    /// Dead letters may have been deleted to make room for others.
    pub(crate) may_lose_letters: bool,
    /// The sink may give up what is over its limits.
    pub(crate) has_limits: bool,
}

impl Receiver {
    /// Checks what the receiver has, once everything is drained.
    pub(crate) fn check(&self, found: &Found<'_>, history: &History) -> Result<(), Violation> {
        let fail = |text: String| Err(Violation(format!("{}: {text}", found.sink)));
        if let Some(wrong) = self.wrong() {
            return fail(wrong);
        }
        let sum = found.delivered + found.dropped.values().sum::<u64>();
        if sum != found.records {
            let Found { delivered, dropped, records, .. } = found;
            return fail(format!(
                "delivered {delivered} and dropped {dropped:?} make {sum}, but there were {records} records"
            ));
        }
        let state = self.state();
        if let Some((stream, sequence, record)) = state
            .taken
            .iter()
            .find(|(stream, sequence, record)| history.sent(*stream, *sequence) != Some(*record))
        {
            return fail(format!(
                "{record:?} came as number {sequence} of {stream}, but never had that number"
            ));
        }
        if found.delivered > (state.taken.len() + state.given_up.len()) as u64 {
            let taken = state.taken.len();
            return fail(format!("{} are counted as delivered, but it has {taken}", found.delivered));
        }
        let taken: BTreeSet<Record> = state.taken.iter().map(|(_, _, record)| *record).collect();
        let (is_cured, given_up) = (state.is_cured, state.given_up.len() as u64);
        drop(state);
        if let Some(text) =
            self.wrong_refusals(found, is_cured).or_else(|| missing(found, &taken, given_up, history))
        {
            return fail(text);
        }
        self.out_of_order(found, history).map_or(Ok(()), fail)
    }

    /// Whether the ledger counts each refused message once.
    fn wrong_refusals(&self, found: &Found<'_>, is_cured: bool) -> Option<String> {
        let state = self.state();
        let refused = found.dropped.get(REFUSED).copied().unwrap_or_default();
        let most = state.refusals.len() as u64;
        if refused > most {
            return Some(format!("{refused} are counted as refused, but it refused {most}"));
        }
        let poison = state.refusals.keys().filter(|(.., record)| self.is_poison(record)).count() as u64;
        let counts_each = !is_cured && !found.has_limits && state.skips == 0;
        (counts_each && self.options.counts_each_refusal() && refused < poison).then(|| {
            format!("{refused} are counted as refused, but it refused {poison} messages that it never takes")
        })
    }

    /// Whether a stream came out of order, where one request at a time is made.
    fn out_of_order(&self, found: &Found<'_>, history: &History) -> Option<String> {
        let state = self.state();
        if self.options.in_flight != Some(1) || found.has_limits || state.skips > 0 {
            return None;
        }
        let mut last: BTreeMap<StreamId, u64> = BTreeMap::new();
        let first = state.order.iter().filter(|key: &&Key| !state.refusals.contains_key(*key));
        for (stream, sequence, _) in first.filter(|(stream, ..)| history.keeps_order(*stream)) {
            let before = last.insert(*stream, *sequence).unwrap_or(0);
            if before > *sequence {
                return Some(format!("number {sequence} of {stream} came behind {before}"));
            }
        }
        None
    }
}

/// Acknowledged messages that are nowhere, and not counted. Of those that were `given_up`, the receiver said
/// only how many it rejects.
fn missing(found: &Found<'_>, taken: &BTreeSet<Record>, given_up: u64, history: &History) -> Option<String> {
    let acknowledged = history.acknowledged_records();
    let missing: Vec<&Record> = acknowledged
        .iter()
        .filter(|record| !taken.contains(record) && !found.letters.contains(record))
        .collect();
    let first = missing.first()?;
    let kept = [REFUSED, SKIPPED].map(|reason| found.dropped.get(reason).copied().unwrap_or_default());
    let kept: u64 = if found.may_lose_letters { 0 } else { kept.iter().sum() };
    let partly = found.dropped.get(PARTIAL_SUCCESS).copied().unwrap_or_default();
    let lost = found.dropped.values().sum::<u64>() - kept - partly + given_up;
    let count = missing.len() as u64;
    (count > lost).then(|| {
        let (total, letters) = (acknowledged.len(), found.letters.len());
        format!(
            "{count} of {total} acknowledged records are neither delivered nor among {letters} dead letters ({lost} counted as lost), the \
             first is {first:?}"
        )
    })
}
