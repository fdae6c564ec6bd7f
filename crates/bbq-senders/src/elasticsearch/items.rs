//! The items of a `_bulk` request, as far as its response needs them.

use std::io::Write as _;

use crate::limits::Limits;

/// What an item asks to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Create,
    Index,
    Update,
    Delete,
}

impl Operation {
    fn word(self) -> &'static str {
        match self {
            Operation::Create => "create",
            Operation::Index => "index",
            Operation::Update => "update",
            Operation::Delete => "delete",
        }
    }
}

/// What becomes of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Its document is among the events.
    Stored,
    /// It asks to change or remove a document.
    Changes,
    /// Its document is no JSON object.
    NoObject,
    /// Its document is too long.
    TooLong,
    /// Its `_id` is empty or too long, or the name of its index is too long.
    Name,
}

/// Items in order. Texts are held once, one behind the other.
#[derive(Debug, Default)]
pub(super) struct Items {
    rows: Vec<Row>,
    texts: String,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    operation: Operation,
    outcome: Outcome,
    /// Where its index begins and ends; neighbours with the same one share it.
    index: (u32, u32),
    /// Where its id ends, which begins at the end of what was there before; the same if it has none.
    id: (u32, u32),
}

impl Items {
    pub(super) fn push(&mut self, operation: Operation, outcome: Outcome, (index, id): (&str, &str)) {
        let last = self.rows.last().map_or((0, 0), |row| row.index);
        let index = if self.text(last) == index { last } else { self.put(index) };
        let id = self.put(id);
        self.rows.push(Row { operation, outcome, index, id });
    }

    fn put(&mut self, text: &str) -> (u32, u32) {
        let from = self.texts.len() as u32;
        self.texts.push_str(text);
        (from, self.texts.len() as u32)
    }

    fn text(&self, (from, to): (u32, u32)) -> &str {
        &self.texts[from as usize..to as usize]
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn memory(&self) -> usize {
        self.rows.capacity() * size_of::<Row>() + self.texts.capacity()
    }

    pub(super) fn count(&self, outcome: Outcome) -> u64 {
        self.rows.iter().filter(|row| row.outcome == outcome).count() as u64
    }

    /// Appends the response's `items`, an array.
    pub(super) fn append_json(&self, limits: Limits, out: &mut Vec<u8>) {
        out.push(b'[');
        for (place, row) in self.rows.iter().enumerate() {
            if place > 0 {
                out.push(b',');
            }
            // Writing to a Vec cannot fail.
            let _infallible = write!(out, "{{\"{}\":{{\"_index\":", row.operation.word());
            let _infallible = serde_json::to_writer(&mut *out, self.text(row.index));
            if row.id.0 < row.id.1 {
                out.extend_from_slice(b",\"_id\":");
                let _infallible = serde_json::to_writer(&mut *out, self.text(row.id));
            }
            append_outcome(row.outcome, limits, out);
        }
        out.push(b']');
    }
}

/// Appends the rest of an item.
fn append_outcome(outcome: Outcome, limits: Limits, out: &mut Vec<u8>) {
    let (status, kind, reason) = match outcome {
        Outcome::Stored => {
            let rest =
                b",\"_version\":1,\"result\":\"created\",\"_seq_no\":0,\"_primary_term\":1,\"status\":201}}";
            return out.extend_from_slice(rest);
        }
        Outcome::Changes => (
            400,
            "illegal_argument_exception",
            "bbq is a queue: a document that it has taken can be neither updated nor deleted",
        ),
        Outcome::NoObject => {
            (400, "document_parsing_exception", "the document is no JSON object, or has @timestamp twice")
        }
        Outcome::TooLong => (413, "illegal_argument_exception", "the document is longer than"),
        Outcome::Name => {
            (400, "illegal_argument_exception", "the _id is empty or too long, or the name of the index is")
        }
    };
    let _infallible =
        write!(out, ",\"status\":{status},\"error\":{{\"type\":\"{kind}\",\"reason\":\"{reason}");
    if outcome == Outcome::TooLong {
        let _infallible = write!(out, " {} bytes (message_bytes_max)", limits.message_bytes_max);
    }
    out.extend_from_slice(b"\"}}}");
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn items_come_back_in_order_with_their_names() {
        let mut items = Items::default();
        items.push(Operation::Create, Outcome::Stored, ("logs", ""));
        items.push(Operation::Index, Outcome::Stored, ("logs", "a\"b"));
        items.push(Operation::Update, Outcome::Changes, ("other", "1"));
        items.push(Operation::Create, Outcome::TooLong, ("logs", ""));
        let mut out = Vec::new();
        items.append_json(Limits { message_bytes_max: 9, bytes_max: 99 }, &mut out);
        let value: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(value[0]["create"]["_index"], "logs");
        assert_eq!(value[0]["create"].get("_id"), None);
        assert_eq!(value[1]["index"]["_id"], "a\"b");
        assert_eq!(value[1]["index"]["status"], 201);
        assert_eq!(
            (&value[2]["update"]["_index"], &value[2]["update"]["status"]),
            (&json!("other"), &json!(400))
        );
        let reason = value[3]["create"]["error"]["reason"].as_str().unwrap();
        assert!(reason.ends_with("longer than 9 bytes (message_bytes_max)"), "{reason}");
        assert_eq!((items.len(), items.count(Outcome::Stored)), (4, 2));
    }
}
