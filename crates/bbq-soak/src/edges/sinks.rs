//! The sinks of a server: those that it always has, and those that are added and removed. Every configuration draws anew which it
//! has.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::admin;
use crate::random::Random;
use crate::settings::ROTATIONS;

/// Why a sink has missed messages: they were deleted before it was added for the first time, or while it was removed.
const MISSED: [&str; 2] = ["before-sink", "oldest"];

pub(super) struct Sink {
    name: &'static str,
    /// The SPEC is drawn from these.
    specs: Vec<String>,
    /// Whether it is added and removed.
    comes_and_goes: bool,
    is_present: bool,
    /// How often it was added.
    pub(super) additions: u64,
}

/// What a sink has delivered, and what it has missed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delivered {
    pub(super) messages: u64,
    pub(super) missed: u64,
}

impl Sink {
    /// A file with the messages as JSON, which has the lane of each.
    pub(super) fn file(name: &'static str, path: &Path, comes_and_goes: bool) -> Sink {
        let spec = |rotate: &&str| format!("file:{}?name={name}&format=json&{rotate}", path.display());
        Sink::new(name, ROTATIONS.iter().map(spec).collect(), comes_and_goes)
    }

    /// A link to another server at any of its addresses.
    pub(super) fn link(name: &'static str, addresses: &[String], comes_and_goes: bool) -> Sink {
        let spec = |address: &String| format!("{address}?name={name}");
        Sink::new(name, addresses.iter().map(spec).collect(), comes_and_goes)
    }

    fn new(name: &'static str, specs: Vec<String>, comes_and_goes: bool) -> Sink {
        Sink { name, specs, comes_and_goes, is_present: false, additions: 0 }
    }

    /// Draws whether the configuration has this sink, and its SPEC.
    fn draw(&mut self, random: &mut Random) -> Option<String> {
        let is_present = !self.comes_and_goes || random.percent(50);
        self.additions += u64::from(is_present && !self.is_present);
        self.is_present = is_present;
        is_present.then(|| format!("\"{}\"", random.one_of(&self.specs)))
    }

    /// Adds the sink if it is not there.
    fn add(&mut self, random: &mut Random) -> String {
        self.additions += u64::from(!self.is_present);
        self.is_present = true;
        format!("\"{}\"", random.one_of(&self.specs))
    }
}

/// Some of the sinks.
pub(super) fn draw(sinks: &mut [Sink], random: &mut Random) -> String {
    let specs: Vec<String> = sinks.iter_mut().filter_map(|sink| sink.draw(random)).collect();
    format!("sink = [{}]\n", specs.join(", "))
}

/// All sinks.
pub(super) fn all(sinks: &mut [Sink], random: &mut Random) -> String {
    let specs: Vec<String> = sinks.iter_mut().map(|sink| sink.add(random)).collect();
    format!("sink = [{}]\n", specs.join(", "))
}

/// What each sink has delivered by the status of a quiet server that has all sinks. Each must have had every message, but for those
/// that a sink missed while it was removed.
pub(super) fn delivered(sinks: &[Sink], status: &Value) -> Result<BTreeMap<&'static str, Delivered>> {
    let received = admin::sum(&status["ledger"]["delivered"]);
    let mut all = BTreeMap::new();
    for sink in sinks {
        let shown = status["sinks"].as_array().into_iter().flatten();
        let shown = shown.clone().find(|shown| shown["name"] == sink.name);
        let shown = shown.with_context(|| format!("the status has no sink {}", sink.name))?;
        let (messages, dropped) = (admin::sum(&shown["delivered"]), admin::sum(&shown["dropped"]));
        let missed: u64 = MISSED.iter().map(|reason| admin::sum(&shown["dropped"][reason])).sum();
        ensure!(
            dropped == missed && (missed == 0 || sink.comes_and_goes),
            "the sink {} has dropped messages: {shown}",
            sink.name
        );
        ensure!(
            messages + missed == received,
            "the sink {} has delivered {messages} messages and missed {missed}, but the server has had {received}",
            sink.name
        );
        all.insert(sink.name, Delivered { messages, missed });
    }
    Ok(all)
}
