//! A layer of tracing-subscriber.

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

use super::line::{Line, Value, add_field, add_fields, with_line};
use super::{FlushGuard, Format, is_own, sender_for_logs};
use crate::{Sender, SenderBuilder};

/// Layers are told apart: each keeps the fields of a span in its own format.
static LAYERS: AtomicU64 = AtomicU64::new(0);

/// Sends each event as a line, with the spans that it is in.
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
/// Which events it gets is for the filters beside it to say. An event never waits longer than the sender's [`crate::OnFull`] says,
/// and never fails; what was dropped is in the sender's counters. In a forked child nothing is sent, as the sender is the parent's.
#[derive(Debug)]
pub struct TracingLayer {
    sender: Arc<Sender>,
    format: Format,
    id: u64,
}

impl TracingLayer {
    /// A sender to be, with what suits a log: an event for which there is no room is dropped and counted
    /// ([`crate::OnFull::DropNewest`]).
    pub fn sender() -> SenderBuilder {
        sender_for_logs()
    }

    /// With a sender, which others may use, too.
    #[must_use]
    pub fn new(sender: impl Into<Arc<Sender>>) -> TracingLayer {
        let id = LAYERS.fetch_add(1, Ordering::Relaxed);
        TracingLayer { sender: sender.into(), format: Format::Text, id }
    }

    /// What a line looks like: [`Format::Text`] unless set.
    #[must_use]
    pub fn format(mut self, format: Format) -> TracingLayer {
        self.format = format;
        self
    }

    /// To be kept in `main`.
    pub fn guard(&self) -> FlushGuard {
        FlushGuard::new(&self.sender)
    }

    /// Adds what was recorded to the fields of a span. It is formatted before the span is locked.
    fn keep<'a, S: LookupSpan<'a>>(&self, span: &SpanRef<'a, S>, record: impl FnOnce(&mut dyn Visit)) {
        let mut fields = String::new();
        record(&mut SpanVisitor { out: &mut fields, format: self.format });
        if fields.is_empty() {
            return;
        }
        let mut extensions = span.extensions_mut();
        if extensions.get_mut::<SpanFields>().is_none() {
            extensions.insert(SpanFields::default());
        }
        if let Some(all) = extensions.get_mut::<SpanFields>() {
            add_fields(all.of(self.id), self.format, &fields);
        }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for TracingLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            self.keep(&span, |visitor| attributes.record(visitor));
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            self.keep(&span, |visitor| values.record(visitor));
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
                let fields = extensions.get::<SpanFields>().and_then(|all| all.look(self.id));
                line.add_span(span.name(), fields.unwrap_or_default());
            }
            event.record(&mut EventVisitor(line));
            let line = line.finish(SystemTime::now(), metadata.level().as_str(), metadata.target());
            // What is not taken is counted.
            let _taken = self.sender.send(line);
        });
    }
}

/// The fields of a span, as each layer writes them.
#[derive(Default)]
struct SpanFields(Vec<(u64, String)>);

impl SpanFields {
    fn look(&self, layer: u64) -> Option<&str> {
        self.0.iter().find(|(id, _)| *id == layer).map(|(_, fields)| fields.as_str())
    }

    fn of(&mut self, layer: u64) -> &mut String {
        let place = self.0.iter().position(|(id, _)| *id == layer).unwrap_or_else(|| {
            self.0.push((layer, String::new()));
            self.0.len() - 1
        });
        &mut self.0[place].1
    }
}

struct SpanVisitor<'a> {
    out: &'a mut String,
    format: Format,
}

/// Something that takes fields.
trait Take {
    fn take(&mut self, name: &str, value: &Value<'_>);
}

impl Take for SpanVisitor<'_> {
    fn take(&mut self, name: &str, value: &Value<'_>) {
        add_field(self.out, self.format, name, value);
    }
}

struct EventVisitor<'a>(&'a mut Line);

impl Take for EventVisitor<'_> {
    fn take(&mut self, name: &str, value: &Value<'_>) {
        match (name, value) {
            ("message", Value::Plain(plain)) => self.0.set_message(format_args!("{plain}")),
            ("message", Value::Text(text)) => self.0.set_message(format_args!("{text}")),
            ("message", Value::Formatted(formatted)) => self.0.set_message(*formatted),
            _ => self.0.add_field(name, value),
        }
    }
}

/// What both visitors do with the kinds of values.
macro_rules! visit {
    ($visitor:ty) => {
        impl Visit for $visitor {
            fn record_f64(&mut self, field: &Field, value: f64) {
                match value.is_finite() {
                    true => self.take(field.name(), &Value::Plain(&value)),
                    false => self.take(field.name(), &Value::Formatted(format_args!("{value}"))),
                }
            }

            fn record_i64(&mut self, field: &Field, value: i64) {
                self.take(field.name(), &Value::Plain(&value));
            }

            fn record_u64(&mut self, field: &Field, value: u64) {
                self.take(field.name(), &Value::Plain(&value));
            }

            fn record_bool(&mut self, field: &Field, value: bool) {
                self.take(field.name(), &Value::Plain(&value));
            }

            fn record_str(&mut self, field: &Field, value: &str) {
                self.take(field.name(), &Value::Text(value));
            }

            fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
                self.take(field.name(), &Value::Formatted(format_args!("{value:?}")));
            }
        }
    };
}

visit!(SpanVisitor<'_>);
visit!(EventVisitor<'_>);
