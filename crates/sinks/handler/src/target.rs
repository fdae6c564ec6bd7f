//! The handlers of a name, before their threads have them.

use std::fmt;
use std::io;
use std::sync::Arc;

use bbq_sink::{Kind, Now, OpenError, Sink, SinkSpec, Target};
use bbq_spec::ConfigError;
use bbq_storage::Storage;
use tracing::warn;

use super::handling::Handler;
use super::sink::HandlerSink;
use super::slot::Slot;

/// Not in the list of kinds, as no SPEC can name it.
static HANDLER: Kind = Kind {
    word: "handler",
    argument: "NAME",
    summary: "calls the program that the server runs in",
    options: &[],
    is_exclusive: false,
    parse: |_, _| Err(ConfigError::new("handler: is not a SPEC; ServerBuilder::handler takes a handler")),
};

struct HandlerTarget {
    name: String,
    slots: Vec<Slot>,
}

impl fmt::Debug for HandlerTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} handlers of {:?}", self.slots.len(), self.name)
    }
}

/// A sink of this name with a thread for each handler.
pub fn sink_spec(name: &str, handlers: Vec<Box<dyn Handler>>) -> SinkSpec {
    let slots = handlers.into_iter().map(Slot::new).collect();
    let target = HandlerTarget { name: name.to_owned(), slots };
    let mut spec = SinkSpec::of_target(name, &HANDLER, Arc::new(target));
    spec.text = format!("handler:{name}");
    spec
}

impl Target for HandlerTarget {
    fn open(&self, _: &Arc<dyn Storage>, state: Option<&str>, _: Now) -> Result<Box<dyn Sink>, OpenError> {
        if self.slots.iter().any(Slot::is_empty) {
            return Err(OpenError::Refused(io::Error::other("an earlier start has the handler")));
        }
        let known = state.and_then(|state| u128::from_str_radix(state.strip_prefix("queue ")?, 16).ok());
        let queue = match known {
            Some(queue) => queue,
            None => {
                if state.is_some() {
                    warn!(
                        sink = self.name,
                        "its cursor names no queue: positions that the handler kept are ignored"
                    );
                }
                let mut id = [0; 16];
                getrandom::fill(&mut id)
                    .map_err(|error| OpenError::NotYet(io::Error::other(error.to_string())))?;
                u128::from_be_bytes(id)
            }
        };
        let sink = HandlerSink::start(&self.name, &self.slots, queue).map_err(OpenError::NotYet)?;
        Ok(Box::new(sink))
    }
}
