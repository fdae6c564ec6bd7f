//! `bbq config explain`: what a key does, what it may be, and what it is.

use std::io::{self, Write};

use bbq_server::config::{Environment, InEffect, OnReload, Subject, Value, Values};
use bbq_server::{ConfigSource, KINDS};
use serde_json::{Value as Json, json};

use crate::arguments::ExplainArguments;
use crate::outcome::{Outcome, misuse};

pub(crate) fn run(arguments: &ExplainArguments) -> anyhow::Result<Outcome> {
    let subjects = match &arguments.key {
        Some(key) => Subject::named(&KINDS, key).map_err(misuse)?,
        None => Subject::all(&KINDS),
    };
    let environment = Environment::of_process();
    let source = ConfigSource {
        path: arguments.config.clone().or_else(|| environment.file()),
        environment,
        overrides: arguments.options.0.clone(),
    };
    let in_effect = source.in_effect(&KINDS);
    let mut out = io::stdout().lock();
    if arguments.json {
        let all = subjects.iter().map(|subject| object(subject, in_effect.as_ref().ok())).collect();
        let text = serde_json::to_string_pretty(&Json::Array(all))?;
        writeln!(out, "{text}")?;
    } else {
        let mut group = None;
        for subject in &subjects {
            if arguments.key.is_none() && group != Some(heading(subject)) {
                group = Some(heading(subject));
                writeln!(out, "# {}\n", heading(subject))?;
            }
            explain(subject, in_effect.as_ref().ok(), &mut out)?;
        }
    }
    drop(out);
    // What a key does is worth to be known most while its value is wrong.
    in_effect.map_err(misuse)?;
    Ok(Outcome::Done)
}

/// The same for programs. `in_effect` is null while the configuration is wrong.
fn object(subject: &Subject, in_effect: Option<&InEffect>) -> Json {
    let option = subject.option();
    let value = |value: Value| json!({"of": value.of, "value": value.text, "from": value.from});
    let values =
        in_effect.map(|in_effect| in_effect.values(subject).into_iter().map(value).collect::<Vec<_>>());
    let mut object = json!({
        "key": subject.name(),
        "meaning": option.meaning,
        "type": type_of(&option.values).0,
        "unit": subject.unit(),
        "allowed": option.values.to_string(),
        "default": option.default,
        "variable": subject.variable(),
        "option": subject.argument(),
        "reload": on_reload(subject.on_reload()).0,
        "in_effect": values,
    });
    if !subject.kinds().is_empty() {
        object["of"] = subject.kinds().iter().map(|kind| kind.word).collect();
    }
    object
}

fn heading(subject: &Subject) -> &'static str {
    match (subject, subject.table()) {
        (Subject::Listen(_), _) => "Options of listeners, in a SPEC or in a [[listen]] table",
        (Subject::Read(_), _) => "Options of readers, in a SPEC or in a [[read]] table",
        (Subject::Sink(..), _) => "Options of sinks, in a SPEC or in a [[sink]] table",
        (Subject::Key(_), "") => "The server",
        (Subject::Key(_), "spool") => "The spool, in the table [spool]",
        (Subject::Key(_), table) => table,
    }
}

fn explain(subject: &Subject, in_effect: Option<&InEffect>, out: &mut dyn Write) -> io::Result<()> {
    let option = subject.option();
    writeln!(out, "{}", subject.name())?;
    writeln!(out, "  {}.", capitalized(option.meaning))?;
    let mut line = |word: &str, text: &str| writeln!(out, "  {word:<11} {text}");
    if !subject.kinds().is_empty() {
        let kinds: Vec<String> = subject.kinds().iter().map(|kind| format!("{}:", kind.word)).collect();
        line("of", &kinds.join(" "))?;
    }
    line("type", type_of(&option.values).1)?;
    if let Some(unit) = subject.unit() {
        line("unit", unit)?;
    }
    line("allowed", &option.values.to_string())?;
    line("default", option.default)?;
    line("variable", &subject.variable().unwrap_or_else(|| "none: it is a part of the SPEC".to_owned()))?;
    line("option", subject.argument().as_deref().unwrap_or("none"))?;
    line("reload", on_reload(subject.on_reload()).1)?;
    let Some(in_effect) = in_effect else {
        return writeln!(out);
    };
    let values = in_effect.values(subject);
    if values.is_empty() {
        let nothing =
            if matches!(subject, Subject::Key(_)) { "none" } else { "the default: nothing sets it" };
        line("in effect", nothing)?;
    }
    for value in values {
        let of = value.of.map(|of| format!("{of}: ")).unwrap_or_default();
        let from = value.from.map_or_else(|| "the default".to_owned(), |from| format!("from {from}"));
        line("in effect", &format!("{of}{} ({from})", value.text))?;
    }
    writeln!(out)
}

fn capitalized(text: &str) -> String {
    let mut text = text.to_owned();
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    text
}

/// In a word for programs, and for people.
fn type_of(values: &Values) -> (&'static str, &'static str) {
    match values {
        Values::Words(_) => ("enum", "one of a few words"),
        Values::Number(_) | Values::NumberOrNever(_) | Values::NumberOrAuto(_) => ("number", "number"),
        Values::Size(_) => ("size", "size: a number, or a text such as \"64KiB\" or \"10GB\""),
        Values::Text { .. } => ("string", "text"),
        Values::Fraction => ("fraction", "fraction"),
        Values::Rewrites => ("rewrites", "text, or list of texts and of tables with pattern and with"),
        Values::Specs(_) => ("array", "list of SPECs, or tables"),
        Values::Secret => {
            ("secret", "secret: KEY_file names a file that holds it, KEY_env an environment variable")
        }
    }
}

/// In a word for programs, and for people.
fn on_reload(on_reload: OnReload) -> (&'static str, &'static str) {
    match on_reload {
        OnReload::Applies => ("applies", "SIGHUP applies a change"),
        OnReload::NewListeners => (
            "new_listeners",
            "SIGHUP applies a change to new listeners; open ones need an upgrade (SIGUSR2) or a restart",
        ),
        OnReload::Waits => ("waits", "a change needs an upgrade (SIGUSR2) or a restart"),
    }
}
