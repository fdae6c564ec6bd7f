//! The table of streams, if it was too small.

use super::{Finding, warning};
use crate::parts::Parts;

impl Parts {
    /// Streams that their clients come back with, and that were forgotten. To forget others is no finding: their clients are gone.
    pub(super) fn of_streams(&self) -> Option<Finding> {
        let kept = self.streams.forgotten().kept;
        let text = format!(
            "the table of streams was full: {kept} streams that their clients keep were forgotten since the start"
        );
        let remedy = "find the sender that begins very many streams (a new BBQ-Stream for each request, or a new client for each message), \
                      or give clients tokens: clients with a token have the larger part of the table";
        let effect =
            "nothing is lost; messages that such a client sends again, as it got no answer, are stored twice";
        (kept > 0).then(|| {
            warning("streams-forgotten", "the table of streams".to_owned(), text, remedy)
                .with_effect(effect.to_owned())
        })
    }
}
