//! What readers of files and of journals cannot read.

use std::sync::atomic::Ordering;

use super::{Finding, problem, warning};
use crate::parts::Parts;
use crate::reader::Reader;

impl Parts {
    pub(super) fn of_readers(&self) -> impl Iterator<Item = Finding> {
        self.readers
            .iter()
            .flat_map(|reader| [unreadable(reader), resting(reader), without_files(reader)])
            .flatten()
    }
}

fn subject(reader: &Reader) -> String {
    format!("reader {}", reader.spec.source)
}

fn unreadable(reader: &Reader) -> Option<Finding> {
    let problem_of = reader.view.problem()?;
    let remedy = if problem_of.contains("Permission denied") {
        "let the server's user read the file: add the user to the file's group, such as adm or systemd-journal, and restart the server"
    } else {
        "reading resumes automatically when the cause is gone"
    };
    let text = format!("{}: {problem_of}", subject(reader));
    let effect = if reader.spec.is_journal() {
        "its entries wait in the journal, and are lost if the journal deletes them"
    } else {
        "its lines wait in the files, and are lost if the files are deleted"
    };
    Some(problem("reader-cannot-read", subject(reader), text, remedy).with_effect(effect.to_owned()))
}

fn resting(reader: &Reader) -> Option<Finding> {
    let files = match reader.view.resting.load(Ordering::Relaxed) {
        0 => return None,
        _ if reader.spec.is_journal() => "a part of the journal rests".to_owned(),
        1 => "1 file rests".to_owned(),
        files => format!("{files} files rest"),
    };
    let text = format!("{}: {files}, as a lane of the spool failed", subject(reader));
    let effect =
        "the messages wait in the files; which of them are on disk shows when the server starts again";
    let remedy = "fix the disk, and restart the server";
    Some(problem("reader-rests", subject(reader), text, remedy).with_effect(effect.to_owned()))
}

fn without_files(reader: &Reader) -> Option<Finding> {
    let has_none = reader.view.files.load(Ordering::Relaxed) == 0 && reader.view.problem().is_none();
    let glob = &reader.spec.glob;
    let (why, remedy) = if reader.spec.is_journal() {
        let remedy = "check that journald runs and where it writes (Storage= of journald.conf); files that come later are read";
        (format!("{glob} has no files"), remedy)
    } else {
        (format!("no file matches {glob}"), "check the pattern; files that come later are read")
    };
    let text = || format!("{}: {why}", subject(reader));
    has_none.then(|| warning("reader-without-files", subject(reader), text(), remedy))
}
