//! `bbq check FILE --test CASES`: what the rules of a configuration do with messages.
//!
//! ```text
//! [[case]]
//! input = "text"                  a message as it comes; at an `otlp` listener a request in JSON
//! listener = "NAME"               or a reader; not needed if there is only one
//! fields = { pod = "web-0" }      of a reader
//! peer = "192.0.2.1:514"
//! left_out = true                 what is expected: any of these four
//! redacted = "text"
//! sinks = ["NAME"]
//! parsed = { level = "warn" }     these fields; `{}` for none at all
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context as _, anyhow, ensure};
use bbq_format::otlp::{from_json, put_body};
use bbq_rules::{Attributes, FIELD_ALIASES, FieldSet, Message, Rules, Scratch};
use bbq_server::config::{Config, SinkSpec};
use bbq_spool::{ParseFields as _, ParsedRecord};
use bbq_wire::{Peer, SourceKind, StreamId};
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use crate::outcome::{Outcome, misuse};

/// Nobody writes more by hand, and a file of another kind is refused without being read.
const FILE_BYTES_MAX: u64 = 16 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cases {
    case: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: Option<String>,
    input: String,
    listener: Option<String>,
    #[serde(default)]
    fields: BTreeMap<String, String>,
    peer: Option<SocketAddr>,
    left_out: Option<bool>,
    redacted: Option<String>,
    sinks: Option<Vec<String>>,
    parsed: Option<Map<String, Json>>,
}

/// Where messages come in.
struct Door<'a> {
    name: &'a str,
    head: &'a str,
    kind: SourceKind,
    rules: Option<&'a Rules>,
}

/// What becomes of a message.
#[derive(Debug, PartialEq)]
struct Became {
    left_out: bool,
    redacted: String,
    sinks: Vec<String>,
    /// The fields that are found, and by whose `parse`: that of the listener or reader, or those of the sinks that get the message.
    parsed: Vec<(String, Map<String, Json>)>,
    /// Whether the expression failed.
    failed: bool,
}

/// Runs the cases, and prints those that fail.
pub(crate) fn run(config: &Config, path: &Path) -> anyhow::Result<Outcome> {
    let cases = read(path).map_err(misuse)?;
    let mut out = std::io::stdout().lock();
    let mut failures = 0;
    for (index, case) in cases.iter().enumerate() {
        let what = || match &case.name {
            Some(name) => format!("case {} ({name})", index + 1),
            None => format!("case {}", index + 1),
        };
        let became = became(config, case).map_err(|error| misuse(error.context(what())))?;
        let wrong = case.differences(&became);
        if !wrong.is_empty() {
            failures += 1;
            writeln!(out, "{} fails:", what())?;
            wrong.iter().try_for_each(|line| writeln!(out, "  {line}"))?;
            if became.failed {
                writeln!(out, "  the expression of where failed, so the message is kept")?;
            }
        }
    }
    let count = cases.len();
    let plural = if count == 1 { "" } else { "s" };
    if failures == 0 {
        writeln!(out, "{count} case{plural} passed.")?;
        return Ok(Outcome::Done);
    }
    writeln!(out, "{failures} of {count} case{plural} failed.")?;
    Ok(Outcome::Failed)
}

fn read(path: &Path) -> anyhow::Result<Vec<Case>> {
    let shown = path.display();
    let bytes = std::fs::metadata(path).with_context(|| format!("cannot read {shown}"))?.len();
    ensure!(bytes <= FILE_BYTES_MAX, "{shown} has {bytes} bytes; allowed: up to {FILE_BYTES_MAX}");
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
    let cases: Cases = toml::from_str(&text).map_err(|error| anyhow!("{shown}: {error}"))?;
    for (index, case) in cases.case.iter().enumerate() {
        let expects = case.left_out.is_some()
            || case.redacted.is_some()
            || case.sinks.is_some()
            || case.parsed.is_some();
        ensure!(
            expects,
            "{shown}: case {} expects nothing; write left_out, redacted, sinks or parsed",
            index + 1
        );
    }
    Ok(cases.case)
}

fn became(config: &Config, case: &Case) -> anyhow::Result<Became> {
    let door = door(config, case.listener.as_deref())?;
    let record = match door.kind {
        SourceKind::Otlp => {
            let converted = from_json(case.input.as_bytes()).map_err(|error| anyhow!("input: {error}"))?;
            converted.request
        }
        _ => case.input.clone().into_bytes(),
    };
    let fields: Vec<(&'static str, String)> = FIELD_ALIASES
        .iter()
        .filter_map(|(key, name)| Some((*name, case.fields.get(*key)?.clone())))
        .collect();
    ensure!(
        fields.len() == case.fields.len(),
        "fields: allowed are {}",
        FIELD_ALIASES.map(|(key, _)| key).join(", ")
    );
    let (mut text, mut left_out, mut failed) = (record.clone(), false, false);
    let message = Message {
        record: &record,
        source: door.kind,
        listener: door.name,
        peer: case.peer.map_or(Peer::Unnamed, Peer::Inet),
        received_ns: 0,
        stream: StreamId([0; 16]),
        sequence: 1,
        attributes: Attributes { fields: FieldSet::Pairs(&fields), ..Attributes::default() },
    };
    if let Some(rules) = door.rules {
        let before = rules.failed();
        left_out = rules.leaves_out() && !rules.keeps(&message, &mut Scratch::default());
        failed = rules.failed() > before;
        let mut redacted = Vec::new();
        if rules.redact(door.kind, &record, &mut redacted) {
            text = redacted;
        }
    }
    // A sink looks at what is stored.
    let stored = Message { record: &text, ..message };
    let mut gets = |rules: Option<&Rules>| {
        rules.is_none_or(|rules| {
            let before = rules.failed();
            let keeps = !rules.leaves_out() || rules.keeps_from(door.name, &stored, &mut Scratch::default());
            failed |= rules.failed() > before;
            keeps
        })
    };
    let sinks = config.sinks.iter().filter(|_| !left_out).map(|sink| config.with_parse_of_sources(sink));
    let sinks: Vec<SinkSpec> = sinks.filter(|sink| gets(sink.rules())).collect();
    let parsed = parsed(&door, &text, &sinks);
    let sinks = sinks.into_iter().map(|sink| sink.name).collect();
    let mut shown = Vec::new();
    match door.kind {
        SourceKind::Otlp => put_body(&text, &mut shown),
        _ => shown = text,
    }
    Ok(Became { left_out, redacted: String::from_utf8_lossy(&shown).into_owned(), sinks, parsed, failed })
}

/// What is found in a message as it is stored. A sink finds it in what its `redact` has left.
fn parsed(door: &Door<'_>, text: &[u8], sinks: &[SinkSpec]) -> Vec<(String, Map<String, Json>)> {
    let found = |rules: &Rules, bytes: &[u8]| {
        let mut object = Vec::new();
        let _omitted =
            rules.put_json(&ParsedRecord { listener: door.name, source: door.kind, bytes }, &mut object);
        // If nothing is found, nothing is written.
        serde_json::from_slice(&object).unwrap_or_default()
    };
    if let Some(rules) = door.rules.filter(|rules| rules.finds_fields_at(door.name)) {
        return vec![(door.name.to_owned(), found(rules, text))];
    }
    let of_sink = |sink: &SinkSpec| {
        let rules = sink.rules().filter(|rules| rules.finds_fields_at(door.name))?;
        let mut redacted = Vec::new();
        let is_changed = rules.redact(door.kind, text, &mut redacted);
        Some((sink.name.clone(), found(rules, if is_changed { redacted.as_slice() } else { text })))
    };
    sinks.iter().filter_map(of_sink).collect()
}

/// The listener or reader that a case names.
fn door<'a>(config: &'a Config, name: Option<&str>) -> anyhow::Result<Door<'a>> {
    let listeners = config.listen.iter().map(|spec| Door {
        name: &spec.source,
        head: spec.head(),
        kind: spec.protocol.source_kind,
        rules: spec.filter.as_ref(),
    });
    let readers = config.read.iter().map(|spec| Door {
        name: &spec.source,
        head: &spec.source,
        kind: SourceKind::Lines,
        rules: spec.filter.as_ref(),
    });
    let mut doors: Vec<Door<'a>> = listeners.chain(readers).collect();
    let known = || doors.iter().map(|door| door.name).collect::<Vec<_>>().join(", ");
    let place = match name {
        Some(name) => doors.iter().position(|door| door.name == name || door.head == name),
        None if doors.len() == 1 => Some(0),
        None => return Err(anyhow!("write listener = \"NAME\", one of {}", known())),
    };
    let place = place.ok_or_else(|| {
        anyhow!("listener: {:?} is not a listener or reader; there are {}", name.unwrap_or_default(), known())
    })?;
    Ok(doors.swap_remove(place))
}

impl Case {
    fn differences(&self, became: &Became) -> Vec<String> {
        let line = |what: &str, expected: &dyn fmt::Debug, found: &dyn fmt::Debug| {
            format!("{what}: expected {expected:?}, found {found:?}")
        };
        let mut lines = Vec::new();
        if let Some(left_out) = self.left_out.filter(|left_out| *left_out != became.left_out) {
            lines.push(line("left_out", &left_out, &became.left_out));
        }
        if let Some(redacted) = self.redacted.as_ref().filter(|redacted| **redacted != became.redacted) {
            lines.push(line("redacted", redacted, &became.redacted));
        }
        let sorted = |sinks: &[String]| {
            let mut sinks = sinks.to_vec();
            sinks.sort();
            sinks
        };
        if let Some(sinks) = self.sinks.as_ref().filter(|sinks| sorted(sinks) != sorted(&became.sinks)) {
            lines.push(line("sinks", sinks, &became.sinks));
        }
        if let Some(expected) = &self.parsed {
            lines.extend(differences_of_parsed(expected, &became.parsed));
        }
        lines
    }
}

fn differences_of_parsed(
    expected: &Map<String, Json>,
    parsed: &[(String, Map<String, Json>)],
) -> Vec<String> {
    if parsed.is_empty() && !expected.is_empty() {
        let why =
            "neither the listener or reader has a parse that finds fields, nor a sink that gets the message";
        return vec![format!("parsed: {why}")];
    }
    let mut lines = Vec::new();
    for (owner, found) in parsed {
        if expected.is_empty() && !found.is_empty() {
            lines.push(format!("parsed: expected no field, found {} by parse of {owner}", shown(found)));
        }
        for (name, value) in expected.iter().filter(|(name, value)| found.get(*name) != Some(*value)) {
            let found = found.get(name).map_or_else(|| "nothing".to_owned(), Json::to_string);
            lines.push(format!("parsed.{name}: expected {value}, found {found} by parse of {owner}"));
        }
    }
    lines
}

fn shown(fields: &Map<String, Json>) -> String {
    fields.iter().map(|(name, value)| format!("{name} = {value}")).collect::<Vec<_>>().join(", ")
}
