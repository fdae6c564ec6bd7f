//! `POST /sinks/pause`, `/sinks/resume`, `/sinks/skip`, `/sinks/resend` and `/sinks/rename`, with `?name=NAME`: what an operator tells a sink.
//! `bbq sink` asks here.
//!
//! Who may ask is decided in `routes`, as for a reload.

use std::time::Duration;

use axum::http::StatusCode;
use axum::http::header::CACHE_CONTROL;
use axum::response::{IntoResponse as _, Response};
use bbq_sink::{Done, Order, Resent, Skip, Task, rfc3339_ns};
use bbq_spec::{checked_name, unix_ns};
use bbq_spool::CursorStore;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tracing::info;

use crate::parts::Parts;
use crate::tail::{From, from};

/// A sink that works comes to a hold within a second, and one that retries at once. What it skips is read and kept on the disk. The client
/// waits longer.
const TASK_TIMEOUT: Duration = Duration::from_secs(30);

/// What is asked, with the query behind it.
pub(crate) async fn answer(parts: &Parts, action: &str, query: &str) -> Response {
    match Asked::of(query) {
        Ok(asked) => match asked.act(parts, action).await {
            Ok(done) => respond(StatusCode::OK, &done),
            Err((code, why)) => respond(code, &why),
        },
        Err(why) => respond(StatusCode::BAD_REQUEST, &why),
    }
}

fn respond(code: StatusCode, text: &str) -> Response {
    (code, [(CACHE_CONTROL, "no-store")], format!("{text}\n")).into_response()
}

/// The query.
struct Asked {
    name: String,
    /// Unix nanoseconds.
    before: Option<u64>,
    /// Another name.
    to: Option<String>,
}

impl Asked {
    fn of(query: &str) -> Result<Asked, String> {
        let (mut name, mut before, mut to) = (None, None, None);
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*key {
                "name" => name = Some(value.into_owned()),
                "before" => before = Some(time(&value)?),
                "to" => to = Some(checked_name(&value)?.to_owned()),
                _ => return Err(format!("{key}: use name=NAME, before=TIME to skip, and to=NAME to rename")),
            }
        }
        let name = name.ok_or("use name=NAME, the name of a sink in /status")?;
        Ok(Asked { name, before, to })
    }

    async fn act(self, parts: &Parts, action: &str) -> Result<String, (StatusCode, String)> {
        let Some(index) = parts.sinks.iter().position(|(spec, _)| spec.name == self.name) else {
            let names: Vec<&str> = parts.sinks.iter().map(|(spec, _)| &*spec.name).collect();
            let there = if names.is_empty() { "no sinks".to_owned() } else { names.join(", ") };
            return Err((
                StatusCode::NOT_FOUND,
                format!("no sink has the name {:?}; there are: {there}", self.name),
            ));
        };
        match action {
            "rename" => self.rename(parts, index).await,
            _ if self.to.is_some() => {
                Err((StatusCode::BAD_REQUEST, "to=NAME is for /sinks/rename".to_owned()))
            }
            "skip" => {
                let skip = self.before.map_or(Skip::One, Skip::Before);
                self.order(parts, index, Task::Skip(skip)).await
            }
            _ if self.before.is_some() => {
                Err((StatusCode::BAD_REQUEST, "before=TIME is for /sinks/skip".to_owned()))
            }
            "resend" => self.order(parts, index, Task::Resend).await,
            _ => {
                let _under_which_name = parts.renaming.lock().await;
                self.pause(parts, index, action == "pause")
            }
        }
    }

    fn pause(self, parts: &Parts, index: usize, is_paused: bool) -> Result<String, (StatusCode, String)> {
        let failed = |why: String| (StatusCode::INTERNAL_SERVER_ERROR, why);
        let store = CursorStore::new(parts.spool.storage(), &parts.spool.cursors(), &self.name)
            .map_err(|error| failed(error.to_string()))?;
        store.set_paused(is_paused).map_err(|error| failed(error.to_string()))?;
        parts.sink_phases.pause_sink(index, is_paused);
        let (what, effect) = match is_paused {
            true => ("paused", "messages wait in the spool, even after a restart, until bbq sink resume"),
            false => ("resumed", "it delivers the messages that wait for it"),
        };
        info!(sink = self.name, "{what} by an operator");
        Ok(format!("{what} {}: {effect}", self.name))
    }

    async fn rename(self, parts: &Parts, index: usize) -> Result<String, (StatusCode, String)> {
        let wrong = |why: &str| Err((StatusCode::BAD_REQUEST, why.to_owned()));
        match self.to.clone() {
            None => wrong("use to=NAME, the new name"),
            Some(_) if self.before.is_some() => wrong("before=TIME is for /sinks/skip"),
            Some(to) if parts.sinks.iter().any(|(spec, _)| spec.name == to) => {
                wrong(&format!("{to} is the name of a sink already"))
            }
            Some(to) => {
                let _one_at_a_time = parts.renaming.lock().await;
                self.order(parts, index, Task::Rename(to)).await
            }
        }
    }

    async fn order(self, parts: &Parts, index: usize, task: Task) -> Result<String, (StatusCode, String)> {
        let (spec, ledger) = &parts.sinks[index];
        if matches!(task, Task::Skip(_)) && spec.holds_back() {
            let why =
                "this sink keeps messages that its server may lose, so it cannot skip; set keep_seconds=0";
            return Err((StatusCode::CONFLICT, why.to_owned()));
        }
        let deleted_before = ledger.letters_deleted();
        let (tell, told) = oneshot::channel();
        if parts.sink_phases.order(index, Order { task, tell }).is_err() {
            let why = "the sink is busy with another request, or has ended; try again";
            return Err((StatusCode::SERVICE_UNAVAILABLE, why.to_owned()));
        }
        // A sink that waits for messages looks up.
        parts.spool.progress().announce();
        match timeout(TASK_TIMEOUT, told).await {
            Ok(Ok(Ok(Done::Skipped(messages)))) => {
                Ok(self.skipped(parts, messages, ledger.letters_deleted() - deleted_before))
            }
            Ok(Ok(Ok(Done::Resent(resent)))) => self.resent(resent),
            Ok(Ok(Ok(Done::Renamed))) => Ok(self.renamed()),
            Ok(Ok(Err(why))) => Err((StatusCode::CONFLICT, why)),
            Ok(Err(_)) => Err((StatusCode::SERVICE_UNAVAILABLE, "the server stops or reloads".to_owned())),
            Err(_) => {
                let seconds = TASK_TIMEOUT.as_secs();
                let why = format!(
                    "not done within {seconds} s: the sink's output is not open or takes nothing, or there is much to do; the log will \
                     say how it ends"
                );
                Err((StatusCode::SERVICE_UNAVAILABLE, why))
            }
        }
    }

    fn skipped(&self, parts: &Parts, messages: u64, deleted: u64) -> String {
        if messages == 0 {
            return format!("nothing to skip: no such message waits for {}", self.name);
        }
        let full = match deleted {
            0 => String::new(),
            deleted => format!("; the oldest dead letters were deleted to make room: {}", counted(deleted)),
        };
        let spool = &parts.spool;
        let name = CursorStore::present_name(&*spool.storage(), &spool.cursors(), &self.name);
        let name = name.unwrap_or_else(|_| self.name.clone());
        let kept = spool.directory().join("dead-letters").join(bbq_spool::file_name_of(&name));
        format!("skipped {}, kept in {} (bbq spool cat){full}", counted(messages), kept.display())
    }

    fn renamed(&self) -> String {
        let to = self.to.as_deref().unwrap_or_default();
        format!(
            "renamed {} to {to}: write name={to} in the configuration, and reload it; until then it is shown with the old name",
            self.name
        )
    }

    fn resent(
        &self,
        Resent { delivered, dropped, left, letters_deleted }: Resent,
    ) -> Result<String, (StatusCode, String)> {
        let of_reason = |(reason, messages): (&String, &u64)| match &**reason {
            "refused" => format!("; {} refused again", counted(*messages)),
            reason => format!("; {} dropped ({reason})", counted(*messages)),
        };
        let mut again: String = dropped.iter().map(of_reason).collect();
        if letters_deleted > 0 {
            again += &format!(
                "; {} deleted to make room for others (dead_letters_bytes)",
                counted(letters_deleted)
            );
        }
        match left {
            Some((left, why)) => {
                let left = counted(left);
                Err((
                    StatusCode::CONFLICT,
                    format!("resent {}{again}; {left} left: {why}", counted(delivered)),
                ))
            }
            None if delivered == 0 && dropped.is_empty() => Ok(format!("{} has no dead letters", self.name)),
            None => Ok(format!("resent {} to {}{again}", counted(delivered), self.name)),
        }
    }
}

fn counted(messages: u64) -> String {
    format!("{messages} message{}", if messages == 1 { "" } else { "s" })
}

/// Unix nanoseconds of a time, or of a moment so long ago.
fn time(text: &str) -> Result<u64, String> {
    match from(text) {
        Some(From::Now) => return Ok(unix_ns()),
        Some(From::Ago(ago)) => {
            return Ok(unix_ns().saturating_sub(ago.as_nanos().try_into().unwrap_or(u64::MAX)));
        }
        _ => {}
    }
    rfc3339_ns(text).ok_or_else(|| {
        format!(
            "before={text}: use now, how long ago (90s, 10m, 2h, 1d), or a time such as 2026-01-31T23:59:59Z"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_is_read_and_a_mistake_says_what_to_write() {
        let asked = Asked::of("name=a%20b&before=2026-01-31T23:59:59Z").unwrap();
        assert_eq!((&*asked.name, asked.before), ("a b", Some(1_769_903_999_000_000_000)));
        let hour = Asked::of("name=a&before=1h").unwrap().before.unwrap();
        assert!(hour + 3_590_000_000_000 < unix_ns());
        for (wrong, says) in [
            ("", "use name=NAME"),
            ("name=a&until=1h", "until: use name=NAME"),
            ("name=a&before=soon", "use now, how long ago"),
            ("name=a&to=", "is not a name"),
            ("name=a&before=1960-01-01T00:00:00Z", "use now, how long ago"),
        ] {
            let said = Asked::of(wrong).err().unwrap();
            assert!(said.contains(says), "{said}");
        }
    }
}
