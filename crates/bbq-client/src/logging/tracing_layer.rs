//! A layer for tracing-subscriber.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::{LookupSpan, SpanRef};

use super::line::{Value, add_field, add_fields, with_line};
use super::{FlushGuard, Format, is_own, sender_for_logs};
use crate::{Sender, SenderBuilder};

/// Ids of layers: each layer keeps the fields of a span in its own format.
static LAYERS: AtomicU64 = AtomicU64::new(0);

/// Sends each event as a line, with the spans around it.
///
/// ```no_run
/// use bbq_client::TracingLayer;
/// use tracing_subscriber::filter::LevelFilter;
/// use tracing_subscriber::layer::SubscriberExt;
/// use tracing_subscriber::util::SubscriberInitExt;
///
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let sender = TracingLayer::sender().server("bbq://127.0.0.1:7700".parse()?).start()?;
///     let layer = TracingLayer::new(sender);
///     let _guard = layer.guard();
///     tracing_subscriber::registry().with(LevelFilter::INFO).with(layer).try_init()?;
///     tracing::info!(answer = 42, "something happened");
///     Ok(())
/// }
/// ```
///
/// Filters beside the layer select the events. An event never waits longer than the sender's [`crate::OnFull`] says, and never fails;
/// dropped events are in the sender's counters. A forked child sends nothing, as the sender belongs to the parent.
#[derive(Debug)]
pub struct TracingLayer {
    sender: Arc<Sender>,
    format: Format,
    id: u64,
}

impl TracingLayer {
    /// A builder whose default suits a log: an event for which there is no room is dropped and counted ([`crate::OnFull::DropNewest`]).
    pub fn sender() -> SenderBuilder {
        sender_for_logs()
    }

    /// Uses a sender, which others may use, too.
    #[must_use]
    pub fn new(sender: impl Into<Arc<Sender>>) -> TracingLayer {
        let id = LAYERS.fetch_add(1, Ordering::Relaxed);
        TracingLayer { sender: sender.into(), format: Format::Text, id }
    }

    /// The format of a line: [`Format::Text`] unless set.
    #[must_use]
    pub fn format(mut self, format: Format) -> TracingLayer {
        self.format = format;
        self
    }

    /// Keep the guard in `main`.
    pub fn guard(&self) -> FlushGuard {
        FlushGuard::new(&self.sender)
    }

    /// Adds recorded fields to those of a span. Formats them before the span is locked.
    fn add_to_span<'a, S: LookupSpan<'a>>(&self, span: &SpanRef<'a, S>, record: impl FnOnce(&mut dyn Visit)) {
        let mut fields = String::new();
        record(&mut Visitor(|name: &str, value: &Value<'_>| {
            add_field(&mut fields, self.format, name, value)
        }));
        if fields.is_empty() {
            return;
        }
        let mut extensions = span.extensions_mut();
        if extensions.get_mut::<SpanFields>().is_none() {
            extensions.insert(SpanFields::default());
        }
        if let Some(all) = extensions.get_mut::<SpanFields>() {
            add_fields(all.get_or_insert(self.id), self.format, &fields);
        }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for TracingLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            self.add_to_span(&span, |visitor| attributes.record(visitor));
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            self.add_to_span(&span, |visitor| values.record(visitor));
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let metadata: &Metadata<'_> = event.metadata();
        if is_own(metadata.target()) {
            return;
        }
        with_line(self.format, |line| {
            for span in context.event_scope(event).into_iter().flat_map(|scope| scope.from_root()) {
                let extensions = span.extensions();
                let fields = extensions.get::<SpanFields>().and_then(|all| all.get(self.id));
                line.add_span(span.name(), fields.unwrap_or_default());
            }
            event.record(&mut Visitor(|name: &str, value: &Value<'_>| match (name, value) {
                ("message", Value::Plain(plain)) => line.set_message(format_args!("{plain}")),
                ("message", Value::Text(text)) => line.set_message(format_args!("{text}")),
                ("message", Value::Formatted(formatted)) => line.set_message(*formatted),
                _ => line.add_field(name, value),
            }));
            let line = line.finish(SystemTime::now(), metadata.level().as_str(), metadata.target());
            // A refused event is counted.
            let _taken = self.sender.send(line);
        });
    }
}

/// The fields of a span, as each layer writes them.
#[derive(Default)]
struct SpanFields(Vec<(u64, String)>);

impl SpanFields {
    fn get(&self, layer: u64) -> Option<&str> {
        self.0.iter().find(|(id, _)| *id == layer).map(|(_, fields)| fields.as_str())
    }

    fn get_or_insert(&mut self, layer: u64) -> &mut String {
        let place = self.0.iter().position(|(id, _)| *id == layer).unwrap_or_else(|| {
            self.0.push((layer, String::new()));
            self.0.len() - 1
        });
        &mut self.0[place].1
    }
}

/// Calls a function with each field.
struct Visitor<F>(F);

impl<F: FnMut(&str, &Value<'_>)> Visit for Visitor<F> {
    fn record_f64(&mut self, field: &Field, value: f64) {
        match value.is_finite() {
            true => (self.0)(field.name(), &Value::Plain(&value)),
            false => (self.0)(field.name(), &Value::Formatted(format_args!("{value}"))),
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        (self.0)(field.name(), &Value::Plain(&value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        (self.0)(field.name(), &Value::Plain(&value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        (self.0)(field.name(), &Value::Plain(&value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        (self.0)(field.name(), &Value::Text(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        (self.0)(field.name(), &Value::Formatted(format_args!("{value:?}")));
    }
}
