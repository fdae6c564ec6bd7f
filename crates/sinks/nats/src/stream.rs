//! The stream that the messages go to: found, made on request, and checked; and how far it is.

use std::io;

use bbq_sink::{Positions, Refused};
use data_encoding::BASE64;
use serde_json::{Value, json};

use super::marks::Marks;
use super::server::{RequestError, Server};
use super::settings::NatsSettings;
use super::subject::{self, covers};

/// `err_code`s of nats-server (errors.json).
const STREAM_NOT_FOUND: u64 = 10059;
const NO_MESSAGE: u64 = 10037;

/// What is known of the stream.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    pub(super) name: String,
    /// When it was made.
    pub(super) created: String,
    /// The place of the oldest message, or behind the last one if there is none.
    pub(super) first_sequence: u64,
    /// The place of the newest one when it was asked; 0 if there has been none.
    pub(super) last_sequence: u64,
    /// Bytes of the largest message with its headers, if the stream has a limit.
    pub(super) message_bytes_max: Option<usize>,
    /// Whether it takes atomic batches.
    pub(super) is_atomic: bool,
    /// Whether several batches may be on their way at once: it has the subjects of [`Marks`], and is on one server. Of a stream on several,
    /// each batch is refused that comes before the one in front of it is committed.
    pub(super) has_marks: bool,
    /// The window in which the server recognizes duplicates, in seconds.
    pub(super) window_seconds: u64,
}

/// The last message about the progress of a writer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Progress {
    /// Its place in the stream.
    pub(super) sequence: u64,
    /// Who wrote it; see [`super::shared::Shared`].
    pub(super) writer: String,
    pub(super) positions: Positions,
    /// Messages before these positions that were not published, and are no dead letters yet.
    pub(super) refused: Refused,
}

impl Progress {
    /// The payload of the message: four lines, of which earlier releases wrote and read two or three.
    pub(super) fn payload(writer: &str, positions: &Positions, refused: &Refused) -> String {
        format!("{writer}\n{positions}\n{}\n{refused}\n", positions.times())
    }

    fn parse(payload: &str) -> Option<(String, Positions, Refused)> {
        let mut lines = payload.lines();
        let (writer, positions) = (lines.next()?.to_owned(), Positions::parse(lines.next()?)?);
        let positions = positions.with_times(lines.next().unwrap_or_default());
        Some((writer, positions, Refused::parse(lines.next().unwrap_or_default())?))
    }
}

impl Stream {
    /// Finds the stream, or makes it, and checks that the messages and the progress have a place in it.
    pub(super) async fn open(
        server: &mut Server,
        target: &NatsSettings,
        progress: &str,
    ) -> io::Result<Stream> {
        let filter = subject::filter(&target.encoding.template);
        let name = match &target.stream {
            Some(name) => name.clone(),
            None => find(server, &filter).await?,
        };
        let info = match server.request(&format!("STREAM.INFO.{name}"), &json!({})).await {
            Err(RequestError::Refused(STREAM_NOT_FOUND, _)) if target.creates => {
                // Of every server that writes to the stream, not of this one alone.
                create(server, target, &name, [&filter, &format!("{}.*", target.progress)]).await?
            }
            Err(RequestError::Refused(STREAM_NOT_FOUND, _)) => {
                return Err(io::Error::other(format!(
                    "there is no stream {name:?}; create it with the subjects {filter} and {progress}, or set create=on"
                )));
            }
            info => info?,
        };
        let config = &info["config"];
        let is_on = |key: &str| config[key].as_bool().unwrap_or(false);
        let has = |subject: &str| {
            let patterns = config["subjects"].as_array();
            let mut patterns = patterns.into_iter().flatten().filter_map(Value::as_str);
            patterns.any(|pattern| covers(pattern, subject))
        };
        for subject in [&filter, progress] {
            if !has(subject) {
                return Err(io::Error::other(format!(
                    "stream {name} does not have the subject {subject}; add it: nats stream edit {name} --subjects=..."
                )));
            }
        }
        if config["retention"] == "interest" {
            return Err(io::Error::other(format!(
                "stream {name} keeps only messages that a consumer waits for, so it cannot keep bbq's position; its retention must be \
                 limits or workqueue"
            )));
        }
        if is_on("no_ack") {
            return Err(io::Error::other(format!(
                "stream {name} acknowledges nothing; edit it: no_ack must be false"
            )));
        }
        if is_on("sealed") {
            return Err(io::Error::other(format!(
                "stream {name} is sealed and takes no messages; choose another one"
            )));
        }
        Ok(Stream {
            created: info["created"].as_str().unwrap_or_default().to_owned(),
            first_sequence: info["state"]["first_seq"].as_u64().unwrap_or(0),
            last_sequence: info["state"]["last_seq"].as_u64().unwrap_or(0),
            message_bytes_max: config["max_msg_size"].as_u64().and_then(|bytes| usize::try_from(bytes).ok()),
            is_atomic: is_on("allow_atomic"),
            has_marks: config["num_replicas"].as_u64().unwrap_or(1) <= 1
                && has(&Marks::new(progress, "0").subject(0)),
            window_seconds: config["duplicate_window"].as_u64().unwrap_or(0) / 1_000_000_000,
            name,
        })
    }

    /// The last message about progress. The stream's leader responds, which knows the newest.
    pub(super) async fn progress(&self, server: &mut Server, subject: &str) -> io::Result<Option<Progress>> {
        let last = json!({ "last_by_subj": subject });
        let found = match server.request(&format!("STREAM.MSG.GET.{}", self.name), &last).await {
            Err(RequestError::Refused(NO_MESSAGE, _)) => return Ok(None),
            found => found?,
        };
        let message = &found["message"];
        let payload =
            BASE64.decode(message["data"].as_str().unwrap_or_default().as_bytes()).unwrap_or_default();
        let parsed = std::str::from_utf8(&payload).ok().and_then(Progress::parse);
        match (message["seq"].as_u64(), parsed) {
            (Some(sequence), Some((writer, positions, refused))) => {
                Ok(Some(Progress { sequence, writer, positions, refused }))
            }
            _ => Err(io::Error::other(format!(
                "the last message of {subject} was not written by bbq; nobody else may publish to this subject"
            ))),
        }
    }
}

/// The stream that has the subjects of a filter.
async fn find(server: &mut Server, filter: &str) -> io::Result<String> {
    let names = server.request("STREAM.NAMES", &json!({ "subject": filter })).await?;
    let names = names["streams"].as_array().map(Vec::as_slice).unwrap_or_default();
    match names {
        [name] => Ok(name.as_str().unwrap_or_default().to_owned()),
        [] => Err(io::Error::other(format!(
            "no stream has the subject {filter}; create one, or set stream=NAME and create=on"
        ))),
        _ => Err(io::Error::other(format!("several streams have the subject {filter}; set stream=NAME"))),
    }
}

async fn create(
    server: &mut Server,
    target: &NatsSettings,
    name: &str,
    subjects: [&str; 2],
) -> io::Result<Value> {
    let mut config = json!({
        "name": name,
        "subjects": subjects,
        "storage": "file",
        "num_replicas": target.replicas,
    });
    if has_atomic_batches(server) {
        config["allow_atomic"] = json!(true);
    }
    let made = server.request(&format!("STREAM.CREATE.{name}"), &config).await;
    made.map_err(|error| {
        io::Error::other(format!("cannot create the stream {name}: {}", io::Error::from(error)))
    })
}

/// Whether the server knows atomic batches.
pub(super) fn has_atomic_batches(server: &Server) -> bool {
    server.client.is_server_compatible(2, 12, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_read_as_it_was_written() {
        let older = Positions::parse("0:8192:70:3").unwrap();
        let none = Refused::default();
        assert_eq!(
            Progress::parse("w1\n0:8192:70:3\n"),
            Some(("w1".to_owned(), older.clone(), none.clone()))
        );
        let positions = older.with_times("0:9");
        let times = format!("w1\n{positions}\n{}\n", positions.times());
        assert_eq!(Progress::parse(&times), Some(("w1".to_owned(), positions.clone(), none.clone())));
        for refused in [none.clone(), Refused::parse("0:7+2 1:9+1").unwrap()] {
            let parsed = Progress::parse(&Progress::payload("w1", &positions, &refused));
            assert_eq!(parsed, Some(("w1".to_owned(), positions.clone(), refused)));
        }
        let nothing = Progress::parse(&Progress::payload("w1", &Positions::default(), &none));
        assert_eq!(nothing, Some(("w1".to_owned(), Positions::default(), none)));
        assert_eq!(Progress::parse("hello"), None);
    }
}
